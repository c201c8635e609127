"""The memory as Triton kernels: a program a student and a tile of values, its memory in registers, the time inside.

Legend: B students, S steps, N slots, D values, Q questions, R responses, X starts (1 or B), L tiles, I values of a row.

The twin of `memory.loop`. The forward pass keeps the memory every so many steps; the backward pass takes the pieces
between from the last to the first, makes a piece's memories again in a scratch that stays in the second cache, and
walks it back. All of a step's rows are asked for one step ahead, and their indices two, so that the chain of steps does
not wait for memory. A step's gradients are written by themselves and then added up for each row of a table, in a fixed
order: there are no atomic additions, so the same input gives the same bits.
"""

# pyright: reportArgumentType=false, reportCallIssue=false, reportOperatorIssue=false, reportAttributeAccessIssue=false
# pyright: reportGeneralTypeIssues=false, reportIndexIssue=false
from dataclasses import dataclass
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """How the kernels are cut.

    Attributes:
        tile: values that a program holds, a power of 2.
        warps: of a program of the backward pass; the forward pass, which holds less, takes half of them.
        steps: between kept memories.
        programs: the most of the backward pass at a time, each with a scratch of its own; 0: eight for each
            multiprocessor.
    """

    tile: int
    warps: int
    steps: int
    programs: int = 0


def launch_for(N: int, D: int, dtype: torch.dtype = torch.float32) -> Launch:
    """A cut in which a thread holds at most 128 bytes of the memory: its gradient, the next memory and all that goes on
    between then fit the registers, few threads have to add up their sums, and larger tiles mean fewer to keep."""
    cells, slots = 128 // dtype.itemsize, triton.next_power_of_2(N)
    tile = max(1, min(32, triton.next_power_of_2(D), 8 * 32 * cells // slots))
    return Launch(tile=tile, warps=max(1, slots * tile // (32 * cells)), steps=16)


@triton.jit(do_not_specialize=["S", "pieces"])
def _forward(
    w, e, a, start, question, row, length, kept, reads, final, S, pieces, N: tl.constexpr, D: tl.constexpr,
    NB: tl.constexpr, DB: tl.constexpr, STEPS: tl.constexpr, OWN: tl.constexpr, KEEP: tl.constexpr,
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
    w_next = tl.load(w + q * N + n, mask=slot & (steps > 0), other=0.0)
    e_next = tl.load(e + r * D + d, mask=value & (steps > 0), other=0.0)
    a_next = tl.load(a + r * D + d, mask=value & (steps > 0), other=0.0)
    q, r = tl.load(question + 1, mask=steps > 1, other=0), tl.load(row + 1, mask=steps > 1, other=0)
    t = steps * 0
    while t < steps:
        w_N, e_D, a_D = w_next, e_next, a_next
        w_next = tl.load(w + q * N + n, mask=slot, other=0.0)
        e_next = tl.load(e + r * D + d, mask=value, other=0.0)
        a_next = tl.load(a + r * D + d, mask=value, other=0.0)
        q = tl.load(question + t + 2, mask=t + 2 < steps, other=0)
        r = tl.load(row + t + 2, mask=t + 2 < steps, other=0)
        if KEEP:  # noqa: SIM102
            if (t > 0) & (t % STEPS == 0):
                tl.store(kept + (b * pieces + t // STEPS - 1) * (N * D) + cell, M, mask=inside)
        tl.store(reads + (b * S + t) * D + d, tl.sum(w_N[:, None] * M, axis=0), mask=value)
        M += w_N[:, None] * (a_D[None, :] - e_D[None, :] * M)
        t += 1
    while t < S:
        tl.store(reads + (b * S + t) * D + d, tl.zeros((DB,), dtype=reads.dtype.element_ty), mask=value)
        t += 1
    tl.store(final + b * (N * D) + cell, M, mask=inside)


@triton.jit(do_not_specialize=["B", "S", "pieces", "final"])
def _backward(
    w, e, a, start, question, row, length, kept, past, rbar, fbar, wbar, ebar, abar, sbar,
    B, S, pieces, final, N: tl.constexpr, D: tl.constexpr, NB: tl.constexpr, DB: tl.constexpr, STEPS: tl.constexpr,
    OWN: tl.constexpr,
):  # fmt: skip
    tiles: tl.constexpr = (D + DB - 1) // DB
    n, i = tl.arange(0, NB), tl.arange(0, DB)
    slot = n < N
    # The scratch has the shape of the tile, so that it needs no care at the edge of D.
    past += tl.program_id(0).to(tl.int64) * ((STEPS - 1) * N * DB)
    spot = n[:, None] * DB + i[None, :]
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
        G = tl.load(fbar + b * (N * D) + cell, mask=inside & (final > 0), other=0.0)
        piece = (steps + STEPS - 1) // STEPS - 1
        while piece >= 0:
            low = piece * STEPS
            last = tl.minimum(low + STEPS, steps) - 1
            if piece > 0:
                M = tl.load(kept + (b * pieces + piece - 1) * (N * D) + cell, mask=inside, other=0.0)
            else:
                M = tl.load(start + b * (OWN * N * D) + cell, mask=inside, other=0.0)

            q, r = tl.load(asked + low), tl.load(given + low)
            w_next = tl.load(w + q * N + n, mask=slot, other=0.0)
            e_next = tl.load(e + r * D + d, mask=value, other=0.0)
            a_next = tl.load(a + r * D + d, mask=value, other=0.0)
            ahead = tl.minimum(low + 1, last)
            q, r = tl.load(asked + ahead), tl.load(given + ahead)
            t = low
            while t < last:
                w_N, e_D, a_D = w_next, e_next, a_next
                w_next = tl.load(w + q * N + n, mask=slot, other=0.0)
                e_next = tl.load(e + r * D + d, mask=value, other=0.0)
                a_next = tl.load(a + r * D + d, mask=value, other=0.0)
                ahead = tl.minimum(t + 2, last)
                q, r = tl.load(asked + ahead), tl.load(given + ahead)
                tl.store(past + (t - low) * (N * DB) + spot, M, mask=slot[:, None])
                M += w_N[:, None] * (a_D[None, :] - e_D[None, :] * M)
                t += 1
            tl.debug_barrier()  # another thread may read what one has stored

            # Here M is the memory before the last step, and w, e, a of that step are there already.
            r_next = tl.load(rbar + (b * S + last) * D + d, mask=value, other=0.0)
            ahead = tl.maximum(last - 1, low)
            q, r = tl.load(asked + ahead), tl.load(given + ahead)
            t = last
            while t >= low:
                w_N, e_D, a_D, r_D = w_next, e_next, a_next, r_next
                before = tl.maximum(t - 1, low)
                M_next = tl.load(past + (before - low) * (N * DB) + spot, mask=slot[:, None] & (t > low), other=0.0)
                w_next = tl.load(w + q * N + n, mask=slot, other=0.0)
                e_next = tl.load(e + r * D + d, mask=value, other=0.0)
                a_next = tl.load(a + r * D + d, mask=value, other=0.0)
                r_next = tl.load(rbar + (b * S + before) * D + d, mask=value, other=0.0)
                ahead = tl.maximum(t - 2, low)
                q, r = tl.load(asked + ahead), tl.load(given + ahead)
                w_ND = G * (a_D[None, :] - e_D[None, :] * M) + r_D[None, :] * M
                H = w_N[:, None] * G
                at = b * S + t
                tl.store(wbar + (tile * B + b) * S * N + t * N + n, tl.sum(w_ND, axis=1), mask=slot)
                tl.store(ebar + at * D + d, -tl.sum(H * M, axis=0), mask=value)
                tl.store(abar + at * D + d, tl.sum(H, axis=0), mask=value)
                G += w_N[:, None] * r_D[None, :] - e_D[None, :] * H
                M = M_next
                t -= 1
            tl.debug_barrier()
            piece -= 1
        tl.store(sbar + b * (N * D) + cell, G, mask=inside)
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
            place = p * part_stride.to(tl.int64) + step[:, None] * WIDTH + i[None, :]
            total += tl.load(parts + place, mask=(k < end)[:, None] & (i < WIDTH)[None, :], other=0.0)
        first += K
    tl.store(out + (tl.program_id(2) * rows + r) * WIDTH + i, tl.sum(total, axis=0), mask=i < WIDTH)


def _sort(index_BS: Tensor, keep_BS: Tensor, rows: int) -> tuple[Tensor, Tensor]:
    """The steps in the order of their rows, then their own, and where each row's begin; padding comes last."""
    # A radix sort takes a pass for each byte of the key.
    narrow = torch.int16 if rows < 2**15 else torch.int32 if rows < 2**31 else torch.int64
    key, order = torch.where(keep_BS, index_BS, rows).to(narrow).flatten().sort(stable=True)
    return order, torch.searchsorted(key, torch.arange(rows + 1, device=key.device, dtype=narrow))


def _table(parts_PBSI: Tensor, order: Tensor, begins: Tensor, rows: int) -> Tensor:
    """Adds the steps' parts of a gradient up, for each row of the table."""
    P, B, S, width = parts_PBSI.shape
    # Where a row has hundreds of steps, several programs share them.
    shares = max(1, min(64, triton.next_power_of_2(max(1, B * S // (128 * rows)))))
    out = parts_PBSI.new_empty(shares, rows, width)
    IB = min(64, triton.next_power_of_2(width))
    collect: Any = _collect
    collect[(rows, triton.cdiv(width, IB), shares)](
        parts_PBSI, order, begins, out, rows, B * S * width,
        WIDTH=width, PARTS=P, SHARES=shares, K=16, IB=IB, num_warps=2,
    )  # fmt: skip
    return out[0] if shares == 1 else out.sum(0)


class _Memory(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, launch: Launch, keep: bool, w_QN, e_RD, a_RD, start_XND, question_BS, row_BS, length_B):
        given = [each.contiguous() for each in (w_QN, e_RD, a_RD, start_XND, question_BS, row_BS, length_B)]
        B, S = question_BS.shape
        N, D = start_XND.shape[1:]
        pieces = triton.cdiv(S, launch.steps) - 1 if keep else 0  # without the start, which is there anyway
        kept = w_QN.new_empty(B, pieces, N, D)
        reads_BSD, final_BND = w_QN.new_empty(B, S, D), w_QN.new_empty(B, N, D)
        kernel: Any = _forward
        kernel[(B, triton.cdiv(D, launch.tile))](
            *given, kept, reads_BSD, final_BND, S, pieces, N=N, D=D, NB=triton.next_power_of_2(N), DB=launch.tile,
            STEPS=launch.steps, OWN=int(len(start_XND) > 1), KEEP=keep, num_warps=max(1, launch.warps // 2),
        )  # fmt: skip
        if keep:
            ctx.launch = launch
            ctx.set_materialize_grads(False)
            ctx.save_for_backward(*given, kept)
        return reads_BSD, final_BND

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *bars: Tensor | None):
        *given, kept = ctx.saved_tensors
        launch: Launch = ctx.launch
        w_QN, e_RD, _, start_XND, question_BS, row_BS, length_B = given
        B, S = question_BS.shape
        N, D = start_XND.shape[1:]
        tiles = triton.cdiv(D, launch.tile)
        rbar_BSD = w_QN.new_zeros(B, S, D) if bars[0] is None else bars[0].contiguous()
        fbar_BND = w_QN.new_empty(0, N, D) if bars[1] is None else bars[1].contiguous()
        wbar_LBSN, sbar_BND = w_QN.new_empty(tiles, B, S, N), w_QN.new_empty(B, N, D)
        ebar_1BSD, abar_1BSD = w_QN.new_empty(1, B, S, D), w_QN.new_empty(1, B, S, D)
        programs = min(B * tiles, launch.programs or 8 * _multiprocessors(w_QN.device))
        past = w_QN.new_empty(programs, launch.steps - 1, N, launch.tile)
        kernel: Any = _backward
        kernel[(programs,)](
            *given, kept, past, rbar_BSD, fbar_BND, wbar_LBSN, ebar_1BSD, abar_1BSD, sbar_BND,
            B, S, kept.shape[1], len(fbar_BND), N=N, D=D, NB=triton.next_power_of_2(N), DB=launch.tile,
            STEPS=launch.steps, OWN=int(len(start_XND) > 1), num_warps=launch.warps,
        )  # fmt: skip
        del past
        keep_BS = torch.arange(S, device=length_B.device) < length_B[:, None]
        asked, answered = _sort(question_BS, keep_BS, len(w_QN)), _sort(row_BS, keep_BS, len(e_RD))
        if len(start_XND) < B:
            sbar_BND = sbar_BND.sum(0, keepdim=True)
        return (
            None,
            None,
            _table(wbar_LBSN, *asked, len(w_QN)),
            _table(ebar_1BSD, *answered, len(e_RD)),
            _table(abar_1BSD, *answered, len(e_RD)),
            sbar_BND,
            None,
            None,
            None,
        )


def _multiprocessors(device: torch.device) -> int:
    return torch.cuda.get_device_properties(device).multi_processor_count if device.type == "cuda" else 1


def fused(
    w_QN: Tensor, e_RD: Tensor, a_RD: Tensor, start_XND: Tensor, question_BS: Tensor, row_BS: Tensor, length_B: Tensor,
    launch: Launch | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """What `memory.loop` does, on a GPU."""
    tables = (w_QN, e_RD, a_RD, start_XND)
    keep = torch.is_grad_enabled() and any(each.requires_grad for each in tables)
    launch = launch or launch_for(*start_XND.shape[1:], w_QN.dtype)
    with torch.cuda.device_of(w_QN):  # Triton launches on the current device
        return _Memory.apply(launch, keep, *tables, question_BS, row_BS, length_B)
