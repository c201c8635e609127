"""Likelihood and derivatives of tasks of many points, by whole matrices: the covariance is made, factored and inverted,
and read once for all derivatives.

Gives what `likelihood.evaluate` gives, for kernels of one stationary shape and means of at most two coefficients, with
fewer passes over memory: the derivative by a lengthscale is made once and only multiplied, those by variance and noise
follow from the factor. `gpu/matrices.py` has the parts that are other on a GPU.

Legend: T tasks, L evaluations, N points, D input dimensions, P parameters, Q regressors, R = Q + 1, S lengthscales.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..model.kernels import Kernel, stationary
from ..model.likelihood import pseudo_inverse
from ..model.tasks import TaskBatch

_STATIONARY = ("rbf", "matern12", "matern32", "matern52")


class MatrixEvaluations(NamedTuple):
    """Of L evaluations: the quadratic form and the log determinant, infinite where there is no factor, the mean's
    coefficients, the gradient, and the average information."""

    value_L2: Tensor
    beta_LQ: Tensor
    gradient_LP: Tensor
    info_LPP: Tensor


class InvertedFactor(NamedTuple):
    """K^-1, and the products with L^-1 and with its transpose."""

    inverse_LNN: Tensor
    forward: Callable[[Tensor], Tensor]
    back: Callable[[Tensor], Tensor]


def serves(kernel: object, regressors: int) -> bool:
    """Whether tasks of this kernel can be evaluated so."""
    one = isinstance(kernel, Kernel) and len(kernel.factors) == 1 and kernel.factors[0].shape in _STATIONARY
    return one and regressors <= 2


class MatrixEvaluator:
    """Evaluates tasks by their index.

    Attributes:
        at_once: matrices of one call.
        count_T: the points of each task.
        last_T: the positions up to which a task has points.
    """

    at_once = 1  # on a CPU all cores work on one, and what it needs may stay in their caches

    def __init__(self, kernel: Kernel, tasks: TaskBatch) -> None:
        self.kernel = kernel
        self.count_T = tasks.mask_TN.sum(1).to(tasks.y_TN.dtype)
        positions_N = torch.arange(1, tasks.y_TN.shape[1] + 1, device=tasks.y_TN.device)
        self.last_T = (tasks.mask_TN * positions_N).amax(1).clamp(min=1)
        self._x_TND = tasks.x_TND.contiguous()
        self._known_TN = torch.where(tasks.mask_TN, tasks.known_TN, -math.inf).contiguous()
        self._columns_TNR = torch.cat([tasks.y_TN[:, :, None], tasks.H_TNQ], 2)

    def score(self, index_L: Tensor, theta_LP: Tensor) -> Tensor:
        """The quadratic form and the log determinant of every evaluation, infinite where there is no factor."""
        parts = zip(index_L.split(self.at_once), theta_LP.split(self.at_once), strict=True)
        return torch.cat([self._score(*part) for part in parts])

    def evaluate(self, index_L: Tensor, theta_LP: Tensor) -> MatrixEvaluations:
        """Likelihood and derivatives."""
        parts = zip(index_L.split(self.at_once), theta_LP.split(self.at_once), strict=True)
        evaluated = [self._evaluate(*part) for part in parts]
        if len(evaluated) == 1:
            return evaluated[0]
        return MatrixEvaluations(*(torch.cat(values) for values in zip(*evaluated, strict=True)))

    def _evaluate(self, index_L: Tensor, theta_LP: Tensor) -> MatrixEvaluations:
        n = int(self.last_T[index_L].max())
        factor, logdet_L, good_L, kept = self._factor(index_L, theta_LP, n)
        inverse_LNN, forward, back = self._invert(factor)
        columns_LNR = self._columns_TNR[index_L, :n]
        Z_LNR = forward(columns_LNR)
        quadratic_L, beta_LQ, normal_LQQ = fit_mean(Z_LNR.mT @ Z_LNR)
        weights_LN = back(Z_LNR[:, :, :1] - Z_LNR[:, :, 1:] @ beta_LQ[:, :, None])[:, :, 0]
        traces_LS, moved_LSN = self._contract(index_L, theta_LP, n, inverse_LNN, weights_LN, kept)
        known_LN, noise_L1 = self._known_TN[index_L, :n], torch.exp(theta_LP[:, -1:])
        there_LN = ~torch.isinf(known_LN)
        floor_LN, inverse_LN = torch.where(there_LN, noise_L1 + known_LN, 0.0), inverse_LNN.diagonal(dim1=1, dim2=2)
        residual_LN = columns_LNR[:, :, 0] - (columns_LNR[:, :, 1:] @ beta_LQ[:, :, None])[:, :, 0]
        scaled_LN = residual_LN - floor_LN * weights_LN
        by_variance_L = there_LN.sum(1) - (inverse_LN * floor_LN).sum(1) - (scaled_LN * weights_LN).sum(1)
        by_noise_L = noise_L1[:, 0] * ((inverse_LN * there_LN).sum(1) - weights_LN.square().sum(1))
        gradient_LP = 0.5 * torch.cat([by_variance_L[:, None], traces_LS, by_noise_L[:, None]], 1)
        V_LNP = forward(torch.cat([scaled_LN[:, None], moved_LSN, (noise_L1 * weights_LN)[:, None]], 1).mT)
        shared_LPQ = V_LNP.mT @ Z_LNR[:, :, 1:]
        info_LPP = 0.5 * (V_LNP.mT @ V_LNP - shared_LPQ @ normal_LQQ @ shared_LPQ.mT)
        bad_L1 = ~good_L[:, None]
        return MatrixEvaluations(
            torch.stack([quadratic_L, logdet_L], 1).masked_fill(bad_L1, math.inf),
            beta_LQ.masked_fill(bad_L1, 0.0),
            gradient_LP.masked_fill(bad_L1, 0.0),
            info_LPP.masked_fill(bad_L1[:, :, None], 0.0),
        )

    def _score(self, index_L: Tensor, theta_LP: Tensor) -> Tensor:
        n = int(self.last_T[index_L].max())
        factor, logdet_L, good_L, _ = self._factor(index_L, theta_LP, n)
        Z_LNR = self._solve(factor, self._columns_TNR[index_L, :n])
        quadratic_L, _, _ = fit_mean(Z_LNR.mT @ Z_LNR)
        return torch.stack([quadratic_L, logdet_L], 1).masked_fill(~good_L[:, None], math.inf)

    def _factor(self, index_L: Tensor, theta_LP: Tensor, n: int) -> tuple[Any, Tensor, Tensor, Any]:
        """The factor, its log determinant, whether there is one, and what `_contract` needs again."""
        K_LNN, kept = self._covariance(index_L, theta_LP, n)
        return *self._factored(K_LNN), kept

    def _factored(self, K_LNN: Tensor) -> tuple[Any, Tensor, Tensor]:
        """The factor of matrices, its log determinant, and whether there is one."""
        L_LNN, failed_L = torch.linalg.cholesky_ex(K_LNN)
        diagonal_LN = L_LNN.diagonal(dim1=1, dim2=2)
        good_L = (failed_L == 0) & torch.isfinite(diagonal_LN).all(1)
        diagonal_LN.copy_(torch.where(good_L[:, None], diagonal_LN, 1.0))
        return L_LNN, 2 * diagonal_LN.log().sum(1), good_L

    def _solve(self, factor: Any, B_LNK: Tensor) -> Tensor:
        """L^-1 times right-hand sides."""
        return torch.linalg.solve_triangular(factor, B_LNK, upper=False)

    def _covariance(self, index_L: Tensor, theta_LP: Tensor, n: int) -> tuple[Tensor, Any]:
        """The covariance of the first n points, and its derivatives by the logarithms of the lengthscales."""
        lengths, variance_L11 = theta_LP.shape[1] - 2, torch.exp(theta_LP[:, :1, None])
        scaled_LND = self._x_TND[index_L, :n] * torch.exp(-theta_LP[:, None, 1:-1])
        parts = [(x_LN[:, :, None] - x_LN[:, None, :]).square_() for x_LN in scaled_LND.unbind(2)]
        r2_LNN = parts[0] if len(parts) == 1 else torch.stack(parts).sum(0)
        K_LNN, derivative_LNN = stationary(self.kernel.factors[0], r2_LNN, theta_LP)
        derivative_LNN = derivative_LNN * variance_L11
        dK = [derivative_LNN * part for part in (parts if lengths > 1 else [r2_LNN])]
        K_LNN = K_LNN.mul_(variance_L11)
        known_LN = self._known_TN[index_L, :n]
        missing_LN = torch.isinf(known_LN)
        if bool(missing_LN.any()):
            missing_LNN = missing_LN[:, :, None] | missing_LN[:, None, :]
            K_LNN.masked_fill_(missing_LNN, 0.0)
            dK = [each.masked_fill_(missing_LNN, 0.0) for each in dK]
        lifted_LN = torch.exp(theta_LP[:, :1]) + torch.exp(theta_LP[:, -1:]) + known_LN
        K_LNN.diagonal(dim1=1, dim2=2).copy_(torch.where(missing_LN, 1.0, lifted_LN))
        return K_LNN, dK

    def _invert(self, factor: Any) -> InvertedFactor:
        def forward(B_LNK: Tensor) -> Tensor:
            return torch.linalg.solve_triangular(factor, B_LNK, upper=False)

        def back(B_LNK: Tensor) -> Tensor:
            return torch.linalg.solve_triangular(factor.mT, B_LNK, upper=True)

        return InvertedFactor(torch.cholesky_inverse(factor), forward, back)

    def _contract(
        self, index_L: Tensor, theta_LP: Tensor, n: int, inverse_LNN: Tensor, weights_LN: Tensor, kept: Any
    ) -> tuple[Tensor, Tensor]:
        """By each lengthscale: the sum of (K^-1 - weights weights^T) dK, and dK weights."""
        del index_L, theta_LP, n
        moved_LSN = torch.stack([(dK_LNN @ weights_LN[:, :, None])[:, :, 0] for dK_LNN in kept], 1)
        flat_L1N = inverse_LNN.flatten(1)[:, None]
        traces_LS = torch.stack([(flat_L1N @ dK_LNN.flatten(1)[:, :, None])[:, 0, 0] for dK_LNN in kept], 1)
        return traces_LS - (moved_LSN @ weights_LN[:, :, None])[:, :, 0], moved_LSN


def fit_mean(products_LRR: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """From the products of L^-1 y and L^-1 H with themselves: the quadratic form of what the mean leaves, its
    coefficients, and the inverse of their normal matrix, as `pseudo_inverse` gives it."""
    quadratic_L, right_LQ, normal_LQQ = products_LRR[:, 0, 0], products_LRR[:, 1:, 0], products_LRR[:, 1:, 1:]
    inverse_LQQ = pseudo_inverse(normal_LQQ)
    beta_LQ = (inverse_LQQ @ right_LQ[:, :, None])[:, :, 0]
    return quadratic_L - (right_LQ * beta_LQ).sum(1), beta_LQ, inverse_LQQ
