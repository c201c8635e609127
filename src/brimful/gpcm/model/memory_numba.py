"""The memory on the CPU, compiled: one student and one tile of values at a time, shared out over the threads.

Legend: B students, S steps, N slots, D values, Q questions, R responses, X starts (1 or B), L tiles, P parts, I values
of a row.

The twin of `memory.loop`. The forward pass keeps the memory every so many steps; the backward pass takes the pieces
between from the last to the first, makes a piece's memories again, and walks it back. A step's gradients are written by
themselves and then added up for each row of a table, in the order of the steps: no result depends on the number of
threads, nor on which of them did what.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numba
import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

STEPS = 16
"""Steps between kept memories."""
TILE = 64
"""Values in a tile: a constant, so that the compiler unrolls, and with its gradient inside the first cache."""
_W = TILE
_FAST: Any = {"reassoc", "contract", "nsz"}
_SETTINGS: Any = {"fastmath": _FAST, "error_model": "numpy", "cache": True}
_INNER: Any = {**_SETTINGS, "no_cpython_wrapper": True}
_OUTER: Any = {**_SETTINGS, "nogil": True}
_compiled: Any = numba.njit(**_INNER)
_outer: Any = numba.njit(**_OUTER)


@_compiled
def _gather(V, weight, width, first, w, e, a, q, r):
    """A step's rows of the tables: e to the second row of V, a to the third. What is past the edge stays 0."""
    for n in range(w.shape[1]):
        weight[n] = w[q, n]
    for d in range(width):
        V[_W + d] = e[r, first + d]
        V[2 * _W + d] = a[r, first + d]


@_compiled
def _step(V, weight, before, after):
    """Reads into the first row of V, and writes. Four slots at a time: a value, once read, is used four times. The two
    memories are two, so that the compiler may work on many values at once."""
    for d in range(_W):
        V[d] = 0.0
    for n in range(0, len(weight), 4):
        w0, w1, w2, w3 = weight[n], weight[n + 1], weight[n + 2], weight[n + 3]
        old, new = before[n * _W : (n + 4) * _W], after[n * _W : (n + 4) * _W]
        for d in range(_W):
            e, a = V[_W + d], V[2 * _W + d]
            m0, m1, m2, m3 = old[d], old[_W + d], old[2 * _W + d], old[3 * _W + d]
            V[d] += (w0 * m0 + w1 * m1) + (w2 * m2 + w3 * m3)
            new[d] = m0 + w0 * (a - e * m0)
            new[_W + d] = m1 + w1 * (a - e * m1)
            new[2 * _W + d] = m2 + w2 * (a - e * m2)
            new[3 * _W + d] = m3 + w3 * (a - e * m3)


@_compiled
def _back(V, weight, M, G, wbar):
    """One step back. V: the read's gradient, e, a, and, to be filled, the gradients of e and a; M: the memory before
    the step; G: the gradient of the memory, after the step and, on return, before it."""
    for d in range(3 * _W, 5 * _W):
        V[d] = 0.0
    zero = V[3 * _W]
    for n in range(0, len(weight), 4):
        w0, w1, w2, w3 = weight[n], weight[n + 1], weight[n + 2], weight[n + 3]
        m, g = M[n * _W : (n + 4) * _W], G[n * _W : (n + 4) * _W]
        s0, s1, s2, s3 = zero, zero, zero, zero
        for d in range(_W):
            r, e, a = V[d], V[_W + d], V[2 * _W + d]
            m0, m1, m2, m3 = m[d], m[_W + d], m[2 * _W + d], m[3 * _W + d]
            g0, g1, g2, g3 = g[d], g[_W + d], g[2 * _W + d], g[3 * _W + d]
            s0 += g0 * (a - e * m0) + r * m0
            s1 += g1 * (a - e * m1) + r * m1
            s2 += g2 * (a - e * m2) + r * m2
            s3 += g3 * (a - e * m3) + r * m3
            h0, h1, h2, h3 = w0 * g0, w1 * g1, w2 * g2, w3 * g3
            V[3 * _W + d] -= (h0 * m0 + h1 * m1) + (h2 * m2 + h3 * m3)
            V[4 * _W + d] += (h0 + h1) + (h2 + h3)
            g[d] = g0 + (w0 * r - e * h0)
            g[_W + d] = g1 + (w1 * r - e * h1)
            g[2 * _W + d] = g2 + (w2 * r - e * h2)
            g[3 * _W + d] = g3 + (w3 * r - e * h3)
        wbar[n], wbar[n + 1], wbar[n + 2], wbar[n + 3] = s0, s1, s2, s3


@_compiled
def _load(tile, matrix, first, width):
    for n in range(matrix.shape[0]):
        for d in range(width):
            tile[n * _W + d] = matrix[n, first + d]


@_compiled
def _save(tile, matrix, first, width):
    for n in range(matrix.shape[0]):
        for d in range(width):
            matrix[n, first + d] = tile[n * _W + d]


@_compiled
def _copy(source, target):
    for i in range(len(source)):
        target[i] = source[i]


@_outer
def _forward(begin, end, w, e, a, start, question, row, length, kept, reads, final):
    N, D = start.shape[1:]
    tiles, up = -(-D // _W), -(-N // 4) * 4
    M, V, weight = np.zeros((2, up * _W), w.dtype), np.zeros(3 * _W, w.dtype), np.zeros(up, w.dtype)
    for item in range(begin, end):
        b, first = item // tiles, item % tiles * _W
        width = min(_W, D - first)
        V[:], M[:] = 0.0, 0.0
        _load(M[0], start[b % len(start)], first, width)
        for t in range(length[b]):
            if kept.shape[1] > 0 and t > 0 and t % STEPS == 0:
                _copy(M[t % 2], kept[item, t // STEPS - 1])
            _gather(V, weight, width, first, w, e, a, question[b, t], row[b, t])
            _step(V, weight, M[t % 2], M[1 - t % 2])
            for d in range(width):
                reads[b, t, first + d] = V[d]
        _save(M[length[b] % 2], final[b], first, width)


@_outer
def _backward(
    begin, end, w, e, a, start, question, row, length, kept, rbar, fbar, wbar, ebar, abar, sbar
):  # fmt: skip
    N, D = start.shape[1:]
    tiles, up = -(-D // _W), -(-N // 4) * 4
    past, G = np.zeros((STEPS + 1, up * _W), w.dtype), np.zeros(up * _W, w.dtype)
    V, weight, own = np.zeros(5 * _W, w.dtype), np.zeros(up, w.dtype), np.zeros(up, w.dtype)
    for item in range(begin, end):
        b, tile = item // tiles, item % tiles
        first = tile * _W
        width = min(_W, D - first)
        V[:], G[:] = 0.0, 0.0
        if len(fbar) > 0:
            _load(G, fbar[b], first, width)
        for piece in range(-(-length[b] // STEPS) - 1, -1, -1):
            low, high = piece * STEPS, min((piece + 1) * STEPS, length[b])
            if piece > 0:
                _copy(kept[item, piece - 1], past[0])
            else:
                past[0, :] = 0.0
                _load(past[0], start[b % len(start)], first, width)
            for t in range(low, high - 1):
                _gather(V, weight, width, first, w, e, a, question[b, t], row[b, t])
                _step(V, weight, past[t - low], past[t - low + 1])
            for t in range(high - 1, low - 1, -1):
                _gather(V, weight, width, first, w, e, a, question[b, t], row[b, t])
                for d in range(width):
                    V[d] = rbar[b, t, first + d]
                for d in range(width, _W):
                    V[d] = 0.0
                _back(V, weight, past[t - low], G, own)
                for n in range(N):
                    wbar[tile, b, t, n] = own[n]
                for d in range(width):
                    ebar[0, b, t, first + d] = V[3 * _W + d]
                    abar[0, b, t, first + d] = V[4 * _W + d]
        _save(G, sbar[b], first, width)


@_outer
def _sort(index, length, rows):
    """The steps in the order of their rows, then their own; and where each row's begin."""
    S = index.shape[1]
    begins = np.zeros(rows + 1, np.int64)
    for b in range(len(length)):
        for t in range(length[b]):
            begins[index[b, t] + 1] += 1
    for r in range(rows):
        begins[r + 1] += begins[r]
    order, place = np.empty(begins[rows], np.int64), begins[:rows].copy()
    for b in range(len(length)):
        for t in range(length[b]):
            r = index[b, t]
            order[place[r]] = b * S + t
            place[r] += 1
    return order, begins


@_outer
def _collect(begin, end, order, begins, parts, out):
    """Rows of a table's gradient: the sums of their steps' parts, in double precision."""
    total = np.empty(parts.shape[2])
    for r in range(begin, end):
        total[:] = 0.0
        for k in range(begins[r], begins[r + 1]):
            for p in range(len(parts)):
                part = parts[p, order[k]]
                for i in range(len(total)):
                    total[i] += part[i]
        for i in range(len(total)):
            out[r, i] = total[i]


def _share(count: int, work: Callable[[int, int], None]) -> None:
    """Does `work(begin, end)` over all of range(count), by as many threads as torch has."""
    threads = min(torch.get_num_threads(), count)
    size = -(-count // (4 * threads)) if threads else 1  # smaller shares than threads: students differ in length
    parts = [(begin, min(begin + size, count)) for begin in range(0, count, size)]
    if threads < 2:
        for part in parts:
            work(*part)
    else:
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(lambda part: work(*part), parts))


def _table(index: np.ndarray, length: np.ndarray, parts_PBSI: Tensor, rows: int) -> Tensor:
    """Adds the steps' parts of a gradient up, for each row of the table."""
    P, B, S, width = parts_PBSI.shape
    out = parts_PBSI.new_empty(rows, width)
    order, begins = _sort(index, length, rows)
    parts, target = parts_PBSI.view(P, B * S, width).numpy(), out.numpy()
    _share(rows, lambda begin, end: _collect(begin, end, order, begins, parts, target))
    return out


class _Memory(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, keep: bool, w_QN, e_RD, a_RD, start_XND, question_BS, row_BS, length_B):
        given = [each.contiguous() for each in (w_QN, e_RD, a_RD, start_XND, question_BS, row_BS, length_B)]
        arrays = [each.numpy() for each in given]
        B, S = question_BS.shape
        N, D = start_XND.shape[1:]
        items = B * -(-D // _W)
        # Nothing is kept of the start, which is there anyway.
        kept = w_QN.new_empty(items, max(0, -(-S // STEPS) - 1) if keep else 0, -(-N // 4) * 4 * _W)
        reads_BSD, final_BND = w_QN.new_zeros(B, S, D), w_QN.new_empty(B, N, D)
        outs = [each.numpy() for each in (kept, reads_BSD, final_BND)]
        _share(items, lambda begin, end: _forward(begin, end, *arrays, *outs))
        if keep:
            ctx.set_materialize_grads(False)
            ctx.save_for_backward(*given, kept)
        return reads_BSD, final_BND

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *bars: Tensor | None):
        *given, kept = ctx.saved_tensors
        w_QN, e_RD, _, start_XND, question_BS, _, _ = given
        arrays = [each.numpy() for each in given]
        B, S = question_BS.shape
        N, D = start_XND.shape[1:]
        tiles = -(-D // _W)
        rbar_BSD = w_QN.new_zeros(B, S, D) if bars[0] is None else bars[0].contiguous()
        fbar_BND = w_QN.new_empty(0, N, D) if bars[1] is None else bars[1].contiguous()
        wbar_LBSN, sbar_BND = w_QN.new_empty(tiles, B, S, N), w_QN.new_empty(B, N, D)
        ebar_1BSD, abar_1BSD = w_QN.new_empty(1, B, S, D), w_QN.new_empty(1, B, S, D)
        tensors = (kept, rbar_BSD, fbar_BND, wbar_LBSN, ebar_1BSD, abar_1BSD, sbar_BND)
        outs = [each.numpy() for each in tensors]
        _share(B * tiles, lambda begin, end: _backward(begin, end, *arrays, *outs))
        question, row, length = arrays[4:]
        if len(start_XND) < B:
            once = np.full((1, B), 0), np.full(1, B)
            sbar_BND = _table(*once, sbar_BND.view(1, 1, B, N * D), 1).view(1, N, D)
        return (
            None,
            _table(question, length, wbar_LBSN, len(w_QN)),
            _table(row, length, ebar_1BSD, len(e_RD)),
            _table(row, length, abar_1BSD, len(e_RD)),
            sbar_BND,
            None,
            None,
            None,
        )


def native(
    w_QN: Tensor, e_RD: Tensor, a_RD: Tensor, start_XND: Tensor, question_BS: Tensor, row_BS: Tensor, length_B: Tensor
) -> tuple[Tensor, Tensor]:
    """What `memory.loop` does, on the CPU."""
    tables = (w_QN, e_RD, a_RD, start_XND)
    keep = torch.is_grad_enabled() and any(each.requires_grad for each in tables)
    return _Memory.apply(keep, *tables, question_BS, row_BS, length_B)
