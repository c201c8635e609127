"""Likelihood and derivatives as a Triton kernel: one lane per task, its matrix in blocks interleaved with its
neighbors'.

The twin of `likelihood.evaluate` in `gp.model`, for kernels of one stationary shape and a mean of at most two
coefficients. A lane factors its covariance (`cholesky.py`), inverts the factor in place (W = L^-1), and forms the
blocks of K^-1 = W^T W one by one, each used for the gradient and then discarded. Only the factor is ever stored, and no
lane waits for another.
"""

# pyright: reportArgumentType=false, reportCallIssue=false, reportOperatorIssue=false, reportAttributeAccessIssue=false
# pyright: reportGeneralTypeIssues=false, reportIndexIssue=false
from collections import namedtuple
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from ..model.kernels import Kernel
from ..model.shapes import SHAPES
from ..optimize import matrices
from . import blocks
from .blocks import LANES
from .cholesky import (
    add_squared_distances,
    at,
    axpy4,
    factor,
    fit_mean,
    invert_factor,
    known4,
    mask4,
    scale,
    squared_distances,
    times4,
    values,
)
from .layout import ActiveTasks, TaskLayout

MOST_POINTS = 128
SIZES = ["begin", "T", "XT", "XN", "NB", "NP", "workspace"]
"""Numbers for which a kernel is not compiled again."""


def serves(kernel: object, points: int, regressors: int) -> bool:
    """Whether the fused kernel can evaluate it."""
    return points <= MOST_POINTS and matrices.serves(kernel, regressors)


@triton.jit
def _noise_or_zero(k, noise):
    return (
        tl.where(k[0] == float("-inf"), 0.0, noise + k[0]), tl.where(k[1] == float("-inf"), 0.0, noise + k[1]),
        tl.where(k[2] == float("-inf"), 0.0, noise + k[2]), tl.where(k[3] == float("-inf"), 0.0, noise + k[3]),
    )  # fmt: skip


@triton.jit
def _outer4(g, a, b):
    return (g[0] - a * b[0], g[1] - a * b[1], g[2] - a * b[2], g[3] - a * b[3])


@triton.jit
def _outer(G, a, b):
    """G - a b^T."""
    return blocks.from_rows(
        _outer4(blocks.row(G, 0), a[0], b), _outer4(blocks.row(G, 1), a[1], b),
        _outer4(blocks.row(G, 2), a[2], b), _outer4(blocks.row(G, 3), a[3], b),
    )  # fmt: skip


@triton.jit
def _times(A, B):
    return (
        A[0] * B[0], A[1] * B[1], A[2] * B[2], A[3] * B[3], A[4] * B[4], A[5] * B[5], A[6] * B[6], A[7] * B[7],
        A[8] * B[8], A[9] * B[9], A[10] * B[10], A[11] * B[11], A[12] * B[12], A[13] * B[13], A[14] * B[14],
        A[15] * B[15],
    )  # fmt: skip


@triton.jit
def _inner(A, B):
    """The sum of products of two blocks."""
    return (
        blocks.dot4(blocks.row(A, 0), blocks.row(B, 0)) + blocks.dot4(blocks.row(A, 1), blocks.row(B, 1))
        + blocks.dot4(blocks.row(A, 2), blocks.row(B, 2)) + blocks.dot4(blocks.row(A, 3), blocks.row(B, 3))
    )  # fmt: skip


@triton.jit
def _derive(
    x, y, known, theta, A, Z, scales, out_gradient, out_info, t, T, XN, nb, NP, c0, c1, n00, n01, n11,
    D: tl.constexpr, P: tl.constexpr, Q: tl.constexpr, SHAPE: tl.constexpr, ARD: tl.constexpr,
):  # fmt: skip
    """Gradient and average information from the factored covariance."""
    weights = scales + (P - 2) * LANES
    U = weights + NP * LANES  # dK weights, by each parameter; at last L^-1 of those
    totals = U + P * NP * LANES
    variance, noise = tl.exp(tl.load(theta)), tl.exp(tl.load(theta + P - 1))
    zero = variance * 0.0
    invert_factor(A, nb, zero)

    for i in range(nb):
        a = (zero, zero, zero, zero)
        for k in range(i, nb):
            z = blocks.load4(Z + 4 * k * LANES)
            if Q > 0:
                z = axpy4(-c0, blocks.load4(Z + (NP + 4 * k) * LANES), z)
            if Q > 1:
                z = axpy4(-c1, blocks.load4(Z + (2 * NP + 4 * k) * LANES), z)
            a = blocks.add_av(a, blocks.transpose(blocks.load(at(A, k, i))), z)
        blocks.store4(weights + 4 * i * LANES, a)
        for s in tl.static_range(1, P - 1):
            blocks.store4(U + (s * NP + 4 * i) * LANES, (zero, zero, zero, zero))
    for s in tl.static_range(1, P - 1):
        tl.store(totals + s * LANES, zero)

    # The trace of the inverse, plain and with the noise of each point; weights times dK weights by the variance, and
    # times weights.
    count, trace, floors, moved, straight = zero, zero, zero, zero, zero
    for i in range(nb):
        ki = known4(known, i, t, T)
        mi = mask4(ki)
        ai = blocks.load4(weights + 4 * i * LANES)
        for j in range(i + 1):
            G = blocks.zeros(zero)
            for k in range(i, nb):
                V = blocks.load(at(A, k, j))
                G = blocks.add_abt(G, blocks.transpose(blocks.load(at(A, k, i))), blocks.transpose(V))
            aj = blocks.load4(weights + 4 * j * LANES)
            mj = mask4(known4(known, j, t, T))
            twice = 2.0
            if i == j:
                twice = 1.0
                f = _noise_or_zero(ki, noise)
                count += mi[0] + mi[1] + mi[2] + mi[3]
                trace += G[0] * mi[0] + G[5] * mi[1] + G[10] * mi[2] + G[15] * mi[3]
                floors += G[0] * f[0] + G[5] * f[1] + G[10] * f[2] + G[15] * f[3]
                straight += blocks.dot4(ai, ai)
                r = blocks.gather4(y + 4 * i * T + t, T)
                if Q > 0:
                    r = axpy4(-c0, mi, r)
                if Q > 1:
                    r = axpy4(-c1, times4(blocks.gather4(x + 4 * i * XN, XN), mi), r)
                u = (r[0] - f[0] * ai[0], r[1] - f[1] * ai[1], r[2] - f[2] * ai[2], r[3] - f[3] * ai[3])
                moved += blocks.dot4(u, ai)
                blocks.store4(U + 4 * i * LANES, u)
                u = (noise * ai[0], noise * ai[1], noise * ai[2], noise * ai[3])
                blocks.store4(U + ((P - 1) * NP + 4 * i) * LANES, u)
            G = _outer(G, ai, aj)
            R = squared_distances(x, scales, i, j, zero, XN, NP, D, ARD)
            _value, derivative = values(R, mi, mj, SHAPE)
            derivative = scale(derivative, variance)
            for s in tl.static_range(1, P - 1):
                if ARD:
                    xi = blocks.gather4(x + ((s - 1) * NP + 4 * i) * XN, XN)
                    xj = blocks.gather4(x + ((s - 1) * NP + 4 * j) * XN, XN)
                    R = add_squared_distances(xi, xj, tl.load(scales + (s - 1) * LANES), blocks.zeros(zero))
                dK = _times(derivative, R)
                g = tl.load(totals + s * LANES)
                tl.store(totals + s * LANES, g + twice * _inner(G, dK))
                ui = U + (s * NP + 4 * i) * LANES
                blocks.store4(ui, blocks.add_av(blocks.load4(ui), dK, aj))
                if i != j:
                    uj = U + (s * NP + 4 * j) * LANES
                    blocks.store4(uj, blocks.add_av(blocks.load4(uj), blocks.transpose(dK), ai))
    tl.store(out_gradient, 0.5 * (count - floors - moved))
    tl.store(out_gradient + P - 1, 0.5 * noise * (trace - straight))
    for s in tl.static_range(1, P - 1):
        tl.store(out_gradient + s, 0.5 * tl.load(totals + s * LANES))

    for s in tl.static_range(P):
        for i in range(nb - 1, -1, -1):  # from the last, so that none is overwritten that is still to be read
            v = (zero, zero, zero, zero)
            for k in range(i + 1):
                v = blocks.add_av(v, blocks.load(at(A, i, k)), blocks.load4(U + (s * NP + 4 * k) * LANES))
            blocks.store4(U + (s * NP + 4 * i) * LANES, v)
    for p in tl.static_range(P):
        for q in tl.static_range(p + 1):
            both, p0, p1, q0, q1 = zero, zero, zero, zero, zero
            for i in range(nb):
                u, v = blocks.load4(U + (p * NP + 4 * i) * LANES), blocks.load4(U + (q * NP + 4 * i) * LANES)
                both += blocks.dot4(u, v)
                if Q > 0:
                    z = blocks.load4(Z + (NP + 4 * i) * LANES)
                    p0 += blocks.dot4(u, z)
                    q0 += blocks.dot4(v, z)
                if Q > 1:
                    z = blocks.load4(Z + (2 * NP + 4 * i) * LANES)
                    p1 += blocks.dot4(u, z)
                    q1 += blocks.dot4(v, z)
            # Without what the mean would take up of it.
            both -= p0 * (n00 * q0 + n01 * q1) + p1 * (n01 * q0 + n11 * q1)
            tl.store(out_info + p * P + q, 0.5 * both)
            tl.store(out_info + q * P + p, 0.5 * both)


@triton.jit
def _one(
    x, y, known, theta, A, out_value, out_beta, out_gradient, out_info, t, slot, T, XN, nb, NB, NP,
    D: tl.constexpr, P: tl.constexpr, Q: tl.constexpr, SHAPE: tl.constexpr, ARD: tl.constexpr, WANT: tl.constexpr,
):  # fmt: skip
    Z = A + (NB * (NB + 1)) // 2 * 16 * LANES
    scales = Z + (Q + 1) * NP * LANES
    theta += (t if WANT else slot) * P
    logdet, least, yy, y0, y1, h00, h01, h11 = factor(
        x, y, known, theta, A, Z, scales, t, T, XN, nb, NP, D, P, Q, SHAPE, ARD
    )  # fmt: skip
    c0, c1, n00, n01, n11 = fit_mean(y0, y1, h00, h01, h11, Q)
    if Q > 0:
        tl.store(out_beta + slot * Q, c0)
    if Q > 1:
        tl.store(out_beta + slot * Q + 1, c1)
    tl.store(out_value + 2 * slot, tl.where(least > 0.0, yy - c0 * y0 - c1 * y1, float("inf")))
    tl.store(out_value + 2 * slot + 1, tl.where(least > 0.0, logdet, float("inf")))
    if WANT:
        _derive(x, y, known, theta, A, Z, scales, out_gradient + slot * P, out_info + slot * P * P, t, T, XN, nb,
                NP, c0, c1, n00, n01, n11, D, P, Q, SHAPE, ARD)  # fmt: skip


@triton.jit(
    do_not_specialize=SIZES,
    do_not_specialize_on_alignment=[
        "theta", "index", "out_value", "out_beta", "out_gradient", "out_info",
    ],
)  # fmt: skip
def _evaluate(
    x, y, known, last, theta, index, count, scratch, out_value, out_beta, out_gradient, out_info, begin, T, XT, XN, NB,
    NP, workspace,
    D: tl.constexpr, P: tl.constexpr, Q: tl.constexpr, SHAPE: tl.constexpr, ARD: tl.constexpr, WANT: tl.constexpr,
    INTERPRETED: tl.constexpr,
):  # fmt: skip
    """Evaluations, each of one task, `index`, the data as `TaskLayout` has them: at theta[L, P], or, where derivatives
    are wanted, at its own of theta[T, P]. There are `count`, of which these are what comes from `begin` on."""
    program = tl.program_id(0)
    L = tl.load(count) - begin
    if program * LANES >= L:
        return
    slot = tl.minimum(program * LANES + tl.arange(0, LANES), L - 1).to(tl.int64)
    t = tl.load(index + slot).to(tl.int64)
    x += t * XT
    A = scratch + program.to(tl.int64) * workspace * LANES + tl.arange(0, LANES)
    # The interpreter loops to no bound that was loaded, or assigned.
    _one(x, y, known, theta, A, out_value, out_beta, out_gradient, out_info, t, slot, T, XN,
         NB if INTERPRETED else tl.max(tl.load(last + t), axis=0), NB, NP, D, P, Q, SHAPE, ARD, WANT)  # fmt: skip


def size(number: int) -> Any:
    """A loop's bound: the interpreter knows only those that are compiled in."""
    return tl.constexpr(number) if blocks.INTERPRETED else number


def constants(kernel: Kernel, layout: TaskLayout, parameters: int) -> dict[str, Any]:
    """What every kernel has compiled in."""
    return {
        "D": layout.x_DNT.shape[0],
        "P": parameters,
        "Q": layout.regressors,
        "SHAPE": SHAPES.index(kernel.factors[0].shape),
        "ARD": int(parameters > 3),
        "INTERPRETED": blocks.INTERPRETED,
        "num_warps": 1,
    }


class Evaluations(namedtuple("Evaluations", "value_L2 beta_LQ gradient_LP info_LPP")):
    """What the kernel makes of L evaluations: the quadratic form and the log determinant, the mean's coefficients, the
    gradient and the average information."""

    __slots__ = ()

    def at(self, positions: slice) -> "Evaluations":
        """That of some evaluations."""
        return Evaluations(*(part[positions] for part in self))


def workspace(layout: TaskLayout, parameters: int, want: bool) -> int:
    """The numbers that a lane works in."""
    NP, Q = len(layout.y_NT), layout.regressors
    derivatives = (1 + parameters) * NP + parameters
    return layout.blocks * 16 + (Q + 1) * NP + parameters - 2 + (derivatives if want else 0)


def empty_evaluations(evaluations: int, parameters: int, layout: TaskLayout, want: bool) -> Evaluations:
    """Where a kernel is to write."""
    like: dict[str, Any] = {"dtype": torch.float64, "device": layout.y_NT.device}
    derived = evaluations if want else 0
    return Evaluations(
        torch.empty(evaluations, 2, **like),
        torch.empty(evaluations, layout.regressors, **like),
        torch.empty(derived, parameters, **like),
        torch.empty(derived, parameters, parameters, **like),
    )


def evaluate(
    kernel: Kernel, layout: TaskLayout, index_L: Tensor, theta: Tensor, want: bool = True, narrow: bool = False
) -> Evaluations:
    """Evaluates tasks by their index, in as many launches as it takes. `want` and `theta` as `launch` has them.
    `narrow`: with what is kept of the factor rounded to float32, for half the memory."""
    P = theta.shape[1]
    out, numbers = empty_evaluations(len(index_L), P, layout, want), workspace(layout, P, want)
    for active in ActiveTasks.all_of(index_L).parts(layout, -(-numbers // 2) if narrow else numbers):
        at_L = theta if want else theta[active.positions]
        launch(kernel, layout, active, at_L, out.at(active.positions), want, narrow)
    return out


def launch(
    kernel: Kernel,
    layout: TaskLayout,
    active: ActiveTasks,
    theta: Tensor,
    out: Evaluations,
    want: bool = True,
    narrow: bool = False,
) -> None:
    """Evaluates some tasks, no more than one launch takes: with derivatives, if wanted, each task at the parameters of
    its own, else at those of each evaluation. The results go to the first rows of `out`."""
    NP, T, P, run, scratch = *layout.y_NT.shape, theta.shape[1], _evaluate, layout.scratch[0]
    run[(-(-len(active) // LANES.value),)](
        layout.x_DNT, layout.y_NT, layout.known, layout.last_T, theta.to(out.value_L2).contiguous(), active.index_L,
        active.count,
        scratch.view(torch.float32) if narrow else scratch, out.value_L2, out.beta_LQ, out.gradient_LP, out.info_LPP,
        active.begin, T, *layout.strides, size(NP // 4), NP, workspace(layout, P, want), WANT=want,
        **constants(kernel, layout, P),
    )  # fmt: skip
