"""The data of many tasks, in whatever form it comes, as a source of batches for `map`.

Legend: T tasks, N points, D input dimensions.
"""

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from ...core.base import arrow
from ...core.base.errors import ConfigError, InputError, raise_first
from ...core.base.formatting import plural
from ...data.array_dataset import ArrayDataset
from ...data.ragged import Ragged, by_lengths, padded
from ...engine.map.sources import DatasetSource, ItemSource, LoadedBatch, item_source
from .arrays import as_inputs, as_tensor, date_type, where_known
from .duplicates import check_ids, check_rows
from .grouping import group_rows
from .labels import Labels
from .long_table import ColumnNames, date_kind, inputs_of, is_table, numbers, read_table
from .synthetic import SyntheticTasks


@dataclass(frozen=True, slots=True)
class GPData:
    """What was given, understood.

    Attributes:
        items: the tasks, as batches of "x" (unless shared), "y" (NaN where a point is missing) and "noise" (if known).
        shared: inputs that all tasks share, (N, D); None where each has its own.
        ids: the tasks' names; None for 0, 1, 2, ...
        dimensions: input dimensions.
        points: the most points of any task.
        labels: the names and types of its columns.
        noise: the known noise variance, where it is one for all points of all tasks.
    """

    items: ItemSource
    shared: Tensor | None
    ids: pa.Array | None
    dimensions: int
    points: int
    labels: Labels = Labels()
    noise: float | None = None

    @property
    def tasks(self) -> int:
        return self.items.length or 0

    def __repr__(self) -> str:
        inputs = plural(self.dimensions, "input dimension") + (" in common" if self.shared is not None else "")
        return f"GPData({plural(self.tasks, 'task')}, at most {plural(self.points, 'point')}, {inputs})"

    @property
    def inputs(self) -> tuple[str, ...] | None:
        """The names of the input columns; None where it was no table."""
        return self.labels.inputs

    @property
    def noise_known(self) -> bool:
        """Whether the noise of the points is given."""
        tree = self.items.load(0, min(1, self.tasks)).tree
        return isinstance(tree, dict) and "noise" in tree

    def in_order(self, ids: pa.Array) -> "GPData":
        """The same tasks in the order of these names, which must be theirs."""
        assert self.ids is not None
        positions = {task: position for position, task in enumerate(self.ids.to_pylist())}
        for task in ids.to_pylist():
            if task not in positions:
                raise InputError(f"the data has no task {task!r}, of which there is a model; give all that was fitted")
        order = np.array([positions[task] for task in ids.to_pylist()], np.int64)
        if np.array_equal(order, np.arange(self.tasks)):
            return self
        if not isinstance(self.items, RaggedTasks) or len(order) != self.tasks:
            raise InputError(
                "the tasks are not those of the models, in their order; give back the data that was fitted"
            )
        return replace(self, items=self.items.taken(order), ids=ids)


class RaggedTasks(DatasetSource):
    """Tasks of unequal length; batches are padded to their longest, and the longest tasks come first, so that little
    is."""

    def __init__(self, fields: dict[str, Ragged]) -> None:
        self.points = fields["y"].lengths.numpy()
        super().__init__(ArrayDataset(fields), np.maximum(self.points, 1).astype(np.float64) ** 2)

    def load(self, start: int, stop: int, capacity: float | None = None) -> LoadedBatch:
        index = self.index(start, stop)
        tree = {name: self._padded(name, index, math.nan if name == "y" else 0.0) for name in self.dataset.fields}
        weights = None if self.weights is None else self.weights[start:stop]
        return LoadedBatch(start, stop - start, tree, weights=weights)

    def _padded(self, name: str, index: np.ndarray, end: float) -> Tensor:
        """The values of some tasks as rows of a matrix, filled where a row has ended. Neighbors of equal length are
        not copied."""
        column, lengths = self.dataset.column(name), self.points[index]
        longest, starts = int(lengths.max(initial=0)), column.offsets[:-1][torch.from_numpy(index)]
        if len(index) and (lengths == longest).all() and (np.diff(index) == 1).all():
            first = int(starts[0])
            rows = column.values[first : first + len(index) * longest]
            return rows.view(len(index), longest, *column.values.shape[1:])
        return padded(column.values, starts, torch.from_numpy(lengths), longest, end).values

    def counts(self, start: int, stop: int) -> np.ndarray:
        """How many points the tasks at these positions have; what is loaded beyond is padding."""
        return self.points[self.index(start, stop)]

    def taken(self, order: np.ndarray) -> "RaggedTasks":
        """The same tasks in another order."""
        return RaggedTasks(self.dataset.gather(order))

    def item_bytes(self) -> int:
        return self.dataset.nbytes // max(1, len(self.points))


def unweighted(items: ItemSource) -> ItemSource:
    """The same tasks, all of weight 1: a batch of a given size is then so many tasks, and not so much weight."""
    same = copy.copy(items)
    same.weights = None
    return same


def synthetic(count: int, points: int = 40, seed: int = 0, shared: bool = True) -> GPData:
    """Random tasks to try things on."""
    count, points, seed = whole("count", count, 0), whole("points", points, 1), whole("seed", seed)
    source = SyntheticTasks(count, points, seed, shared)
    return GPData(source, source.inputs() if shared else None, None, 1, points)


def whole(name: str, value: Any, least: int | None = None) -> int:
    """A whole number, of Python's or NumPy's kind, checked."""
    if not isinstance(value, Integral) or isinstance(value, bool) or (least is not None and int(value) < least):
        raise ConfigError(f"{name} is {value!r}; give a whole number{'' if least is None else f' from {least} on'}")
    return int(value)


def read(x: Any, y: Any, noise: Any, ids: Any, columns: "ColumnNames | None") -> GPData:
    """The data of `gp.fit`, whichever of its forms it has.

    What is masked in a `numpy.ma` array is missing: a masked input or target is NaN, and a point whose known noise is
    masked is as one whose target is.
    """
    columns = ColumnNames() if columns is None else columns
    if not isinstance(columns, ColumnNames):
        raise ConfigError(f"columns is a {type(columns).__name__}; give gp.ColumnNames(id=..., x=..., y=...)")
    table = y is None and is_table(x)
    pairs, ready = y is None and not table and isinstance(x, Sequence), isinstance(x, GPData)
    extra = [name for name, given in (("y", y), ("noise", noise), ("task_ids", ids)) if given is not None]
    raise_first(
        (
            (
                columns != ColumnNames() and not table,
                "columns= names the columns of a long table, and this is none; leave it out",
            ),
            (ready and extra, f"the data has its own {', '.join(extra)}, if any; leave out {'=, '.join(extra)}="),
            (table and extra, "a long table has noise and ids in columns: name them with gp.ColumnNames(noise=, id=)"),
            (pairs and noise is not None, "a list of pairs has the noise in it: give (x, y, noise) for each task"),
            (
                y is None and not (table or pairs or ready),
                f"x is a {type(x).__name__} and there is no y; give arrays x and y, a list of (x, y) pairs, or a long "
                "table",
            ),
        )
    )
    if isinstance(x, GPData):
        return x
    if table:
        return _long(x, columns)
    return _pairs(x, ids) if pairs else _arrays(x, y, noise, ids)


def _arrays(x: Any, y: Any, noise: Any, ids: Any) -> GPData:
    date = date_type(x)
    x, y = as_inputs(x, "x"), as_tensor(y, "y")
    y = y[None] if y.ndim == 1 else y
    if y.ndim != 2:
        raise InputError(f"y has shape {tuple(y.shape)}; give (tasks, points)")
    (T, N), shape = y.shape, tuple(x.shape)
    own = len(shape) in (2, 3) and shape[:2] == (T, N)
    x = x[..., None] if len(shape) == (2 if own else 1) else x
    raise_first(
        (
            (
                not own and (x.ndim != 2 or len(x) != N),
                f"x has shape {shape} and y {tuple(y.shape)}; give x as ({N},) or ({N}, d) shared by all tasks, "
                f"or ({T}, {N}) or ({T}, {N}, d) for inputs of their own",
            ),
            (x.shape[-1:] == (0,), "x has no dimensions; give at least one column"),
            (
                not own and not bool(torch.isfinite(x).all()),
                "x holds NaN or infinities, and all tasks share it; take those points out",
            ),
        )
    )
    tree, one = {"x": x, "y": y} if own else {"y": y}, None
    if noise is not None:
        tree |= {"noise": _noise(noise, T, N), "y": where_known(y, noise)}
        one = _one(tree["noise"].numpy(force=True))
    labels, shared = Labels(dates=(date,) * x.shape[-1]), None if own else x.double()
    return GPData(item_source(tree), shared, _ids(ids, T), x.shape[-1], N, labels, one)


def _noise(noise: Any, tasks: int, points: int) -> Tensor:
    known = as_tensor(noise, "noise").double()
    if known.ndim == 0 and not known >= 0:  # of single points, the task is flagged
        raise InputError(f"noise is {float(known)}; it is a variance: give 0 or more")
    try:
        return known.reshape(-1, 1).expand(tasks, points) if known.ndim == 0 else known.expand(tasks, points)
    except RuntimeError as error:
        raise InputError(
            f"noise has shape {tuple(known.shape)}; give a variance for all, for each point ({points},), or for each "
            f"point of each task ({tasks}, {points})"
        ) from error


def _one(known: np.ndarray) -> float | None:
    """The noise, where it is the same wherever it is a number."""
    absent = np.isnan(known)
    if absent.all():
        return None
    first = known.flat[np.argmin(absent)]
    return float(first) if bool(((known == first) | absent).all()) else None


def _ids(ids: Any, tasks: int) -> pa.Array | None:
    if ids is None:
        return None
    try:
        array = ids if isinstance(ids, pa.Array) else pa.array(ids if isinstance(ids, list) else np.asarray(ids))
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise InputError(
            f"task_ids is a {type(ids).__name__} of names that are not all of one kind: give a list of texts or of "
            f"whole numbers, one per task ({error})"
        ) from error
    raise_first(
        (
            (
                pa.types.is_nested(array.type),
                f"task_ids holds {array.type}; give a list of texts or of whole numbers, one per task",
            ),
            (len(array) != tasks, f"task_ids has {len(array)} names for {tasks} tasks; give one per task"),
        )
    )
    check_ids(array)
    return array


def _pairs(pairs: Sequence[Any], ids: Any) -> GPData:
    tasks = [_pair(task, pair) for task, pair in enumerate(pairs)]
    known, dimensions = [noise for _, _, noise in tasks if noise is not None], None
    for task, (x, y, _) in enumerate(tasks):
        if len(y) and dimensions not in (None, x.shape[1]):
            raise InputError(f"task {task} has {x.shape[1]} input dimensions, others have {dimensions}")
        dimensions = x.shape[1] if len(y) else dimensions
    if known and len(known) != len(tasks):
        raise InputError("some tasks have a known noise and some do not; give it for all or for none")
    width = dimensions or max([x.shape[1] for x, _, _ in tasks], default=1) or 1
    x = np.concatenate([np.zeros((0, width)), *(x.reshape(-1, width) for x, _, _ in tasks)])
    y = np.concatenate([np.zeros(0), *(y for _, y, _ in tasks)])
    counts = np.array([len(y) for _, y, _ in tasks], np.int64)
    labels = Labels(dates=(date_type(pairs[0][0]) if tasks else None,) * width)
    return _ragged(x, y, np.concatenate(known) if known else None, counts, _ids(ids, len(tasks)), labels)


def _pair(task: int, pair: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Inputs, targets and known noise, if any, of one task."""
    if not isinstance(pair, tuple | list) or len(pair) not in (2, 3):
        raise InputError(f"task {task} is {type(pair).__name__}; each must be a pair (x, y), or (x, y, noise)")
    x, y = as_inputs(pair[0], f"x of task {task}"), as_tensor(pair[1], f"y of task {task}").reshape(-1)
    x = x[:, None] if x.ndim == 1 else x
    noise = as_tensor(pair[2], f"noise of task {task}").double() if len(pair) == 3 else None
    shape = () if noise is None else tuple(noise.shape)
    raise_first(
        (
            (
                x.ndim != 2 or len(x) != len(y),
                f"task {task} has x of shape {tuple(x.shape)} and {len(y)} targets; they must match",
            ),
            (
                shape not in ((), (1,), (len(y),)),
                f"task {task} has noise of shape {shape} and {len(y)} targets; give one variance, or one per target",
            ),
        )
    )
    x = x.double().numpy()
    if noise is None:
        return x, y.double().numpy(), None
    return x, where_known(y, pair[2]).double().numpy(), noise.expand(len(y)).numpy()


def _ragged(
    x: np.ndarray,
    y: np.ndarray,
    noise: np.ndarray | None,
    counts: np.ndarray,
    ids: pa.Array | None,
    labels: Labels,
) -> GPData:
    given = {"x": x, "y": y} | ({} if noise is None else {"noise": noise})
    return GPData(
        items=RaggedTasks({name: by_lengths(_tensor(values), counts) for name, values in given.items()}),
        shared=None,
        ids=ids,
        dimensions=x.shape[1],
        points=int(counts.max()) if len(counts) else 0,
        labels=labels,
        noise=None if noise is None else _one(noise),
    )


def _tensor(values: np.ndarray) -> Tensor:
    """The same memory, or a copy where that is Arrow's, which may not be written to."""
    return torch.from_numpy(values if values.flags.writeable else values.copy())


def _long(source: Any, columns: ColumnNames) -> GPData:
    table = read_table(source)
    task, inputs, target = columns.resolve(table.column_names)
    key, types = arrow.whole(table[task]), tuple(date_kind(table[name]) for name in inputs)
    labels = Labels(task, pa.types.is_dictionary(key.type), tuple(inputs), types, target)
    if len(key) == 0:
        return _ragged(np.zeros((0, len(inputs))), np.zeros(0), None, np.zeros(0, np.int64), None, labels)
    if key.null_count:
        raise InputError(f"column {task!r} has {key.null_count} nulls; every row needs the task it belongs to")
    grouped = group_rows(key, task)
    columns_x = [inputs_of(table[name], name) for name in inputs]
    x = grouped.arranged(columns_x[0][:, None] if len(columns_x) == 1 else np.stack(columns_x, axis=1))
    y = grouped.arranged(numbers(table[target], target))
    check_rows(grouped.counts, x, y, grouped.ids)
    noise = grouped.arranged(numbers(table[columns.noise], columns.noise)) if columns.noise else None
    return _ragged(x, y, noise, grouped.counts, grouped.ids, labels)
