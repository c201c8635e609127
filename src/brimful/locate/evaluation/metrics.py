"""How far predictions are from the truth, in metres, and whether their uncertainty is honest.

Legend: N recordings; errors and covariances in metres.
"""

import math
from dataclasses import dataclass, fields

import numpy as np
from torch import Tensor

from ...core.base.arguments import as_numbers

ELLIPSE = 0.68
"""The probability that error ellipses are drawn for."""


@dataclass(frozen=True, slots=True)
class LocationScores:
    """Metrics of predicted positions.

    Attributes:
        count: recordings.
        rmse_m: the root of the mean squared distance.
        p50_m, p68_m, p95_m: the distance that such a share of the predictions keeps within.
        coverage: the share of truths inside the 68% ellipse; NaN where there are no covariances.
        uncertainty_m: the root mean square distance that the covariances predict.
    """

    count: int
    rmse_m: float
    p50_m: float
    p68_m: float
    p95_m: float
    coverage: float = math.nan
    uncertainty_m: float = math.nan

    def values(self) -> dict[str, float | None]:
        """The metrics as JSON values."""
        values = {declared.name: getattr(self, declared.name) for declared in fields(self) if declared.name != "count"}
        return {name: None if math.isnan(value) else value for name, value in values.items()}


def score(error: Tensor, covariance: Tensor | None = None) -> LocationScores:
    """The metrics of errors (N, 2), and of the covariances (N, 2, 2) that were predicted with them."""
    error = as_numbers(error, "errors", "(recordings, 2)")
    distance = error.double().square().sum(1).sqrt()
    if not len(distance):
        return LocationScores(0, math.nan, math.nan, math.nan, math.nan)
    p50, p68, p95 = (float(np.quantile(distance.numpy(), share)) for share in (0.5, 0.68, 0.95))
    rmse = float(distance.square().mean().sqrt())
    if covariance is None:
        return LocationScores(len(error), rmse, p50, p68, p95)
    trace = covariance.double().diagonal(dim1=1, dim2=2).sum(1)
    inside = float((squared_mahalanobis(error, covariance) <= ellipse_bound(ELLIPSE)).double().mean())
    return LocationScores(len(error), rmse, p50, p68, p95, inside, float(trace.mean().sqrt()))


def squared_mahalanobis(error: Tensor, covariance: Tensor) -> Tensor:
    """(N,) the squared distance in deviations."""
    (a, b), (_, d) = (row.unbind(-1) for row in covariance.double().unbind(-2))
    x, y = error.double().unbind(-1)
    return (d * x * x - 2 * b * x * y + a * y * y) / (a * d - b * b)


def ellipse_bound(share: float) -> float:
    """The squared Mahalanobis distance of the ellipse that holds such a share of a normal distribution of the plane."""
    return -2 * math.log(1 - share)


def calibration_curve(error: Tensor, covariance: Tensor, points: int = 19) -> tuple[np.ndarray, np.ndarray]:
    """Shares, and how many of the truths are inside the ellipses of these shares."""
    shares = np.linspace(0, 1, points + 2)[1:-1]
    squared = np.sort(squared_mahalanobis(error, covariance).numpy())
    bounds = [ellipse_bound(float(share)) for share in shares]
    return shares, np.searchsorted(squared, bounds, side="right") / max(1, len(squared))


def fit_scale(error: Tensor, covariance: Tensor) -> float:
    """What to multiply covariances by so that the 68% ellipse holds 68% of these truths."""
    squared = squared_mahalanobis(error, covariance).numpy()
    return float(np.quantile(squared, ELLIPSE)) / ellipse_bound(ELLIPSE) if len(squared) else 1.0
