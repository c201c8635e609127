"""The memory on the CPU, compiled by numba: one student and one tile of values at a time, distributed over threads.

Legend: B students, S steps, N slots, D values, Q questions, R responses, X initial states (1 or B), L tiles,
P parts, I values of a row.

Computes what `memory.loop` does. The forward pass saves the memory every so many steps; the backward pass takes the
segments between from the last to the first, recomputes a segment's memories, and goes back through it. The gradients of
each step are written separately and then summed for each row of a table, in the order of the steps: no result depends
on the number of threads or on how work is distributed over them.
"""

import functools
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ...core.base.compilers.numba_cache import cached_njit
from .memory_autograd import Kernels, apply

STEPS = 16
"""Steps between saved memories."""
TILE = 64
"""Values in a tile: a constant, so that the compiler unrolls, and with its gradient inside the first cache."""
_W = TILE
_SETTINGS: Any = {"fastmath": {"reassoc", "contract", "nsz"}, "error_model": "numpy"}
_compiled = cached_njit(**_SETTINGS, no_cpython_wrapper=True)
_outer = cached_njit(**_SETTINGS, nogil=True)


@_compiled
def _gather(V, weight, width, first, w, e, a, q, r):
    """A step's rows of the tables: e to the second row of V, a to the third. What is states the edge stays 0."""
    for n in range(w.shape[1]):
        weight[n] = w[q, n]
    for d in range(width):
        V[_W + d] = e[r, first + d]
        V[2 * _W + d] = a[r, first + d]


@_compiled
def _assign(target, source):
    """Writes one array into another of the same length. By itself numba takes seconds to compile an assignment of
    arrays: it comes with the text of an error that has the shapes of both."""
    for place in range(len(target)):
        target[place] = source[place]


@_compiled
def _to_tile(state, values, first, width):
    """A tile of a student's values into a memory."""
    for n in range(len(values)):
        _assign(state[n * _W : n * _W + width], values[n, first : first + width])


@_compiled
def _from_tile(values, state, first, width):
    """The other way."""
    for n in range(len(values)):
        _assign(values[n, first : first + width], state[n * _W : n * _W + width])


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
def _back(V, weight, M, G, grad_w):
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
        grad_w[n], grad_w[n + 1], grad_w[n + 2], grad_w[n + 3] = s0, s1, s2, s3


@_outer
def _forward(begin, end, w, e, a, start, question, row, length, offset, saved, reads, final):
    N, D = start.shape[1:]
    tiles, up = -(-D // _W), -(-N // 4) * 4
    M, V, weight = np.zeros((2, up * _W), w.dtype), np.zeros(3 * _W, w.dtype), np.zeros(up, w.dtype)
    for item in range(begin, end):
        b, first = item // tiles, item % tiles * _W
        width = min(_W, D - first)
        V[:], M[:] = 0.0, 0.0
        _to_tile(M[0], start[b % len(start)], first, width)
        for t in range(length[b]):
            if saved.shape[1] > 0 and t > 0 and t % STEPS == 0:
                _assign(saved[item, t // STEPS - 1], M[t % 2])
            at = offset[b] + t
            _gather(V, weight, width, first, w, e, a, question[at], row[at])
            _step(V, weight, M[t % 2], M[1 - t % 2])
            for d in range(width):
                reads[at, first + d] = V[d]
        _from_tile(final[b], M[length[b] % 2], first, width)


@_outer
def _backward(
    begin, end, w, e, a, start, question, row, length, offset, saved, grad_r, grad_f, grad_w, grad_e, grad_a, grad_s
):  # fmt: skip
    N, D = start.shape[1:]
    tiles, up = -(-D // _W), -(-N // 4) * 4
    states, G = np.zeros((STEPS + 1, up * _W), w.dtype), np.zeros(up * _W, w.dtype)
    V, weight, grad_weight = np.zeros(5 * _W, w.dtype), np.zeros(up, w.dtype), np.zeros(up, w.dtype)
    for item in range(begin, end):
        b, tile = item // tiles, item % tiles
        first = tile * _W
        width = min(_W, D - first)
        V[:], G[:] = 0.0, 0.0
        if len(grad_f) > 0:
            _to_tile(G, grad_f[b], first, width)
        for segment in range(-(-length[b] // STEPS) - 1, -1, -1):
            low, high = segment * STEPS, min((segment + 1) * STEPS, length[b])
            if segment > 0:
                _assign(states[0], saved[item, segment - 1])
            else:
                states[0, :] = 0.0
                _to_tile(states[0], start[b % len(start)], first, width)
            for t in range(low, high - 1):
                at = offset[b] + t
                _gather(V, weight, width, first, w, e, a, question[at], row[at])
                _step(V, weight, states[t - low], states[t - low + 1])
            for t in range(high - 1, low - 1, -1):
                at = offset[b] + t
                _gather(V, weight, width, first, w, e, a, question[at], row[at])
                for d in range(width):
                    V[d] = grad_r[at, first + d]
                for d in range(width, _W):
                    V[d] = 0.0
                _back(V, weight, states[t - low], G, grad_weight)
                for n in range(N):
                    grad_w[tile, at, n] = grad_weight[n]
                for d in range(width):
                    grad_e[0, at, first + d] = V[3 * _W + d]
                    grad_a[0, at, first + d] = V[4 * _W + d]
        _from_tile(grad_s[b], G, first, width)


@_outer
def _sort(index, length, offset, rows):
    """The steps in the order of their rows, then their own; and where each row's begin."""
    begins = np.zeros(rows + 1, np.int64)
    for b in range(len(length)):
        for t in range(length[b]):
            begins[index[offset[b] + t] + 1] += 1
    for r in range(rows):
        begins[r + 1] += begins[r]
    order, cursor = np.empty(begins[rows], np.int64), begins[:rows].copy()
    for b in range(len(length)):
        for t in range(length[b]):
            r = index[offset[b] + t]
            order[cursor[r]] = offset[b] + t
            cursor[r] += 1
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


def _parallel_for(count: int, work: Callable[[int, int], None]) -> None:
    """Calls `work(begin, end)` over all of range(count), with as many threads as torch has."""
    threads = min(torch.get_num_threads(), count)
    size = -(-count // (4 * threads)) if threads else 1  # smaller shares than threads: students differ in length
    parts = [(begin, min(begin + size, count)) for begin in range(0, count, size)]
    if threads < 2:
        for part in parts:
            work(*part)
    else:
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(lambda part: work(*part), parts))


def _offsets(index: Tensor, length_B: Tensor) -> Tensor:
    """Where each student's steps begin in the flat index: at equal distances where it is padded, else one after the
    other."""
    if index.ndim == 2:
        return torch.arange(len(length_B)) * index.shape[1]
    return length_B.cumsum(0) - length_B


def _run_forward(inputs: Sequence[Tensor], save: bool) -> tuple[Tensor, Tensor, Tensor]:
    *tables, question, row, length_B = inputs
    B, start_XND = len(length_B), tables[3]
    N, D = start_XND.shape[1:]
    items, segments = B * -(-D // _W), max(0, -(-int(length_B.max()) // STEPS) - 1)
    # The initial memory is not saved, since it is an input.
    saved = start_XND.new_empty(items, segments if save else 0, -(-N // 4) * 4 * _W)
    reads = start_XND.new_zeros(*question.shape, D) if question.ndim == 2 else start_XND.new_empty(len(question), D)
    final_BND = start_XND.new_empty(B, N, D)
    steps = question.flatten(), row.flatten(), length_B, _offsets(question, length_B)
    arrays = [tensor.numpy() for tensor in (*tables, *steps, saved, reads.view(-1, D), final_BND)]
    _parallel_for(items, lambda begin, end: _forward(begin, end, *arrays))
    return reads, final_BND, saved


def _run_backward(*tensors: Tensor) -> None:
    question, row, length_B, saved, grad_reads, grad_final, *step_grads, grad_start = tensors[4:]
    steps = question.flatten(), row.flatten(), length_B, _offsets(question, length_B)
    flat = (grad.reshape(len(grad), -1, grad.shape[-1]) for grad in step_grads)
    grads = grad_reads.reshape(-1, grad_reads.shape[-1]), grad_final, *flat, grad_start
    arrays = [tensor.numpy() for tensor in (*tensors[:4], *steps, saved, *grads)]
    _parallel_for(len(saved), lambda begin, end: _backward(begin, end, *arrays))


def _sum_rows(grads: Sequence[Tensor], index: Tensor, length_B: Tensor, rows: int) -> list[Tensor]:
    order, begins = _sort(index.flatten().numpy(), length_B.numpy(), _offsets(index, length_B).numpy(), rows)
    tables = []
    for grad in grads:
        tables.append(grad.new_empty(rows, grad.shape[-1]))
        parts, table = grad.reshape(len(grad), -1, grad.shape[-1]).numpy(), tables[-1].numpy()
        _parallel_for(rows, functools.partial(_collect, order=order, begins=begins, parts=parts, out=table))
    return tables


def _sum_students(grad_BND: Tensor) -> Tensor:
    B, N, D = grad_BND.shape
    index_B = torch.zeros(B, dtype=torch.int64)
    return _sum_rows([grad_BND.view(1, B, N * D)], index_B, torch.tensor([B]), 1)[0].view(1, N, D)


def native(*inputs: Tensor) -> tuple[Tensor, Tensor]:
    """What `memory.loop` does, on the CPU. Questions and rows may also be those of all students' steps one after the
    other, (T,), without padding; so are the reads then, (T, D)."""
    return apply(Kernels(TILE, _run_forward, _run_backward, _sum_rows, _sum_students), inputs)
