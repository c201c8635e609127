"""Fields in memory, or mapped from a file."""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..core.base.errors import InputError
from ..core.runs import fingerprint
from .ragged import Ragged, packed, pick
from .rows import Field, Rows, called, some, unpack

_CPU = torch.device("cpu")


class Columns(Rows):
    """Tensors and arrays, wherever they lie; any row can be read."""

    def __init__(self, tree: Any) -> None:
        given, self.pack = unpack(tree)
        self._mapped = any(isinstance(getattr(part, "values", part), np.memmap) for part in given.values())
        self._columns = {name: _column(name, part) for name, part in given.items()}
        self._lengths = {
            name: _lengths(name, column) for name, column in self._columns.items() if isinstance(column, Ragged)
        }
        self._samples = shared_length({name: len(column) for name, column in self._columns.items()})
        self.fields = {name: self._field(name, column) for name, column in self._columns.items()}

    def _field(self, name: str, column: Tensor | Ragged) -> Field:
        if isinstance(column, Ragged):
            return Field(column.values.dtype, tuple(column.values.shape[1:]), self._lengths[name])
        return Field(column.dtype, tuple(column.shape[1:]))

    def __len__(self) -> int:
        return self._samples

    def gather(self, index: np.ndarray, pin: bool = False) -> dict[str, Any]:
        where = torch.from_numpy(index)
        found = {}
        for name, column in self._columns.items():
            if isinstance(column, Ragged):
                found[name] = self._gather_ragged(name, column, index, pin)
            elif column.device != _CPU:
                found[name] = pick(column, where.to(column.device)).cpu()
            else:
                out = torch.empty((len(index), *column.shape[1:]), dtype=column.dtype, pin_memory=True) if pin else None
                found[name] = pick(column, where, out)
        return found

    def _gather_ragged(self, name: str, column: Ragged, index: np.ndarray, pin: bool) -> Ragged:
        where, device = torch.from_numpy(index), column.values.device
        lengths = self._lengths[name][index]
        starts = column.offsets[:-1].index_select(0, where.to(column.offsets.device)).to(device)
        here = pin and device == _CPU
        found = packed(column.values, starts, torch.from_numpy(lengths).to(device), int(lengths.sum()), here)
        return Ragged(found.values.cpu(), found.offsets.cpu())

    def whole(self, device: torch.device) -> dict[str, Any] | None:
        return dict(self._columns) if self.ready(device) else None

    def ready(self, device: torch.device) -> bool:
        parts = [
            part
            for column in self._columns.values()
            for part in ((column.values, column.offsets) if isinstance(column, Ragged) else (column,))
        ]
        return not self._mapped and all(part.device == device for part in parts)

    def fingerprint(self) -> str:
        return fingerprint.of(
            {
                name: (column.values, column.offsets) if isinstance(column, Ragged) else column
                for name, column in self._columns.items()
            }
        )


class Deferred(Rows):
    """A file that can only be read whole: its form is known at once, and it is read when the first row is needed.

    Args:
        fields: each field's form.
        samples: how many there are.
        read: reads all of it.
        pack: gives fields their form back.
    """

    def __init__(
        self,
        fields: dict[str, Field],
        samples: int,
        read: Callable[[], dict[str, Any]],
        pack: Callable[[dict[str, Any]], Any],
    ) -> None:
        self.fields, self.pack, self._samples, self._read = fields, pack, samples, read
        self.held = self.nbytes
        self._columns: Columns | None = None

    def _open(self) -> Columns:
        if self._columns is None:
            self._columns = Columns(self._read())
        return self._columns

    def __len__(self) -> int:
        return self._samples

    def gather(self, index: np.ndarray, pin: bool = False) -> dict[str, Any]:
        return self._open().gather(index, pin)

    def whole(self, device: torch.device) -> dict[str, Any] | None:
        return self._open().whole(device)

    def ready(self, device: torch.device) -> bool:
        return device == _CPU

    def fingerprint(self) -> str:
        return self._open().fingerprint()


def shared_length(lengths: dict[str, int]) -> int:
    """The number of samples, which all fields must have."""
    if len(set(lengths.values())) > 1:
        shown = ", ".join(f"{name}: {length}" for name, length in lengths.items())
        raise InputError(f"the fields have different numbers of samples ({shown}); cut them to one length")
    return some(next(iter(lengths.values())))


def as_tensor(part: Any, name: str) -> Tensor:
    """An array or list of numbers as a tensor, without a copy where that can be."""
    if isinstance(part, Tensor):
        if part.layout != torch.strided:
            raise InputError(f"{called(name)} is a {part.layout} tensor; use .to_dense(), or a Ragged")
        return part.detach().resolve_conj().resolve_neg()
    try:
        array = np.asarray(part)
        if array.dtype.hasobject:
            raise TypeError("it holds Python objects")
        if not array.dtype.isnative:
            raise TypeError(f"its byte order is not this machine's: use .astype({array.dtype.newbyteorder('=').str!r})")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch warns of memory that cannot be written; nothing here writes to it
            return torch.from_numpy(array if min(array.strides, default=0) >= 0 else np.ascontiguousarray(array))
    except (TypeError, ValueError) as error:
        raise InputError(
            f"{called(name)} is a {type(part).__name__} that cannot become a tensor ({error}); give numbers, for "
            "samples of unequal length a data.Ragged, for anything else a data.Decoded"
        ) from error


def _column(name: str, part: Any) -> Tensor | Ragged:
    if isinstance(part, Ragged):
        values, offsets = as_tensor(part.values, f"{name} values"), as_tensor(part.offsets, f"{name} offsets")
        return Ragged(values, offsets.to(torch.int64))
    if isinstance(part, dict | tuple):
        raise InputError(f"{called(name)} is itself a {type(part).__name__}; fields are not nested: give it flat")
    tensor = as_tensor(part, name)
    if tensor.ndim == 0:
        raise InputError(f"{called(name)} is a single number; give one row a sample")
    return tensor


def _lengths(name: str, column: Ragged) -> np.ndarray:
    """The lengths of a ragged field's samples, its offsets checked."""
    offsets, values = column.offsets.cpu().numpy(), column.values
    if values.ndim == 0 or offsets.ndim != 1 or len(offsets) == 0:
        raise InputError(f"{called(name)}: a Ragged needs values of at least one axis and a list of offsets")
    lengths = np.diff(offsets)
    if offsets[0] != 0 or offsets[-1] != len(values) or (lengths < 0).any():
        raise InputError(
            f"{called(name)}: offsets must rise from 0 to the number of values, {len(values)}; these go from "
            f"{offsets[0]} to {offsets[-1]}. Give the starts of the samples and the end of the last"
        )
    return lengths
