"""Fitted models on disk: a folder that pandas, polars and DuckDB can read, and that predictions stream from.

model.json           what was fitted, and a digest of the data where that was not kept
shard-*.parquet      one row a task: item, status, message, parameters, likelihood (those of a run of `map`)
data/part-*.parquet  the tasks' points, in the same order, where they were kept
"""

import functools
from collections import deque
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch

from ...core.base import arrow
from ...core.base.background import cores
from ...core.base.errors import ConfigError, CorruptError, InputError
from ...core.runs import parquet
from ...core.runs.files import read_sealed, write_atomic, write_sealed
from ...core.runs.rundir import MANIFEST
from ..batch_functions import LOG, Model
from ..data.sources import Data, Ragged, Synthetic
from ..model.kernels import Custom, parse
from ..model.priors import LogNormal
from ..optimize.scoring import Rules
from . import lazy as stored
from .lazy import Rows, StoredData, intact, parts

_MODEL, _KIND, _DATA = "model.json", "gp", "data"
_WRITERS = 4
_ABOUT = ("item", "status", "message")  # columns that are not of the model


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
    writers = min(_WRITERS, cores())
    with ThreadPoolExecutor(writers, "brimful-data") as pool:
        writing: deque[Future[None]] = deque()
        for start, stop in parts(data.items):
            path = inside / f"part-{start:012d}-{stop:012d}.parquet"
            if not path.exists():
                table = _points(data, start, stop)
                writing.append(pool.submit(write_atomic, path, functools.partial(parquet.write, table)))
            while len(writing) > writers:  # a few at a time: they are never all in memory
                writing.popleft().result()
        for each in writing:
            each.result()


def digest(data: Data) -> str:
    """A number that the tasks' points decide, in whatever form they are and in whatever order within a task; missing
    ones do not count."""
    total = 0
    for start, stop in parts(data.items):
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
    for start in range(0, max(1, table.num_rows), stored.TASKS):
        part = table.slice(start, stored.TASKS)
        path = folder / f"shard-{start:012d}-{start + part.num_rows:012d}.parquet"
        write_atomic(path, functools.partial(parquet.write, part))


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
        with intact(path):
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
    column = arrow.whole(column)
    if pa.types.is_fixed_size_list(column.type):
        return column.flatten().to_numpy(zero_copy_only=False).reshape(len(column), column.type.list_size)
    return column.to_numpy(zero_copy_only=False)
