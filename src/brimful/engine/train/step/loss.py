"""What a loss returns: a sum and a weight, so that the mean of a batch is the same however it is split."""

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from ....core.base.errors import InputError

_FORMS = "return brimful.Weighted(sum, weight), a tuple (sum, weight), or one number as a tensor: the batch's mean"


@dataclass(frozen=True, slots=True)
class Weighted:
    """A sum, and what to divide it by: two scalars.

    Sums and weights add up over micro-batches and ranks, so the mean of a whole batch, and its gradient, are the same
    however it is split.

    Example:
        >>> import torch
        >>> Weighted(torch.tensor(6.0), torch.tensor(4.0)).mean
        tensor(1.5000)
    """

    sum: Float[Tensor, ""]
    weight: Float[Tensor, ""]

    @property
    def mean(self) -> Float[Tensor, ""]:
        """The mean; 0 where there is nothing."""
        return self.sum / torch.where(self.weight == 0, 1, self.weight)


@dataclass(frozen=True, slots=True)
class LossOutput:
    """What a loss returned: `times` the value is the sum, `weight` what to divide it by. Nothing was computed yet."""

    value: Float[Tensor, ""]
    times: int
    weight: Tensor | int | float

    @classmethod
    def of(cls, returned: Any, samples: int) -> "LossOutput":
        """What a loss returned, checked. One number is the mean over the samples of the batch."""
        times = 1
        match returned:
            case Weighted():
                total, weight = returned.sum, returned.weight
            case (total, weight):
                pass
            case Tensor():
                total, times, weight = returned, samples, samples
            case _:
                raise InputError(f"the loss returned a {type(returned).__name__}; {_FORMS}")
        if not isinstance(total, Tensor) or total.ndim or not total.is_floating_point():
            raise InputError(f"the loss returned {_describe(total)} where a sum belongs; {_FORMS}")
        if weight.ndim if isinstance(weight, Tensor) else not isinstance(weight, int | float):
            raise InputError(f"the loss returned {_describe(weight)} where a weight belongs; {_FORMS}")
        # Sums of many are inexact in half precision, or overflow.
        total = total.to(torch.float64 if total.dtype == torch.float64 else torch.float32)
        return cls(total, times, weight.detach().to(total) if isinstance(weight, Tensor) else weight)

    def weighted(self) -> Weighted:
        """As a sum and a weight, two tensors on the device."""
        total = self.value if self.times == 1 else self.value * self.times
        # Filled on the device: nothing is copied there, and nobody waits.
        weight = self.weight if isinstance(self.weight, Tensor) else torch.full_like(total.detach(), self.weight)
        return Weighted(total, weight)


def _describe(value: Any) -> str:
    if isinstance(value, Tensor):
        return f"a tensor of shape {tuple(value.shape)}, {value.dtype},"
    return f"a {type(value).__name__}"
