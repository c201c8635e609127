"""The result as a table: one row per candidate and sample that it was run on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from .execution.encoding import FunctionName
from .execution.failures import ProgramStatus
from .language.program import Form
from .outcomes import Outcomes
from .vocabulary.order import ordered

_AT_ONCE = 20_000  # rows of a part

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
"""`output` where it is a grid, `text` where it is anything else; `equal` is null where the target is not known."""


def result_table(outcomes: Outcomes) -> Iterator[pa.Table]:
    """The rows, in parts."""
    names, ran = outcomes.candidates, (outcomes.status != ProgramStatus.NOT_RUN).any(axis=1)
    rows: list[dict[str, Any]] = []
    for index, given in outcomes.each_output(ran.__getitem__):
        sample = outcomes.samples[index]
        columns = np.flatnonzero(outcomes.status[index] != ProgramStatus.NOT_RUN).tolist()
        for column in columns:
            candidate, status = names[column], ProgramStatus(int(outcomes.status[index, column]))
            row: dict[str, Any] = {
                "program": candidate.name,
                "task": sample.task,
                "kind": sample.kind,
                "pair": sample.index,
                "status": status.name.lower(),
                "equal": None if outcomes.equal[index, column] < 0 else bool(outcomes.equal[index, column]),
            }
            if outcomes.step[index, column] >= 0:
                failure = outcomes.failure(index, column, candidate)
                row |= {"operation": failure.operation, "line": failure.line, "category": failure.category}
            if (value := given[candidate.program]) is not None:
                batt = outcomes.programs[candidate.program].form is Form.BATT
                row |= _shown(value[0][candidate.output][-1] if batt else value)
            rows.append(row)
        if len(rows) >= _AT_ONCE:
            yield pa.Table.from_pylist(rows, SCHEMA)
            rows = []
    yield pa.Table.from_pylist(rows, SCHEMA)


def _shown(value: Any) -> dict[str, Any]:
    """A grid as lists of numbers; anything else as a text."""
    if (
        isinstance(value, tuple)
        and value
        and all(isinstance(row, tuple) and row and all(type(cell) is int for cell in row) for row in value)
        and all(abs(cell) < 1 << 15 for row in value for cell in row)
    ):
        return {"output": value}
    return {"text": as_text(value)}


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
