"""What training makes small: a sum and a weight, so that the mean of a batch comes out the same however it is cut."""

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
    however it is cut.

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
class Returned:
    """What a loss returned: `times` the value is the sum, `weight` what to divide it by. Nothing was computed yet."""

    value: Float[Tensor, ""]
    times: int
    weight: Tensor | int | float


def returned(found: Any, samples: int) -> Returned:
    """What a loss returned, checked. One number is the mean over the samples of the batch."""
    times = 1
    match found:
        case Weighted():
            total, weight = found.sum, found.weight
        case (total, weight):
            pass
        case Tensor():
            total, times, weight = found, samples, samples
        case _:
            raise InputError(f"the loss returned a {type(found).__name__}; {_FORMS}")
    if not isinstance(total, Tensor) or total.ndim or not total.is_floating_point():
        raise InputError(f"the loss returned {_shown(total)} where a sum belongs; {_FORMS}")
    if weight.ndim if isinstance(weight, Tensor) else not isinstance(weight, int | float):
        raise InputError(f"the loss returned {_shown(weight)} where a weight belongs; {_FORMS}")
    total = _single(total)
    if isinstance(weight, Tensor):
        weight = weight.detach().to(total.device, _at_least_single(total.dtype))
    return Returned(total, times, weight)


def weighted(found: Any, samples: int, device: torch.device) -> Weighted:
    """What a loss returned, as a sum and a weight."""
    made = returned(found, samples)
    total = made.value if made.times == 1 else made.value * made.times
    if isinstance(made.weight, Tensor):
        return Weighted(total, made.weight)
    # Filled on the device: nothing is copied there, and nobody waits.
    return Weighted(total, torch.full((), made.weight, dtype=total.dtype, device=device))


def _single(total: Tensor) -> Tensor:
    """Sums of many are off in half precision, or overflow."""
    return total.to(_at_least_single(total.dtype))


def _at_least_single(dtype: torch.dtype) -> torch.dtype:
    return torch.float64 if dtype == torch.float64 else torch.float32


def _shown(value: Any) -> str:
    if isinstance(value, Tensor):
        return f"a tensor of shape {tuple(value.shape)}, {value.dtype},"
    return f"a {type(value).__name__}"
