"""The result as a table: one row per candidate and sample that it was run on."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa

from .data.tasks import SIDE
from .encoded_outputs import EncodedOutputs
from .execution.encoding import FunctionName, decode
from .execution.failures import Category, ProgramStatus
from .flags import Flags
from .outcomes import Outcomes
from .vocabulary.order import ordered

_AT_ONCE = 1 << 25  # bytes of outputs of a part
_CELLS, _CHARACTERS = SIDE * SIDE, 10_000  # of a grid and of a text that are shown

SCHEMA = pa.schema(
    [
        ("program", pa.string()),
        ("task", pa.string()),
        ("kind", pa.string()),
        ("pair", pa.int32()),
        ("status", pa.string()),
        ("operation", pa.string()),
        ("line", pa.int32()),
        ("category", pa.string()),
        ("output", pa.list_(pa.list_(pa.int16()))),
        ("text", pa.string()),
        ("equal", pa.bool_()),
    ]
)
"""`output` where it is a grid of up to 900 cells, `text` where it is anything else; `equal` is null where the target is
not known."""


def result_table(outcomes: Outcomes) -> Iterator[pa.Table]:
    """The rows, in parts. A grid with more cells than the largest of ARC is named by its size, and a long text is cut
    off: `outputs` has them whole."""
    words, any_row = _Words(outcomes), False
    for flags, outputs in outcomes.each_part():
        for block in outputs.blocks(_AT_ONCE):
            rows, columns = np.nonzero(flags.status[block] != ProgramStatus.NOT_RUN)
            if len(rows):
                any_row = True
                rows += block.start
                yield pa.table({**words.columns(flags, rows, columns), **_shown(outputs, rows, columns)}, SCHEMA)
    if not any_row:
        yield SCHEMA.empty_table()


class _Words:
    """The columns that say of which program and sample a row is, and what became of it, from a list of all words."""

    def __init__(self, outcomes: Outcomes) -> None:
        self._programs = pa.array([candidate.name for candidate in outcomes.candidates], pa.string())
        self._tasks = pa.array([sample.task for sample in outcomes.samples], pa.string())
        self._kinds = pa.array([sample.kind for sample in outcomes.samples], pa.string())
        self._pairs = np.array([sample.index for sample in outcomes.samples], np.int32)
        self._statuses = _by_code({int(status): status.name.lower() for status in ProgramStatus})
        self._categories = _by_code({int(category): category.label for category in Category})
        steps = [max(1, len(program.nodes)) for program in outcomes.programs]
        self._first_step = np.cumsum([0, *steps])  # of every program, among the steps of all
        self._program_of = np.array([candidate.program for candidate in outcomes.candidates])
        labels = [[node.label for node in program.nodes] or [None] for program in outcomes.programs]
        self._operations = pa.array(list(chain.from_iterable(labels)), pa.string())
        lines = [program.lines or (0,) for program in outcomes.programs]
        self._lines = np.array(list(chain.from_iterable(lines)), np.int32)

    def columns(self, flags: Flags, rows: np.ndarray, candidates: np.ndarray) -> dict[str, pa.Array]:
        """Of rows of a part, by sample and candidate."""
        samples, step, equal = flags.start + rows, flags.step[rows, candidates], flags.equal[rows, candidates]
        where, clean = self._first_step[self._program_of[candidates]] + step.clip(0), step < 0
        return {
            "program": self._programs.take(pa.array(candidates)),
            "task": self._tasks.take(pa.array(samples)),
            "kind": self._kinds.take(pa.array(samples)),
            "pair": pa.array(self._pairs[samples]),
            "status": self._statuses.take(pa.array(flags.status[rows, candidates])),
            "operation": self._operations.take(pa.array(where, mask=clean)),
            "line": pa.array(self._lines[where], mask=clean),
            "category": self._categories.take(pa.array(flags.category[rows, candidates], mask=clean)),
            "equal": pa.array(equal == 1, mask=equal < 0),
        }


def _by_code(names: dict[int, str]) -> pa.Array:
    """Names at the places of their codes."""
    return pa.array([names.get(code) for code in range(max(names) + 1)], pa.string())


def _shown(outputs: EncodedOutputs, samples: np.ndarray, columns: np.ndarray) -> dict[str, pa.Array]:
    """Grids as lists of numbers; anything else as texts."""
    grids, rows, cells = outputs.grids(samples, columns, _CELLS)
    texts, known = np.full(len(samples), None, object), dict[bytes, str]()
    is_text = (rows < 0) & (outputs.ends[samples, columns] > 0)
    for at in np.flatnonzero(is_text | (cells > _CELLS)).tolist():
        if not is_text[at]:
            texts[at] = f"<a grid of {cells[at]:,} cells in {rows[at]:,} rows>"
            continue
        encoded = outputs.encoded(samples[at], columns[at])
        if encoded not in known:
            text = as_text(decode(encoded))
            known[encoded] = text if len(text) <= _CHARACTERS else f"{text[:_CHARACTERS]}..."
        texts[at] = known[encoded]
    return {"output": grids, "text": pa.array(texts, pa.string())}


def as_text(value: Any) -> str:
    """A value as Python writes it, sets in canonical order."""
    match value:
        case frozenset():
            return f"frozenset({{{', '.join(map(as_text, ordered(value)))}}})" if value else "frozenset()"
        case tuple():
            return f"({', '.join(map(as_text, value))}{',' if len(value) == 1 else ''})"
        case FunctionName(name=name):
            return f"<function {name}>"
    return repr(value)
