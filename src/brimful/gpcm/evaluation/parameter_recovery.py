"""How well the model recovers the parameters that synthetic data was drawn from.

Legend: B students, Q questions, H = K-1 thresholds.

The scale of ability is the model's own: theta may be stretched and shifted if alpha and beta follow. So parameters are
compared by correlation, which is invariant, and, after linking (the thresholds are given the mean and standard
deviation of the true ones, alpha the inverse slope, theta the same line), by their distance. Abilities are those of
test students, each compared with its own true value.
"""

from dataclasses import dataclass

import numpy as np

from ...core.base.errors import InputError
from ..data.students import Students
from ..data.true_parameters import TrueParameters
from .item_parameters import ItemParameters


@dataclass(frozen=True, slots=True, eq=False)
class Recovery:
    """Correlations with the true parameters, and distances from them.

    Attributes:
        alpha_r, beta_r, theta_r: correlations; beta over all thresholds together.
        beta_r_H: the correlation of each threshold by itself.
        alpha_rmse, beta_rmse, theta_rmse: root mean squared distances, after linking.
        slope, shift: of the link: true = slope * model + shift, on the scale of ability.
        questions, students: how many were compared.
    """

    alpha_r: float
    beta_r: float
    theta_r: float
    beta_r_H: np.ndarray
    alpha_rmse: float
    beta_rmse: float
    theta_rmse: float
    slope: float
    shift: float
    questions: int
    students: int


def measure_recovery(
    items: ItemParameters, theta_B: np.ndarray, test: Students, true_parameters: TrueParameters
) -> Recovery:
    """Compares estimated with true parameters.

    Args:
        items: of the questions, from `item_parameters` on the training students.
        theta_B: the abilities of the test students, from `abilities`.
        test: those students; true abilities are looked up by their ids.
        true_parameters: what they were drawn from.
    """
    if items.beta_QH.shape != true_parameters.beta_QH.shape or len(theta_B) != len(test):
        raise InputError(
            f"thresholds of shape {items.beta_QH.shape} and {len(theta_B)} abilities; the true ones have shape "
            f"{true_parameters.beta_QH.shape}, and there are {len(test)} test students"
        )
    asked = items.count_Q > 0
    beta, true_beta = items.beta_QH[asked], true_parameters.beta_QH[asked]
    alpha, true_alpha = items.alpha_Q[asked], true_parameters.alpha_Q[asked]
    true_theta = true_parameters.theta(test.ids)
    known = np.isfinite(theta_B) & np.isfinite(true_theta)
    theta, true_theta = theta_B[known], true_theta[known]
    slope, shift = link(beta, true_beta)
    return Recovery(
        correlation(alpha, true_alpha),
        correlation(beta, true_beta),
        correlation(theta, true_theta),
        np.array([correlation(*pair) for pair in zip(beta.T, true_beta.T, strict=True)]),
        _rmse(alpha / slope, true_alpha),
        _rmse(slope * beta + shift, true_beta),
        _rmse(slope * theta + shift, true_theta),
        slope,
        shift,
        int(asked.sum()),
        int(known.sum()),
    )


def link(estimated: np.ndarray, true: np.ndarray) -> tuple[float, float]:
    """Mean/sigma linking: slope and shift that give the estimated thresholds mean and deviation of the true ones."""
    if estimated.size < 2 or not estimated.std() > 0:
        return float("nan"), float("nan")
    slope = float(true.std() / estimated.std())
    return slope, float(true.mean() - slope * estimated.mean())


def correlation(first: np.ndarray, second: np.ndarray) -> float:
    """Pearson's correlation; NaN where it is undefined."""
    first, second = first.reshape(-1) - first.mean() if first.size else first, second.reshape(-1)
    if first.size < 2:
        return float("nan")
    second = second - second.mean()
    below = float(np.sqrt((first @ first) * (second @ second)))
    return float(first @ second) / below if below > 0 else float("nan")


def _rmse(estimated: np.ndarray, true: np.ndarray) -> float:
    return float(np.sqrt(np.mean((estimated - true) ** 2))) if estimated.size else float("nan")
