"""The inducing-point approximation SGPR: a lower bound of the likelihood (Titsias 2009), and predictions with it.

Legend: T tasks, N points, M inducing points, K new points, D input dimensions, P parameters (the noise variance last),
Q regressors of the mean, R = Q + 1, S samples. All in a task's own units, as in `posterior.py`.

The covariance is taken for Q + D: Q = K_fu K_uu^-1 K_uf has the rank of the inducing points, and D is the noise. With
K_uu = L L^T, A = L^-1 K_uf D^-1/2 and I + A A^T = B B^T, all that is inverted are triangles of M rows, and the second
comes from a matrix whose eigenvalues are at least 1. The bound is the likelihood under Q + D less
tr(D^-1 (K_ff - Q)) / 2, and never above the exact likelihood. What is added to the diagonal of K_uu keeps it a bound: Q
only becomes smaller.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from .kernels import CustomKernel, Kernel
from .likelihood import factor, pseudo_inverse
from .posterior import left_out, root_of
from .tasks import TaskBatch, regressors

JITTER = 1e-9
"""Of the mean variance of the inducing points: added to theirs."""


_AT_ONCE = {"cpu": 1 << 21, "cuda": 1 << 24}  # numbers of a matrix of several tasks


def tasks_at_once(device: torch.device, points: int, inducing: int) -> int:
    """Tasks that are evaluated together: their matrices are what takes memory."""
    return max(1, _AT_ONCE.get(device.type, 1 << 21) // max(1, points * min(points, inducing)))


class Inducing(NamedTuple):
    """The inducing points of each task, some of its own: their positions, and which of them count."""

    index_TM: Int[Tensor, "T M"]
    used_TM: Bool[Tensor, "T M"]

    def points(self, tasks: TaskBatch) -> Float[Tensor, "T M D"]:
        return tasks.x_TND.gather(1, self.index_TM[:, :, None].expand(-1, -1, tasks.x_TND.shape[2]))

    def select(self, index: Tensor) -> "Inducing":
        return Inducing(self.index_TM[index], self.used_TM[index])


def choose_inducing(tasks: TaskBatch, most: int) -> Inducing:
    """That many points of every task, spread over all of them: first the one nearest to their mean, then always the
    one farthest from those chosen. Where no further one is apart from these, there are fewer."""
    x_TND, mask_TN = tasks.x_TND, tasks.mask_TN
    alike = len(tasks) > 1 and x_TND.stride(0) == 0 and bool(mask_TN.all())
    if alike:
        x_TND, mask_TN = x_TND[:1], mask_TN[:1]
    T, N, D = x_TND.shape
    middle_TD = (x_TND * mask_TN[:, :, None]).sum(1) / mask_TN.sum(1, keepdim=True).clamp(min=1)
    farther_TN = torch.where(mask_TN, -(x_TND - middle_TD[:, None]).square().sum(2), -math.inf)
    apart_TN = torch.where(mask_TN, math.inf, -1.0).to(x_TND.dtype)
    chosen, used = [], []
    for number in range(min(most, N)):
        value_T, next_T = (apart_TN if number else farther_TN).max(1)
        chosen.append(next_T)
        used.append(torch.isfinite(value_T) if number == 0 else value_T > 0)
        gap_TND = x_TND - x_TND.gather(1, next_T[:, None, None].expand(T, 1, D))
        apart_TN = torch.minimum(apart_TN, gap_TND.square().sum(2))
    index_TM, used_TM = torch.stack(chosen, 1), torch.stack(used, 1)
    if alike:
        index_TM, used_TM = index_TM.expand(len(tasks), -1), used_TM.expand(len(tasks), -1)
    return Inducing(index_TM, used_TM)


@dataclass(frozen=True, slots=True)
class SparseCovariance:
    """Q + D in factors, and the mean that fits best under it.

    Attributes:
        L_TMM: the Cholesky factor of K_uu.
        V_TMN: L^-1 K_uf.
        B_TMM: the Cholesky factor of I + A A^T, A = V D^-1/2.
        U_TMN: B^-1 A.
        root_TN: D^-1/2, 0 at missing points.
        slack_TN: the diagonal of K_ff - Q.
        good_T: whether there are both factors.
        beta_TQ: the mean's coefficients.
        normal_TQQ: the inverse of H^T (Q + D)^-1 H.
        weights_TN: (Q + D)^-1 times the residuals.
        value_T2: the quadratic form with the trace, and the log determinant, infinite where a factor is missing; their
            sum is minus twice the bound, up to a constant.
    """

    L_TMM: Tensor
    V_TMN: Tensor
    B_TMM: Tensor
    U_TMN: Tensor
    root_TN: Tensor
    slack_TN: Tensor
    good_T: Tensor
    beta_TQ: Tensor
    normal_TQQ: Tensor
    weights_TN: Tensor
    value_T2: Tensor

    def solve(self, b_TNK: Tensor) -> Tensor:
        """(Q + D)^-1 b."""
        scaled_TNK = self.root_TN[:, :, None] * b_TNK
        return self.root_TN[:, :, None] * (scaled_TNK - self.U_TMN.mT @ (self.U_TMN @ scaled_TNK))


def inducing_covariance(K_TMM: Tensor, used_TM: Tensor) -> Tensor:
    """K_uu with the jitter; the identity at inducing points that do not count. In place."""
    K_TMM.masked_fill_(~(used_TM[:, :, None] & used_TM[:, None, :]), 0.0)
    diagonal_TM = K_TMM.diagonal(dim1=1, dim2=2)
    level_T1 = diagonal_TM.sum(1, keepdim=True) / used_TM.sum(1, keepdim=True).clamp(min=1)
    diagonal_TM.copy_(torch.where(used_TM, diagonal_TM + JITTER * level_T1, 1.0))
    return K_TMM


def factor_sparse(
    kernel: Kernel | CustomKernel, tasks: TaskBatch, theta_TP: Tensor, K_uu: Tensor, K_uf: Tensor
) -> SparseCovariance:
    """Factors Q + D, from the kernel's covariances of the inducing points (with the jitter), and of these with all
    points (0 at those that are missing or do not count)."""
    mask_TN = tasks.mask_TN
    noise_TN = torch.where(mask_TN, torch.exp(theta_TP[:, -1:]) + tasks.known_TN, 1.0)
    root_TN = torch.where(mask_TN, noise_TN.rsqrt(), 0.0)
    L_TMM, good_T = factor(K_uu)
    V_TMN = torch.linalg.solve_triangular(L_TMM, K_uf, upper=False)
    A_TMN = V_TMN * root_TN[:, None]
    inner_TMM = A_TMN @ A_TMN.mT
    inner_TMM.diagonal(dim1=1, dim2=2).add_(1.0)
    B_TMM, also_T = factor(inner_TMM)
    U_TMN = torch.linalg.solve_triangular(B_TMM, A_TMN, upper=False)
    columns_TNR = torch.cat([tasks.y_TN[:, :, None], tasks.H_TNQ], 2) * root_TN[:, :, None]
    C_TMR = U_TMN @ columns_TNR
    products_TRR = columns_TNR.mT @ columns_TNR - C_TMR.mT @ C_TMR
    normal_TQQ, right_TQ = pseudo_inverse(products_TRR[:, 1:, 1:]), products_TRR[:, 1:, 0]
    beta_TQ = (normal_TQQ @ right_TQ[:, :, None])[:, :, 0]
    left_TN1 = columns_TNR[:, :, :1] - columns_TNR[:, :, 1:] @ beta_TQ[:, :, None]
    weights_TN = root_TN * (left_TN1 - U_TMN.mT @ (U_TMN @ left_TN1))[:, :, 0]
    slack_TN = (kernel.diagonal(tasks.x_TND, theta_TP[:, :-1]) - V_TMN.square().sum(1)).clamp(min=0) * mask_TN
    quadratic_T = products_TRR[:, 0, 0] - (right_TQ * beta_TQ).sum(1) + (slack_TN * root_TN.square()).sum(1)
    logdet_T = 2 * B_TMM.diagonal(dim1=1, dim2=2).log().sum(1) + noise_TN.log().sum(1)
    good_T = good_T & also_T & torch.isfinite(quadratic_T)
    value_T2 = torch.stack([quadratic_T, logdet_T], 1).masked_fill(~good_T[:, None], math.inf)
    return SparseCovariance(
        L_TMM, V_TMN, B_TMM, U_TMN, root_TN, slack_TN, good_T, beta_TQ, normal_TQQ, weights_TN, value_T2
    )


def sparse_at(
    kernel: Kernel | CustomKernel, tasks: TaskBatch, inducing: Inducing, theta_TP: Tensor
) -> SparseCovariance:
    """The approximation at some parameters, factored."""
    z_TMD, used_TM = inducing.points(tasks), inducing.used_TM
    K_uu = inducing_covariance(kernel(z_TMD, z_TMD, theta_TP[:, :-1]), used_TM)
    K_uf = kernel(z_TMD, tasks.x_TND, theta_TP[:, :-1]) * (used_TM[:, :, None] & tasks.mask_TN[:, None, :])
    return factor_sparse(kernel, tasks, theta_TP, K_uu, K_uf)


def predict(
    kernel: Kernel | CustomKernel,
    tasks: TaskBatch,
    theta_TP: Float[Tensor, "T P"],
    beta_TQ: Float[Tensor, "T Q"],
    new_TKD: Float[Tensor, "T K D"],
    mean: str,
    most: int,
) -> tuple[Float[Tensor, "T K"], Float[Tensor, "T K"]]:
    """Mean and variance of the function at new points, with so many inducing points."""

    def part(index: Tensor) -> tuple[Tensor, ...]:
        theta, new = theta_TP[index], new_TKD[index]
        mean_TK, prior_TMK, posterior_TMK, good = _at(
            kernel, tasks.select(index), theta, beta_TQ[index], new, mean, most
        )
        variance = kernel.diagonal(new, theta[:, :-1]) - prior_TMK.square().sum(1) + posterior_TMK.square().sum(1)
        return mean_TK, torch.where(good[:, None], variance.clamp(min=0), torch.nan)

    mean_TK, variance_TK = _in_parts(part, tasks, max(tasks.y_TN.shape[1], new_TKD.shape[1]), most)
    return mean_TK, variance_TK


def _in_parts(part: Callable[[Tensor], tuple[Tensor, ...]], tasks: TaskBatch, points: int, most: int) -> list[Tensor]:
    """What a function of the positions of some tasks gives, for all of them."""
    device = tasks.y_TN.device
    every = torch.arange(len(tasks), device=device).split(tasks_at_once(device, points, most))
    return [torch.cat(values) for values in zip(*map(part, every), strict=True)]


def _at(
    kernel: Kernel | CustomKernel,
    tasks: TaskBatch,
    theta_TP: Tensor,
    beta_TQ: Tensor,
    new_TKD: Tensor,
    mean: str,
    most: int,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The mean at new points, L^-1 and B^-1 L^-1 times their covariances with the inducing points, and whether there
    are factors."""
    inducing = choose_inducing(tasks, most)
    sparse = sparse_at(kernel, tasks, inducing, theta_TP)
    beta_TQ = torch.where(sparse.good_T[:, None], sparse.beta_TQ, beta_TQ)
    cross_TMK = kernel(inducing.points(tasks), new_TKD, theta_TP[:, :-1]) * inducing.used_TM[:, :, None]
    prior_TMK = torch.linalg.solve_triangular(sparse.L_TMM, cross_TMK, upper=False)
    posterior_TMK = torch.linalg.solve_triangular(sparse.B_TMM, prior_TMK, upper=False)
    # K_*u K_uu^-1 K_uf (Q + D)^-1 r
    weighted_TK = (prior_TMK.mT @ (sparse.V_TMN @ sparse.weights_TN[:, :, None]))[:, :, 0]
    level_TK = (regressors(new_TKD, mean) @ beta_TQ[:, :, None])[:, :, 0]
    mean_TK = level_TK + torch.where(sparse.good_T[:, None], weighted_TK, 0.0)
    return mean_TK, prior_TMK, posterior_TMK, sparse.good_T


def leave_one_out(
    kernel: Kernel | CustomKernel, tasks: TaskBatch, theta_TP: Float[Tensor, "T P"], most: int
) -> tuple[Float[Tensor, "T N"], Float[Tensor, "T N"], Float[Tensor, "T N"]]:
    """Mean, variance and log density of each observation given the task's others, the inducing points staying where
    they are; as `posterior.leave_one_out`, with K_ff - Q added to the variance."""

    def part(index: Tensor) -> tuple[Tensor, ...]:
        some = tasks.select(index)
        sparse = sparse_at(kernel, some, choose_inducing(some, most), theta_TP[index])
        precision_TN = sparse.root_TN.square() * (1 - sparse.U_TMN.square().sum(1))
        solved_TNQ = sparse.solve(some.H_TNQ)
        left_TN = precision_TN - ((solved_TNQ @ sparse.normal_TQQ) * solved_TNQ).sum(2)
        there_TN = some.mask_TN & sparse.good_T[:, None]
        return left_out(some.y_TN, sparse.weights_TN, precision_TN, left_TN, there_TN, sparse.slack_TN)

    mean_TN, variance_TN, density_TN = _in_parts(part, tasks, tasks.y_TN.shape[1], most)
    return mean_TN, variance_TN, density_TN


def sample(
    kernel: Kernel | CustomKernel,
    tasks: TaskBatch,
    theta_TP: Float[Tensor, "T P"],
    beta_TQ: Float[Tensor, "T Q"],
    new_TKD: Float[Tensor, "T K D"],
    mean: str,
    normal_TSK: Float[Tensor, "T S K"],
    most: int,
) -> Float[Tensor, "T S K"]:
    """Samples of the function at new points, from standard normal numbers."""

    def part(index: Tensor) -> tuple[Tensor, ...]:
        theta, new = theta_TP[index], new_TKD[index]
        mean_TK, prior_TMK, posterior_TMK, good = _at(
            kernel, tasks.select(index), theta, beta_TQ[index], new, mean, most
        )
        spread_TKK = kernel(new, new, theta[:, :-1]) - prior_TMK.mT @ prior_TMK
        root_TKK, also = root_of(spread_TKK + posterior_TMK.mT @ posterior_TMK)
        samples_TSK = mean_TK[:, None, :] + normal_TSK[index] @ root_TKK.mT
        return (torch.where((good & also)[:, None, None], samples_TSK, torch.nan),)

    return _in_parts(part, tasks, max(tasks.y_TN.shape[1], new_TKD.shape[1]), most)[0]
