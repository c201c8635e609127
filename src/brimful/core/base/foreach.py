"""Operations on many tensors at once, a kernel or two for all of them. Torch has them under private names."""

# pyright: reportPrivateImportUsage=false

from collections.abc import Sequence

import torch
from torch import Tensor


def norms(tensors: Sequence[Tensor]) -> list[Tensor]:
    """The norm of each of them, all in one dtype."""
    norms = list(torch._foreach_norm(list(tensors)))
    return norms if len({norm.dtype for norm in norms}) < 2 else [norm.double() for norm in norms]


def norm(tensors: Sequence[Tensor]) -> Tensor:
    """The norm of all of them as one vector."""
    return torch.linalg.vector_norm(torch.stack(norms(tensors)))


def multiply(tensors: Sequence[Tensor], factor: Tensor | float) -> None:
    """Each times a number, or a scalar that stays on the device."""
    torch._foreach_mul_(list(tensors), factor)


def copy(targets: Sequence[Tensor], sources: Sequence[Tensor]) -> None:
    torch._foreach_copy_(list(targets), list(sources))


def move_towards(targets: Sequence[Tensor], ends: Sequence[Tensor], share: float | Tensor) -> None:
    """Each a share of the way to its end; a share on the device takes three kernels in place of one."""
    targets, ends = list(targets), list(ends)
    if isinstance(share, Tensor):
        torch._foreach_sub_(targets, ends)
        torch._foreach_mul_(targets, 1 - share)
        torch._foreach_add_(targets, ends)
    else:
        torch._foreach_lerp_(targets, ends, share)


def find_nonfinite(values: Tensor, bad: Tensor, one: Tensor) -> None:
    """Sets `bad` to 1 where one of the values is not finite, and to 0 otherwise, on the device."""
    bad.zero_()
    torch._amp_foreach_non_finite_check_and_unscale_([values], bad, one)


def update_scale(value: Tensor, steps: Tensor, bad: Tensor, grow_after: int) -> None:
    """Halves a loss scale where `bad` is 1, doubles it after so many steps where it was 0."""
    torch._amp_update_scale_(value, steps, bad, 2.0, 0.5, grow_after)
