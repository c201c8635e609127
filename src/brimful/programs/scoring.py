"""Which programs solve which tasks, and what to submit.

A candidate solves a task on its demonstrations when its output is the target of every demonstration pair that has one;
the task is solved when the test pairs with a known target are right too. A flagged pair counts as not right.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from ..core.base.errors import InputError
from .data.tasks import as_grid
from .execution.failures import ProgramStatus
from .language.program import Form
from .outcomes import Outcomes

Submission = dict[str, list[dict[str, list[list[int]]]]]
"""Task to, for every test input, attempts by name."""

ATTEMPTS = 2
_NOTHING = [[0]]
_TEXTS = ("program", "task")
_COUNTS = ("demonstrations_right", "demonstrations", "tests_right", "tests")


def scores(outcomes: Outcomes) -> pa.Table:
    """One row per candidate and task that it was run on: how many demonstration and test pairs it gets right."""
    rows: dict[str, list[Any]] = {name: [] for name in (*_TEXTS, *_COUNTS, "solved_demonstrations", "solved")}
    names, equal = outcomes.candidates, outcomes.equal
    ran = outcomes.status != ProgramStatus.NOT_RUN
    for task, samples in outcomes.by_task().items():
        of_train = np.array([outcomes.samples[index].kind == "train" for index in samples])
        has_target = np.array([bool(outcomes.samples[index].C or outcomes.samples[index].problem) for index in samples])
        right, known = equal[samples] == 1, equal[samples] >= 0
        for column in np.flatnonzero(ran[samples].any(axis=0)).tolist():
            train, test = right[of_train & has_target, column], right[~of_train, column]
            with_target = int(known[~of_train, column].sum())
            demonstrated = bool(len(train)) and bool(train.all())
            solved = (
                (demonstrated or not len(train)) and int(test.sum()) == with_target and len(train) + with_target > 0
            )
            values = (names[column].name, task, int(train.sum()), len(train), int(test.sum()), with_target)
            for name, value in zip(rows, (*values, demonstrated, solved), strict=True):
                rows[name].append(value)
    types = {name: pa.string() for name in _TEXTS} | {name: pa.int32() for name in _COUNTS}
    return pa.table({name: pa.array(values, types.get(name, pa.bool_())) for name, values in rows.items()})


def ranking(outcomes: Outcomes, samples: list[int]) -> list[int]:
    """The candidates for a task, the best first: by the demonstrations that they get right, then by those on which
    nothing failed, then the shorter program, then the first."""
    train = [index for index in samples if outcomes.samples[index].kind == "train"]
    right = (outcomes.equal[train] == 1).sum(axis=0)
    clean = (outcomes.status[train] == ProgramStatus.OK).sum(axis=0)
    lengths = [outcomes.programs[candidate.program].operations for candidate in outcomes.candidates]
    return sorted(range(len(lengths)), key=lambda column: (-right[column], -clean[column], lengths[column], column))


def submission(outcomes: Outcomes) -> Submission:
    """Two attempts for every test input, by the best candidates that give a grid of ARC; of equal grids only one. Where
    there is none, a single black cell."""
    orders = {task: ranking(outcomes, samples) for task, samples in outcomes.by_task().items()}
    submitted: Submission = {task: [] for task in orders}
    for index, given in outcomes.each_output(lambda index: outcomes.samples[index].kind == "test"):
        task = outcomes.samples[index].task
        submitted[task].append(_attempts(outcomes, given, orders[task]))
    return submitted


def _attempts(outcomes: Outcomes, given: list[Any], order: list[int]) -> dict[str, list[list[int]]]:
    grids, names = list[list[list[int]]](), outcomes.candidates
    for column in order:
        if len(grids) == ATTEMPTS:
            break
        candidate = names[column]
        value = given[candidate.program]
        if value is None:
            continue
        if outcomes.programs[candidate.program].form is Form.BATT:
            value = value[0][candidate.output][-1]
        try:
            grid = [list(row) for row in as_grid(value)]
        except (InputError, TypeError):
            continue
        if grid not in grids:
            grids.append(grid)
    grids += [grids[-1] if grids else _NOTHING] * (ATTEMPTS - len(grids))
    return {f"attempt_{number}": grid for number, grid in enumerate(grids, 1)}
