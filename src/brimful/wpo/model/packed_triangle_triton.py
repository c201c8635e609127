"""Products with packed lower triangles as Triton kernels: tiles above the diagonal are neither read nor multiplied.

Legend: K centers, B samples, d dimensions; a triangle's entry (i, j) lies at i (i + 1) / 2 + j.

The twins of `triangle.times`, `transposed` and `outer`, in single precision. Tensor cores compute in TF32, three
products for one: a number is split into what TF32 holds and the rest, and only rest times rest is left out. One factor
is split beforehand, so that its tiles go from memory to the tensor cores by themselves; they want the summands of both
side by side, so `outer` takes its vectors transposed. The other is split in registers.
"""

# pyright: reportArgumentType=false, reportCallIssue=false, reportOperatorIssue=false, reportAttributeAccessIssue=false
# pyright: reportGeneralTypeIssues=false, reportIndexIssue=false
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """How a product is cut: samples, dimensions and summands of a tile, its warps, and tiles that are loaded ahead."""

    samples: int
    wide: int
    deep: int
    warps: int
    stages: int


def launch_for(B: int) -> Launch:
    """A cut of `product` for so many samples."""
    samples = max(16, min(128, triton.next_power_of_2(B)))
    return Launch(samples=samples, wide=128, deep=32, warps=8, stages=3)


OUTER = Launch(samples=0, wide=128, deep=32, warps=8, stages=3)
"""The cut of `outer`, whose summands are the samples."""

_MOST = 65_535  # of a grid's further axes


@triton.jit
def _held(x):
    """The nearest number that TF32 holds, with 10 bits after the first: what is cut off would all lie on one side."""
    return ((x.to(tl.int32, bitcast=True) + 4096) & -8192).to(tl.float32, bitcast=True)


@triton.jit(do_not_specialize=["N"])
def _split(x, held, rest, N, BLOCK: tl.constexpr):
    place = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    whole = tl.load(x + place, mask=place < N)
    part = _held(whole)
    tl.store(held + place, part, mask=place < N)
    tl.store(rest + place, whole - part, mask=place < N)


@triton.jit
def _dot(a_mk, held_nk, rest_nk, total_mn):
    """a times the transposed sum of the other two. Tensor cores cut off what they add up; over many summands that adds
    up too, so the total is added to outside of them."""
    a_held = _held(a_mk)
    part_mn = tl.dot(a_mk - a_held, tl.trans(held_nk), input_precision="tf32")
    part_mn = tl.dot(a_held, tl.trans(rest_nk), part_mn, input_precision="tf32")
    return total_mn + tl.dot(a_held, tl.trans(held_nk), part_mn, input_precision="tf32")


@triton.jit
def _add(
    packed, held, rest, total, at, n, b, B, d: tl.constexpr, TRANSPOSED: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """The summands from `at` on."""
    m = at + tl.arange(0, BK)
    if TRANSPOSED:
        start = (m * (m + 1) // 2)[:, None]
        L_mn = tl.load(packed + start + n[None, :], mask=(n[None, :] <= m[:, None]) & (m < d)[:, None], other=0.0)
        L_nm = tl.trans(L_mn)
    else:
        start = (n * (n + 1) // 2)[:, None]
        L_nm = tl.load(packed + start + m[None, :], mask=(m[None, :] <= n[:, None]) & (n < d)[:, None], other=0.0)
    spot, inside = b[:, None] * d + m[None, :], (b < B)[:, None] & (m < d)[None, :]
    held_bm = tl.load(held + spot, mask=inside, other=0.0)
    rest_bm = tl.load(rest + spot, mask=inside, other=0.0)
    return _dot(L_nm, held_bm, rest_bm, total)


@triton.jit(do_not_specialize=["B"])
def _product(
    packed, held, rest, out, B, d: tl.constexpr, TRANSPOSED: tl.constexpr, BB: tl.constexpr, BN: tl.constexpr,
    BK: tl.constexpr, STAGES: tl.constexpr, INTERPRETED: tl.constexpr,
):  # fmt: skip
    """Tiles with the most summands begin first."""
    tiles: tl.constexpr = (d + BN - 1) // BN
    place = tl.program_id(0) if TRANSPOSED else tiles - 1 - tl.program_id(0)
    k = tl.program_id(1).to(tl.int64)
    b = tl.program_id(2) * BB + tl.arange(0, BB)
    n = place * BN + tl.arange(0, BN)
    packed += k * (d * (d + 1) // 2)
    held += k * B * d
    rest += k * B * d
    out += k * B * d
    at = place * BN if TRANSPOSED else place * 0
    end = d if TRANSPOSED else tl.minimum((place + 1) * BN, d)
    total = tl.zeros((BN, BB), dtype=tl.float32)
    if INTERPRETED:  # which knows no range whose ends are computed
        while at < end:
            total = _add(packed, held, rest, total, at, n, b, B, d, TRANSPOSED, BK)
            at += BK
    else:
        for spot in tl.range(at, end, BK, num_stages=STAGES):
            total = _add(packed, held, rest, total, spot, n, b, B, d, TRANSPOSED, BK)
    tl.store(out + b[:, None] * d + n[None, :], tl.trans(total), mask=(b < B)[:, None] & (n < d)[None, :])


@triton.jit
def _outer(
    left, held, rest, scale, into, S, d: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """Vectors lie as (K, d, S), their S samples filled up with zeros to a multiple of BK."""
    row, column = tl.program_id(0), tl.program_id(1)
    if column <= row:
        k = tl.program_id(2).to(tl.int64)
        i, j = row * BN + tl.arange(0, BN), column * BN + tl.arange(0, BN)
        base = k * S * d
        total = tl.zeros((BN, BN), dtype=tl.float32)
        for at in tl.range(0, S, BK, num_stages=STAGES):
            b = (at + tl.arange(0, BK))[None, :]
            l_ib = tl.load(left + base + i[:, None] * S + b, mask=(i < d)[:, None], other=0.0)
            of_j = base + j[:, None] * S + b
            held_jb = tl.load(held + of_j, mask=(j < d)[:, None], other=0.0)
            rest_jb = tl.load(rest + of_j, mask=(j < d)[:, None], other=0.0)
            total = _dot(l_ib, held_jb, rest_jb, total)
        start = i * (i + 1) // 2
        place = into + k * (d * (d + 1) // 2) + start[:, None] + j[None, :]
        inside = (j[None, :] <= i[:, None]) & (i < d)[:, None]
        tl.store(place, tl.load(place, mask=inside, other=0.0) * tl.load(scale + k) + total, mask=inside)


def split(x: Tensor, in_place: bool = False) -> tuple[Tensor, Tensor]:
    """What TF32 holds of contiguous numbers, and the rest, which may be written over them."""
    held, rest = torch.empty_like(x), x if in_place else torch.empty_like(x)
    if x.numel():
        kernel: Any = _split
        kernel[(triton.cdiv(x.numel(), 2048),)](x, held, rest, x.numel(), BLOCK=2048)
    return held, rest


def product(packed_KP: Tensor, v_KBd: Tensor, is_transposed: bool, launch: Launch | None = None) -> Tensor:
    """L v, or L^T v."""
    K, B, d = v_KBd.shape
    cut = launch or launch_for(B)
    out = v_KBd.new_empty(K, B, d)
    if not out.numel():
        return out
    kernel: Any = _product
    packed_KP = packed_KP.contiguous()
    with torch.cuda.device_of(out):  # Triton launches on the current device
        held, rest = split(v_KBd.contiguous())
        for first in range(0, K, _MOST):
            part = slice(first, first + _MOST)
            kernel[(triton.cdiv(d, cut.wide), len(out[part]), triton.cdiv(B, cut.samples))](
                packed_KP[part], held[part], rest[part], out[part], B, d=d, TRANSPOSED=is_transposed, BB=cut.samples,
                BN=cut.wide, BK=cut.deep, STAGES=cut.stages, INTERPRETED=not out.is_cuda, num_warps=cut.warps,
            )  # fmt: skip
    return out


def outer(pairs: Sequence[tuple[Tensor, Tensor]], into_KP: Tensor, scale_K: Tensor, launch: Launch = OUTER) -> None:
    """Scales what is there, and adds the lower triangle of sum_b left_b right_b^T, over the samples of all pairs."""
    if not into_KP.numel():
        return
    kernel: Any = _outer
    with torch.cuda.device_of(into_KP):
        left_KdS, right_KdS = (_side_by_side(side, launch.deep) for side in zip(*pairs, strict=True))
        K, d, S = left_KdS.shape
        held, rest = split(right_KdS, in_place=True)
        tiles = triton.cdiv(d, launch.wide)
        length = S if into_KP.is_cuda else tl.constexpr(S)  # the interpreter counts to nothing else
        for first in range(0, K, _MOST):
            part = slice(first, first + _MOST)
            kernel[(tiles, tiles, len(into_KP[part]))](
                left_KdS[part], held[part], rest[part], scale_K[part], into_KP[part], length, d=d, BN=launch.wide,
                BK=launch.deep, STAGES=launch.stages, num_warps=launch.warps,
            )  # fmt: skip


def _side_by_side(vectors: Sequence[Tensor], multiple: int) -> Tensor:
    """All samples of vectors (K, B, d) as (K, d, S), filled up with zeros."""
    K, _, d = vectors[0].shape
    counts = [each.shape[1] for each in vectors]
    found = vectors[0].new_zeros(K, d, triton.cdiv(sum(counts), multiple) * multiple)
    for part, vector in zip(found[..., : sum(counts)].split(counts, -1), vectors, strict=True):
        part.copy_(vector.mT)
    return found
