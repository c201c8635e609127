"""The data of many tasks, in whatever form it comes, as a source of batches for `map`.

Legend: T tasks, N points, D input dimensions.
"""

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import torch
from torch import Tensor

from .. import fingerprint
from ..engine import trees
from ..engine.items import ArrayItems, Items, Loaded
from ..errors import InputError


@dataclass(frozen=True, slots=True)
class Data:
    """What was given, understood.

    Attributes:
        items: the tasks, as batches of "x" (unless shared), "y" (NaN where a point is missing) and "noise" (if known).
        shared: inputs that all tasks share, (N, D); None where each has its own.
        ids: the tasks' names; None for 0, 1, 2, ...
        dimensions: input dimensions.
        points: the most points of any task.
    """

    items: Items
    shared: Tensor | None
    ids: pa.Array | None
    dimensions: int
    points: int

    @property
    def tasks(self) -> int:
        return self.items.length or 0

    @property
    def noise_known(self) -> bool:
        """Whether the noise of the points is given."""
        tree = self.items.load(0, min(1, self.tasks)).tree
        return isinstance(tree, dict) and "noise" in tree


class Ragged:
    """Tasks of unequal length, one after another in flat arrays; batches are padded to their longest, and the longest
    tasks come first, so that little is."""

    forward = False

    def __init__(self, x: np.ndarray, y: np.ndarray, noise: np.ndarray | None, offsets: np.ndarray) -> None:
        self._x, self._y, self._noise, self._offsets = x, y, noise, offsets
        counts = np.diff(offsets)
        self._order = np.argsort(-counts, kind="stable")
        self._counts = counts[self._order]
        self.length: int | None = len(counts)
        self.weights: np.ndarray | None = np.maximum(self._counts, 1).astype(np.float64) ** 2

    def load(self, start: int, stop: int, capacity: float | None = None) -> Loaded:
        tasks, counts = self._order[start:stop], self._counts[start:stop]
        most = int(counts[0]) if len(counts) else 0
        place = self._offsets[tasks][:, None] + np.arange(most)
        there = np.arange(most) < counts[:, None]
        place = np.where(there, place, 0)
        y = np.where(there, self._y[place] if len(self._y) else 0.0, np.nan)
        x = self._x[place] if len(self._x) else np.zeros((*place.shape, self._x.shape[1]))
        tree = {"x": torch.from_numpy(x), "y": torch.from_numpy(y)}
        if self._noise is not None:
            tree["noise"] = torch.from_numpy(np.where(there, self._noise[place], 0.0))
        return Loaded(start, stop - start, tree, weights=self.weights[start:stop] if self.weights is not None else None)

    def index(self, start: int, stop: int) -> np.ndarray:
        return self._order[start:stop]

    def item_bytes(self) -> int:
        return int(self._y.nbytes + self._x.nbytes) // max(1, self.length or 1)

    def fingerprint(self) -> str:
        return fingerprint.of([self._x, self._y, self._noise, self._offsets])

    def spec(self) -> str:
        return f"ragged x {self._x.dtype} {self._x.shape[1]} y {self._y.dtype}"


def unweighted(items: Items) -> Items:
    """The same tasks, all of weight 1: a batch of a given size is then so many tasks, and not so much weight."""
    same = copy.copy(items)
    same.weights = None
    return same


class Synthetic:
    """Tasks drawn as they are asked for: sums of two random sines, with noise. Blocks of tasks have generators of their
    own, so that the way the work is cut does not change them, and no more than a batch is ever in memory."""

    forward = False
    _BLOCK = 256

    def __init__(self, count: int, points: int, seed: int, shared: bool) -> None:
        self.length: int | None = count
        self.weights: np.ndarray | None = None
        self.points, self.seed, self.shared = points, seed, shared

    def inputs(self) -> Tensor:
        """The inputs that all tasks share."""
        return torch.linspace(0, 1, self.points, dtype=torch.float64)[:, None]

    def load(self, start: int, stop: int, capacity: float | None = None) -> Loaded:
        x, y, _ = self.draw(start, stop)
        tree = {"y": y} if self.shared else {"x": x, "y": y}
        return Loaded(start, stop - start, tree)

    def draw(self, start: int, stop: int, at: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """Inputs and noisy targets; at `at`, the noise-free truth with, along a last axis of 2, a noisy observation."""
        blocks = range(start // self._BLOCK, max(start, stop - 1) // self._BLOCK + 1)
        parts, first = [self._block(block, at) for block in blocks], blocks.start * self._BLOCK
        x, y, truth = (torch.cat(each)[start - first : stop - first] for each in zip(*parts, strict=True))
        return x, y, truth

    def _block(self, block: int, at: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        generator = torch.Generator().manual_seed(self.seed * 1_000_003 + block)

        def uniform(low: float, high: float, *shape: int) -> Tensor:
            drawn = torch.rand(self._BLOCK, *shape, generator=generator, dtype=torch.float64)
            return low + (high - low) * drawn

        frequency, phase, height = uniform(1, 4, 2), uniform(0, 2 * math.pi, 2), uniform(0.3, 1, 2)
        sigma = torch.exp(uniform(math.log(0.02), math.log(0.3), 1))
        own = uniform(0, 1, self.points).sort(1).values
        x = self.inputs()[:, 0].expand(self._BLOCK, -1) if self.shared else own

        def wave(points: Tensor) -> Tensor:
            angle = 2 * math.pi * frequency[:, None, :] * points[:, :, None] + phase[:, None, :]
            return (height[:, None, :] * torch.sin(angle)).sum(2)

        noise = sigma * torch.randn(self._BLOCK, self.points, generator=generator, dtype=torch.float64)
        truth = wave(x if at is None else at.double().reshape(1, -1).expand(self._BLOCK, -1))
        seen = truth + sigma * torch.randn(truth.shape, generator=generator, dtype=torch.float64)
        return x[:, :, None].float(), (wave(x) + noise).float(), torch.stack([truth, seen], dim=2)

    def index(self, start: int, stop: int) -> np.ndarray:
        return np.arange(start, stop)

    def item_bytes(self) -> int:
        return 8 * self.points

    def fingerprint(self) -> str:
        return f"synthetic {self.length} {self.points} {self.seed} {self.shared}"

    def spec(self) -> str:
        return f"synthetic {self.points} {self.shared}"


def synthetic(count: int, points: int = 40, seed: int = 0, shared: bool = True) -> Data:
    """Random tasks to try things on."""
    source = Synthetic(count, points, seed, shared)
    return Data(source, source.inputs() if shared else None, None, 1, points)


def read(x: Any, y: Any, noise: Any, ids: Any, columns: "Columns") -> Data:
    """The data of `gp.fit`, whichever of its forms it has."""
    if isinstance(x, Data):
        return x
    if y is None and (isinstance(x, str | Path) or hasattr(x, "__arrow_c_stream__") or hasattr(x, "columns")):
        if noise is not None or ids is not None:
            raise InputError("a long table has noise and task ids in columns: name them with gp.Columns(noise=, id=)")
        return _long(x, columns)
    if y is None and isinstance(x, Sequence) and not isinstance(x, str):
        if noise is not None:
            raise InputError("a list of pairs has the noise in it: give (x, y, noise) for each task")
        return _pairs(x, ids)
    if y is None:
        raise InputError(
            f"x is a {type(x).__name__} and there is no y; give arrays x and y, a list of (x, y) pairs, or a long table"
        )
    return _arrays(x, y, noise, ids)


def as_tensor(value: Any, name: str) -> Tensor:
    """Real numbers of any form as a tensor."""
    try:
        array = value.detach() if isinstance(value, Tensor) else np.asarray(value)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} is a {type(value).__name__} that is not an array of numbers: {error}") from error
    if isinstance(array, np.ndarray) and array.dtype.kind not in "fiu":
        raise InputError(f"{name} holds {array.dtype}; give real numbers")
    tensor = trees.tensors(array, name)
    assert isinstance(tensor, Tensor)
    if tensor.is_complex() or tensor.dtype == torch.bool:
        raise InputError(f"{name} holds {tensor.dtype}; give real numbers")
    return tensor if tensor.is_floating_point() else tensor.double()


def as_points(at: Any, dimensions: int) -> Tensor:
    """New inputs for all tasks as (m, d)."""
    points = as_tensor(at, "x_new").double()
    points = points.reshape(-1, 1) if points.ndim < 2 and dimensions == 1 else points
    if points.ndim != 2 or points.shape[1] != dimensions:
        raise InputError(f"new points have shape {tuple(points.shape)}; give (m, {dimensions})")
    return points


def _arrays(x: Any, y: Any, noise: Any, ids: Any) -> Data:
    x, y = as_tensor(x, "x"), as_tensor(y, "y")
    if y.ndim == 1:
        y = y[None]
    if y.ndim != 2:
        raise InputError(f"y has shape {tuple(y.shape)}; give (tasks, points)")
    T, N = y.shape
    if x.ndim == 1 and len(x) == N:
        shared, own = x[:, None], None
    elif x.ndim == 2 and tuple(x.shape) == (T, N):
        shared, own = None, x[:, :, None]
    elif x.ndim == 2 and len(x) == N:
        shared, own = x, None
    elif x.ndim == 3 and tuple(x.shape[:2]) == (T, N):
        shared, own = None, x
    else:
        raise InputError(
            f"x has shape {tuple(x.shape)} and y {tuple(y.shape)}; give x as ({N},) or ({N}, d) shared by all tasks, "
            f"or ({T}, {N}) or ({T}, {N}, d) for inputs of their own"
        )
    dimensions = x.shape[-1] if x.ndim == 3 or (shared is not None and x.ndim == 2) else 1
    if dimensions == 0:
        raise InputError("x has no dimensions; give at least one column")
    tree = {"y": y} if own is None else {"x": own, "y": y}
    if noise is not None:
        tree["noise"] = _noise(noise, T, N)
    if shared is not None and not bool(torch.isfinite(shared).all()):
        raise InputError("x holds NaN or infinities, and all tasks share it; take those points out")
    return Data(ArrayItems(tree), None if shared is None else shared.double(), _ids(ids, T), dimensions, N)


def _noise(noise: Any, tasks: int, points: int) -> Tensor:
    known = as_tensor(noise, "noise").double()
    try:
        return known.reshape(-1, 1).expand(tasks, points) if known.ndim == 0 else known.expand(tasks, points)
    except RuntimeError as error:
        raise InputError(
            f"noise has shape {tuple(known.shape)}; give a variance for all, for each point ({points},), or for each "
            f"point of each task ({tasks}, {points})"
        ) from error


def _ids(ids: Any, tasks: int) -> pa.Array | None:
    if ids is None:
        return None
    array = ids if isinstance(ids, pa.Array) else pa.array(np.asarray(ids) if not isinstance(ids, list) else ids)
    if len(array) != tasks:
        raise InputError(f"task_ids has {len(array)} names for {tasks} tasks; give one a task")
    return array


def _pairs(pairs: Sequence[Any], ids: Any) -> Data:
    xs, ys, known, counts, dimensions = [], [], [], [], None
    for task, pair in enumerate(pairs):
        if not isinstance(pair, tuple | list) or len(pair) not in (2, 3):
            raise InputError(f"task {task} is {type(pair).__name__}; each must be a pair (x, y), or (x, y, noise)")
        x, y = as_tensor(pair[0], f"x of task {task}"), as_tensor(pair[1], f"y of task {task}").reshape(-1)
        x = x[:, None] if x.ndim == 1 else x
        if x.ndim != 2 or len(x) != len(y):
            raise InputError(f"task {task} has x of shape {tuple(x.shape)} and {len(y)} targets; they must match")
        if len(y) and dimensions not in (None, x.shape[1]):
            raise InputError(f"task {task} has {x.shape[1]} input dimensions, others have {dimensions}")
        dimensions = x.shape[1] if len(y) else dimensions
        xs.append(x.double().numpy())
        ys.append(y.double().numpy())
        counts.append(len(y))
        if len(pair) == 3:
            known.append(as_tensor(pair[2], f"noise of task {task}").double().expand(len(y)).numpy())
    if known and len(known) != len(ys):
        raise InputError("some tasks have a known noise and some do not; give it for all or for none")
    width = dimensions or max([each.shape[1] for each in xs], default=1) or 1
    x = np.concatenate([each.reshape(-1, width) for each in xs]) if xs else np.zeros((0, width))
    y = np.concatenate(ys) if ys else np.zeros(0)
    return _ragged(x, y, np.concatenate(known) if known else None, np.array(counts, np.int64), _ids(ids, len(ys)))


def _ragged(x: np.ndarray, y: np.ndarray, noise: np.ndarray | None, counts: np.ndarray, ids: pa.Array | None) -> Data:
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    return Data(Ragged(x, y, noise, offsets), None, ids, x.shape[1], int(counts.max()) if len(counts) else 0)


@dataclass(frozen=True, slots=True)
class Columns:
    """The names of a long table's columns; x may name several, by commas."""

    id: str | None = None
    x: str | None = None
    y: str | None = None
    noise: str | None = None


_NAMES = {
    "id": ("unique_id", "task", "task_id", "series", "id", "item_id"),
    "x": ("ds", "x", "t", "time", "date", "timestamp"),
    "y": ("y", "value", "target"),
}


def _long(source: Any, columns: Columns) -> Data:
    table = _table(source)
    names = table.column_names
    task = columns.id or _find("id", names)
    target = columns.y or _find("y", names)
    inputs = [each.strip() for each in columns.x.split(",")] if columns.x else _inputs(names, task, target, columns)
    for name in [task, *inputs, target, *([columns.noise] if columns.noise else [])]:
        if name not in names:
            raise InputError(f"the table has no column {name!r}; it has {', '.join(names)}")
    key = table[task].combine_chunks()
    key = key.chunk(0) if isinstance(key, pa.ChunkedArray) and key.num_chunks else key
    if len(key) == 0:
        return _ragged(np.zeros((0, len(inputs))), np.zeros(0), None, np.zeros(0, np.int64), None)
    if key.null_count:
        raise InputError(f"column {task!r} has {key.null_count} nulls; every row needs the task it belongs to")
    try:
        encoded = key.dictionary_encode() if not pa.types.is_dictionary(key.type) else key
    except pa.ArrowException as error:
        raise InputError(f"column {task!r} is {key.type}; tasks are named by texts or whole numbers") from error
    codes = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    order = np.argsort(codes, kind="stable")  # tasks in order of their first row; rows in any order
    x = np.stack([_numbers(table[name], name) for name in inputs], axis=1)[order]
    y = _numbers(table[target], target)[order]
    noise = _numbers(table[columns.noise], columns.noise)[order] if columns.noise else None
    counts = np.bincount(codes, minlength=len(encoded.dictionary))
    return _ragged(x, y, noise, counts, encoded.dictionary)


def _table(source: Any) -> pa.Table:
    path = Path(source) if isinstance(source, str | Path) else None
    if path is not None and not path.exists():
        raise InputError(f"{path} does not exist; check the path")
    try:
        if path is None:
            return pa.table(source) if hasattr(source, "__arrow_c_stream__") else pa.Table.from_pandas(source)
        if path.suffix == ".csv":
            import pyarrow.csv

            return pyarrow.csv.read_csv(path)
        return pq.read_table(path)
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"{path or type(source).__name__} cannot be read as a table: {error}") from error


def _find(what: str, names: list[str]) -> str:
    for name in _NAMES[what]:
        if name in names:
            return name
    raise InputError(
        f"no column of {', '.join(names)} is called {' or '.join(_NAMES[what])}; name it with the {what} option"
    )


def _inputs(names: list[str], task: str, target: str, columns: Columns) -> list[str]:
    rest = [name for name in names if name not in (task, target, columns.noise)]
    for name in _NAMES["x"]:
        if name in rest:
            return [name]
    if not rest:
        raise InputError(f"the table has no input column beside {task!r} and {target!r}; name it with the x option")
    return rest


def _numbers(column: pa.ChunkedArray, name: str) -> np.ndarray:
    kind = column.type
    try:
        if pa.types.is_timestamp(kind) or pa.types.is_date(kind):  # days, which are near enough to 1
            moments = pc.cast(column, pa.timestamp("us"), safe=False)
            return pc.cast(pc.cast(moments, pa.int64()), pa.float64()).to_numpy() / 86_400e6
        if pa.types.is_string(kind) or pa.types.is_large_string(kind):
            raise pa.ArrowInvalid("it holds texts")
        return pc.cast(column, pa.float64()).to_numpy()
    except (pa.ArrowException, NotImplementedError) as error:
        raise InputError(f"column {name!r} is {kind}, and must hold numbers or dates: {error}") from error
