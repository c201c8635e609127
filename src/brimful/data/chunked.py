"""Data by chunks of consecutive rows, for readers that never have all of it in memory.

A chunk is the unit that a source reads at once: a chunk of a database, a row group of a Parquet file, some rows of a
mapped file. Chunks may be read in any order, and from several threads.
"""

import threading
from typing import Any, Protocol, runtime_checkable

import torch

from ..core.base.rows import rows_of
from .array_dataset import DeferredDataset
from .arrow_tables import ParquetDataset
from .dataset import Dataset, Field, Fields

_CHUNK = 2**20  # bytes


@runtime_checkable
class ChunkedSource(Protocol):
    """Rows that are read one chunk at a time. Every chunk has `chunk_rows` rows but the last, which may have fewer.

    `schema` tells the form of the fields, and so the bytes of a chunk, before anything is read. `read` returns the rows
    of a chunk in host memory that is the caller's own; it may be called on any thread, and on several at once. What
    cannot be read after all retries is a `StorageError`.
    """

    @property
    def chunk_rows(self) -> int: ...

    def __len__(self) -> int: ...

    def schema(self) -> dict[str, Field]: ...

    def read(self, chunk: int) -> Fields: ...

    def fingerprint(self) -> str: ...


def chunks_of(source: ChunkedSource) -> int:
    """How many chunks there are."""
    return -(-len(source) // source.chunk_rows)


def chunk_slice(source: ChunkedSource, chunk: int) -> slice:
    """The rows of a chunk, by their numbers."""
    start = chunk * source.chunk_rows
    return slice(start, min(len(source), start + source.chunk_rows))


def chunked(rows: Dataset, chunk_rows: int | None = None) -> ChunkedSource | None:
    """A dataset by chunks; None for one that can only be read whole.

    Args:
        rows: the dataset. One that is read by chunks itself is returned as it is.
        chunk_rows: rows of a chunk, where the dataset leaves the choice; by default a row group of a Parquet file, and
            about 1 MB of anything else.
    """
    if isinstance(rows, ChunkedSource):
        return rows
    if isinstance(rows, DeferredDataset) and not isinstance(rows, ParquetDataset):
        return None
    return DatasetChunks(rows, chunk_rows)


class DatasetChunks:
    """The chunks of a dataset whose rows can be read by ranges."""

    def __init__(self, rows: Dataset, chunk_rows: int | None = None) -> None:
        self._rows = rows
        own = rows.group_rows if isinstance(rows, ParquetDataset) else _CHUNK * len(rows) // max(1, rows.nbytes)
        self.chunk_rows = min(len(rows), max(1, chunk_rows or own))
        self._one_reader = threading.Lock()

    def __len__(self) -> int:
        return len(self._rows)

    def schema(self) -> dict[str, Field]:
        return self._rows.fields

    def read(self, chunk: int) -> Fields:
        rows = chunk_slice(self, chunk)
        if self._rows.sequential:  # it remembers what it read last
            with self._one_reader:
                fields, bad = self._rows.load(rows)
        else:
            fields, bad = self._rows.load(rows)
        for row in sorted(bad):
            raise self._rows.row_error(bad[row], rows.start + row)
        return {name: rows_of(part).change(_own) for name, part in fields.items()}

    def fingerprint(self) -> str:
        return self._rows.fingerprint()


def _own(tensor: torch.Tensor) -> Any:
    """A copy in host memory: what is mapped is read now, and not where it is used."""
    return tensor.clone(memory_format=torch.contiguous_format) if tensor.device.type == "cpu" else tensor.cpu()
