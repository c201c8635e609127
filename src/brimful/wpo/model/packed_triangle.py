"""Products with lower triangles that lie packed, row after row: entry (i, j) at i (i + 1) / 2 + j.

K centers, B samples, d dimensions, P = d (d + 1) / 2 entries of a triangle. A d x d matrix is never made here for more
than a strip of rows, and the half that is zero is neither read nor multiplied: on CUDA by the kernels of `_kernels`,
elsewhere strip by strip, in plain torch. None of these keeps anything for a backward pass, `lower` and `pack` apart.
"""

import functools
import math
from collections.abc import Sequence
from types import ModuleType

import torch
from jaxtyping import Float
from torch import Tensor

_STRIP = 256  # rows at a time in plain torch
_SMALL = 32  # dimensions below which a tile is mostly empty


def size(d: int) -> int:
    """Entries of a triangle."""
    return d * (d + 1) // 2


def dimensions(entries: int) -> int:
    """The d of a triangle with so many entries."""
    return (math.isqrt(8 * entries + 1) - 1) // 2


@functools.lru_cache(maxsize=32)
def diagonal(d: int, device: torch.device = torch.device("cpu")) -> Tensor:
    """Where the diagonal lies."""
    with torch.inference_mode(False):  # it is kept, and may be of use to a backward pass later
        rows = torch.arange(d, device=device)
        return rows * (rows + 3) // 2


def lower(packed_KP: Float[Tensor, "K P"], d: int) -> Float[Tensor, "K d d"]:
    """The matrices, with zeros above the diagonal. Differentiable: the plain form that the others are held to."""
    rows, columns = torch.tril_indices(d, d, device=packed_KP.device).unbind()
    empty = packed_KP.new_zeros(len(packed_KP), d, d)
    return empty.index_put((torch.arange(len(packed_KP), device=packed_KP.device)[:, None], rows, columns), packed_KP)


def pack(matrix_Kdd: Float[Tensor, "K d d"]) -> Float[Tensor, "K P"]:
    """What `lower` makes matrices of."""
    d = matrix_Kdd.shape[-1]
    rows, columns = torch.tril_indices(d, d, device=matrix_Kdd.device).unbind()
    return matrix_Kdd[:, rows, columns]


def times(packed_KP: Float[Tensor, "K P"], v_KBd: Float[Tensor, "K B d"]) -> Float[Tensor, "K B d"]:
    """L v, for each center and sample."""
    if (kernels := _kernels_for(v_KBd)) is not None:
        return kernels.product(packed_KP, v_KBd, False)
    found = torch.empty_like(v_KBd)
    d = v_KBd.shape[-1]
    for start in range(0, d, _STRIP):
        strip_Ksj = _strip(packed_KP, start, min(start + _STRIP, d))
        stop = strip_Ksj.shape[-1]
        found[..., start:stop] = v_KBd[..., :stop] @ strip_Ksj.mT
    return found


def transposed(packed_KP: Float[Tensor, "K P"], v_KBd: Float[Tensor, "K B d"]) -> Float[Tensor, "K B d"]:
    """L^T v, for each center and sample."""
    if (kernels := _kernels_for(v_KBd)) is not None:
        return kernels.product(packed_KP, v_KBd, True)
    found = torch.zeros_like(v_KBd)
    d = v_KBd.shape[-1]
    for start in range(0, d, _STRIP):
        strip_Ksj = _strip(packed_KP, start, min(start + _STRIP, d))
        stop = strip_Ksj.shape[-1]
        found[..., :stop] += v_KBd[..., start:stop] @ strip_Ksj
    return found


def outer(
    pairs: Sequence[tuple[Float[Tensor, "K B d"], Float[Tensor, "K B d"]]],
    into_KP: Float[Tensor, "K P"],
    scale_K: Float[Tensor, " K"] | None = None,
) -> None:
    """Scales what is there, and adds the lower triangle of sum_b left_b right_b^T for each pair (left, right)."""
    if (kernels := _kernels_for(pairs[0][0])) is not None and into_KP.is_contiguous():
        kernels.outer(pairs, into_KP, into_KP.new_ones(len(into_KP)) if scale_K is None else scale_K.contiguous())
        return
    if scale_K is not None:
        into_KP *= scale_K[:, None]
    d = pairs[0][0].shape[-1]
    for start in range(0, d, _STRIP):
        stop = min(start + _STRIP, d)
        strip_Ksj = sum(left[..., start:stop].mT @ right[..., :stop] for left, right in pairs)
        assert isinstance(strip_Ksj, Tensor)
        rows, columns = _places(start, stop, strip_Ksj.device)
        into_KP[:, size(start) : size(stop)] += strip_Ksj[:, rows, columns]


def trace(packed_KP: Float[Tensor, "K P"], d: int) -> Float[Tensor, " K"]:
    """tr L L^T, the squares of all entries: rows of about d first, since one long sum in single precision is off."""
    rows_Krc = packed_KP.unflatten(1, (-1, d + 1 if d % 2 == 0 else d))
    return torch.linalg.vector_norm(rows_Krc, dim=-1).square().sum(-1)


def solve_transposed(packed_KP: Float[Tensor, "K P"], z_KBd: Float[Tensor, "K B d"]) -> Float[Tensor, "K B d"]:
    """L^-T z, for each center and sample: of the covariance P^-1 where z has that of the identity."""
    matrix_Kdd = lower(packed_KP, z_KBd.shape[-1])
    return torch.linalg.solve_triangular(matrix_Kdd.mT, z_KBd.mT, upper=True).mT


def _kernels_for(v_KBd: Tensor) -> ModuleType | None:
    """The Triton kernels, where they can run. They count the numbers of a center in 32 bits."""
    fits = v_KBd.shape[-1] >= _SMALL and v_KBd.shape[1] * v_KBd.shape[2] < 2**30
    return _triton() if v_KBd.is_cuda and v_KBd.dtype == torch.float32 and fits else None


@functools.cache
def _triton() -> ModuleType | None:
    try:
        from . import packed_triangle_triton
    except ImportError:
        return None
    return packed_triangle_triton if torch.cuda.get_device_capability()[0] >= 8 else None


def _places(start: int, stop: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Rows (from `start`) and columns of the packed entries of some rows."""
    rows, columns = torch.tril_indices(stop - start, stop, offset=start, device=device).unbind()
    return rows, columns


def _strip(packed_KP: Tensor, start: int, stop: int) -> Tensor:
    """Rows `start` to `stop` of the matrices, without the columns that are zero in all of them."""
    rows, columns = _places(start, stop, packed_KP.device)
    strip_Ksj = packed_KP.new_zeros(len(packed_KP), stop - start, stop)
    strip_Ksj[:, rows, columns] = packed_KP[:, size(start) : size(stop)]
    return strip_Ksj
