"""Rows of a table that repeat another, and tasks that share a name."""

import warnings
from typing import Any

import numpy as np
import pyarrow as pa

from ...core.base.errors import BrimfulWarning, InputError

_FACTORS = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD6E8FEB86659FD93))


def mixed(bits: np.ndarray) -> np.ndarray:
    """Each number to another, none to the same, so that all their bits depend on all."""
    for factor in _FACTORS:
        bits = (bits ^ (bits >> np.uint64(32))) * factor
    return bits ^ (bits >> np.uint64(32))


def check_rows(codes: np.ndarray, x_ND: np.ndarray, y_N: np.ndarray, ids: pa.Array) -> None:
    """Warns of rows with the task, the inputs and the target of an earlier row: two measurements hardly ever agree to
    the last bit, so that they are mostly copies, and a copy makes a task too sure of itself."""
    key = codes.astype(np.uint64)
    for column in (*x_ND.T, y_N):
        key = mixed(key ^ (column + 0.0).view(np.uint64))  # -0.0 is 0.0
    rows = np.flatnonzero(~(np.isnan(y_N) | np.isnan(x_ND).any(1)))
    ordered = rows[np.argsort(key[rows], kind="stable")]
    again = ordered[1:][key[ordered[1:]] == key[ordered[:-1]]]
    if len(again):
        tasks = np.unique(codes[again])
        first = ids[int(codes[again.min()])].as_py()
        warnings.warn(
            f"{len(again)} rows in {len(tasks)} tasks repeat another row (the same task, inputs and target), the first "
            f"of them in task {first!r}; they count as further observations. Drop them if they are copies.",
            BrimfulWarning,
            stacklevel=5,
        )


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
