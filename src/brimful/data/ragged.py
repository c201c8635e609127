"""Batches of `Ragged` samples: filled up to the longest, or packed one after the other.

Legend: B samples of a batch, V values, L the longest of a batch.
"""

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..core.base.ragged import Ragged, native, pick


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


def padded(values: Tensor, starts_B: Tensor, lengths_B: Tensor, longest: int, pad: float) -> Padded:
    """Samples by where they begin, filled up to the longest. That is given, since reading it from the device would
    wait for it."""
    index_L = torch.arange(longest, device=values.device)
    real_BL = index_L < lengths_B[:, None]
    index_BL = torch.where(real_BL, starts_B[:, None] + index_L, 0)
    values_BL = pick(values, index_BL.reshape(-1)).reshape(*index_BL.shape, *values.shape[1:])
    fill = native(torch.full((), pad, dtype=values.dtype)).item()
    native(values_BL).masked_fill_(~real_BL.reshape(*real_BL.shape, *(1,) * (values.ndim - 1)), fill)
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
