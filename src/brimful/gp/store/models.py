"""Fitted models on disk: a folder that pandas, polars and DuckDB can read, and that predictions stream from.

model.json           what was fitted, and a digest of the data where that was not kept
shard-*.parquet      one row per task: item, status, message, parameters, likelihood (those of a run of `map`)
data/part-*.parquet  the tasks' points, in the same order, where they were kept
"""

import functools
from collections import deque
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch

from ...core.base import arrow
from ...core.base.background import cores
from ...core.base.errors import ConfigError, InputError, raise_first
from ...core.memory.plan import Plan
from ...core.runs import model_store, parquet
from ...core.runs.files import write_atomic
from ...core.runs.rundir import MANIFEST
from ..batch_functions import LOG, GPModel
from ..data.duplicates import mixed
from ..data.labels import Labels
from ..data.sources import GPData, RaggedTasks
from ..data.synthetic import DRAWN, SyntheticTasks
from ..model.kernels import CustomKernel, parse
from ..model.priors import LogNormal
from ..optimize.scoring import ScoringOptions
from . import lazy
from .lazy import ParquetRows, StoredTasks, parts

_KIND, _VERSION, _DATA = "gp", 1, "data"
_WRITERS = 4


def write_model(
    folder: Path,
    model: GPModel,
    data: GPData,
    keep: str,
    at: torch.Tensor | None,
    seed: int,
    run: tuple[Plan, int, float],
    identity: str,
) -> None:
    """Writes what was fitted: the last file of a store, without which it is not one.

    Args:
        run: plan, peak and seconds.
        identity: what the shards of the store carry.
    """
    kernel, source, priors = model.kernel, data.items, model.priors
    meta: dict[str, Any] = {
        "kernel": kernel.text,
        "custom": isinstance(kernel, CustomKernel),
        "names": list(model.names),
        "ard": False if isinstance(kernel, CustomKernel) else kernel.ard,
        "dimensions": data.dimensions,
        "points": data.points,
        "tasks": data.tasks,
        "mean": model.mean,
        "known": model.known,
        "keep": keep,
        "priors": {
            name: [prior.median, prior.spread] if isinstance(prior, LogNormal) else list(prior)
            for name, prior in priors.items()
        }
        if isinstance(priors, Mapping)
        else priors,
        "bounds": {name: list(pair) for name, pair in model.bounds.items()} if model.bounds else None,
        "options": asdict(model.options),
        "inducing": model.inducing,
        "shared": None if model.shared is None else model.shared.tolist(),
        "at": None if at is None else at.tolist(),
        "seed": seed,
        "labels": asdict(data.labels),
        "noise": data.noise,
        "digest": None if keep == "params+data" else digest(data),
        "synthetic": [*source.arguments, DRAWN] if isinstance(source, SyntheticTasks) else None,
        "plan": run[0].to_dict(),
        "observed": run[1],
        "seconds": run[2],
        "identity": identity,
    }
    if data.ids is None:
        (folder / "ids.parquet").unlink(missing_ok=True)  # of an earlier fit of the same data
    tables = {} if data.ids is None else {"ids": pa.table({"task": data.ids})}
    model_store.save(folder, kind=_KIND, version=_VERSION, meta=meta, tensors={}, tables=tables)


def write_data(folder: Path, data: GPData, identity: str) -> None:
    """Writes the tasks' points, in order of work. Parts that are there already, and whole, are left as they are."""
    if isinstance(data.items, SyntheticTasks):
        return  # drawn again when they are needed
    data_folder = folder / _DATA
    data_folder.mkdir(exist_ok=True)
    writers = min(_WRITERS, cores())
    with ThreadPoolExecutor(writers, "brimful-data") as pool:
        writing: deque[Future[None]] = deque()
        for start, stop in parts(data.items):
            path = data_folder / f"part-{start:012d}-{stop:012d}.parquet"
            if not _is_part(path, identity, start, stop):
                table = parquet.sealed(_points(data, start, stop), identity, start)
                writing.append(pool.submit(write_atomic, path, functools.partial(parquet.write, table)))
            while len(writing) > writers:  # a few at a time: they are never all in memory
                writing.popleft().result()
        for written in writing:
            written.result()


def _is_part(path: Path, identity: str, start: int, stop: int) -> bool:
    """Whether a part of the points is there, and intact."""
    try:
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            rows, schema = sum(batch.num_rows for batch in file.iter_batches()), file.schema_arrow
            return rows == stop - start and parquet.seal_fault(schema, b"", identity, start) is None
    except parquet.DAMAGE:
        return False


def digest(data: GPData) -> str:
    """A number that the tasks' points decide, in whatever form they are and in whatever order within a task; missing
    ones do not count."""
    total = 0
    for start, stop in parts(data.items):
        tree = data.items.load(start, stop).tree
        assert isinstance(tree, dict)
        inputs = tree["x"] if data.shared is None else data.shared[None]
        x, y = inputs.double().numpy(force=True), tree["y"].double().numpy(force=True)
        known = [tree["noise"].double().numpy(force=True)] if "noise" in tree else []
        value = np.zeros((), np.uint64)
        for column in (*np.moveaxis(x, 2, 0), y, *known):
            value = mixed(value ^ (column + 0.0).view(np.uint64))  # -0.0 is 0.0
        tasks = np.where(np.isnan(y) | np.isnan(x).any(2), 0, value).sum(1, dtype=np.uint64)
        position = data.items.index(start, stop).astype(np.uint64)
        total += int(mixed(tasks ^ mixed(position + np.uint64(1))).sum(dtype=np.uint64))
    return f"{total % 2**64:016x}"


def _points(data: GPData, start: int, stop: int) -> pa.Table:
    tree = data.items.load(start, stop).tree
    assert isinstance(tree, dict)
    y = tree["y"].cpu().numpy()
    there = np.ones_like(y, bool)
    if isinstance(data.items, RaggedTasks | StoredTasks):  # without the padding
        there = np.arange(y.shape[1]) < data.items.counts(start, stop)[:, None]
    offsets = np.concatenate([[0], np.cumsum(there.sum(1))]).astype(np.int64)
    columns: dict[str, pa.Array] = {"item": arrow.array_of(data.items.index(start, stop))}
    if "x" in tree:
        x = tree["x"].cpu().numpy()
        for dimension in range(x.shape[2]):
            columns[f"x_{dimension}"] = _lists(offsets, x[:, :, dimension][there])
    columns["y"] = _lists(offsets, y[there])
    if "noise" in tree:
        columns["noise"] = _lists(offsets, tree["noise"].cpu().numpy()[there])
    return pa.table(columns)


def _lists(offsets: np.ndarray, values: np.ndarray) -> pa.Array:
    """Lists of unequal length; their elements are called what Parquet calls them, so that they are read as written."""
    flat: Any = arrow.array_of(values)
    starts: Any = arrow.array_of(offsets)
    return pa.LargeListArray.from_arrays(starts, flat, type=pa.large_list(pa.field("element", flat.type)))


def write_models(folder: Path, table: pa.Table, identity: str) -> None:
    """Writes models that are in memory, in the order of work."""
    for start in range(0, max(1, table.num_rows), lazy.TASKS):
        part = parquet.sealed(table.slice(start, lazy.TASKS), identity, start)
        path = folder / f"shard-{start:012d}-{start + part.num_rows:012d}.parquet"
        write_atomic(path, functools.partial(parquet.write, part))


class Store(Mapping[str, np.ndarray]):
    """A folder of fitted models, and their numbers by name, parameters in natural units, tasks in their own order. Each
    column is read when it is first asked for: what nobody looks at is never in memory."""

    def __init__(self, folder: Path, kernel: CustomKernel | None = None) -> None:
        if kernel is not None and not isinstance(kernel, CustomKernel):
            raise ConfigError(
                f"kernel is a {type(kernel).__name__}; give gp.custom(function, ...) where the models have a kernel of "
                "your own, and nothing where it has a name"
            )
        if (folder / MANIFEST).exists() and not model_store.is_model(folder):
            raise InputError(f"{folder} holds no fitted models (its fit has not ended: run the same command again)")
        self._stored = model_store.load(folder, kind=_KIND, version=_VERSION, command="brimful gp fit")
        self.folder, self.body = folder, self._stored.meta
        if self.body["custom"] and kernel is None:
            raise InputError(
                f"the models in {folder} have a kernel of your own, {self.body['kernel']}; pass it as kernel="
            )
        body, priors = self.body, self.body["priors"]
        self.model = GPModel(
            kernel=kernel or parse(body["kernel"], body["dimensions"], body["ard"]),
            mean=body["mean"],
            priors={name: LogNormal(*pair) for name, pair in priors.items()} if isinstance(priors, dict) else priors,
            bounds={name: tuple(pair) for name, pair in body["bounds"].items()} if body["bounds"] else None,
            known=body["known"],
            options=ScoringOptions(**body["options"]),
            shared=None if body["shared"] is None else torch.tensor(body["shared"], dtype=torch.float64),
            dimensions=body["dimensions"],
            inducing=body.get("inducing", 0),  # stores that were written before are exact
        )
        if list(self.model.names) != self.body["names"]:
            raise InputError(
                f"kernel= has the parameters {', '.join(self.model.kernel.names)}; the models have "
                f"{', '.join(self.body['names'][:-1])}"
            )
        self.tasks: int = self.body["tasks"]
        self.models, self._read = ParquetRows(folder, "models", self.tasks, body["identity"]), dict[str, np.ndarray]()
        stored = [name for name in self.models.names if name not in arrow.OWN] if self.tasks else []
        self._names = {name if name in self.model.names else name.removeprefix(LOG): name for name in stored}
        table = self._stored.table("ids", optional=True)
        self.ids: pa.Array | None = None if table is None else table["task"].combine_chunks()

    def data(self) -> GPData | None:
        """The tasks' points; None where they were not kept."""
        body, shared = self.body, self.model.shared
        if body["synthetic"] is not None:
            *arguments, drawn = body["synthetic"]
            if drawn != DRAWN:
                raise InputError(
                    f"{self.folder} keeps only the seed of its random tasks, and this version draws others from it: "
                    "fit again into a new folder"
                )
            items = SyntheticTasks(*arguments)
        elif (self.folder / _DATA).is_dir():
            items = StoredTasks(
                ParquetRows(self.folder / _DATA, "tasks", self.tasks, body["identity"]), shared is not None
            )
        else:
            return None
        return GPData(items, shared, self.ids, body["dimensions"], body["points"], self.labels, body["noise"])

    @property
    def labels(self) -> Labels:
        """The names and types of the data's columns; stores that were written before have the inputs' names alone."""
        body = self.body
        if "labels" in body:
            return Labels.from_dict(body["labels"])
        return Labels(inputs=None if body["inputs"] is None else tuple(body["inputs"]))

    def given(self, data: GPData) -> GPData:
        """The data of the models, given anew: in their order, and refused where it is not the same."""
        body, folder = self.body, self.folder
        if self.ids is not None and data.ids is not None:
            data = data.in_order(self.ids)
        raise_first(
            (
                (data.tasks != self.tasks, f"{folder} holds {self.tasks} models, and the data has {data.tasks} tasks"),
                (
                    data.dimensions != body["dimensions"],
                    f"{folder} holds models of {body['dimensions']} inputs, the data has {data.dimensions}",
                ),
                (
                    self.model.known and not data.noise_known,
                    f"the models in {folder} were fitted with a known noise; pass it as noise=",
                ),
            )
        )
        kept = self.data() if body["digest"] is None else None
        if digest(data) != (body["digest"] if kept is None else digest(kept)):
            raise InputError(
                f"the data is not what the models in {folder} were fitted to; give back the same, its tasks in the "
                "same order or with their ids"
            )
        return data

    def __getitem__(self, name: str) -> np.ndarray:
        if name not in self._read:
            stored = self._names[name]
            self._read[name] = self._arranged(self._natural(stored, self.models.column(stored)))
        return self._read[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def status(self) -> np.ndarray:
        """How each task fared."""
        return self._arranged(_numbers(self.models.column("status"))) if self.tasks else np.zeros(0, np.int8)

    def messages(self) -> dict[int, str]:
        """The tasks of which something is to be said, and that."""
        if not self.tasks:
            return {}
        message = self.models.column("message")
        positions = np.flatnonzero(arrow.numpy_of(message.is_valid()))
        items = _numbers(self.models.column("item"))[positions].tolist()
        texts = message.take(arrow.array_of(positions)).to_pylist()
        return {task: text for task, text in sorted(zip(items, texts, strict=True)) if text}

    def parameters(self, start: int, stop: int) -> torch.Tensor:
        """The parameters of some positions, in natural units."""
        table, names = self.models.read(start, stop), [self._names[name] for name in self.model.names]
        return torch.from_numpy(np.stack([self._natural(name, table[name]).astype(np.float64) for name in names], 1))

    def _natural(self, name: str, column: pa.Array | pa.ChunkedArray) -> np.ndarray:
        """A column's numbers, not their logarithms."""
        values, logarithm = _numbers(column), name.startswith(LOG) and name not in self.model.names
        return np.exp(values.astype(np.float32)) if logarithm else values

    def _arranged(self, rows: np.ndarray) -> np.ndarray:
        return rows.copy() if self._order is None else rows[self._order]  # what Arrow gives cannot be written to

    @functools.cached_property
    def _order(self) -> np.ndarray | None:
        """Where each task's row is; None where that is its own number."""
        items = _numbers(self.models.column("item"))
        return None if np.array_equal(items, np.arange(len(items))) else np.argsort(items, kind="stable")


def _numbers(column: pa.Array | pa.ChunkedArray) -> np.ndarray:
    column = arrow.whole(column)
    if pa.types.is_fixed_size_list(column.type):
        return arrow.numpy_of(column.flatten()).reshape(len(column), column.type.list_size)
    return arrow.numpy_of(column)
