"""Rows of a table that repeat another, and tasks that share a name."""

import warnings
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pyarrow as pa

from ...core.base.background import cores
from ...core.base.errors import BrimfulWarning, InputError
from ...core.base.formatting import plural

_BLOCK = 1 << 17  # rows that are looked through at a time
_FACTORS = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD6E8FEB86659FD93))


def mixed(bits: np.ndarray) -> np.ndarray:
    """Each number to another, none to the same, so that all their bits depend on all."""
    for factor in _FACTORS:
        bits = (bits ^ (bits >> np.uint64(32))) * factor
    return bits ^ (bits >> np.uint64(32))


def check_rows(counts: np.ndarray, x_ND: np.ndarray, y_N: np.ndarray, ids: pa.Array) -> None:
    """Warns of rows with the task, the inputs and the target of an earlier row: two measurements hardly ever agree to
    the last bit, so that they are mostly copies, and a copy makes a task too sure of itself. The rows come task by
    task, so many of each."""
    ends = np.cumsum(counts)
    bounds = np.searchsorted(ends, np.arange(_BLOCK, len(y_N) + _BLOCK, _BLOCK)) + 1
    firsts = [0, *np.unique(np.minimum(bounds, len(counts))).tolist()]

    def repeats(block: int) -> np.ndarray:
        tasks = slice(firsts[block], firsts[block + 1])
        rows = slice(int(ends[tasks.start] - counts[tasks.start]), int(ends[tasks.stop - 1]))
        return rows.start + _repeats(counts[tasks], x_ND[rows], y_N[rows])

    with ThreadPoolExecutor(cores(), "brimful-rows") as pool:
        again = np.concatenate([np.zeros(0, np.int64), *pool.map(repeats, range(len(firsts) - 1))])
    if len(again):
        tasks = np.unique(np.searchsorted(ends, again, side="right"))
        first = ids[int(np.searchsorted(ends, again.min(), side="right"))].as_py()
        warnings.warn(
            f"{plural(len(again), 'row')} in {plural(len(tasks), 'task')} repeat another row (the same task, "
            f"inputs and target), the first of them in task {first!r}; they count as further observations. "
            f"Drop them if they are copies.",
            BrimfulWarning,
            stacklevel=5,
        )


def _repeats(counts: np.ndarray, x_ND: np.ndarray, y_N: np.ndarray) -> np.ndarray:
    """The rows that repeat an earlier one of their task."""
    task_N = np.repeat(np.arange(len(counts), dtype=np.uint64), counts)
    if ((x_ND[1:, 0] > x_ND[:-1, 0]) | (task_N[1:] > task_N[:-1])).all():  # in order of their first input: none can
        return np.zeros(0, np.int64)
    key_N = task_N
    for column in (*x_ND.T, y_N):
        key_N = mixed(key_N ^ (column + 0.0).view(np.uint64))  # -0.0 is 0.0
    rows = np.flatnonzero(~(np.isnan(y_N) | np.isnan(x_ND).any(1)))
    ordered = rows[np.argsort(key_N[rows], kind="stable")]
    return ordered[1:][key_N[ordered[1:]] == key_N[ordered[:-1]]]


def check_ids(ids: pa.Array) -> None:
    """Refuses names that two tasks share: results could not be distinguished by them."""
    if len(ids.unique()) == len(ids):
        return
    first: dict[Any, int] = {}
    for task, name in enumerate(ids.to_pylist()):
        if name in first:
            raise InputError(
                f"task_ids has {name!r} for tasks {first[name]} and {task}; give every task a name of its own, or a "
                "long table, in which the rows of one name are one task"
            )
        first[name] = task
