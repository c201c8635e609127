"""Whether the model has found the parameters that synthetic data was drawn from.

Legend: B students, Q questions, H = K-1 thresholds.

The scale of ability is the model's own: theta may be stretched and shifted if alpha and beta follow. So parameters are
compared by correlation, which does not mind, and, after linking (the model's thresholds given the mean and spread of
the true ones, alpha the inverse stretch, theta the same line), by their distance. Abilities are those of test students,
each against its own truth.
"""

from dataclasses import dataclass

import numpy as np

from ...core.base.errors import InputError
from ..data.students import Students
from ..data.true_parameters import Truth
from .item_parameters import Items


@dataclass(frozen=True, slots=True, eq=False)
class Recovery:
    """How near the truth the model has come.

    Attributes:
        alpha_r, beta_r, theta_r: correlations; beta over all thresholds together.
        beta_each_H: the correlation of each threshold by itself.
        alpha_rmse, beta_rmse, theta_rmse: root mean squared distances, after linking.
        slope, shift: of the link: true = slope * model + shift, on the scale of ability.
        questions, students: how many were compared.
    """

    alpha_r: float
    beta_r: float
    theta_r: float
    beta_each_H: np.ndarray
    alpha_rmse: float
    beta_rmse: float
    theta_rmse: float
    slope: float
    shift: float
    questions: int
    students: int


def recovery(found: Items, theta_B: np.ndarray, test: Students, truth: Truth) -> Recovery:
    """Compares what was found with the truth.

    Args:
        found: the questions, from `items.items` on the training students.
        theta_B: the abilities of the test students, from `items.abilities`.
        test: those students; the truth of each is found by its name.
        truth: what they were drawn from.
    """
    if found.beta_QH.shape != truth.beta_QH.shape or len(theta_B) != len(test):
        raise InputError(
            f"found thresholds of shape {found.beta_QH.shape} and {len(theta_B)} abilities; the truth has "
            f"{truth.beta_QH.shape}, and there are {len(test)} test students"
        )
    asked = found.count_Q > 0
    beta, true_beta = found.beta_QH[asked], truth.beta_QH[asked]
    alpha, true_alpha = found.alpha_Q[asked], truth.alpha_Q[asked]
    true_theta = truth.theta(test.ids)
    there = np.isfinite(theta_B) & np.isfinite(true_theta)
    theta, true_theta = theta_B[there], true_theta[there]
    slope, shift = link(beta, true_beta)
    return Recovery(
        correlation(alpha, true_alpha),
        correlation(beta, true_beta),
        correlation(theta, true_theta),
        np.array([correlation(beta[:, each], true_beta[:, each]) for each in range(beta.shape[1])]),
        _rmse(alpha / slope, true_alpha),
        _rmse(slope * beta + shift, true_beta),
        _rmse(slope * theta + shift, true_theta),
        slope,
        shift,
        int(asked.sum()),
        int(there.sum()),
    )


def link(found: np.ndarray, true: np.ndarray) -> tuple[float, float]:
    """Mean/sigma linking: the line that gives the found thresholds the mean and the spread of the true ones."""
    if found.size < 2 or not found.std() > 0:
        return float("nan"), float("nan")
    slope = float(true.std() / found.std())
    return slope, float(true.mean() - slope * found.mean())


def correlation(first: np.ndarray, second: np.ndarray) -> float:
    """Pearson's correlation; NaN where it cannot be said."""
    first, second = first.reshape(-1) - first.mean() if first.size else first, second.reshape(-1)
    if first.size < 2:
        return float("nan")
    second = second - second.mean()
    below = float(np.sqrt((first @ first) * (second @ second)))
    return float(first @ second) / below if below > 0 else float("nan")


def _rmse(found: np.ndarray, true: np.ndarray) -> float:
    return float(np.sqrt(np.mean((found - true) ** 2))) if found.size else float("nan")
