"""The rows of a long table, grouped by task."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...core.base import arrow
from ...core.base.errors import InputError
from .long_table import plain


@dataclass(frozen=True, slots=True)
class TaskRows:
    """Which rows are whose.

    Attributes:
        ids: the tasks' names, in order of their first rows. A category that no row has is no task.
        counts: rows of each task.
        order: the rows task by task, each task's in the order they came; None where they come so.
    """

    ids: pa.Array
    counts: np.ndarray
    order: np.ndarray | None

    def arranged(self, rows: np.ndarray) -> np.ndarray:
        """A value per row, task by task."""
        return rows if self.order is None else rows[self.order]


def group_rows(key: pa.Array, name: str) -> TaskRows:
    """Groups the rows of a table by a column without nulls.

    Rows of one task mostly follow one another: so only the first row of each run of equal keys is looked up, and where
    no task has two runs nothing is sorted.
    """
    categories = pa.types.is_dictionary(key.type)
    values = key.indices if categories else key
    starts = _runs(values)
    try:
        encoded = values.take(arrow.array_of(starts)).dictionary_encode()
    except pa.ArrowException as error:
        raise InputError(f"column {name!r} is {key.type}; tasks are named by texts or whole numbers") from error
    ids = encoded.dictionary
    if categories:
        ids = plain(key.dictionary, pa.field(name, key.type.value_type)).take(ids)
    lengths, tasks = np.diff(np.append(starts, len(values))), arrow.numpy_of(encoded.indices)
    if len(ids) == len(starts):
        return TaskRows(ids, lengths, None)
    tasks = np.repeat(tasks, lengths)
    return TaskRows(ids, np.bincount(tasks, minlength=len(ids)), np.argsort(tasks, kind="stable"))


def _runs(values: pa.Array) -> np.ndarray:
    """The rows whose value is not that of the row before; all rows, where Arrow cannot compare them."""
    try:
        differs = pc.not_equal(values.slice(1), values.slice(0, len(values) - 1))  # pyright: ignore[reportAttributeAccessIssue]
    except (pa.ArrowException, NotImplementedError):
        return np.arange(len(values))
    return np.concatenate([[0], 1 + np.flatnonzero(arrow.numpy_of(arrow.whole(differs)))])
