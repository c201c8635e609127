"""What a fitted process says: at new points, and at each of its own points without that one.

Legend: T tasks, N points, M new points, D input dimensions, P parameters, Q regressors, S samples. All in a task's own
units (tasks.py), the parameters as logarithms. NaN parameters (a task that could not be fitted) give the mean function
and a variance of NaN.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from .kernels import CustomKernel, Kernel
from .likelihood import FactoredCovariance, factor, solve_at
from .tasks import TaskBatch, regressors


def predict(
    kernel: Kernel | CustomKernel,
    tasks: TaskBatch,
    theta_TP: Float[Tensor, "T P"],
    beta_TQ: Float[Tensor, "T Q"],
    new_TMD: Float[Tensor, "T M D"],
    mean: str,
) -> tuple[Float[Tensor, "T M"], Float[Tensor, "T M"]]:
    """Mean and variance of the function (not of an observation) at new points.

    The mean's coefficients are taken as known, as scikit-learn and GPyTorch do.
    """
    mean_TM, whitened_TNM, solved = _mean(kernel, tasks, theta_TP, beta_TQ, new_TMD, mean)
    variance_TM = kernel.diagonal(new_TMD, theta_TP[:, :-1]) - whitened_TNM.square().sum(1)
    return mean_TM, torch.where(solved.good_T[:, None], variance_TM.clamp(min=0), torch.nan)


def _mean(
    kernel: Kernel | CustomKernel, tasks: TaskBatch, theta_TP: Tensor, beta_TQ: Tensor, new_TMD: Tensor, mean: str
) -> tuple[Tensor, Tensor, FactoredCovariance]:
    """The mean at new points, L^-1 times their covariances with the task's, and the factored covariance."""
    solved = solve_at(kernel, tasks, theta_TP)
    beta_TQ = torch.where(solved.good_T[:, None], solved.beta_TQ, beta_TQ)
    cross_TMN = kernel(new_TMD, tasks.x_TND, theta_TP[:, :-1]) * tasks.mask_TN[:, None, :]
    level_TM = (regressors(new_TMD, mean) @ beta_TQ[:, :, None])[:, :, 0]
    weighted_TM = (cross_TMN @ solved.weights_TN[:, :, None])[:, :, 0]
    whitened_TNM = torch.linalg.solve_triangular(solved.L_TNN, cross_TMN.mT, upper=False)
    return level_TM + torch.where(solved.good_T[:, None], weighted_TM, 0.0), whitened_TNM, solved


def leave_one_out(
    kernel: Kernel | CustomKernel, tasks: TaskBatch, theta_TP: Float[Tensor, "T P"]
) -> tuple[Float[Tensor, "T N"], Float[Tensor, "T N"], Float[Tensor, "T N"]]:
    """Mean, variance and log density of each observation given the task's others, at the same parameters.

    By the inverse of the covariance: mean = y - a / b and variance = 1 / c, with a the weights, c its diagonal, and b
    the same less what the mean's coefficients take up: they too are fitted to the others alone. Where the others
    cannot tell them, they stay those of the whole task. NaN at missing points.
    """
    solved = solve_at(kernel, tasks, theta_TP)
    precision_TN = inverse_diagonal(solved.L_TNN)
    taken_TN = ((solved.solved_TNQ @ solved.normal_TQQ) * solved.solved_TNQ).sum(2)
    there_TN = tasks.mask_TN & solved.good_T[:, None]
    return left_out(tasks.y_TN, solved.weights_TN, precision_TN, precision_TN - taken_TN, there_TN)


def inverse_diagonal(L_TNN: Tensor) -> Tensor:
    """The diagonal of K^-1, K = L L^T. On a GPU by L^-1, which is much faster there than the library's K^-1."""
    if L_TNN.device.type == "cpu":
        return torch.cholesky_inverse(L_TNN).diagonal(dim1=1, dim2=2)
    eye_NN = torch.eye(L_TNN.shape[1], dtype=L_TNN.dtype, device=L_TNN.device)
    return torch.linalg.solve_triangular(L_TNN, eye_NN.expand_as(L_TNN), upper=False).square_().sum(1)


def left_out(
    y_TN: Tensor,
    weights_TN: Tensor,
    precision_TN: Tensor,
    left_TN: Tensor,
    there_TN: Tensor,
    more: Tensor | float = 0.0,
) -> tuple[Tensor, Tensor, Tensor]:
    """Mean, variance and log density of each observation without itself.

    Args:
        weights_TN, precision_TN: the inverse of the covariance times the residuals, and its diagonal.
        left_TN: that diagonal less what the mean's coefficients take up.
        there_TN: where there is something to say.
        more: what is added to the variance.
    """
    off_TN = weights_TN / torch.where(left_TN > 1e-9 * precision_TN, left_TN, precision_TN)
    variance_TN = 1 / precision_TN + more
    density_TN = -0.5 * (off_TN.square() / variance_TN + torch.log(2 * torch.pi * variance_TN))
    return (
        torch.where(there_TN, y_TN - off_TN, torch.nan),
        torch.where(there_TN, variance_TN, torch.nan),
        torch.where(there_TN, density_TN, torch.nan),
    )


def sample(
    kernel: Kernel | CustomKernel,
    tasks: TaskBatch,
    theta_TP: Float[Tensor, "T P"],
    beta_TQ: Float[Tensor, "T Q"],
    new_TMD: Float[Tensor, "T M D"],
    mean: str,
    normal_TSM: Float[Tensor, "T S M"],
) -> Float[Tensor, "T S M"]:
    """Samples of the function at new points, from standard normal numbers."""
    mean_TM, whitened_TNM, solved = _mean(kernel, tasks, theta_TP, beta_TQ, new_TMD, mean)
    spread_TMM = kernel(new_TMD, new_TMD, theta_TP[:, :-1]) - whitened_TNM.mT @ whitened_TNM
    root_TMM, good_T = root_of(spread_TMM)
    samples_TSM = mean_TM[:, None, :] + normal_TSM @ root_TMM.mT
    return torch.where((good_T & solved.good_T)[:, None, None], samples_TSM, torch.nan)


def root_of(A_TMM: Tensor) -> tuple[Tensor, Tensor]:
    """A factor of a matrix that is positive semi-definite up to rounding: what must be added to its diagonal for the
    Cholesky factor to exist is found by tens."""
    scale_T = A_TMM.diagonal(dim1=1, dim2=2).abs().mean(1)
    eye_MM = torch.eye(A_TMM.shape[-1], dtype=A_TMM.dtype, device=A_TMM.device)
    root_TMM, good_T = factor(torch.nan_to_num(A_TMM))
    for jitter in (1e-12, 1e-11, 1e-10, 1e-9, 1e-8, 1e-7, 1e-6):
        if bool(good_T.all()):
            break
        index = torch.nonzero(~good_T)[:, 0]
        added = jitter * scale_T[index, None, None].clamp(min=1e-300) * eye_MM
        root_TMM[index], good_T[index] = factor(torch.nan_to_num(A_TMM[index]) + added)
    return root_TMM, good_T & torch.isfinite(A_TMM).flatten(1).all(1)
