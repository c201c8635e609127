"""Leave-one-out as a Triton kernel: one lane per task.

The twin of `posterior.leave_one_out`, where the formulas are, for the models that `likelihood.serves`: a lane factors
its covariance (`cholesky.py`), inverts the factor in place (W = L^-1), and reads the diagonal of K^-1 = W^T W and the
weights off its columns.
"""

# pyright: reportArgumentType=false, reportCallIssue=false, reportOperatorIssue=false, reportAttributeAccessIssue=false
# pyright: reportGeneralTypeIssues=false, reportIndexIssue=false

import torch
import triton
import triton.language as tl
from torch import Tensor

from ..model.kernels import Kernel
from ..model.posterior import left_out
from ..model.tasks import TaskBatch
from . import blocks
from .blocks import LANES
from .cholesky import at, axpy4, factor, fit_mean, invert_factor
from .layout import lay_out
from .likelihood import SIZES, constants, size, workspace


@triton.jit
def _squares(B):
    """The sums of squares of the rows of a block."""
    a, b, c, d = blocks.row(B, 0), blocks.row(B, 1), blocks.row(B, 2), blocks.row(B, 3)
    return (blocks.dot4(a, a), blocks.dot4(b, b), blocks.dot4(c, c), blocks.dot4(d, d))


@triton.jit
def _without_itself(
    x, y, known, theta, A, out_weights, out_precision, out_left, out_good, t, T, XN, nb, NB, NP,
    D: tl.constexpr, P: tl.constexpr, Q: tl.constexpr, SHAPE: tl.constexpr, ARD: tl.constexpr,
):  # fmt: skip
    Z = A + (NB * (NB + 1)) // 2 * 16 * LANES
    scales = Z + (Q + 1) * NP * LANES
    logdet, least, _yy, y0, y1, h00, h01, h11 = factor(
        x, y, known, theta + t * P, A, Z, scales, t, T, XN, nb, NP, D, P, Q, SHAPE, ARD
    )
    c0, c1, n00, n01, n11 = fit_mean(y0, y1, h00, h01, h11, Q)
    zero = logdet * 0.0
    tl.store(out_good + t, tl.where((least > 0.0) & (tl.abs(logdet) < float("inf")), 1, 0).to(tl.int8))
    invert_factor(A, nb, zero)
    for i in range(nb):
        a, s0, s1, p = (
            (zero, zero, zero, zero),
            (zero, zero, zero, zero),
            (zero, zero, zero, zero),
            _squares(blocks.zeros(zero)),
        )
        for k in range(i, nb):
            B = blocks.transpose(blocks.load(at(A, k, i)))
            z = blocks.load4(Z + 4 * k * LANES)
            if Q > 0:
                h0 = blocks.load4(Z + (NP + 4 * k) * LANES)
                z = axpy4(-c0, h0, z)
                s0 = blocks.add_av(s0, B, h0)
            if Q > 1:
                h1 = blocks.load4(Z + (2 * NP + 4 * k) * LANES)
                z = axpy4(-c1, h1, z)
                s1 = blocks.add_av(s1, B, h1)
            a = blocks.add_av(a, B, z)
            p = axpy4(1.0, _squares(B), p)
        for r in tl.static_range(4):
            to = (4 * i + r) * T + t
            tl.store(out_weights + to, a[r])
            tl.store(out_precision + to, p[r])
            taken = n00 * s0[r] * s0[r] + 2.0 * n01 * s0[r] * s1[r] + n11 * s1[r] * s1[r]
            tl.store(out_left + to, p[r] - taken)


@triton.jit(do_not_specialize=SIZES)
def _leave_one_out(
    x, y, known, last, theta, scratch, out_weights, out_precision, out_left, out_good, begin, T, XT, XN, NB, NP,
    workspace,
    D: tl.constexpr, P: tl.constexpr, Q: tl.constexpr, SHAPE: tl.constexpr, ARD: tl.constexpr,
    INTERPRETED: tl.constexpr,
):  # fmt: skip
    """Of every point of every task: K^-1 times the residuals, the diagonal of K^-1, and that less what the mean's
    coefficients take up."""
    program = tl.program_id(0)
    t = tl.minimum((begin + program * LANES + tl.arange(0, LANES)).to(tl.int64), T - 1)
    x += t * XT
    A = scratch + program.to(tl.int64) * workspace * LANES + tl.arange(0, LANES)
    _without_itself(x, y, known, theta, A, out_weights, out_precision, out_left, out_good, t, T, XN,
                    NB if INTERPRETED else tl.max(tl.load(last + t), axis=0), NB, NP, D, P, Q, SHAPE, ARD)  # fmt: skip


def leave_one_out(kernel: Kernel, tasks: TaskBatch, theta_TP: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Mean, variance and log density of each observation given the task's others, at the same parameters."""
    (T, N), P, layout, run = tasks.y_TN.shape, theta_TP.shape[1], lay_out(tasks), _leave_one_out
    NP, device, numbers = len(layout.y_NT), theta_TP.device, workspace(layout, P, False)
    weights_NT, precision_NT, left_NT = torch.ones(3, NP, T, dtype=torch.float64, device=device)
    good_T, theta_TP = torch.empty(T, dtype=torch.int8, device=device), theta_TP.double().contiguous()
    if T:
        layout.reserve(T, numbers)
    together = layout.at_once(T, numbers) if T else 1
    for begin in range(0, T, together):
        run[(-(-min(together, T - begin) // LANES.value),)](
            layout.x_DNT, layout.y_NT, layout.known, layout.last_T, theta_TP, layout.scratch[0], weights_NT,
            precision_NT, left_NT, good_T, begin, T, *layout.strides, size(NP // 4), NP, numbers,
            **constants(kernel, layout, P),
        )  # fmt: skip
    there_TN = tasks.mask_TN & (good_T != 0)[:, None]
    rows = (values_NT[:N].mT for values_NT in (weights_NT, precision_NT, left_NT))
    return left_out(tasks.y_TN, *rows, there_TN)
