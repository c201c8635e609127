"""How a batch of samples of unequal length is given."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ...core.base.ragged import Ragged
from ..ragged import Padded, packed, padded


@dataclass(frozen=True, slots=True)
class Fill:
    """How a ragged batch is given: filled up with `pad`, or as values and offsets."""

    pad: float = 0
    packed: bool = False

    def __call__(self, values: Tensor, starts_B: Tensor, lengths_B: Tensor, host_B: np.ndarray) -> Padded | Ragged:
        """`host_B` are the lengths again, in host memory: sizes come from there, and nobody waits for the device."""
        if self.packed:
            return packed(values, starts_B, lengths_B, int(host_B.sum()))
        return padded(values, starts_B, lengths_B, int(host_B.max(initial=0)), self.pad)


def holds(dtype: torch.dtype, number: float) -> bool:
    """Whether a number stays what it is in that type, or is rounded as floats are."""
    try:
        return dtype.is_floating_point or dtype.is_complex or torch.full((), number, dtype=dtype).item() == number
    except (RuntimeError, TypeError, ValueError, OverflowError):
        return False
