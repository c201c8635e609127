"""Fitting tasks of very many points by the inducing-point approximation SGPR (`model/sgpr.py`): its bound is made large
instead of the likelihood.

The starts are those of subsets of the points (`subsets.py`), and the loop is `scoring.descend`. The gradient of the
bound is 0.5 tr(X dQ) with X = (Q + D)^-1 - a a^T - D^-1, and what the diagonal of K_ff adds; of X, which is never made,
only products with matrices of M rows are needed. The information is the average information of Q + D.

Legend: T tasks, L evaluations, N points, M inducing points, P parameters, Q regressors.
"""

import math

import torch
from torch import Tensor

from ..model.kernels import Kernel
from ..model.priors import Limits
from ..model.sgpr import JITTER, choose_inducing, factor_sparse, inducing_covariance, sparse_at, tasks_at_once
from ..model.tasks import TaskBatch
from . import scoring, subsets
from .matrices import MatrixEvaluations
from .scoring import Evaluation, Optima, ScoringOptions


class SparseEvaluator:
    """Evaluates the bound of tasks by their index: what `MatrixEvaluator` does for the likelihood.

    Attributes:
        count_T: the points of each task.
    """

    def __init__(self, kernel: Kernel, tasks: TaskBatch, inducing: int) -> None:
        self._kernel, self._tasks = kernel, tasks
        self._inducing = choose_inducing(tasks, inducing)
        self._at_once = tasks_at_once(tasks.y_TN.device, tasks.y_TN.shape[1], inducing)
        self.count_T = tasks.mask_TN.sum(1).to(tasks.y_TN.dtype)

    def score(self, index_L: Tensor, theta_LP: Tensor) -> Tensor:
        """Of every evaluation the quadratic form with the trace, and the log determinant."""
        parts = zip(index_L.split(self._at_once), theta_LP.split(self._at_once), strict=True)
        return torch.cat(
            [
                sparse_at(self._kernel, self._tasks.select(index), self._inducing.select(index), theta).value_T2
                for index, theta in parts
            ]
        )

    def evaluate(self, index_L: Tensor, theta_LP: Tensor) -> MatrixEvaluations:
        """The bound and its derivatives."""
        parts = zip(index_L.split(self._at_once), theta_LP.split(self._at_once), strict=True)
        return MatrixEvaluations(*map(torch.cat, zip(*(self._evaluate(*part) for part in parts), strict=True)))

    def _evaluate(self, index_L: Tensor, theta_LP: Tensor) -> MatrixEvaluations:
        kernel, tasks, inducing = self._kernel, self._tasks.select(index_L), self._inducing.select(index_L)
        used_LM, own_LP = inducing.used_TM, theta_LP[:, :-1]
        there_LMN, both_LMM = used_LM[:, :, None] & tasks.mask_TN[:, None, :], used_LM[:, :, None] & used_LM[:, None, :]
        z_LMD = inducing.points(tasks)
        K_uu, dK_uu = kernel.derive(z_LMD, own_LP)
        K_uf, dK_uf = kernel.derive(z_LMD, own_LP, tasks.x_TND)
        dK_uu, dK_uf = dK_uu * both_LMM[:, None], dK_uf * there_LMN[:, None]
        rise_LPM = dK_uu.diagonal(dim1=2, dim2=3)
        rise_LPM += (
            JITTER * rise_LPM.sum(2, keepdim=True) / used_LM.sum(1).clamp(min=1)[:, None, None] * used_LM[:, None]
        )
        K_uu = inducing_covariance(K_uu, used_LM)
        sparse = factor_sparse(kernel, tasks, theta_LP, K_uu, K_uf * there_LMN)
        root_LN, U_LMN, a_LN, H_LNQ = sparse.root_TN, sparse.U_TMN, sparse.weights_TN, tasks.H_TNQ
        W_LMN = torch.linalg.solve_triangular(sparse.L_TMM.mT, sparse.V_TMN, upper=True)  # K_uu^-1 K_uf
        b_LM1 = W_LMN @ a_LN[:, :, None]
        scaled_LMN = W_LMN * root_LN[:, None]
        Y_LMN = -((scaled_LMN @ U_LMN.mT) @ U_LMN) * root_LN[:, None] - b_LM1 * a_LN[:, None]  # W X
        Z_LMM = Y_LMN @ W_LMN.mT
        noise_L1, weight_LN = torch.exp(theta_LP[:, -1:]), root_LN.square()
        gradient_LP = (
            torch.einsum("lmn,lpmn->lp", Y_LMN, dK_uf)
            - 0.5 * torch.einsum("lmk,lpmk->lp", Z_LMM, dK_uu)
            + 0.5 * (self._diagonal_derivatives(tasks, own_LP) * weight_LN[:, None]).sum(2)
        )
        precision_LN = weight_LN * (1 - U_LMN.square().sum(1))
        by_noise_LN = precision_LN - a_LN.square() - weight_LN.square() * sparse.slack_TN
        gradient_LP = torch.cat([gradient_LP, 0.5 * noise_L1 * by_noise_LN.sum(1, keepdim=True)], 1)
        inner_LPM = (dK_uf @ a_LN[:, None, :, None])[..., 0] - (dK_uu @ b_LM1[:, None])[..., 0]
        moved_LPN = torch.einsum("lpmn,lm->lpn", dK_uf, b_LM1[:, :, 0]) + inner_LPM @ W_LMN
        moved_LPN = torch.cat([moved_LPN, (noise_L1 * a_LN)[:, None]], 1)  # d(Q + D) a
        through_LNP = sparse.solve(moved_LPN.mT)
        shared_LPQ = through_LNP.mT @ H_LNQ
        info_LPP = 0.5 * (moved_LPN @ through_LNP - shared_LPQ @ sparse.normal_TQQ @ shared_LPQ.mT)
        bad_L1 = ~sparse.good_T[:, None]
        return MatrixEvaluations(
            sparse.value_T2,
            sparse.beta_TQ.masked_fill(bad_L1, 0.0),
            gradient_LP.masked_fill(bad_L1, 0.0),
            info_LPP.masked_fill(bad_L1[:, :, None], 0.0),
        )

    def _diagonal_derivatives(self, tasks: TaskBatch, own_LP: Tensor) -> Tensor:
        """The diagonal of K_ff by the logarithm of each parameter, 0 at missing points."""
        L, N, D = tasks.x_TND.shape
        points = tasks.x_TND.reshape(L * N, 1, D)
        _, derivatives = self._kernel.derive(points, own_LP.repeat_interleave(N, 0))
        return derivatives.reshape(L, N, -1).mT * tasks.mask_TN[:, None]


def fit(kernel: Kernel, tasks: TaskBatch, limits: Limits, options: ScoringOptions, inducing: int) -> Optima:
    """Fits every task to the greatest bound, with so many inducing points; `nlml_T` is minus the bound."""
    if len(tasks) == 0:
        return Optima.unfitted(limits, tasks.coefficients)
    whole = SparseEvaluator(kernel, tasks, inducing)

    def evaluate(index: Tensor, theta_TP: Tensor) -> Evaluation:
        value, beta, gradient, info = whole.evaluate(index, theta_TP)
        return 0.5 * (value.sum(1) + math.log(2 * math.pi) * whole.count_T[index]), beta, gradient, info

    begin = subsets.starts(limits, options, subsets.search(kernel, tasks), whole)
    return scoring.descend(evaluate, limits, options, begin, tasks.coefficients)
