"""Samples of unequal length: all values one after the other, and where each sample begins; with the operations of
`TensorRows` (rows.py), one sample being one row.

Legend: N samples, B samples that are copied, V values.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from .errors import InputError

_SAME_BITS = {
    torch.uint16: torch.int16,
    torch.uint32: torch.int32,
    torch.uint64: torch.int64,
    torch.float8_e4m3fn: torch.uint8,
    torch.float8_e5m2: torch.uint8,
}  # torch stores these, and can neither pick nor fill them
_BLOCK = 1 << 18  # values that are copied by index at a time: the indices take 16 bytes each
_LONG = 1 << 12  # values from which on a run is copied on its own

Where = slice | Tensor
"""Some rows, by their indices."""


@dataclass(frozen=True, slots=True, eq=False)
class Ragged:
    """Samples of unequal length.

    Attributes:
        values: (V, ...), the values of all samples, one after the other.
        offsets: (N + 1,) int64: sample i is `values[offsets[i]:offsets[i + 1]]`.

    Example:
        >>> texts = Ragged.of([[1, 2, 3], [], [4]])
        >>> texts.offsets.tolist()
        [0, 3, 3, 4]
        >>> [sample.tolist() for sample in texts.samples()]
        [[1, 2, 3], [], [4]]
    """

    varies: ClassVar[bool] = True

    values: Tensor
    offsets: Tensor

    @classmethod
    def of(cls, samples: Sequence[Any]) -> "Ragged":
        """From one tensor, array or list of numbers per sample."""
        parts = [torch.as_tensor(sample) for sample in samples]
        if not parts:
            raise InputError("no samples to make a Ragged of; give at least one")
        full = [part for part in parts if part.numel()] or parts[:1]
        lengths = torch.tensor([0, *(len(part) for part in parts)])
        try:
            return cls(torch.cat(full), lengths.cumsum(0))
        except RuntimeError as error:
            raise InputError(f"the samples differ in more than their length: {error}") from error

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def lengths(self) -> Tensor:
        return self.offsets.diff()

    def samples(self) -> tuple[Tensor, ...]:
        """The samples one by one, without a copy."""
        return self.values.split(self.lengths.tolist())

    @property
    def count(self) -> int:
        return len(self)

    @property
    def elements(self) -> Tensor:
        return self.values

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        return self.values, self.offsets

    @property
    def form(self) -> tuple[str, tuple[int | None, ...]]:
        return str(self.values.dtype), (None, *self.values.shape[1:])

    def checked(self, name: str) -> "Ragged":
        """It, with offsets as int64 beside the values; of them only the shape is looked at, since their numbers may
        not have been computed yet."""
        values, offsets = self.values, self.offsets
        whole = isinstance(offsets, Tensor) and not (offsets.is_floating_point() or offsets.is_complex())
        if not isinstance(values, Tensor) or not whole or not values.ndim or offsets.ndim != 1 or not len(offsets):
            raise InputError(
                f"{name}: a Ragged needs a tensor of values with at least one axis, and a list of whole numbers as "
                "offsets, one more than there are samples"
            )
        return Ragged(values, offsets.to(values.device, torch.int64))

    def check_offsets(self, name: str) -> None:
        """Raises `InputError` where the offsets do not rise from 0 to the number of values."""
        offsets, count = self.offsets.cpu().numpy(), len(self.values)
        if offsets[0] != 0 or offsets[-1] != count or (np.diff(offsets) < 0).any():
            raise InputError(
                f"{name}: offsets must rise from 0 to the number of values, {count}; these go from {offsets[0]} to "
                f"{offsets[-1]}. Give the starts of the samples and the end of the last"
            )

    def change(self, function: Callable[[Tensor], Tensor]) -> "Ragged":
        """The same samples after a function of the values and of the offsets, such as a move to a device."""
        return Ragged(function(self.values), function(self.offsets))

    def cast(self, dtype: torch.dtype) -> "Ragged":
        return Ragged(self.values.to(dtype), self.offsets)

    def slice_rows(self, start: int, stop: int) -> "Ragged":
        """Samples `start` to `stop`, their values without a copy."""
        first, last = self.offsets[[start, stop]].tolist()  # waits for the device
        return Ragged(self.values[first:last], self.offsets[start : stop + 1] - first)

    def take_rows(self, index: Tensor) -> "Ragged":
        """The samples of an index, copied."""
        index = index.to(self.offsets.device)
        taken = self._empty(self.lengths[index])
        copy_samples(taken, slice(None), self, index)
        return taken

    def put_rows(self, where: Where, rows: "Ragged") -> "Ragged":
        """The samples with others in the place of some."""
        lengths, kept = self.lengths, torch.ones(len(self), dtype=torch.bool, device=self.offsets.device)
        lengths[where], kept[where] = rows.lengths, False
        whole, others = self._empty(lengths), kept.nonzero()[:, 0]
        copy_samples(whole, others, self, others)
        copy_samples(whole, where, rows, slice(None))
        return whole

    def join_rows(self, parts: Sequence["Ragged"]) -> "Ragged":
        """Parts of its form, one after the other."""
        lengths = torch.cat([part.lengths for part in parts])
        return Ragged(torch.cat([part.values for part in parts]), _offsets(lengths))

    def blank_rows(self, count: int) -> "Ragged":
        """Samples of its form that hold nothing."""
        return Ragged(self.values.new_empty((0, *self.values.shape[1:])), self.offsets.new_zeros(count + 1))

    def all_rows(self, mask: Tensor) -> Tensor:
        """Which samples have a true mask for all their values. The offsets need not be right, nor known yet."""
        count = len(mask)
        wrong = ~mask.flatten(1).all(dim=1) if mask.ndim > 1 else ~mask
        before = torch.zeros(count + 1, dtype=torch.int32 if count < 1 << 31 else torch.int64, device=mask.device)
        torch.cumsum(wrong, 0, dtype=before.dtype, out=before[1:])
        return before[self.offsets.clamp(0, count)].diff() == 0

    def gatherer(self, length: int) -> "RaggedGatherer":
        return RaggedGatherer(self.blank_rows(0), length)

    def _empty(self, lengths: Tensor) -> "Ragged":
        offsets = _offsets(lengths)
        return Ragged(self.values.new_empty((int(offsets[-1]), *self.values.shape[1:])), offsets)


class RaggedGatherer:
    """All samples, put together from batches in any order; what was never put is empty.

    Args:
        form: samples of the form.
        length: how many there will be.
    """

    def __init__(self, form: Ragged, length: int) -> None:
        self._form = form
        self._lengths = torch.zeros(length, dtype=torch.int64)
        self._parts: list[tuple[Where, Ragged]] = []

    def put(self, where: Where, rows: Ragged) -> None:
        """Takes a batch, which it keeps."""
        if not len(rows):
            return
        self._lengths[where] = rows.lengths
        # Pinned memory is scarce, and goes back for the next batch.
        self._parts.append((where, rows.change(lambda tensor: tensor.clone() if tensor.is_pinned() else tensor)))

    def whole(self) -> Ragged:
        """All of them. Each batch is let go of once it is copied, so that there are never two of everything."""
        everything = slice(0, len(self._lengths))
        if [where for where, _ in self._parts if isinstance(where, slice)] != [everything]:
            whole = self._form._empty(self._lengths)
            self._parts.sort(key=lambda part: _first(part[0]), reverse=True)
            while self._parts:
                where, rows = self._parts.pop()
                copy_samples(whole, where, rows, slice(None))
            self._parts = [(everything, whole)]
        return self._parts[0][1]


def native(tensor: Tensor) -> Tensor:
    """The same memory in a dtype that torch can index."""
    return tensor.view(_SAME_BITS.get(tensor.dtype, tensor.dtype))


def pick(tensor: Tensor, index: Tensor, out: Tensor | None = None) -> Tensor:
    """The rows of an index, for every dtype; into `out` where it is given."""
    bits = _SAME_BITS.get(tensor.dtype)
    if bits is not None:
        return pick(tensor.view(bits), index, None if out is None else out.view(bits)).view(tensor.dtype)
    return tensor.index_select(0, index) if out is None else torch.index_select(tensor, 0, index, out=out)


def copy_samples(target: Ragged, to: Where, source: Ragged, of: Where) -> None:
    """Copies samples into others of the same lengths, by their indices."""
    lengths_B = source.lengths[of].cpu().numpy()
    starts_B = [part.offsets[:-1][index].cpu().numpy() for part, index in ((target, to), (source, of))]
    into, values = native(target.values), native(source.values)
    for to_R, of_R, lengths_R in _blocks(starts_B[0], starts_B[1], lengths_B):
        if len(lengths_R) == 1:
            into[to_R[0] : to_R[0] + lengths_R[0]] = values[of_R[0] : of_R[0] + lengths_R[0]]
        else:
            within = np.arange(lengths_R.sum()) - np.repeat(np.cumsum(lengths_R) - lengths_R, lengths_R)
            there, here = (torch.from_numpy(np.repeat(starts, lengths_R) + within) for starts in (to_R, of_R))
            into[there.to(into.device)] = values[here.to(values.device)]


def _blocks(
    to_B: np.ndarray, of_B: np.ndarray, lengths_B: np.ndarray
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Samples that are neighbors both here and there, made one; each that is long by itself, and the others in groups
    that bound the memory of their indices."""
    full = lengths_B > 0
    to_B, of_B, lengths_B = to_B[full], of_B[full], lengths_B[full]
    apart = (np.diff(to_B) != lengths_B[:-1]) | (np.diff(of_B) != lengths_B[:-1])
    first_R = np.flatnonzero(np.concatenate([[True], apart])) if len(to_B) else np.array([], np.int64)
    to_R, of_R = to_B[first_R], of_B[first_R]
    lengths_R = np.add.reduceat(lengths_B, first_R) if len(first_R) else lengths_B
    long_R = lengths_R >= _LONG
    for run in np.flatnonzero(long_R):
        yield to_R[run : run + 1], of_R[run : run + 1], lengths_R[run : run + 1]
    to_R, of_R, lengths_R = to_R[~long_R], of_R[~long_R], lengths_R[~long_R]
    ends, start = np.cumsum(lengths_R), 0
    while start < len(ends):
        stop = int(np.searchsorted(ends, (ends[start - 1] if start else 0) + _BLOCK, side="right"))
        yield to_R[start:stop], of_R[start:stop], lengths_R[start:stop]
        start = stop


def _offsets(lengths: Tensor) -> Tensor:
    offsets = lengths.new_zeros(len(lengths) + 1)
    torch.cumsum(lengths, 0, out=offsets[1:])
    return offsets


def _first(where: Where) -> int:
    return where.start if isinstance(where, slice) else int(where.min())
