"""Samples of unequal length: all values one after the other, and where each sample begins.

Legend: N samples, B samples of a batch, V values, L the longest of a batch.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..core.base.errors import InputError

_SAME_BITS = {
    torch.uint16: torch.int16,
    torch.uint32: torch.int32,
    torch.uint64: torch.int64,
    torch.float8_e4m3fn: torch.uint8,
    torch.float8_e5m2: torch.uint8,
}  # torch stores these, and can neither pick nor fill them


@dataclass(frozen=True, slots=True, eq=False)
class Ragged:
    """Samples of unequal length.

    Attributes:
        values: (V, ...), the values of all samples, one after the other.
        offsets: (N + 1,) int64: sample i is `values[offsets[i]:offsets[i + 1]]`.

    Example:
        >>> Ragged.of([[1, 2, 3], [], [4]]).offsets.tolist()
        [0, 3, 3, 4]
    """

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


class Padded(NamedTuple):
    """A batch of ragged samples, filled up to the longest.

    Attributes:
        values: (B, L, ...).
        lengths: (B,) int64, how many of each row are real.
    """

    values: Tensor
    lengths: Tensor

    @property
    def mask(self) -> Tensor:
        """(B, L), true where a value is real."""
        return torch.arange(self.values.shape[1], device=self.lengths.device) < self.lengths[:, None]


def by_lengths(values: Tensor, lengths: np.ndarray | None) -> Any:
    """Values as samples of those lengths; as they are where there are none."""
    if lengths is None:
        return values
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    return Ragged(values, torch.from_numpy(offsets).to(values.device))


def tensors_of(part: Tensor | Ragged) -> tuple[Tensor, ...]:
    """The tensor of a field, or the values and the offsets of a ragged one."""
    return (part.values, part.offsets) if isinstance(part, Ragged) else (part,)


def change(part: Any, function: Callable[[Tensor], Tensor]) -> Any:
    """A function of a field's tensor, or of the values and the offsets of a ragged one."""
    return Ragged(function(part.values), function(part.offsets)) if isinstance(part, Ragged) else function(part)


def pick(tensor: Tensor, index: Tensor, out: Tensor | None = None) -> Tensor:
    """The rows of an index, for every dtype; into `out` where it is given."""
    bits = _SAME_BITS.get(tensor.dtype)
    if bits is not None:
        return pick(tensor.view(bits), index, None if out is None else out.view(bits)).view(tensor.dtype)
    return tensor.index_select(0, index) if out is None else torch.index_select(tensor, 0, index, out=out)


def padded(values: Tensor, starts_B: Tensor, lengths_B: Tensor, longest: int, pad: float) -> Padded:
    """Samples by where they begin, filled up to the longest. That is given, since reading it from the device would
    wait for it."""
    index_L = torch.arange(longest, device=values.device)
    real_BL = index_L < lengths_B[:, None]
    index_BL = torch.where(real_BL, starts_B[:, None] + index_L, 0)
    values_BL = pick(values, index_BL.reshape(-1)).reshape(*index_BL.shape, *values.shape[1:])
    bits = _SAME_BITS.get(values.dtype, values.dtype)
    fill = torch.full((), pad, dtype=values.dtype).view(bits).item()
    values_BL.view(bits).masked_fill_(~real_BL.reshape(*real_BL.shape, *(1,) * (values.ndim - 1)), fill)
    return Padded(values_BL, lengths_B)


def packed(values: Tensor, starts_B: Tensor, lengths_B: Tensor, total: int, pin: bool = False) -> Ragged:
    """Samples by where they begin, one after the other; `total` is the sum of their lengths, in pinned memory where
    asked."""
    offsets = torch.zeros(len(lengths_B) + 1, dtype=torch.int64, device=values.device)
    torch.cumsum(lengths_B, 0, out=offsets[1:])
    shift = torch.repeat_interleave(starts_B - offsets[:-1], lengths_B, output_size=total)
    index_V = shift + torch.arange(total, device=values.device)
    out = torch.empty((total, *values.shape[1:]), dtype=values.dtype, pin_memory=True) if pin else None
    return Ragged(pick(values, index_V, out), offsets)
