"""Which programs solve which tasks, and what to submit.

A candidate solves a task on its demonstrations when its output is the target of every demonstration pair that has one;
the task is solved when the test pairs with a known target are right too. A flagged pair counts as not right.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa

from ..core.base.errors import InputError
from .data.tasks import as_grid
from .execution.failures import ProgramStatus
from .outcomes import Outcomes

Submission = dict[str, list[dict[str, list[list[int]]]]]
"""Task to, for every test input, attempts by name."""

ATTEMPTS = 2
_NOTHING = [[0]]
_COUNTS = ("demonstrations_right", "demonstrations", "tests_right", "tests")


def scores(outcomes: Outcomes) -> pa.Table:
    """One row per candidate and task that it was run on: how many demonstration and test pairs it gets right."""
    names, equal = pa.array([candidate.name for candidate in outcomes.candidates], pa.string()), outcomes.equal
    rows: dict[str, list[np.ndarray]] = {name: [] for name in (*_COUNTS, "solved_demonstrations", "solved")}
    columns, tasks = list[np.ndarray](), outcomes.by_task()
    for samples in tasks.values():
        of = [outcomes.samples[index] for index in samples]
        train = np.array([sample.kind == "train" and bool(sample.C or sample.problem) for sample in of])
        test = np.array([sample.kind != "train" for sample in of])
        ran = np.flatnonzero((outcomes.status[samples] != ProgramStatus.NOT_RUN).any(axis=0))
        found = equal[samples][:, ran]
        demonstrated, shown = (found[train] == 1).sum(axis=0), np.full(len(ran), train.sum())
        tested, with_target = (found[test] == 1).sum(axis=0), (found[test] >= 0).sum(axis=0)
        right = (demonstrated == shown) & (tested == with_target) & (shown + with_target > 0)
        values = (demonstrated, shown, tested, with_target, (shown > 0) & (demonstrated == shown), right)
        for name, value in zip(rows, values, strict=True):
            rows[name].append(value)
        columns.append(ran)
    of_task = np.repeat(np.arange(len(columns)), [len(ran) for ran in columns])
    table = {
        "program": names.take(pa.array(_joined(columns))),
        "task": pa.array(list(tasks), pa.string()).take(pa.array(of_task)),
    }
    kinds = {name: pa.int32() if name in _COUNTS else pa.bool_() for name in rows}
    return pa.table(table | {name: pa.array(_joined(of), kinds[name]) for name, of in rows.items()})


def _joined(parts: list[np.ndarray]) -> np.ndarray:
    return np.concatenate(parts) if parts else np.zeros(0, np.int64)


def rankings(outcomes: Outcomes) -> dict[str, list[int]]:
    """The candidates for every task, the best first: by the demonstrations that they get right, then by those on which
    nothing failed, then the shorter program, then the first."""
    operations = [program.operations for program in outcomes.programs]
    lengths, found = [operations[candidate.program] for candidate in outcomes.candidates], dict[str, list[int]]()
    for task, samples in outcomes.by_task().items():
        train = [index for index in samples if outcomes.samples[index].kind == "train"]
        right = (outcomes.equal[train] == 1).sum(axis=0)
        clean = (outcomes.status[train] == ProgramStatus.OK).sum(axis=0)
        found[task] = np.lexsort((lengths, -clean, -right)).tolist()
    return found


def submission(outcomes: Outcomes) -> Submission:
    """Two attempts for every test input, by the best candidates that give a grid of ARC; of equal grids only one. Where
    there is none, a single black cell."""
    orders = rankings(outcomes)
    submitted: Submission = {task: [] for task in orders}
    for start, outputs in outcomes.each_part():
        for at in range(len(outputs.starts)):
            sample = outcomes.samples[start + at]
            if sample.kind == "test":
                values = (outputs.value(at, column) for column in orders[sample.task])
                submitted[sample.task].append(_attempts(values))
    return submitted


def _attempts(values: Iterable[Any]) -> dict[str, list[list[int]]]:
    """The first values that are grids of ARC, as attempts."""
    grids = list[list[list[int]]]()
    for value in values:
        try:
            grid = [list(row) for row in as_grid(value)]
        except (InputError, TypeError):
            continue
        if grid not in grids:
            grids.append(grid)
        if len(grids) == ATTEMPTS:
            break
    grids += [grids[-1] if grids else _NOTHING] * (ATTEMPTS - len(grids))
    return {f"attempt_{number}": grid for number, grid in enumerate(grids, 1)}
