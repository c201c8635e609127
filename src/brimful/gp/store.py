"""Fitted models on disk: a folder that pandas, polars and DuckDB can read, and that predictions stream from.

model.json           what was fitted, and a digest of the data where that was not kept
shard-*.parquet      one row a task: item, status, message, parameters, likelihood (those of a run of `map`)
data/part-*.parquet  the tasks' points, in the same order, where they were kept
"""

import contextlib
import functools
import re
from collections import deque
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch

from .. import devices, fingerprint, parquet
from ..engine.items import Items, Loaded
from ..errors import ConfigError, CorruptError, InputError
from ..files import read_sealed, write_atomic, write_sealed
from ..rundir import MANIFEST
from .data import Data, Ragged, Synthetic
from .kernels import Custom, parse
from .model import LOG, Model
from .priors import LogNormal
from .scoring import Rules

_MODEL, _KIND, _DATA = "model.json", "gp", "data"
_PART, _TASKS = 16_000_000, 65_536  # bytes, and tasks, that a file of data has at the most
_WRITERS = 4
_ABOUT = ("item", "status", "message")  # columns that are not of the model
_NAME = re.compile(r"(?:shard|part)-(\d{12})-(\d{12})\.parquet")


def write_model(folder: Path, model: Model, data: Data, keep: str, at: torch.Tensor | None, seed: int) -> None:
    """Writes what was fitted: the last file of a store, without which it is not one."""
    kernel = model.kernel
    body: dict[str, Any] = {
        "kernel": kernel.text,
        "custom": isinstance(kernel, Custom),
        "names": list(model.names),
        "ard": False if isinstance(kernel, Custom) else kernel.ard,
        "dimensions": data.dimensions,
        "points": data.points,
        "tasks": data.tasks,
        "mean": model.mean,
        "known": model.known,
        "keep": keep,
        "priors": _priors_out(model.priors),
        "bounds": {name: list(each) for name, each in model.bounds.items()} if model.bounds else None,
        "iterations": model.rules.iterations,
        "tolerance": model.rules.tolerance,
        "starts": model.rules.starts,
        "shared": None if model.shared is None else model.shared.tolist(),
        "at": None if at is None else at.tolist(),
        "seed": seed,
        "inputs": None if data.inputs is None else list(data.inputs),
        "noise": data.noise,
        "digest": None if keep == "params+data" else digest(data),
        "synthetic": None,
    }
    if isinstance(data.items, Synthetic):
        source = data.items
        body["synthetic"] = [source.length, source.points, source.seed, source.shared]
    if data.ids is not None:
        write_atomic(folder / "ids.parquet", lambda path: pq.write_table(pa.table({"task": data.ids}), path))
    else:
        (folder / "ids.parquet").unlink(missing_ok=True)  # of an earlier fit of the same data
    write_sealed(folder / _MODEL, _KIND, body)


def _priors_out(priors: Any) -> Any:
    if not isinstance(priors, Mapping):
        return priors
    return {
        name: [each.median, each.spread] if isinstance(each, LogNormal) else list(each) for name, each in priors.items()
    }


def write_data(folder: Path, data: Data) -> None:
    """Writes the tasks' points, in order of work. Parts that are there already are left as they are."""
    if isinstance(data.items, Synthetic):
        return  # drawn again when they are needed
    inside = folder / _DATA
    inside.mkdir(exist_ok=True)
    writers = min(_WRITERS, devices.cores())
    with ThreadPoolExecutor(writers, "brimful-data") as pool:
        writing: deque[Future[None]] = deque()
        for start, stop in _parts(data.items):
            path = inside / f"part-{start:012d}-{stop:012d}.parquet"
            if not path.exists():
                table = _points(data, start, stop)
                writing.append(pool.submit(write_atomic, path, functools.partial(parquet.write, table)))
            while len(writing) > writers:  # a few at a time: they are never all in memory
                writing.popleft().result()
        for each in writing:
            each.result()


def _parts(items: Items) -> Iterator[tuple[int, int]]:
    """Positions in pieces that are read and written at a time."""
    length = items.length or 0
    count = min(_TASKS, max(1, _PART // max(1, items.item_bytes())))
    for start in range(0, length, count):
        yield start, min(length, start + count)


def digest(data: Data) -> str:
    """A number that the tasks' points decide, in whatever form they are and in whatever order within a task; missing
    ones do not count."""
    total = 0
    for start, stop in _parts(data.items):
        tree = data.items.load(start, stop).tree
        assert isinstance(tree, dict)
        inputs = tree["x"] if data.shared is None else data.shared[None]
        x, y = inputs.double().numpy(force=True), tree["y"].double().numpy(force=True)
        known = [tree["noise"].double().numpy(force=True)] if "noise" in tree else []
        each = np.zeros((), np.uint64)
        for column in (*np.moveaxis(x, 2, 0), y, *known):
            each = _mixed(each ^ (column + 0.0).view(np.uint64))  # -0.0 is 0.0
        tasks = np.where(np.isnan(y) | np.isnan(x).any(2), 0, each).sum(1, dtype=np.uint64)
        place = data.items.index(start, stop).astype(np.uint64)
        total += int(_mixed(tasks ^ _mixed(place + np.uint64(1))).sum(dtype=np.uint64))
    return f"{total % 2**64:016x}"


def _mixed(bits: np.ndarray) -> np.ndarray:
    """Each number to another, none to the same, so that all their bits depend on all."""
    for factor in (0x9E3779B97F4A7C15, 0xD6E8FEB86659FD93):
        bits = (bits ^ (bits >> np.uint64(32))) * np.uint64(factor)
    return bits ^ (bits >> np.uint64(32))


def _points(data: Data, start: int, stop: int) -> pa.Table:
    tree = data.items.load(start, stop).tree
    assert isinstance(tree, dict)
    y = tree["y"].cpu().numpy()
    there = np.ones_like(y, bool)
    if isinstance(data.items, Ragged | StoredData):  # without the padding
        there = np.arange(y.shape[1]) < data.items.counts(start, stop)[:, None]
    offsets = np.concatenate([[0], np.cumsum(there.sum(1))]).astype(np.int64)
    columns: dict[str, pa.Array] = {"item": pa.array(data.items.index(start, stop))}
    if "x" in tree:
        x = tree["x"].cpu().numpy()
        for dimension in range(x.shape[2]):
            columns[f"x_{dimension}"] = pa.LargeListArray.from_arrays(offsets, x[:, :, dimension][there])
    columns["y"] = pa.LargeListArray.from_arrays(offsets, y[there])
    if "noise" in tree:
        columns["noise"] = pa.LargeListArray.from_arrays(offsets, tree["noise"].cpu().numpy()[there])
    return pa.table(columns)


def write_models(folder: Path, columns: dict[str, pa.Array]) -> None:
    """Writes models that are in memory, in the order of their items."""
    table = pa.table(columns)
    for start in range(0, max(1, table.num_rows), _TASKS):
        part = table.slice(start, _TASKS)
        path = folder / f"shard-{start:012d}-{start + part.num_rows:012d}.parquet"
        write_atomic(path, functools.partial(parquet.write, part))


class Rows:
    """Parquet files that each hold a range of rows, read a row group at a time."""

    def __init__(self, paths: list[Path], what: str) -> None:
        self._files: list[tuple[int, pq.ParquetFile]] = []
        self.paths: list[Path] = []
        self.length = 0
        for path in sorted(paths):
            match = _NAME.fullmatch(path.name)
            if match is None:
                continue
            if int(match[1]) != self.length:
                raise CorruptError(f"{path.parent} lacks the {what} before {path.name}: fit again into this folder")
            with _intact(path):
                file = pq.ParquetFile(path, memory_map=True, page_checksum_verification=True)
            self._files.append((self.length, file))
            self.paths.append(path)
            self.length = int(match[2])
        self._kept: tuple[tuple[int, int], pa.Table] | None = None

    @property
    def names(self) -> list[str]:
        return self._files[0][1].schema_arrow.names if self._files else []

    def read(self, start: int, stop: int) -> pa.Table:
        parts = []
        for number, (first, file) in enumerate(self._files):
            place = first
            for group in range(file.num_row_groups):
                rows = file.metadata.row_group(group).num_rows
                if place < stop and place + rows > start:
                    table = self._group(number, file, group)
                    parts.append(table.slice(max(0, start - place), min(stop, place + rows) - max(start, place)))
                place += rows
        return pa.concat_tables(parts) if parts else pa.table({})

    def _group(self, number: int, file: pq.ParquetFile, group: int) -> pa.Table:
        if self._kept is None or self._kept[0] != (number, group):
            with _intact(self.paths[number]):
                self._kept = ((number, group), file.read_row_group(group))
        return self._kept[1]

    def column(self, name: str) -> pa.Array:
        """One column of all rows."""
        parts = []
        for path, (_, file) in zip(self.paths, self._files, strict=True):
            with _intact(path):
                parts.append(file.read([name])[name])
        return parquet.whole(pa.chunked_array([chunk for part in parts for chunk in part.chunks], parts[0].type))


@contextlib.contextmanager
def _intact(path: Path) -> Iterator[None]:
    try:
        yield
    except (pa.ArrowException, OSError) as error:
        raise CorruptError(f"{path} is damaged: {error}. Delete it and fit again into this folder.") from error


class Store:
    """A folder of fitted models."""

    def __init__(self, folder: Path, kernel: Custom | None = None) -> None:
        if kernel is not None and not isinstance(kernel, Custom):
            raise ConfigError(
                f"kernel is a {type(kernel).__name__}; give gp.custom(function, ...) where the models have a kernel of "
                "your own, and nothing where it has a name"
            )
        if not (folder / _MODEL).exists():
            begun = (folder / MANIFEST).exists()
            has = "its fit has not ended: run the same command again" if begun else "check the path"
            raise InputError(f"{folder} holds no fitted models ({has})")
        self.folder, self.body = folder, read_sealed(folder / _MODEL, _KIND)
        if self.body["custom"] and kernel is None:
            raise InputError(
                f"the models in {folder} have a kernel of your own, {self.body['kernel']}; pass it as kernel="
            )
        self.model = self._model(kernel)
        if list(self.model.names) != self.body["names"]:
            raise InputError(
                f"kernel= has the parameters {', '.join(self.model.kernel.names)}; the models have "
                f"{', '.join(self.body['names'][:-1])}"
            )
        self.models = Rows([*folder.glob("shard-*.parquet")], "models")
        self.keep: str = self.body["keep"]
        self.tasks: int = self.body["tasks"]
        if self.models.length != self.tasks:
            raise CorruptError(
                f"{folder} holds {self.models.length} models of {self.tasks}: fit again into this folder"
            )

    def _model(self, kernel: Custom | None) -> Model:
        body = self.body
        priors = body["priors"]
        if isinstance(priors, dict):
            priors = {name: LogNormal(*each) for name, each in priors.items()}
        return Model(
            kernel=kernel or parse(body["kernel"], body["dimensions"], body["ard"]),
            mean=body["mean"],
            priors=priors,
            bounds={name: tuple(each) for name, each in body["bounds"].items()} if body["bounds"] else None,
            known=body["known"],
            rules=Rules(iterations=body["iterations"], tolerance=body["tolerance"], starts=body["starts"]),
            shared=None if body["shared"] is None else torch.tensor(body["shared"], dtype=torch.float64),
            dimensions=body["dimensions"],
        )

    def ids(self) -> pa.Array | None:
        path = self.folder / "ids.parquet"
        if not path.exists():
            return None
        with _intact(path):
            return pq.read_table(path)["task"].combine_chunks()

    def data(self) -> Data | None:
        """The tasks' points; None where they were not kept."""
        shared = self.model.shared
        if self.body["synthetic"] is not None:
            source = Synthetic(*self.body["synthetic"])
            return Data(source, shared, None, self.body["dimensions"], self.body["points"])
        if not (self.folder / _DATA).is_dir():
            return None
        points = Rows([*(self.folder / _DATA).glob("part-*.parquet")], "data")
        if points.length != self.tasks:
            raise CorruptError(f"{self.folder / _DATA} holds {points.length} tasks of {self.tasks}: fit again into it")
        return Data(
            items=StoredData(points, shared is not None),
            shared=shared,
            ids=self.ids(),
            dimensions=self.body["dimensions"],
            points=self.body["points"],
            inputs=self.inputs,
            noise=self.body.get("noise"),
        )

    @property
    def inputs(self) -> tuple[str, ...] | None:
        """The names of the input columns; None where there was no table."""
        names = self.body.get("inputs")
        return None if names is None else tuple(names)

    def given(self, data: Data) -> Data:
        """The data of the models, given anew: in their order, and refused where it is not the same."""
        body, ids = self.body, self.ids()
        if ids is not None and data.ids is not None:
            data = data.in_order(ids)
        if data.tasks != self.tasks:
            raise InputError(f"{self.folder} holds {self.tasks} models, and the data has {data.tasks} tasks")
        if data.dimensions != body["dimensions"]:
            raise InputError(
                f"{self.folder} holds models of {body['dimensions']} inputs, the data has {data.dimensions}"
            )
        if self.model.known and not data.noise_known:
            raise InputError(f"the models in {self.folder} were fitted with a known noise; pass it as noise=")
        kept = None if body.get("digest") is not None else self.data()
        wanted = body.get("digest") if kept is None else digest(kept)
        if wanted is not None and digest(data) != wanted:
            raise InputError(
                f"the data is not what the models in {self.folder} were fitted to; give back the same, its tasks in "
                "the same order or with their ids"
            )
        return data

    def columns(self) -> "Models":
        """The models' numbers by name, parameters in natural units."""
        return Models(self)

    def messages(self) -> dict[int, str]:
        """The tasks of which something is to be said, and that."""
        if not self.tasks:
            return {}
        said = self.models.column("message")
        places = np.flatnonzero(said.is_valid().to_numpy(zero_copy_only=False))
        items = self.models.column("item").to_numpy()[places].tolist()
        return {task: text for task, text in sorted(zip(items, said.take(places).to_pylist(), strict=True)) if text}

    def parameters(self, start: int, stop: int) -> torch.Tensor:
        """The parameters of some positions, in natural units."""
        table = self.models.read(start, stop)
        names = [name if name in table.column_names else f"{LOG}{name}" for name in self.model.names]
        stacked = np.stack([self.natural(name, table[name]).astype(np.float64) for name in names], axis=1)
        return torch.from_numpy(stacked)

    def natural(self, name: str, column: pa.Array | pa.ChunkedArray) -> np.ndarray:
        """A column's numbers, not their logarithms."""
        values, logarithm = _numbers(column), name.startswith(LOG) and name not in self.model.names
        return np.exp(values.astype(np.float32)) if logarithm else values


class Models(Mapping[str, np.ndarray]):
    """The columns of a store by name, tasks in their own order. Each is read when it is first asked for: what nobody
    looks at is never in memory."""

    def __init__(self, store: Store) -> None:
        self._store, self._read = store, dict[str, np.ndarray]()
        names = store.models.names if store.tasks else []
        own = store.model.names
        self._names = {name if name in own else name.removeprefix(LOG): name for name in names if name not in _ABOUT}

    def __getitem__(self, name: str) -> np.ndarray:
        if name not in self._read:
            stored = self._names[name]
            self._read[name] = self._arranged(self._store.natural(stored, self._store.models.column(stored)))
        return self._read[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def status(self) -> np.ndarray:
        """How each task fared."""
        if not self._store.tasks:
            return np.zeros(0, np.int8)
        return self._arranged(_numbers(self._store.models.column("status")))

    def _arranged(self, rows: np.ndarray) -> np.ndarray:
        return rows.copy() if self._order is None else rows[self._order]  # what Arrow gives cannot be written to

    @functools.cached_property
    def _order(self) -> np.ndarray | None:
        """Where each task's row is; None where that is its own number."""
        items = _numbers(self._store.models.column("item"))
        return None if np.array_equal(items, np.arange(len(items))) else np.argsort(items, kind="stable")


def _numbers(column: pa.Array | pa.ChunkedArray) -> np.ndarray:
    column = parquet.whole(column)
    if pa.types.is_fixed_size_list(column.type):
        return column.flatten().to_numpy(zero_copy_only=False).reshape(len(column), column.type.list_size)
    return column.to_numpy(zero_copy_only=False)


class StoredData:
    """The points of a store's tasks, read as they are needed, in order of work."""

    forward = False

    def __init__(self, points: Rows, shared: bool) -> None:
        self._points, self._shared = points, shared
        self.length: int | None = points.length
        self.weights: np.ndarray | None = None

    def load(self, start: int, stop: int, capacity: float | None = None) -> Loaded:
        table = self._points.read(start, stop)
        inputs = [name for name in table.column_names if name.startswith("x_")]
        y = _padded(table["y"], np.nan)
        tree = {"y": torch.from_numpy(y)}
        if not self._shared:
            x = np.stack([_padded(table[name], 0.0) for name in inputs], axis=2)
            tree = {"x": torch.from_numpy(x)} | tree
        if "noise" in table.column_names:
            tree["noise"] = torch.from_numpy(_padded(table["noise"], 0.0))
        return Loaded(start, stop - start, tree)

    def index(self, start: int, stop: int) -> np.ndarray:
        return self._points.read(start, stop)["item"].to_numpy().copy()  # what Arrow gives cannot be written to

    def counts(self, start: int, stop: int) -> np.ndarray:
        """How many points the tasks have."""
        return np.diff(parquet.whole(self._points.read(start, stop)["y"]).offsets.to_numpy())

    def item_bytes(self) -> int:
        return 1024

    def fingerprint(self) -> str:
        return fingerprint.of([part for path in self._points.paths for part in (path.name, path)])

    def spec(self) -> str:
        return f"stored {self._shared} {self._points.names}"


def _padded(column: pa.ChunkedArray, end: float) -> np.ndarray:
    """Lists of unequal length as rows of a matrix, filled where a row has ended."""
    whole = parquet.whole(column)
    offsets = whole.offsets.to_numpy()
    values = whole.values.to_numpy(zero_copy_only=False)
    counts = np.diff(offsets)
    most = int(counts.max()) if len(counts) else 0
    there = np.arange(most) < counts[:, None]
    out = np.full(there.shape, end, dtype=values.dtype)
    out[there] = values[offsets[0] : offsets[-1]]
    return out


class WithParameters:
    """The points of tasks together with their parameters, and what else each is to get.

    Args:
        items: the points.
        parameters: positions to parameters, in natural units.
        more: further arrays, by the tasks' own order.
    """

    forward = False

    def __init__(self, items: Items, parameters: Any, more: dict[str, torch.Tensor]) -> None:
        self._items, self._parameters, self._more = items, parameters, more
        self.length, self.weights = items.length, items.weights

    def load(self, start: int, stop: int, capacity: float | None = None) -> Loaded:
        loaded = self._items.load(start, stop)
        index = torch.tensor(self.index(start, stop))
        extra = {name: each[index] for name, each in self._more.items()}
        tree = {**(loaded.tree or {}), "parameters": self._parameters(start, stop), "task": index, **extra}
        return Loaded(start, stop - start, tree, weights=loaded.weights)

    def index(self, start: int, stop: int) -> np.ndarray:
        return self._items.index(start, stop)

    def item_bytes(self) -> int:
        return self._items.item_bytes()

    def fingerprint(self) -> str:
        whole = fingerprint.of([self._items.fingerprint(), self._more])
        for start, stop in _parts(self):
            whole = fingerprint.of([whole, self._parameters(start, stop)])
        return whole

    def spec(self) -> str:
        return f"{self._items.spec()} {sorted(self._more)}"
