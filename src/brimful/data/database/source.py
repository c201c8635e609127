"""A dataset in the database as a source for `loader`, `train` and `map`: its chunks are what is read."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import torch

from ...core.base.errors import InputError
from ...core.base.formatting import format_bytes
from ...core.runs import fingerprint
from ..array_dataset import ArrayDataset, DeferredDataset
from ..dataset import Field, Fields, chosen
from . import catalogue, chunk_format
from .build import build_chunks
from .catalogue import ChunkSet, Entry
from .connection import Database
from .reader import CONNECTIONS, ChunkReader


class PostgresDataset(DeferredDataset):
    """The rows of a dataset, as they were when it was opened, by its chunks. A copy that is sent to another process
    reads the same version there, on connections of its own.

    Attributes:
        name: of the dataset.
        version: of its rows.
    """

    sequential = on_disk = True

    def __init__(self, reader: ChunkReader, columns: Sequence[str] | None = None) -> None:
        self._reader, self._chosen = reader, None if columns is None else list(columns)
        self.name, self.version = reader.entry.name, reader.chunks.version
        names = chosen(reader.entry.fields, columns, f"dataset {self.name!r}")
        self._last: tuple[int, Fields] | None = None
        super().__init__({name: reader.entry.fields[name] for name in names}, reader.chunks.rows, dict)

    def _open(self) -> ArrayDataset:
        # Not by the `read` of the base, which would refer back to this: connections end with their last user.
        if self._arrays is None:
            self._arrays = ArrayDataset(self.read_whole())
        return self._arrays

    def __reduce__(self) -> tuple[Any, ...]:
        return PostgresDataset, (self._reader, self._chosen)

    def __repr__(self) -> str:
        return (
            f"PostgresDataset({self.name!r}, version {self.version}: {len(self):,} samples, "
            f"{format_bytes(self.nbytes)}, {self._reader.chunks.chunks:,} chunks of {self.chunk_rows:,})"
        )

    @property
    def chunk_rows(self) -> int:
        return self._reader.chunks.chunk_rows

    def schema(self) -> dict[str, Field]:
        return self.fields

    def read(self, chunk: int) -> Fields:
        """The rows of a chunk, in memory of their own."""
        return self._reader.read(chunk, self._own)

    def _own(self, chunk: int, content: memoryview, rows: int) -> Fields:
        own = torch.empty(len(content), dtype=torch.uint8)
        own.numpy()[:] = np.frombuffer(content, np.uint8)
        fields = chunk_format.decode(self._reader.entry.fields, own, rows)
        return {name: fields[name] for name in self.fields}

    def load(self, rows: slice | np.ndarray) -> tuple[Fields, dict[int, str]]:
        if not isinstance(rows, slice):
            return super().load(rows)
        first, last = rows.start // self.chunk_rows, (rows.stop - 1) // self.chunk_rows
        parts = self._read_chunks(range(first, last + 1))
        start = first * self.chunk_rows
        fields = {
            name: torch.cat([part[name] for part in parts])[rows.start - start : rows.stop - start]
            if parts
            else torch.empty((0, *field.shape), dtype=field.dtype)
            for name, field in self.fields.items()
        }
        return fields, {}

    def _read_chunks(self, numbers: range) -> list[Fields]:
        """Some chunks one after the other; the last of the previous call is remembered."""
        known = dict([self._last] if self._last is not None else [])
        wanted = [number for number in numbers if number not in known]
        if len(wanted) > 1:
            with ThreadPoolExecutor(min(self._reader.connections, len(wanted))) as pool:
                known.update(zip(wanted, pool.map(self.read, wanted), strict=True))
        else:
            known.update((number, self.read(number)) for number in wanted)
        parts = [known[number] for number in numbers]
        if parts:
            self._last = (numbers[-1], parts[-1])
        return parts

    def whole(self, device: torch.device) -> Fields | None:
        if device.type == "cpu" or self._arrays is not None:
            return super().whole(device)
        return self.read_whole(device)  # chunk by chunk; host memory has only those on their way

    def read_whole(self, device: torch.device | None = None) -> Fields:
        """All rows, read now: into host memory, or chunk by chunk to a device."""
        flat: dict[str, np.ndarray] = {}
        columns: Fields = {}
        for name, field in self.fields.items():
            shape = (len(self), *field.shape)
            if device is not None:
                columns[name] = torch.empty(shape, dtype=field.dtype, device=device)
            else:  # NumPy asks for large pages, which are there at a fraction of the cost
                flat[name] = np.empty(len(self) * field.unit_bytes, np.uint8)
                columns[name] = torch.from_numpy(flat[name]).view(field.dtype).reshape(shape)

        def to_host(chunk: int, content: memoryview, rows: int) -> None:
            received = np.frombuffer(content, np.uint8)
            for span in chunk_format.spans(self._reader.entry.fields, rows):
                if span.name in flat:
                    start = chunk * self.chunk_rows * span.field.unit_bytes
                    flat[span.name][start : start + span.stop - span.start] = received[span.start : span.stop]

        def to_device(chunk: int, content: memoryview, rows: int) -> None:
            pinned = torch.empty(len(content), dtype=torch.uint8, pin_memory=on_gpu)
            pinned.numpy()[:] = np.frombuffer(content, np.uint8)
            start = chunk * self.chunk_rows
            for name, part in chunk_format.decode(self._reader.entry.fields, pinned, rows).items():
                if name in columns:
                    columns[name][start : start + rows].copy_(part, non_blocking=True)

        on_gpu = device is not None and device.type == "cuda"
        self._reader.read_all(to_host if device is None else to_device)
        if on_gpu:
            torch.cuda.synchronize(device)  # the copies were made on the readers' streams
        return columns

    def fingerprint(self) -> str:
        known = self._reader.chunks.fingerprint
        return known if self._chosen is None else fingerprint.of([known, self._chosen])

    def close(self) -> None:
        """Closes the connections; reading opens others."""
        self._reader.close()


def open_dataset(
    database: Database,
    name: str,
    columns: Sequence[str] | None = None,
    *,
    rebuild: bool = True,
    connections: int = CONNECTIONS,
) -> PostgresDataset:
    """A dataset by its name, with the chunks of its rows as they are now.

    Args:
        database: where it is.
        name: of the dataset.
        columns: only these fields.
        rebuild: whether chunks that are missing, or older than the rows, are built first; otherwise they are an error.
        connections: how many read chunks at the same time.
    """
    with database.session() as connection:
        made = catalogue.entry(connection, name)
        catalogue.check_schema(connection, made)
    chunks = made.chunks or _rebuilt(database, made, rebuild)
    return PostgresDataset(ChunkReader(database, made, chunks, connections), columns)


def _rebuilt(database: Database, made: Entry, rebuild: bool) -> ChunkSet:
    if not rebuild:
        raise InputError(
            f"the rows of dataset {made.name!r} are newer than its chunks; build them: brimful data chunks {made.name}"
        )
    return build_chunks(database, made.name)
