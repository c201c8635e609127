"""The marginal likelihood of many tasks at once, with its gradient and average information, in plain torch.

Legend: T tasks, N points, P parameters (the noise variance last), Q regressors of the mean.

A task's missing points are masked: their rows of the covariance are those of the identity and their targets 0, so that
they add nothing to any term. The mean is linear in its regressors and profiled: for each set of parameters its
coefficients are the generalised least-squares ones. docs/gp.md has the formulas.
"""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from .kernels import CustomKernel, Kernel
from .tasks import TaskBatch

_MOST = 65_535  # matrices in one call: more is a known limit of the batched solvers on CUDA
_TOLD = 1e-10  # of the square of a regressor, what those before it must leave of it


@dataclass(frozen=True, slots=True)
class FactoredCovariance:
    """A factored covariance and what follows from it.

    Attributes:
        L_TNN: the Cholesky factor; the identity where there is none.
        good_T: whether the covariance is positive definite.
        weights_TN: K^-1 times the residuals.
        residual_TN: targets less the mean.
        beta_TQ: the mean's coefficients.
        solved_TNQ: K^-1 times the regressors.
        normal_TQQ: the inverse of H^T K^-1 H, 0 for a regressor that the points cannot tell.
    """

    L_TNN: Float[Tensor, "T N N"]
    good_T: Bool[Tensor, " T"]
    weights_TN: Float[Tensor, "T N"]
    residual_TN: Float[Tensor, "T N"]
    beta_TQ: Float[Tensor, "T Q"]
    solved_TNQ: Float[Tensor, "T N Q"]
    normal_TQQ: Float[Tensor, "T Q Q"]


def with_noise(
    K_TNN: Float[Tensor, "T N N"], tasks: TaskBatch, theta_TP: Float[Tensor, "T P"]
) -> Float[Tensor, "T N N"]:
    """A kernel's matrix with the noise, and the identity at missing points; in place, where nothing derives it."""
    mask_TN = tasks.mask_TN
    noise_TN = torch.where(mask_TN, torch.exp(theta_TP[:, -1:]) + tasks.known_TN, 1.0)
    if K_TNN.requires_grad or not K_TNN.is_contiguous():
        return K_TNN * (mask_TN[:, :, None] & mask_TN[:, None, :]) + torch.diag_embed(noise_TN)
    if not bool(mask_TN.all()):
        K_TNN.masked_fill_(~(mask_TN[:, :, None] & mask_TN[:, None, :]), 0.0)
    K_TNN.diagonal(dim1=1, dim2=2).add_(noise_TN)
    return K_TNN


def factor(K_TNN: Float[Tensor, "T N N"]) -> tuple[Float[Tensor, "T N N"], Bool[Tensor, " T"]]:
    """The Cholesky factor, and whether there is one; the identity where there is none."""
    parts = [torch.linalg.cholesky_ex(part) for part in K_TNN.split(_MOST)]
    L_TNN = torch.cat([part[0] for part in parts]) if len(parts) > 1 else parts[0][0]
    good_T = (torch.cat([part[1] for part in parts]) == 0) & torch.isfinite(L_TNN.diagonal(dim1=1, dim2=2)).all(1)
    if K_TNN.device.type == "cpu" and bool(good_T.all()):  # a GPU would wait to say so
        return L_TNN, good_T
    eye_NN = torch.eye(K_TNN.shape[-1], dtype=K_TNN.dtype, device=K_TNN.device)
    return torch.where(good_T[:, None, None], L_TNN, eye_NN), good_T


def solve(K_TNN: Float[Tensor, "T N N"], tasks: TaskBatch) -> FactoredCovariance:
    """Factors the covariance and fits the mean."""
    L_TNN, good_T = factor(K_TNN)
    H_TNQ, Q = tasks.H_TNQ, tasks.coefficients
    both_TNR = torch.cholesky_solve(torch.cat([H_TNQ, tasks.y_TN[:, :, None]], dim=2), L_TNN)
    solved_TNQ, direct_TN = both_TNR[:, :, :Q], both_TNR[:, :, Q]
    normal_TQQ = pseudo_inverse(H_TNQ.mT @ solved_TNQ)
    beta_TQ = (normal_TQQ @ (H_TNQ.mT @ direct_TN[:, :, None]))[:, :, 0]
    residual_TN = tasks.y_TN - (H_TNQ @ beta_TQ[:, :, None])[:, :, 0]
    weights_TN = direct_TN - (solved_TNQ @ beta_TQ[:, :, None])[:, :, 0]
    return FactoredCovariance(L_TNN, good_T, weights_TN, residual_TN, beta_TQ, solved_TNQ, normal_TQQ)


def pseudo_inverse(A_TQQ: Tensor) -> Tensor:
    """The inverse of normal matrices; 0 for a regressor that the points cannot tell from those before it."""
    Q = A_TQQ.shape[1]
    if Q == 1:
        return torch.where(A_TQQ > 0, 1 / A_TQQ.clamp(min=1e-300), 0.0)
    out_TQQ = A_TQQ
    for own_Q in torch.eye(Q, dtype=A_TQQ.dtype, device=A_TQQ.device):
        others_Q = 1 - own_Q
        pivot_T, whole_T = (of_TQQ @ own_Q @ own_Q for of_TQQ in (out_TQQ, A_TQQ))
        told_T = pivot_T > _TOLD * whole_T
        over_T = torch.where(told_T, 1 / torch.where(told_T, pivot_T, 1.0), 0.0)
        column_TQ, row_TQ = (out_TQQ @ own_Q) * others_Q, (own_Q @ out_TQQ) * others_Q
        rest_TQQ = out_TQQ - over_T[:, None, None] * column_TQ[:, :, None] * row_TQ[:, None]
        cross_TQQ = (own_Q - column_TQ)[:, :, None] * own_Q + own_Q[:, None] * row_TQ[:, None]
        out_TQQ = rest_TQQ * (others_Q[:, None] * others_Q) + over_T[:, None, None] * cross_TQQ
    return out_TQQ


def nlml_of(solved: FactoredCovariance, tasks: TaskBatch) -> tuple[Float[Tensor, " T"], Float[Tensor, " T"]]:
    """The negative log marginal likelihood, infinite where the covariance is not positive definite, and the quadratic
    form in it."""
    quadratic_T = (solved.residual_TN * solved.weights_TN).sum(1)
    logdet_T = 2 * solved.L_TNN.diagonal(dim1=1, dim2=2).log().sum(1)
    count_T = tasks.mask_TN.sum(1).to(quadratic_T.dtype)
    nlml_T = 0.5 * (quadratic_T + logdet_T + math.log(2 * math.pi) * count_T)
    return torch.where(solved.good_T, nlml_T, math.inf), quadratic_T


def solve_at(kernel: Kernel | CustomKernel, tasks: TaskBatch, theta_TP: Float[Tensor, "T P"]) -> FactoredCovariance:
    """The covariance at some parameters, factored."""
    K_TNN = kernel(tasks.x_TND, tasks.x_TND, theta_TP[:, :-1])
    return solve(with_noise(K_TNN, tasks, theta_TP), tasks)


def score(
    kernel: Kernel | CustomKernel, tasks: TaskBatch, theta_TP: Float[Tensor, "T P"]
) -> tuple[Float[Tensor, " T"], Float[Tensor, " T"]]:
    """The negative log marginal likelihood, and the quadratic form in it."""
    return nlml_of(solve_at(kernel, tasks, theta_TP), tasks)


def evaluate(
    kernel: Kernel, tasks: TaskBatch, theta_TP: Float[Tensor, "T P"]
) -> tuple[Float[Tensor, " T"], Float[Tensor, "T Q"], Float[Tensor, "T P"], Float[Tensor, "T P P"]]:
    """The negative log marginal likelihood, the mean's coefficients, the gradient, and the average of observed and
    expected information, less the second derivatives of the kernel, whose expectation is 0."""
    mask_TN = tasks.mask_TN
    plain_TNN, dK_TPNN = kernel.derive(tasks.x_TND, theta_TP[:, :-1])
    solved = solve(with_noise(plain_TNN, tasks, theta_TP), tasks)
    noise_TNN = torch.diag_embed(torch.where(mask_TN, torch.exp(theta_TP[:, -1:]), 0.0))
    dK_TPNN = torch.cat([dK_TPNN * (mask_TN[:, None, :, None] & mask_TN[:, None, None, :]), noise_TNN[:, None]], 1)
    inverse_TNN = torch.cat([torch.cholesky_inverse(part) for part in solved.L_TNN.split(_MOST)])
    a_TN = solved.weights_TN
    gap_TNN = inverse_TNN - a_TN[:, :, None] * a_TN[:, None, :]
    gradient_TP = 0.5 * (gap_TNN[:, None] * dK_TPNN).sum((2, 3))
    U_TNP = (dK_TPNN @ a_TN[:, None, :, None])[:, :, :, 0].mT
    through_TNP = inverse_TNN @ U_TNP - solved.solved_TNQ @ (solved.normal_TQQ @ (solved.solved_TNQ.mT @ U_TNP))
    return nlml_of(solved, tasks)[0], solved.beta_TQ, gradient_TP, 0.5 * U_TNP.mT @ through_TNP
