"""Leave-one-out on a GPU, by the inverse of the covariance.

The twin of `posterior.leave_one_out`, where the formulas are, for the models that `likelihood.serves`. Of few points
one program makes a task's covariance in its registers, eliminates it there (`elimination.py`) and writes what is read
off W = L^-1; of more, the covariances lie in memory.

Legend: T tasks, N points, D input dimensions, P parameters, Q regressors, R = 1 + Q.
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
from ..optimize.matrices import fit_mean
from . import cholesky
from .cholesky import value_of
from .elimination import WARPS, BlockFactor, eliminate, inverse_factor
from .likelihood import size
from .matrices import MatrixEvaluator, constants

_ROWS = 32
"""Points of a covariance that lies in one piece in the registers; a program holds up to two by two of them."""


@triton.jit
def _covariance(x, theta, i, j, rows, columns, XN, XD, D: tl.constexpr, P: tl.constexpr, SHAPE: tl.constexpr,
                ARD: tl.constexpr):  # fmt: skip
    """The covariances of points i with points j, of which `rows` and `columns` have the noise that is known, -inf at
    a missing one."""
    variance, noise = tl.exp(tl.load(theta)), tl.exp(tl.load(theta + P - 1))
    here, there = rows > float("-inf"), columns > float("-inf")
    R = tl.load(theta) * 0.0
    for d in tl.static_range(D):
        a = tl.load(x + i * XN + d * XD, mask=here, other=0.0)
        b = tl.load(x + j * XN + d * XD, mask=there, other=0.0)
        gap = a[:, None] - b[None, :]
        R += gap * gap * tl.exp(-2.0 * tl.load(theta + 1 + d * ARD))
    value, _derivative = value_of(R, SHAPE)
    own = tl.where(here, variance + noise + rows, 1.0)
    other = tl.where(here[:, None] & there[None, :], variance * value, 0.0)
    return tl.where(i[:, None] == j[None, :], own[:, None], other)


@triton.jit
def _times(W, b):
    """The product of a matrix with a vector."""
    return tl.sum(W * b[None, :], axis=1)


@triton.jit
def _transposed_times(W, b):
    """That of its transpose."""
    return tl.sum(W * b[:, None], axis=0)


@triton.jit
def _dot(A, B):
    return tl.dot(A, B, out_dtype=tl.float64)


@triton.jit
def _forward(W, W21, W22, upper, lower, PAIR: tl.constexpr):
    """L^-1 times a vector that is given by its halves."""
    if PAIR:
        return _times(W, upper), _times(W21, upper) + _times(W22, lower)
    return _times(W, upper), lower


@triton.jit
def _back(W, W21, W22, upper, lower, PAIR: tl.constexpr):
    """L^-T times a vector that is given by its halves."""
    if PAIR:
        return _transposed_times(W, upper) + _transposed_times(W21, lower), _transposed_times(W22, lower)
    return _transposed_times(W, upper), lower


@triton.jit
def _inner(a, b, c, d, PAIR: tl.constexpr):
    """The inner product of vectors that are given by their halves."""
    if PAIR:
        return tl.sum(a * c, axis=0) + tl.sum(b * d, axis=0)
    return tl.sum(a * c, axis=0)


@triton.jit(do_not_specialize=["T", "N", "first", "second", "XT", "XN", "XD", "YT", "YN"])
def _without_itself(
    x, y, known, theta, out_weights, out_precision, out_left, out_good, T, N, first, second, XT, XN, XD, YT, YN,
    D: tl.constexpr, P: tl.constexpr, Q: tl.constexpr, SHAPE: tl.constexpr, ARD: tl.constexpr, B: tl.constexpr,
    PAIR: tl.constexpr,
):  # fmt: skip
    """Of every point of a task: K^-1 times the residuals, the diagonal of K^-1, and that less what the mean's
    coefficients take up.

    Args:
        known: the noise that is known, -inf at a missing point.
        first, second: points of the first half, and of the second.
    """
    t, i = tl.program_id(0).to(tl.int64), tl.arange(0, B)
    XN, XD, YN = XN.to(tl.int64), XD.to(tl.int64), YN.to(tl.int64)
    theta += t * P
    x += t * XT
    y += t * YT
    j = B + i
    floor = tl.load(known + t * N + i, mask=i < N, other=float("-inf"))
    below = tl.load(known + t * N + j, mask=j < N, other=float("-inf"))
    K = _covariance(x, theta, i, i, floor, floor, XN, XD, D, P, SHAPE, ARD)
    good = tl.load(theta) > float("-inf")  # not of a task that could not be fitted: NaN
    eliminated, good, logdet = eliminate(K, good, first, B)
    W = inverse_factor(eliminated, B)
    W21, W22 = W, W
    if PAIR:
        L21 = _dot(_covariance(x, theta, j, i, below, floor, XN, XD, D, P, SHAPE, ARD), tl.trans(W))
        rest = _covariance(x, theta, j, j, below, below, XN, XD, D, P, SHAPE, ARD) - _dot(L21, tl.trans(L21))
        eliminated, good, more = eliminate(rest, good, second, B)
        logdet += more
        W22 = inverse_factor(eliminated, B)
        W21 = -_dot(W22, _dot(L21, W))
    good = good & (tl.abs(logdet) < float("inf"))
    tl.store(out_good + t, good.to(tl.int8))

    precision, last = tl.sum(W * W, axis=0), tl.sum(W22 * W22, axis=0)
    if PAIR:
        precision += tl.sum(W21 * W21, axis=0)
    a, b = _forward(W, W21, W22, tl.load(y + i * YN, mask=i < N, other=0.0),
                    tl.load(y + j * YN, mask=j < N, other=0.0), PAIR)  # fmt: skip
    weights, lower = _back(W, W21, W22, a, b, PAIR)
    zero = logdet * 0.0
    y0, y1, h00, h01, h11 = zero, zero, zero, zero, zero
    s0, t0, s1, t1 = weights * 0.0, lower * 0.0, weights * 0.0, lower * 0.0
    if Q > 0:
        one, ones = tl.where(floor > float("-inf"), 1.0, 0.0), tl.where(below > float("-inf"), 1.0, 0.0)
        one, ones = one.to(tl.float64), ones.to(tl.float64)
        c, d = _forward(W, W21, W22, one, ones, PAIR)
        s0, t0 = _back(W, W21, W22, c, d, PAIR)
        y0, h00 = _inner(a, b, c, d, PAIR), _inner(c, d, c, d, PAIR)
        if Q > 1:
            e, f = _forward(W, W21, W22, one * tl.load(x + i * XN, mask=i < N, other=0.0),
                            ones * tl.load(x + j * XN, mask=j < N, other=0.0), PAIR)  # fmt: skip
            s1, t1 = _back(W, W21, W22, e, f, PAIR)
            y1, h01, h11 = _inner(a, b, e, f, PAIR), _inner(c, d, e, f, PAIR), _inner(e, f, e, f, PAIR)
    c0, c1, n00, n01, n11 = cholesky.fit_mean(y0, y1, h00, h01, h11, Q)
    to = t * N + i
    tl.store(out_weights + to, weights - c0 * s0 - c1 * s1, mask=i < N)
    tl.store(out_precision + to, precision, mask=i < N)
    tl.store(out_left + to, precision - (n00 * s0 * s0 + 2.0 * n01 * s0 * s1 + n11 * s1 * s1), mask=i < N)
    if PAIR:
        to += B
        tl.store(out_weights + to, lower - c0 * t0 - c1 * t1, mask=j < N)
        tl.store(out_precision + to, last, mask=j < N)
        tl.store(out_left + to, last - (n00 * t0 * t0 + 2.0 * n01 * t0 * t1 + n11 * t1 * t1), mask=j < N)


class _Whole(MatrixEvaluator):
    """The same of larger covariances."""

    def leave_one_out(self, some: slice, theta_TP: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        index_T = torch.arange(some.start, some.stop, dtype=torch.int32, device=theta_TP.device)
        K_TNN, _ = self._covariance(index_T, theta_TP[some], self._x_TND.shape[1])
        factor = BlockFactor.of_(K_TNN)
        W_TNN = factor.invert_()
        Z_TNR = W_TNN @ self._columns_TNR[some]
        _, beta_TQ, normal_TQQ = fit_mean(Z_TNR.mT @ Z_TNR)
        back_TNR = W_TNN.mT @ Z_TNR
        weights_TN = (back_TNR[:, :, :1] - back_TNR[:, :, 1:] @ beta_TQ[:, :, None])[:, :, 0]
        taken_TN = ((back_TNR[:, :, 1:] @ normal_TQQ) * back_TNR[:, :, 1:]).sum(2)
        precision_TN = torch.linalg.vector_norm(W_TNN, dim=1).square_()
        return weights_TN, precision_TN, precision_TN - taken_TN, factor.good_T


def leave_one_out(kernel: Kernel, tasks: TaskBatch, theta_TP: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Mean, variance and log density of each observation given the task's others, at the same parameters."""
    (T, N), theta_TP = tasks.y_TN.shape, theta_TP.double().contiguous()
    if N > 2 * _ROWS:
        whole, most = _Whole(kernel, tasks), MatrixEvaluator.at_once
        spans = [slice(begin, min(begin + most, T)) for begin in range(0, max(1, T), most)]
        parts = [whole.leave_one_out(some, theta_TP) for some in spans]
        *rows, good_T = parts[0] if len(parts) == 1 else map(torch.cat, zip(*parts, strict=True))
        return left_out(tasks.y_TN, *rows, tasks.mask_TN & good_T[:, None])
    like, run = {"dtype": torch.float64, "device": theta_TP.device}, _without_itself
    weights_TN, precision_TN, left_TN = torch.empty(3, T, N, **like)
    good_T = torch.empty(T, dtype=torch.int8, device=theta_TP.device)
    known_TN = torch.where(tasks.mask_TN, tasks.known_TN, -torch.inf).contiguous()
    if T and N:
        B = min(_ROWS, max(16, triton.next_power_of_2(N)))
        run[(T,)](
            tasks.x_TND, tasks.y_TN, known_TN, theta_TP, weights_TN, precision_TN, left_TN, good_T, T, N,
            size(min(N, B)), size(max(0, N - B)), *tasks.x_TND.stride(), *tasks.y_TN.stride(),
            **constants(kernel, tasks.x_TND.shape[2], theta_TP.shape[1]), Q=tasks.coefficients, B=B, PAIR=N > B,
            num_warps=WARPS[B],
        )  # fmt: skip
    return left_out(tasks.y_TN, weights_TN, precision_TN, left_TN, tasks.mask_TN & (good_T != 0)[:, None])
