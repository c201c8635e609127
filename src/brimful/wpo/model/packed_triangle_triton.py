"""Products with packed lower triangles as Triton kernels: tiles above the diagonal are neither read nor multiplied.

Legend: K centers, B samples, d dimensions; entry (i, j) of a triangle is at i (i + 1) / 2 + j.

The counterparts of `packed_triangle.product` and `outer_` in single precision. Tensor cores compute in TF32, so each
product is three: a number is split into its TF32 rounding (`high`) and the remainder (`low`), and only low times low is
left out. One operand is split beforehand, so that its tiles go straight from memory to the tensor cores; these want the
summands of both operands contiguous, so `outer_` transposes its vectors. The other operand is split in registers.
"""

# pyright: reportArgumentType=false, reportCallIssue=false, reportOperatorIssue=false, reportAttributeAccessIssue=false
# pyright: reportGeneralTypeIssues=false, reportIndexIssue=false
from collections.abc import Sequence
from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

from ...core.base.compilers.activity import connect_triton

connect_triton()


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """A tile's samples, dimensions and summands, its warps, and its pipeline stages."""

    samples: int = 0
    block_n: int = 128
    block_k: int = 32
    warps: int = 8
    stages: int = 3


_MAX_GRID = 65_535  # along a grid's second and third axis


@triton.jit
def _tf32(x):
    """The nearest TF32 number, of 10 mantissa bits: truncation would be biased."""
    return ((x.to(tl.int32, bitcast=True) + 4096) & -8192).to(tl.float32, bitcast=True)


@triton.jit(do_not_specialize=["N"])
def _split(x, high, low, N, BLOCK: tl.constexpr):
    index = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + index, mask=index < N)
    rounded = _tf32(value)
    tl.store(high + index, rounded, mask=index < N)
    tl.store(low + index, value - rounded, mask=index < N)


@triton.jit
def _dot(a_mk, high_nk, low_nk, total_mn):
    """total + a (high + low)^T. Tensor cores truncate their accumulator; over many summands that error grows, so the
    total is accumulated outside of them."""
    a_high = _tf32(a_mk)
    part_mn = tl.dot(a_mk - a_high, tl.trans(high_nk), input_precision="tf32")
    part_mn = tl.dot(a_high, tl.trans(low_nk), part_mn, input_precision="tf32")
    return total_mn + tl.dot(a_high, tl.trans(high_nk), part_mn, input_precision="tf32")


@triton.jit
def _add(
    packed, high, low, total, start_m, n, b, B, d: tl.constexpr, TRANSPOSED: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """Adds the summands from `start_m` on."""
    m = start_m + tl.arange(0, BK)
    if TRANSPOSED:
        row_m = (m * (m + 1) // 2)[:, None]
        L_mn = tl.load(packed + row_m + n[None, :], mask=(n[None, :] <= m[:, None]) & (m < d)[:, None], other=0.0)
        L_nm = tl.trans(L_mn)
    else:
        row_n = (n * (n + 1) // 2)[:, None]
        L_nm = tl.load(packed + row_n + m[None, :], mask=(m[None, :] <= n[:, None]) & (n < d)[:, None], other=0.0)
    offset, inside = b[:, None] * d + m[None, :], (b < B)[:, None] & (m < d)[None, :]
    high_bm = tl.load(high + offset, mask=inside, other=0.0)
    low_bm = tl.load(low + offset, mask=inside, other=0.0)
    return _dot(L_nm, high_bm, low_bm, total)


@triton.jit(do_not_specialize=["B"])
def _product(
    packed, high, low, out, B, d: tl.constexpr, TRANSPOSED: tl.constexpr, BB: tl.constexpr, BN: tl.constexpr,
    BK: tl.constexpr, STAGES: tl.constexpr, INTERPRETED: tl.constexpr,
):  # fmt: skip
    """Tiles with the most summands start first."""
    tiles: tl.constexpr = (d + BN - 1) // BN
    tile = tl.program_id(0) if TRANSPOSED else tiles - 1 - tl.program_id(0)
    k = tl.program_id(1).to(tl.int64)
    b = tl.program_id(2) * BB + tl.arange(0, BB)
    n = tile * BN + tl.arange(0, BN)
    packed += k * (d * (d + 1) // 2)
    high += k * B * d
    low += k * B * d
    out += k * B * d
    first = tile * BN if TRANSPOSED else tile * 0
    end = d if TRANSPOSED else tl.minimum((tile + 1) * BN, d)
    total = tl.zeros((BN, BB), dtype=tl.float32)
    if INTERPRETED:  # the interpreter has no range with computed ends
        while first < end:
            total = _add(packed, high, low, total, first, n, b, B, d, TRANSPOSED, BK)
            first += BK
    else:
        for m in tl.range(first, end, BK, num_stages=STAGES):
            total = _add(packed, high, low, total, m, n, b, B, d, TRANSPOSED, BK)
    tl.store(out + b[:, None] * d + n[None, :], tl.trans(total), mask=(b < B)[:, None] & (n < d)[None, :])


@triton.jit
def _outer(
    left, high, low, scale, into, S, d: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """Vectors are (K, d, S), their S samples padded with zeros to a multiple of BK."""
    row, column = tl.program_id(0), tl.program_id(1)
    if column <= row:
        k = tl.program_id(2).to(tl.int64)
        i, j = row * BN + tl.arange(0, BN), column * BN + tl.arange(0, BN)
        base = k * S * d
        total = tl.zeros((BN, BN), dtype=tl.float32)
        for first in tl.range(0, S, BK, num_stages=STAGES):
            b = (first + tl.arange(0, BK))[None, :]
            l_ib = tl.load(left + base + i[:, None] * S + b, mask=(i < d)[:, None], other=0.0)
            row_j = base + j[:, None] * S + b
            high_jb = tl.load(high + row_j, mask=(j < d)[:, None], other=0.0)
            low_jb = tl.load(low + row_j, mask=(j < d)[:, None], other=0.0)
            total = _dot(l_ib, high_jb, low_jb, total)
        row_i = i * (i + 1) // 2
        target = into + k * (d * (d + 1) // 2) + row_i[:, None] + j[None, :]
        inside = (j[None, :] <= i[:, None]) & (i < d)[:, None]
        tl.store(target, tl.load(target, mask=inside, other=0.0) * tl.load(scale + k) + total, mask=inside)


def split(x: Tensor, in_place: bool = False) -> tuple[Tensor, Tensor]:
    """The TF32 rounding of contiguous numbers, and the remainder, which may overwrite them."""
    high, low = torch.empty_like(x), x if in_place else torch.empty_like(x)
    if x.numel():
        _split[(triton.cdiv(x.numel(), 2048),)](x, high, low, x.numel(), BLOCK=2048)
    return high, low


def product(packed_KP: Tensor, v_KBd: Tensor, transposed: bool, launch: Launch | None = None) -> Tensor:
    """L v, or L^T v."""
    K, B, d = v_KBd.shape
    tile = launch or Launch(samples=max(16, min(128, triton.next_power_of_2(B))))
    out = v_KBd.new_empty(K, B, d)
    if not out.numel():
        return out
    packed_KP = packed_KP.contiguous()
    with torch.cuda.device_of(out):  # Triton launches on the current device
        high, low = split(v_KBd.contiguous())
        for first in range(0, K, _MAX_GRID):
            part = slice(first, first + _MAX_GRID)
            _product[(triton.cdiv(d, tile.block_n), len(out[part]), triton.cdiv(B, tile.samples))](
                packed_KP[part], high[part], low[part], out[part], B, d=d, TRANSPOSED=transposed, BB=tile.samples,
                BN=tile.block_n, BK=tile.block_k, STAGES=tile.stages, INTERPRETED=not out.is_cuda,
                num_warps=tile.warps,
            )  # fmt: skip
    return out


def outer_(
    into_KP: Tensor, scale_K: Tensor, pairs: Sequence[tuple[Tensor, Tensor]], launch: Launch | None = None
) -> None:
    """Scales in place, and adds the lower triangle of sum_b left_b right_b^T, over the samples of all pairs."""
    if not into_KP.numel():
        return
    tile = launch or Launch()
    with torch.cuda.device_of(into_KP):
        left_KdS, right_KdS = (_concatenate(side, tile.block_k) for side in zip(*pairs, strict=True))
        K, d, S = left_KdS.shape
        high, low = split(right_KdS, in_place=True)
        tiles = triton.cdiv(d, tile.block_n)
        length = S if into_KP.is_cuda else tl.constexpr(S)  # the interpreter's loops need a constant
        for first in range(0, K, _MAX_GRID):
            part = slice(first, first + _MAX_GRID)
            _outer[(tiles, tiles, len(into_KP[part]))](
                left_KdS[part], high[part], low[part], scale_K[part], into_KP[part], length, d=d, BN=tile.block_n,
                BK=tile.block_k, STAGES=tile.stages, num_warps=tile.warps,
            )  # fmt: skip


def _concatenate(vectors: Sequence[Tensor], multiple: int) -> Tensor:
    """The samples of all vectors (K, B, d) as (K, d, S), padded with zeros."""
    K, _, d = vectors[0].shape
    counts = [vector.shape[1] for vector in vectors]
    padded = vectors[0].new_zeros(K, d, triton.cdiv(sum(counts), multiple) * multiple)
    for part, vector in zip(padded[..., : sum(counts)].split(counts, -1), vectors, strict=True):
        part.copy_(vector.mT)
    return padded
