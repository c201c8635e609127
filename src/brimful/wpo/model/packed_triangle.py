"""Products with lower triangles packed row after row: entry (i, j) at i (i + 1) / 2 + j.

Legend: K centers, B samples, d dimensions, P = d (d + 1) / 2 entries of a triangle.

No more than a strip of rows of a d x d matrix is ever formed, and the half that is zero is neither read nor multiplied:
on CUDA by the kernels of `packed_triangle_triton`, elsewhere strip by strip in plain torch. Only `unpack` and `trace`
are differentiable.
"""

import functools
from collections.abc import Iterator, Sequence
from types import ModuleType

import torch
from jaxtyping import Float
from torch import Tensor

from .squared_norm import squared_norm

_STRIP = 256  # rows at a time in plain torch
_MIN_KERNEL_DIMENSIONS = 32  # below this a tile is mostly empty


def size(d: int) -> int:
    """Entries of a triangle."""
    return d * (d + 1) // 2


@functools.lru_cache(maxsize=32)
def diagonal_indices(d: int, device: torch.device = torch.device("cpu")) -> Tensor:
    """The indices of the diagonal in a packed triangle."""
    with torch.inference_mode(False):  # it is cached, and a later backward pass may save it
        rows = torch.arange(d, device=device)
        return rows * (rows + 3) // 2


def unpack(packed_KP: Float[Tensor, "K P"], d: int) -> Float[Tensor, "K d d"]:
    """The matrices, with zeros above the diagonal. Differentiable: the reference for the other functions."""
    rows, columns = torch.tril_indices(d, d, device=packed_KP.device).unbind()
    zeros = packed_KP.new_zeros(len(packed_KP), d, d)
    return zeros.index_put((torch.arange(len(packed_KP), device=packed_KP.device)[:, None], rows, columns), packed_KP)


def product(
    packed_KP: Float[Tensor, "K P"], v_KBd: Float[Tensor, "K B d"], transposed: bool = False
) -> Float[Tensor, "K B d"]:
    """L v, or L^T v, for each center and sample."""
    if (kernels := _kernels_for(v_KBd)) is not None:
        return kernels.product(packed_KP, v_KBd, transposed)
    out_KBd = torch.zeros_like(v_KBd)
    for start, stop in _strips(v_KBd.shape[-1]):
        rows, columns = _strip_indices(start, stop, v_KBd.device)
        strip_Ksj = packed_KP.new_zeros(len(packed_KP), stop - start, stop)
        strip_Ksj[:, rows, columns] = packed_KP[:, size(start) : size(stop)]
        if transposed:
            out_KBd[..., :stop] += v_KBd[..., start:stop] @ strip_Ksj
        else:
            out_KBd[..., start:stop] = v_KBd[..., :stop] @ strip_Ksj.mT
    return out_KBd


def outer_(
    into_KP: Float[Tensor, "K P"],
    scale_K: Float[Tensor, " K"],
    pairs: Sequence[tuple[Float[Tensor, "K B d"], Float[Tensor, "K B d"]]],
) -> None:
    """Scales in place, and adds the lower triangle of sum_b left_b right_b^T for each pair (left, right)."""
    if (kernels := _kernels_for(pairs[0][0])) is not None and into_KP.is_contiguous():
        kernels.outer_(into_KP, scale_K.contiguous(), pairs)
        return
    into_KP *= scale_K[:, None]
    for start, stop in _strips(pairs[0][0].shape[-1]):
        products = (left[..., start:stop].mT @ right[..., :stop] for left, right in pairs)
        strip_Ksj = sum(products, start=into_KP.new_zeros(()))
        rows, columns = _strip_indices(start, stop, strip_Ksj.device)
        into_KP[:, size(start) : size(stop)] += strip_Ksj[:, rows, columns]


def trace(packed_KP: Float[Tensor, "K P"], d: int) -> Float[Tensor, " K"]:
    """tr L L^T, the sum of all squared entries: rows of about d first, since one long float32 sum is inaccurate."""
    rows_Krc = packed_KP.unflatten(1, (-1, d + 1 if d % 2 == 0 else d))
    return squared_norm(rows_Krc).sum(-1)


def _kernels_for(v_KBd: Tensor) -> ModuleType | None:
    """The Triton kernels, where they can run. They index the entries of a center in 32 bits."""
    fits = v_KBd.shape[-1] >= _MIN_KERNEL_DIMENSIONS and v_KBd.shape[1] * v_KBd.shape[2] < 2**30
    return _triton_kernels() if v_KBd.is_cuda and v_KBd.dtype == torch.float32 and fits else None


@functools.cache
def _triton_kernels() -> ModuleType | None:
    try:
        from . import packed_triangle_triton
    except ImportError:
        return None
    return packed_triangle_triton if torch.cuda.get_device_capability()[0] >= 8 else None


def _strips(d: int) -> Iterator[tuple[int, int]]:
    return ((start, min(start + _STRIP, d)) for start in range(0, d, _STRIP))


def _strip_indices(start: int, stop: int, device: torch.device) -> tuple[Tensor, ...]:
    """The rows (from `start`) and columns of the packed entries in rows `start` to `stop`."""
    return torch.tril_indices(stop - start, stop, offset=start, device=device).unbind()
