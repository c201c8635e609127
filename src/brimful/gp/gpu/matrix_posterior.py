"""Predictions of tasks of many points on a GPU, by whole matrices.

The twin of `posterior.predict`, for the models that `matrices.serves`. Kernels write the
covariances of a task's points with each other and with new ones, once and where the solver reads them; a third reads
what was solved once, for mean and variance.

Legend: T tasks, N points, M new points, D input dimensions, P parameters, Q regressors, R = 1 + Q + M.
"""

# pyright: reportArgumentType=false, reportCallIssue=false, reportOperatorIssue=false, reportAttributeAccessIssue=false
# pyright: reportGeneralTypeIssues=false, reportIndexIssue=false

import torch
import triton
import triton.language as tl
from torch import Tensor

from ..model.kernels import Kernel
from ..model.tasks import TaskBatch, regressors
from ..optimize.matrices import fit_mean
from .cholesky import value_of
from .likelihood import size
from .matrices import MatrixEvaluator

_BLOCK = 32  # new points, and points, of one program's part of a matrix


@triton.jit(do_not_specialize=["N", "M", "R", "begin"])
def _cross(
    x, known, theta, new, out, N, M, R, begin,
    D: tl.constexpr, P: tl.constexpr, SHAPE: tl.constexpr, ARD: tl.constexpr, B: tl.constexpr,
):  # fmt: skip
    """The covariances of new points with a task's own, 0 where one is missing: rows from R - M on of out[L, R, N]; of
    the tasks from `begin` on."""
    slot = tl.program_id(0).to(tl.int64)
    t = begin + slot
    m, i = tl.program_id(1) * B + tl.arange(0, B), tl.program_id(2) * B + tl.arange(0, B)
    squares = tl.zeros([B, B], tl.float64)
    for d in tl.static_range(D):
        a = tl.load(new + (t * M + m) * D + d, mask=m < M, other=0.0)
        b = tl.load(x + (t * N + i) * D + d, mask=i < N, other=0.0)
        gap = a[:, None] - b[None, :]
        squares += gap * gap * tl.exp(-2.0 * tl.load(theta + t * P + 1 + d * ARD))
    value, _derivative = value_of(squares, SHAPE)
    there = tl.load(known + t * N + i, mask=i < N, other=float("-inf")) != float("-inf")
    value = tl.where(there[None, :], tl.exp(tl.load(theta + t * P)) * value, 0.0)
    to = out + (slot * R + R - M + m[:, None]) * N + i[None, :]
    tl.store(to, value, mask=(m < M)[:, None] & (i < N)[None, :])


@triton.jit(do_not_specialize=["N", "M", "R", "NB"])
def _moments(solved, residual, out_mean, out_squares, N, M, R, NB, B: tl.constexpr):
    """Of rows from R - M on of solved[L, R, N]: the products with residual[L, N], and the sums of squares."""
    slot = tl.program_id(0).to(tl.int64)
    m = tl.program_id(1) * B + tl.arange(0, B)
    mean, squares = tl.zeros([B], tl.float64), tl.zeros([B], tl.float64)
    for k in range(NB):
        i = k * B + tl.arange(0, B)
        at = solved + (slot * R + R - M + m[:, None]) * N + i[None, :]
        V = tl.load(at, mask=(m < M)[:, None] & (i < N)[None, :], other=0.0)
        z = tl.load(residual + slot * N + i, mask=i < N, other=0.0)
        mean += tl.sum(V * z[None, :], axis=1)
        squares += tl.sum(V * V, axis=1)
    tl.store(out_mean + slot * M + m, mean, mask=m < M)
    tl.store(out_squares + slot * M + m, squares, mask=m < M)


class _Posterior(MatrixEvaluator):
    """The posterior of tasks from one to another, at their parameters."""

    def predict(self, some: slice, theta_TP: Tensor, new_TMD: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """At new points: the mean less the mean function, and the variance; of each task the mean's coefficients, and
        whether its covariance is positive definite."""
        (T, M, _), N, own = new_TMD[some].shape, self._x_TND.shape[1], self._columns_TNR.shape[2]
        like = {"dtype": torch.float64, "device": theta_TP.device}
        index_T = torch.arange(some.start, some.stop, dtype=torch.int32, device=theta_TP.device)
        factor, _, good_T, _ = self._factor(index_T, theta_TP[some], N)
        columns_TRN, cross, moments = torch.empty(T, own + M, N, **like), _cross, _moments
        columns_TRN[:, :own] = self._columns_TNR[some].mT
        across, along = -(-M // _BLOCK), -(-N // _BLOCK)
        cross[(T, across, along)](
            self._x_TND, self._known_TN, theta_TP, new_TMD, columns_TRN, N, M, own + M, some.start,
            **self._constants(theta_TP) | {"B": _BLOCK},
        )  # fmt: skip
        solved_TRN = factor.solve_rows_(columns_TRN)
        few_TRN = solved_TRN[:, :own]
        _, beta_TQ, _ = fit_mean(few_TRN @ few_TRN.mT)
        residual_TN = (few_TRN[:, :1] - beta_TQ[:, None] @ few_TRN[:, 1:])[:, 0].contiguous()
        mean_TM, squares_TM = torch.empty(T, M, **like), torch.empty(T, M, **like)
        moments[(T, across)](solved_TRN, residual_TN, mean_TM, squares_TM, N, M, own + M, size(along), B=_BLOCK)
        return mean_TM, torch.exp(theta_TP[some, :1]) - squares_TM, beta_TQ, good_T


def _parts(tasks: TaskBatch) -> list[slice]:
    most = MatrixEvaluator.at_once
    return [slice(begin, min(begin + most, len(tasks))) for begin in range(0, max(1, len(tasks)), most)]


def predict(
    kernel: Kernel, tasks: TaskBatch, theta_TP: Tensor, beta_TQ: Tensor, new_TMD: Tensor, mean: str
) -> tuple[Tensor, Tensor]:
    """Mean and variance of the function (not of an observation) at new points."""
    whole, theta_TP, new_TMD = _Posterior(kernel, tasks), theta_TP.double().contiguous(), new_TMD.contiguous()
    parts = [whole.predict(some, theta_TP, new_TMD) for some in _parts(tasks)]
    mean_TM, variance_TM, own_TQ, good_T = parts[0] if len(parts) == 1 else map(torch.cat, zip(*parts, strict=True))
    own_TQ = torch.where(good_T[:, None], own_TQ, beta_TQ)
    level_TM = (regressors(new_TMD, mean) @ own_TQ[:, :, None])[:, :, 0]
    variance_TM = torch.where(good_T[:, None], variance_TM.clamp_(min=0), torch.nan)
    return level_TM + torch.where(good_T[:, None], mean_TM, 0.0), variance_TM
