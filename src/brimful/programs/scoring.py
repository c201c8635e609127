"""Which programs solve which tasks, and what to submit.

A candidate solves a task on its demonstrations when its output is the target of every demonstration pair that has one;
the task is solved when the test pairs with a known target are right too. A flagged pair counts as not right.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from ..core.base.errors import InputError
from .data.tasks import Sample, as_grid
from .execution.failures import ProgramStatus
from .flags import Flags
from .outcomes import EndedTasks, Outcomes

Attempts = dict[str, list[list[int]]]
"""Grids for one test input, by name."""

Submission = dict[str, list[Attempts]]
"""Task to attempts for every test input."""

ATTEMPTS = 2
_NOTHING = [[0]]
_AT_ONCE = 1 << 18  # rows of a part of the scores
_COLUMNS = {
    **dict.fromkeys(("demonstrations_right", "demonstrations", "tests_right", "tests"), pa.int32()),
    **dict.fromkeys(("solved_demonstrations", "solved"), pa.bool_()),
}


def scores(outcomes: Outcomes) -> pa.Table:
    """One row per candidate and task that it was run on: how many demonstration and test pairs it gets right."""
    return pa.concat_tables(score_tables(outcomes))


def score_tables(outcomes: Outcomes) -> Iterator[pa.Table]:
    """The same in parts."""
    names = pa.array([candidate.name for candidate in outcomes.candidates], pa.string())
    rows = _Rows(names)
    for task, samples, flags in outcomes.each_task():
        rows.add(task, _score(flags, [outcomes.samples[index] for index in samples]))
        if rows.count >= _AT_ONCE:
            yield rows.table()
            rows = _Rows(names)
    yield rows.table()


def _score(flags: Flags, samples: Sequence[Sample]) -> list[np.ndarray]:
    """The columns of a task that was run: which candidate, and those of `_COLUMNS`."""
    train = np.array([sample.kind == "train" and bool(sample.C or sample.problem) for sample in samples])
    test = np.array([sample.kind != "train" for sample in samples])
    ran = np.flatnonzero((flags.status != ProgramStatus.NOT_RUN).any(axis=0))
    found = flags.equal[:, ran]
    demonstrated, shown = (found[train] == 1).sum(axis=0), np.full(len(ran), train.sum())
    tested, with_target = (found[test] == 1).sum(axis=0), (found[test] >= 0).sum(axis=0)
    right = (demonstrated == shown) & (tested == with_target) & (shown + with_target > 0)
    return [ran, demonstrated, shown, tested, with_target, (shown > 0) & (demonstrated == shown), right]


class _Rows:
    """Rows of the scores that are being collected."""

    def __init__(self, names: pa.Array) -> None:
        self._names, self.count = names, 0
        self._tasks, self._columns = list[str](), list[list[np.ndarray]]()

    def add(self, task: str, columns: list[np.ndarray]) -> None:
        """Those of one task."""
        self._tasks.append(task)
        self._columns.append(columns)
        self.count += len(columns[0])

    def table(self) -> pa.Table:
        """All that were collected."""
        nothing = [np.zeros(0, np.int64)] * (1 + len(_COLUMNS))
        ran, *values = (np.concatenate(of) for of in zip(nothing, *self._columns, strict=True))
        of_task = np.repeat(np.arange(len(self._tasks)), [len(columns[0]) for columns in self._columns])
        table = {
            "program": self._names.take(pa.array(ran)),
            "task": pa.array(self._tasks, pa.string()).take(pa.array(of_task)),
        }
        for (name, kind), of in zip(_COLUMNS.items(), values, strict=True):
            table[name] = pa.array(of.astype(np.int32 if kind == pa.int32() else bool), kind)
        return pa.table(table)


def rankings(outcomes: Outcomes) -> Iterator[tuple[str, np.ndarray]]:
    """The candidates for every task, the best first: by the demonstrations that they get right, then by those on which
    nothing failed, then the shorter program, then the first."""
    operations = [program.operations for program in outcomes.programs]
    lengths = [operations[candidate.program] for candidate in outcomes.candidates]
    for task, samples, flags in outcomes.each_task():
        train = [row for row, index in enumerate(samples) if outcomes.samples[index].kind == "train"]
        right = (flags.equal[train] == 1).sum(axis=0)
        clean = (flags.status[train] == ProgramStatus.OK).sum(axis=0)
        yield task, np.lexsort((lengths, -clean, -right))


def submission(outcomes: Outcomes) -> Submission:
    """Two attempts for every test input, by the best candidates that give a grid of ARC; of equal grids only one. Where
    there is none, a single black cell."""
    return dict(attempts_by_task(outcomes))


def attempts_by_task(outcomes: Outcomes) -> Iterator[tuple[str, list[Attempts]]]:
    """The submission task by task, in the order in which they first appear."""
    tested = {sample.task for sample in outcomes.samples if sample.kind == "test"}
    kind = np.min_scalar_type(len(outcomes.candidates))
    orders = {task: order.astype(kind) for task, order in rankings(outcomes) if task in tested}
    ended, made = EndedTasks(outcomes.samples), dict[str, list[Attempts]]()
    for flags, outputs in outcomes.each_part():
        for at in range(len(flags)):
            sample = outcomes.samples[flags.start + at]
            if sample.kind == "test":
                values = (outputs.value(at, int(column)) for column in orders[sample.task])
                made.setdefault(sample.task, []).append(_attempts(values))
        for task in ended.before(flags.stop):
            yield task, made.pop(task, [])


def _attempts(values: Iterable[Any]) -> Attempts:
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
