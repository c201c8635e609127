"""The memory as Triton kernels: one program per student and tile of values, with its memory in registers and the loop
over time inside.

Legend: B students, S steps, N slots, D values, Q questions, R responses, X initial states (1 or B), L tiles, I values
of a row.

Computes what `memory.loop` does. The forward pass saves the memory every so many steps; the backward pass takes the
segments between from the last to the first, recomputes a segment's memories in a scratch buffer that stays in the L2
cache, and goes back through it. All of a step's rows are prefetched one step ahead, and their indices two, so that the
chain of steps does not wait for memory. The gradients of each step are written separately and then summed for each row
of a table, in a fixed order: there are no atomic additions, so the result is deterministic.
"""

# pyright: reportArgumentType=false, reportCallIssue=false, reportOperatorIssue=false, reportAttributeAccessIssue=false
# pyright: reportGeneralTypeIssues=false, reportIndexIssue=false
import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
import triton
import triton.language as tl
from torch import Tensor

from ...core.base.compilers.activity import connect_triton
from .memory_autograd import Kernels, apply

connect_triton()

STEPS_OF_A_PROGRAM = 128
"""The fewest steps of a row, on average, that one program adds up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryLaunch:
    """How the kernels are launched.

    Attributes:
        tile: values that a program holds, a power of 2.
        warps: of a program of the backward pass; the forward pass, which holds less, takes half of them.
        steps: between saved memories.
        programs: the most programs of the backward pass at a time, each with its own scratch buffer; 0 for
            eight per multiprocessor.
    """

    tile: int
    warps: int
    steps: int
    programs: int = 0


def launch_for(N: int, D: int, dtype: torch.dtype = torch.float32) -> MemoryLaunch:
    """Tiles of which a thread holds at most 128 bytes: memory, gradient, next memory and temporaries then fit the
    registers, few threads have to add up their sums, and larger tiles mean fewer to save."""
    cells, slots = 128 // dtype.itemsize, triton.next_power_of_2(N)
    tile = max(1, min(32, triton.next_power_of_2(D), 8 * 32 * cells // slots))
    return MemoryLaunch(tile=tile, warps=max(1, slots * tile // (32 * cells)), steps=16)


@triton.jit
def _rows(w, e, a, q, r, n, d, slot, value, N: tl.constexpr, D: tl.constexpr):
    """A step's rows of the three tables."""
    w_N = tl.load(w + q * N + n, mask=slot, other=0.0)
    return w_N, tl.load(e + r * D + d, mask=value, other=0.0), tl.load(a + r * D + d, mask=value, other=0.0)


@triton.jit(do_not_specialize=["S", "segments"])
def _forward(
    w, e, a, start, question, row, length, saved, reads, final, S, segments, N: tl.constexpr, D: tl.constexpr,
    NB: tl.constexpr, DB: tl.constexpr, STEPS: tl.constexpr, OWN: tl.constexpr, SAVE: tl.constexpr,
):  # fmt: skip
    b = tl.program_id(0).to(tl.int64)
    n, d = tl.arange(0, NB), tl.program_id(1) * DB + tl.arange(0, DB)
    slot, value = n < N, d < D
    cell = n[:, None] * D + d[None, :]
    inside = slot[:, None] & value[None, :]
    M = tl.load(start + b * (OWN * N * D) + cell, mask=inside, other=0.0)
    steps = tl.load(length + b).to(tl.int32)
    question += b * S
    row += b * S
    q, r = tl.load(question, mask=steps > 0, other=0), tl.load(row, mask=steps > 0, other=0)
    w_next, e_next, a_next = _rows(w, e, a, q, r, n, d, slot & (steps > 0), value & (steps > 0), N, D)
    q, r = tl.load(question + 1, mask=steps > 1, other=0), tl.load(row + 1, mask=steps > 1, other=0)
    t = steps * 0
    while t < steps:
        w_N, e_D, a_D = w_next, e_next, a_next
        w_next, e_next, a_next = _rows(w, e, a, q, r, n, d, slot, value, N, D)
        q = tl.load(question + t + 2, mask=t + 2 < steps, other=0)
        r = tl.load(row + t + 2, mask=t + 2 < steps, other=0)
        if SAVE:  # noqa: SIM102
            if (t > 0) & (t % STEPS == 0):
                tl.store(saved + (b * segments + t // STEPS - 1) * (N * D) + cell, M, mask=inside)
        tl.store(reads + (b * S + t) * D + d, tl.sum(w_N[:, None] * M, axis=0), mask=value)
        M += w_N[:, None] * (a_D[None, :] - e_D[None, :] * M)
        t += 1
    while t < S:
        tl.store(reads + (b * S + t) * D + d, tl.zeros((DB,), dtype=reads.dtype.element_ty), mask=value)
        t += 1
    tl.store(final + b * (N * D) + cell, M, mask=inside)


@triton.jit(do_not_specialize=["B", "S", "segments", "final"])
def _backward(
    w, e, a, start, question, row, length, saved, scratch, grad_r, grad_f, grad_w, grad_e, grad_a, grad_s,
    B, S, segments, final, N: tl.constexpr, D: tl.constexpr, NB: tl.constexpr, DB: tl.constexpr, STEPS: tl.constexpr,
    OWN: tl.constexpr,
):  # fmt: skip
    tiles: tl.constexpr = (D + DB - 1) // DB
    n, i = tl.arange(0, NB), tl.arange(0, DB)
    slot = n < N
    # The scratch has the shape of the tile, so that it needs no care at the edge of D.
    scratch += tl.program_id(0).to(tl.int64) * ((STEPS - 1) * N * DB)
    local = n[:, None] * DB + i[None, :]
    item = tl.program_id(0)
    while item < B * tiles:
        b, tile = (item // tiles).to(tl.int64), item % tiles
        d = tile * DB + i
        value = d < D
        cell = n[:, None] * D + d[None, :]
        inside = slot[:, None] & value[None, :]
        steps = tl.load(length + b).to(tl.int32)
        asked, given = question + b * S, row + b * S
        # Loaded even where there is none, so that it is spread over the threads as the memory is.
        G = tl.load(grad_f + b * (N * D) + cell, mask=inside & (final > 0), other=0.0)
        segment = (steps + STEPS - 1) // STEPS - 1
        while segment >= 0:
            low = segment * STEPS
            last = tl.minimum(low + STEPS, steps) - 1
            if segment > 0:
                M = tl.load(saved + (b * segments + segment - 1) * (N * D) + cell, mask=inside, other=0.0)
            else:
                M = tl.load(start + b * (OWN * N * D) + cell, mask=inside, other=0.0)

            q, r = tl.load(asked + low), tl.load(given + low)
            w_next, e_next, a_next = _rows(w, e, a, q, r, n, d, slot, value, N, D)
            prefetch = tl.minimum(low + 1, last)
            q, r = tl.load(asked + prefetch), tl.load(given + prefetch)
            t = low
            while t < last:
                w_N, e_D, a_D = w_next, e_next, a_next
                w_next, e_next, a_next = _rows(w, e, a, q, r, n, d, slot, value, N, D)
                prefetch = tl.minimum(t + 2, last)
                q, r = tl.load(asked + prefetch), tl.load(given + prefetch)
                tl.store(scratch + (t - low) * (N * DB) + local, M, mask=slot[:, None])
                M += w_N[:, None] * (a_D[None, :] - e_D[None, :] * M)
                t += 1
            tl.debug_barrier()  # another thread may read what one has stored

            # Here M is the memory before the last step, and w, e, a of that step are there already.
            r_next = tl.load(grad_r + (b * S + last) * D + d, mask=value, other=0.0)
            prefetch = tl.maximum(last - 1, low)
            q, r = tl.load(asked + prefetch), tl.load(given + prefetch)
            t = last
            while t >= low:
                w_N, e_D, a_D, r_D = w_next, e_next, a_next, r_next
                before = tl.maximum(t - 1, low)
                M_next = tl.load(scratch + (before - low) * (N * DB) + local, mask=slot[:, None] & (t > low), other=0.0)
                w_next, e_next, a_next = _rows(w, e, a, q, r, n, d, slot, value, N, D)
                r_next = tl.load(grad_r + (b * S + before) * D + d, mask=value, other=0.0)
                prefetch = tl.maximum(t - 2, low)
                q, r = tl.load(asked + prefetch), tl.load(given + prefetch)
                w_ND = G * (a_D[None, :] - e_D[None, :] * M) + r_D[None, :] * M
                H = w_N[:, None] * G
                at = b * S + t
                tl.store(grad_w + (tile * B + b) * S * N + t * N + n, tl.sum(w_ND, axis=1), mask=slot)
                tl.store(grad_e + at * D + d, -tl.sum(H * M, axis=0), mask=value)
                tl.store(grad_a + at * D + d, tl.sum(H, axis=0), mask=value)
                G += w_N[:, None] * r_D[None, :] - e_D[None, :] * H
                M = M_next
                t -= 1
            tl.debug_barrier()
            segment -= 1
        tl.store(grad_s + b * (N * D) + cell, G, mask=inside)
        item += tl.num_programs(0)


@triton.jit(do_not_specialize=["rows", "part_stride"])
def _collect(
    parts, order, begins, out, rows, part_stride,
    WIDTH: tl.constexpr, PARTS: tl.constexpr, SHARES: tl.constexpr, K: tl.constexpr, IB: tl.constexpr,
):  # fmt: skip
    """A share of the steps of one row, added up."""
    r = tl.program_id(0).to(tl.int64)
    i = tl.program_id(1) * IB + tl.arange(0, IB)
    first, end = tl.load(begins + r), tl.load(begins + r + 1)
    share = (end - first + SHARES - 1) // SHARES
    first += tl.program_id(2) * share
    end = tl.minimum(first + share, end)
    total = tl.zeros((K, IB), dtype=parts.dtype.element_ty)
    while first < end:
        k = first + tl.arange(0, K)
        step = tl.load(order + k, mask=k < end, other=0)
        for p in tl.static_range(PARTS):
            index = p * part_stride.to(tl.int64) + step[:, None] * WIDTH + i[None, :]
            total += tl.load(parts + index, mask=(k < end)[:, None] & (i < WIDTH)[None, :], other=0.0)
        first += K
    tl.store(out + (tl.program_id(2) * rows + r) * WIDTH + i, tl.sum(total, axis=0), mask=i < WIDTH)


def _sort(index_BS: Tensor, real_BS: Tensor, rows: int) -> tuple[Tensor, Tensor]:
    """The steps in the order of their rows, then their own, and where each row's begin; padding comes last."""
    # A radix sort takes a pass for each byte of the key.
    narrow = torch.int16 if rows < 2**15 else torch.int32 if rows < 2**31 else torch.int64
    key, order = torch.where(real_BS, index_BS, rows).to(narrow).flatten().sort(stable=True)
    return order, torch.searchsorted(key, torch.arange(rows + 1, device=key.device, dtype=narrow))


def _sum_rows(grads: Sequence[Tensor], index_BS: Tensor, length_B: Tensor, rows: int) -> list[Tensor]:
    """Sums the steps' parts of a gradient for each row of the table."""
    B, S = index_BS.shape
    order, begins = _sort(index_BS, torch.arange(S, device=length_B.device) < length_B[:, None], rows)
    # Where a row has hundreds of steps, several programs share them.
    shares = max(1, min(64, triton.next_power_of_2(max(1, B * S // (STEPS_OF_A_PROGRAM * rows)))))
    tables, collect = [], cast(Any, _collect)
    for grad_PBSI in grads:
        P, width = len(grad_PBSI), grad_PBSI.shape[-1]
        out = grad_PBSI.new_empty(shares, rows, width)
        IB = min(64, triton.next_power_of_2(width))
        collect[(rows, triton.cdiv(width, IB), shares)](
            grad_PBSI, order, begins, out, rows, B * S * width,
            WIDTH=width, PARTS=P, SHARES=shares, K=16, IB=IB, num_warps=2,
        )  # fmt: skip
        tables.append(out[0] if shares == 1 else out.sum(0))
    return tables


def _run_forward(inputs: Sequence[Tensor], save: bool, launch: MemoryLaunch) -> tuple[Tensor, Tensor, Tensor]:
    start_XND, (B, S) = inputs[3], inputs[4].shape
    N, D = start_XND.shape[1:]
    segments = triton.cdiv(S, launch.steps) - 1 if save else 0  # without the initial memory, which is an input
    saved = start_XND.new_empty(B, segments, N, D)
    reads_BSD, final_BND = start_XND.new_empty(B, S, D), start_XND.new_empty(B, N, D)
    cast(Any, _forward)[(B, triton.cdiv(D, launch.tile))](
        *inputs, saved, reads_BSD, final_BND, S, segments, N=N, D=D, NB=triton.next_power_of_2(N), DB=launch.tile,
        STEPS=launch.steps, OWN=int(len(start_XND) > 1), SAVE=save, num_warps=max(1, launch.warps // 2),
    )  # fmt: skip
    return reads_BSD, final_BND, saved


def _run_backward(*tensors: Tensor, launch: MemoryLaunch) -> None:
    start_XND, (B, S) = tensors[3], tensors[4].shape
    N, D = start_XND.shape[1:]
    programs = min(B * triton.cdiv(D, launch.tile), launch.programs or 8 * _multiprocessors(start_XND.device))
    scratch = start_XND.new_empty(programs, launch.steps - 1, N, launch.tile)
    cast(Any, _backward)[(programs,)](
        *tensors[:8], scratch, *tensors[8:], B, S, tensors[7].shape[1], len(tensors[9]), N=N, D=D,
        NB=triton.next_power_of_2(N), DB=launch.tile, STEPS=launch.steps, OWN=int(len(start_XND) > 1),
        num_warps=launch.warps,
    )  # fmt: skip


def _multiprocessors(device: torch.device) -> int:
    return torch.cuda.get_device_properties(device).multi_processor_count if device.type == "cuda" else 1


def fused(*inputs: Tensor, launch: MemoryLaunch | None = None) -> tuple[Tensor, Tensor]:
    """What `memory.loop` does, on a GPU."""
    launch = launch or launch_for(*inputs[3].shape[1:], inputs[0].dtype)
    forward, backward = (functools.partial(run, launch=launch) for run in (_run_forward, _run_backward))
    with torch.cuda.device_of(inputs[0]):  # Triton launches on the current device
        return apply(Kernels(launch.tile, forward, backward, _sum_rows), inputs)
