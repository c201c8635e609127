"""The rows of a few chunks in host memory, in places that are used again.

Legend: S slots for a chunk each, C rows of a chunk, V values of the chunk with most of them.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ...core.base.errors import InputError
from ...core.base.ragged import Ragged, native, pick
from ...core.base.rows import rows_of
from ..dataset import Field, Fields, called
from ..ragged import packed


@dataclass(frozen=True, slots=True, eq=False)
class ChunkSize:
    """What the largest chunk of a dataset holds.

    Attributes:
        fields: the form of each field.
        rows: of a chunk.
        values: of the chunk with most of them, for each ragged field.
    """

    fields: dict[str, Field]
    rows: int
    values: dict[str, int]

    @classmethod
    def of(cls, fields: dict[str, Field], chunk_rows: int) -> "ChunkSize":
        values = {}
        for name, field in fields.items():
            if field.lengths is not None and len(field.lengths):
                starts = np.arange(0, len(field.lengths), chunk_rows)
                values[name] = int(np.add.reduceat(field.lengths, starts).max())
        return cls(fields, chunk_rows, values)

    @property
    def nbytes(self) -> int:
        """Of one chunk, and of what is remembered of its rows: their keys, steps and, of ragged ones, lengths."""
        row = sum(field.unit_bytes for field in self.fields.values() if field.lengths is None)
        values = sum(count * self.fields[name].unit_bytes for name, count in self.values.items())
        return self.rows * (row + 32 + 16 * len(self.values)) + values


class RowPool:
    """Chunks by slot; a row is known by its place, `slot * C + row`."""

    def __init__(self, size: ChunkSize, slots: int) -> None:
        self._size, self._rows = size, size.rows
        self._tensors: dict[str, Tensor] = {}
        self._spans: dict[str, tuple[Tensor, Tensor]] = {}  # where a ragged row begins, and its length
        for name, field in size.fields.items():
            each = size.rows if field.lengths is None else size.values.get(name, 0)
            self._tensors[name] = torch.empty((slots * each, *field.shape), dtype=field.dtype)
            if field.lengths is not None:
                self._spans[name] = tuple(torch.zeros(slots * size.rows, dtype=torch.int64) for _ in range(2))  # pyright: ignore[reportArgumentType]

    def put(self, slot: int, chunk: int, rows: int, fields: Fields) -> None:
        """Copies a chunk into a slot, after a look at whether it is what was said before anything was read."""
        self._check(chunk, rows, fields)
        start = slot * self._rows
        for name, column in self._tensors.items():
            part = fields[name]
            if isinstance(part, Ragged):
                first = slot * self._size.values.get(name, 0)
                native(column)[first : first + len(part.values)] = native(part.values)
                starts, lengths = self._spans[name]
                starts[start : start + rows] = part.offsets[:-1] + first
                lengths[start : start + rows] = part.lengths
            else:
                native(column)[start : start + rows] = native(part)

    def buffer(self, rows: int, pin: bool) -> "RowBuffer":
        """Where so many rows are put together."""
        return RowBuffer(self, rows, pin)

    def _check(self, chunk: int, rows: int, fields: Fields) -> None:
        for name, field in self._size.fields.items():
            part = fields.get(name)
            if part is None:
                raise InputError(f"chunk {chunk} has no {called(name)}; the data has changed. Begin anew")
            items = rows_of(part)
            shape = field.shape if field.lengths is None else (None, *field.shape)
            if items.count != rows or items.form != (str(field.dtype), shape):
                raise InputError(
                    f"chunk {chunk} has {items.count} rows of {' '.join(map(str, items.form))} for {called(name)}, "
                    f"where {rows} of {field.dtype} {shape} were expected; the data has changed. Begin anew"
                )
            if isinstance(part, Ragged) and len(part.values) > self._size.values.get(name, 0):
                raise InputError(
                    f"chunk {chunk} has longer samples of {called(name)} than before; the data has changed"
                )


class RowBuffer:
    """Rows of a batch, put together piece by piece."""

    def __init__(self, pool: RowPool, rows: int, pin: bool) -> None:
        self._pool, self._filled = pool, 0
        self._out: dict[str, Tensor] = {}
        self._pieces: dict[str, list[Ragged]] = {name: [] for name in pool._spans}
        for name, column in pool._tensors.items():
            if name not in pool._spans:
                self._out[name] = torch.empty((rows, *column.shape[1:]), dtype=column.dtype, pin_memory=pin)

    def add(self, places: np.ndarray) -> None:
        """The rows at some places of the pool come next."""
        index, tensors = torch.from_numpy(places), self._pool._tensors
        stop = self._filled + len(places)
        for name, out in self._out.items():
            pick(tensors[name], index, out[self._filled : stop])
        for name, pieces in self._pieces.items():
            starts, lengths = (span.index_select(0, index) for span in self._pool._spans[name])
            pieces.append(packed(tensors[name], starts, lengths, int(lengths.sum())))
        self._filled = stop

    def fields(self) -> Fields:
        """The rows, in the order of the fields."""
        joined: Fields = dict(self._out)
        for name, pieces in self._pieces.items():
            none = torch.zeros(0, dtype=torch.int64)
            empty = packed(self._pool._tensors[name], none, none, 0)
            joined[name] = pieces[0] if len(pieces) == 1 else empty.join_rows(pieces or [empty])
        return {name: joined[name] for name in self._pool._tensors}
