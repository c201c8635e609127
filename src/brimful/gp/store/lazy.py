"""What a store holds, read as it is needed: rows of its files, the points of its tasks, and these with parameters."""

import contextlib
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch

from ...core.base import arrow
from ...core.base.errors import CorruptError
from ...core.runs import fingerprint, parquet
from ...data.ragged import padded
from ...engine.map.sources import ItemSource, LoadedBatch

TASKS, _BYTES = 65_536, 16_000_000  # that a file has at the most
_NAME = re.compile(r"(?:shard|part)-(\d{12})-(\d{12})\.parquet")


class ParquetRows:
    """Parquet files that each hold a range of rows, read a row group at a time.

    Args:
        folder: where they are.
        what: what a row is, in the words of an error.
        rows: how many there must be.
        identity: of the store. A file that another store wrote, or that belongs to another place in this one, is not
            taken for its own.
    """

    def __init__(self, folder: Path, what: str, rows: int, identity: str) -> None:
        self.paths, self.length = [path for path in sorted(folder.iterdir()) if _NAME.fullmatch(path.name)], 0
        self._files: list[pq.ParquetFile] = []
        self._groups: list[tuple[int, int, int, int]] = []  # first row, rows, file, row group
        self._kept: tuple[tuple[int, int], pa.Table] | None = None
        for path in self.paths:
            start, stop = (int(number) for number in path.stem.split("-")[1:])
            if start != self.length:
                raise CorruptError(f"{path.parent} lacks the {what} before {path.name}: fit again into this folder")
            with intact(path):
                file = pq.ParquetFile(path, memory_map=True, page_checksum_verification=True)
            schema = file.schema_arrow
            fault = parquet.seal_fault(schema, arrow.note_of(schema), identity, start)
            if file.metadata.num_rows != stop - start:
                fault = fault or f"it holds {file.metadata.num_rows} rows instead of {stop - start}"
            if fault:
                raise CorruptError(
                    f"{path} holds other {what} than its name says: {fault}. Delete it and fit again into this folder."
                )
            for group in range(file.num_row_groups):
                self._groups.append((start, file.metadata.row_group(group).num_rows, len(self._files), group))
                start += self._groups[-1][1]
            self._files.append(file)
            self.length = stop
        if self.length != rows:
            raise CorruptError(f"{folder} holds {self.length} {what} of {rows}: fit again into this folder")

    @property
    def names(self) -> list[str]:
        return self._files[0].schema_arrow.names if self._files else []

    def read(self, start: int, stop: int) -> pa.Table:
        parts = [
            self._group(file, group).slice(max(0, start - first), min(stop, first + rows) - max(start, first))
            for first, rows, file, group in self._groups
            if first < stop and first + rows > start
        ]
        return pa.concat_tables(parts) if parts else pa.table({})

    def _group(self, file: int, group: int) -> pa.Table:
        if self._kept is None or self._kept[0] != (file, group):
            with intact(self.paths[file]):
                self._kept = ((file, group), self._files[file].read_row_group(group))
        return self._kept[1]

    def column(self, name: str) -> pa.Array:
        """One column of all rows."""
        tables = []
        for path, file in zip(self.paths, self._files, strict=True):
            with intact(path):
                tables.append(file.read([name]))
        return arrow.whole(pa.concat_tables(tables)[name])


@contextlib.contextmanager
def intact(path: Path) -> Iterator[None]:
    try:
        yield
    except parquet.DAMAGE as error:
        raise CorruptError(f"{path} is damaged: {error!r}. Delete it and fit again into this folder.") from error


class StoredTasks(ItemSource):
    """The points of a store's tasks, read as they are needed, in order of work."""

    def __init__(self, points: ParquetRows, shared: bool) -> None:
        self._points, self._shared = points, shared
        self.length = points.length

    def load(self, start: int, stop: int, capacity: float | None = None) -> LoadedBatch:
        table = self._points.read(start, stop)
        columns = {name: _padded(table[name], math.nan if name == "y" else 0.0) for name in table.column_names[1:]}
        tree = {name: columns[name] for name in ("y", "noise") if name in columns}
        if not self._shared:
            tree["x"] = torch.stack([column for name, column in columns.items() if name.startswith("x_")], dim=2)
        return LoadedBatch(start, stop - start, tree)

    def index(self, start: int, stop: int) -> np.ndarray:
        items = arrow.whole(self._points.read(start, stop)["item"])
        return arrow.numpy_of(items).copy()  # what Arrow gives cannot be written to

    def counts(self, start: int, stop: int) -> np.ndarray:
        """How many points the tasks have."""
        return np.diff(arrow.numpy_of(arrow.whole(self._points.read(start, stop)["y"]).offsets))

    def item_bytes(self) -> int:
        return 1024

    def fingerprint(self) -> str:
        return fingerprint.of([part for path in self._points.paths for part in (path.name, path)])

    def spec(self) -> str:
        return f"stored {self._shared} {self._points.names}"


def _padded(column: pa.ChunkedArray, end: float) -> torch.Tensor:
    """Lists of unequal length as rows of a matrix, filled where a row has ended."""
    lists = arrow.whole(column)
    lengths = torch.from_numpy(np.diff(arrow.numpy_of(lists.offsets)))
    values = torch.tensor(arrow.numpy_of(lists.flatten()))
    return padded(values, lengths.cumsum(0) - lengths, lengths, int(lengths.max()) if len(lengths) else 0, end).values


class TasksWithParameters(ItemSource):
    """The points of tasks together with their parameters, and what else each is to get.

    Args:
        items: the points.
        parameters: positions to parameters, in natural units.
        more: further arrays, by the tasks' own order.
    """

    def __init__(self, items: ItemSource, parameters: Any, more: dict[str, torch.Tensor]) -> None:
        self._items, self._parameters, self._more = items, parameters, more
        self.length, self.weights = items.length, items.weights

    def load(self, start: int, stop: int, capacity: float | None = None) -> LoadedBatch:
        loaded = self._items.load(start, stop)
        index = self.index(start, stop)
        extra = {name: rows_at(value, index) for name, value in self._more.items()}
        task = torch.tensor(index)
        tree = {**(loaded.tree or {}), "parameters": self._parameters(start, stop), "task": task, **extra}
        return LoadedBatch(start, stop - start, tree, weights=loaded.weights)

    def index(self, start: int, stop: int) -> np.ndarray:
        return self._items.index(start, stop)

    def item_bytes(self) -> int:
        return self._items.item_bytes()

    def fingerprint(self) -> str:
        whole = fingerprint.of([self._items.fingerprint(), self._more])
        for start, stop in parts(self):
            whole = fingerprint.of([whole, self._parameters(start, stop)])
        return whole

    def spec(self) -> str:
        return f"{self._items.spec()} {sorted(self._more)}"


def rows_at(values: torch.Tensor, index: np.ndarray) -> torch.Tensor:
    """Some rows; those that follow one another are not copied."""
    first, count = int(index[0]) if len(index) else 0, len(index)
    if np.array_equal(index, np.arange(first, first + count)):
        return values[first : first + count]
    return values[torch.tensor(index)]


def parts(items: ItemSource) -> Iterator[tuple[int, int]]:
    """Ranges of positions that are read and written at a time."""
    length = items.length or 0
    count = min(TASKS, max(1, _BYTES // max(1, items.item_bytes())))
    for start in range(0, length, count):
        yield start, min(length, start + count)
