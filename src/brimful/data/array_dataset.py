"""Fields in memory, or memory-mapped from a file."""

import mmap
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..core.base.errors import InputError
from ..core.base.pytree import as_tensor
from ..core.base.ragged import Ragged, pick
from ..core.base.rows import rows_of
from ..core.runs import fingerprint
from .dataset import Dataset, Field, Fields, called, unpack
from .ragged import packed

_CPU = torch.device("cpu")


@dataclass(frozen=True, slots=True)
class MappedFile:
    """An array in a file, as it is sent to another process, which maps it again."""

    path: str
    dtype: Any
    shape: tuple[int, ...]
    offset: int
    order: Any

    @classmethod
    def of(cls, array: Any) -> "MappedFile | None":
        """The file behind an array that maps one; None for any other, and for a part of such an array."""
        if not isinstance(array, np.memmap) or not isinstance(array.base, mmap.mmap) or array.filename is None:
            return None
        order = "C" if array.flags.c_contiguous else "F"
        return cls(str(array.filename), array.dtype, array.shape, array.offset, order)

    def open(self) -> np.memmap:
        return np.memmap(self.path, self.dtype, "r", self.offset, self.shape, self.order)


class ArrayDataset(Dataset):
    """Tensors and arrays on any device; any row can be read.

    Args:
        tree: an array, or a tuple or dict of them, nested or not.
        bad: the reason for each row that holds a null, by its number.
    """

    def __init__(self, tree: Any, bad: dict[int, str] | None = None) -> None:
        given, self.pack = unpack(tree)
        given = {name: part.open() if isinstance(part, MappedFile) else part for name, part in given.items()}
        self.bad = bad or {}
        self._files = {name: MappedFile.of(part) for name, part in given.items()}
        self.on_disk = all(self._files.values())
        self.paths = [file.path for file in self._files.values() if file]
        self._mapped = any(isinstance(getattr(part, "values", part), np.memmap) for part in given.values())
        self._arrays = {name for name, part in given.items() if not isinstance(part, Tensor)}
        self._columns = {name: _column(name, part) for name, part in given.items()}
        self.fields = {name: _field(name, column) for name, column in self._columns.items()}
        self._samples = shared_length({name: len(column) for name, column in self._columns.items()})

    def __reduce__(self) -> tuple[Any, ...]:
        return ArrayDataset, (self.pack(self._files if self.on_disk else self._columns), self.bad)

    def __len__(self) -> int:
        return self._samples

    def gather(self, index: np.ndarray, pin: bool = False) -> Fields:
        return {
            name: rows_of(self._pick(name, column, index, pin)).change(torch.Tensor.cpu)
            for name, column in self._columns.items()
        }

    def load(self, rows: slice | np.ndarray) -> tuple[Fields, dict[int, str]]:
        index, fields = np.arange(rows.start, rows.stop) if isinstance(rows, slice) else rows, {}
        for name, column in self._columns.items():
            if isinstance(rows, np.ndarray) or isinstance(column, Ragged):
                fields[name] = self._pick(name, column, index)
            else:  # a function sees arrays in C order, and tensors as they are
                fields[name] = column[rows].contiguous() if name in self._arrays else column[rows]
        numbers = index.tolist() if self.bad else ()
        return fields, {row: self.bad[number] for row, number in enumerate(numbers) if number in self.bad}

    def _pick(self, name: str, column: Tensor | Ragged, index: np.ndarray, pin: bool = False) -> Tensor | Ragged:
        where, device = torch.from_numpy(index), rows_of(column).elements.device
        pin = pin and device == _CPU
        lengths = self.fields[name].lengths
        if isinstance(column, Ragged) and lengths is not None:
            starts = column.offsets[:-1].index_select(0, where.to(column.offsets.device)).to(device)
            lengths = lengths[index]
            return packed(column.values, starts, torch.from_numpy(lengths).to(device), int(lengths.sum()), pin)
        assert isinstance(column, Tensor)
        out = torch.empty((len(index), *column.shape[1:]), dtype=column.dtype, pin_memory=True) if pin else None
        return pick(column, where.to(device), out)

    def column(self, name: str) -> Any:
        return self._columns[name]

    def whole(self, device: torch.device) -> Fields | None:
        return dict(self._columns) if self.ready(device) else None

    def ready(self, device: torch.device) -> bool:
        parts = [part for column in self._columns.values() for part in rows_of(column).tensors]
        return not self._mapped and all(part.device == device for part in parts)

    def fingerprint(self) -> str:
        columns = {
            name: column.tensors if isinstance(column, Ragged) else column for name, column in self._columns.items()
        }
        return fingerprint.of([columns, list(self.bad)] if self.bad else columns)


class DeferredDataset(Dataset):
    """A file that can only be read whole: its form is known at once, and it is read when the first row is needed.

    Args:
        fields: the form of each field.
        samples: how many there are.
        read: reads all of it.
    """

    pack = dict

    def __init__(self, fields: dict[str, Field], samples: int, read: Callable[[], Fields]) -> None:
        self.fields, self._samples, self._read = fields, samples, read
        self.held = self.nbytes
        self._arrays: ArrayDataset | None = None

    def _open(self) -> ArrayDataset:
        if self._arrays is None:
            self._arrays = ArrayDataset(self._read())
        return self._arrays

    def __len__(self) -> int:
        return self._samples

    def gather(self, index: np.ndarray, pin: bool = False) -> Fields:
        return self._open().gather(index, pin)

    def whole(self, device: torch.device) -> Fields | None:
        return self._open().whole(device)

    def ready(self, device: torch.device) -> bool:
        return device == _CPU

    def fingerprint(self) -> str:
        return self._open().fingerprint()


def shared_length(lengths: dict[str, int]) -> int:
    """The number of samples, which all fields must have."""
    if len(set(lengths.values())) > 1:
        shown = ", ".join(f"{name}: {length}" for name, length in lengths.items())
        raise InputError(f"the fields have different numbers of samples ({shown}); they must share one leading axis")
    return next(iter(lengths.values()))


def _column(name: str, part: Any) -> Tensor | Ragged:
    if isinstance(part, Ragged):
        offsets = as_tensor(part.offsets, f"{called(name)}: offsets")
        return Ragged(as_tensor(part.values, f"{called(name)}: values"), offsets).checked(called(name))
    tensor = as_tensor(part, called(name))
    if tensor.ndim == 0:
        raise InputError(f"{called(name)} is a single number without a leading axis; give one row per sample")
    return tensor


def _field(name: str, column: Tensor | Ragged) -> Field:
    """The form of a column; the offsets of a ragged one are checked."""
    if isinstance(column, Tensor):
        return Field(column.dtype, tuple(column.shape[1:]))
    column.check_offsets(called(name))
    return Field(column.values.dtype, tuple(column.values.shape[1:]), column.lengths.cpu().numpy())
