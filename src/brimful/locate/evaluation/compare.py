"""A network beside the judges, on the same samples: weighted least squares, the grid posterior, the Cramér-Rao bound.

All see the same features. Where nothing is known of how recordings came about, there is no judge but the truth.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ...core.base.formatting import format_table
from ..data.features import Scaling
from ..physics.scenario import Scenario
from .cramer_rao import cramer_rao
from .least_squares import LeastSquares
from .metrics import LocationScores, score
from .posterior import GridPosterior
from .predict import over

_COLUMNS = ("rmse_m", "p50_m", "p68_m", "p95_m", "coverage")


@dataclass(frozen=True, slots=True, eq=False)
class Comparison:
    """The scores of all, by name.

    Attributes:
        scores: network, least squares, posterior, in this order.
        cramer_rao_m: the root mean square of the bound, in metres; None where it is not known.
        errors, covariances: by name, (N, 2) and (N, 2, 2), in metres.
        level: (N,), the posterior's mass where its density is higher than at the truth; uniform if it is right.
    """

    scores: dict[str, LocationScores]
    cramer_rao_m: float | None
    errors: dict[str, Tensor]
    covariances: dict[str, Tensor]
    level: Tensor | None = None

    def ratio(self, metric: str, name: str = "network") -> float | None:
        """How many times the posterior's error one has."""
        if "posterior" not in self.scores or name not in self.scores:
            return None
        return getattr(self.scores[name], metric) / getattr(self.scores["posterior"], metric)

    def values(self) -> dict[str, Any]:
        """As JSON values."""
        rows: dict[str, Any] = {name: scores.values() for name, scores in self.scores.items()}
        return {
            **rows,
            "cramer_rao_m": self.cramer_rao_m,
            "rmse_over_posterior": self.ratio("rmse_m"),
            "p68_over_posterior": self.ratio("p68_m"),
        }

    def flat_values(self) -> dict[str, Any]:
        """As JSON values on one level: `posterior_rmse_m`, `network_coverage_share`."""
        flat: dict[str, Any] = {}
        for name, scores in self.scores.items():
            for metric, value in scores.values().items():
                key = f"{name}_{metric}".replace(" ", "_")
                flat[f"{key}_share" if metric == "coverage" else key] = value
        rest = {name: value for name, value in self.values().items() if not isinstance(value, dict)}
        return flat | rest

    def __str__(self) -> str:
        rows = [(name, *_cells(scores)) for name, scores in self.scores.items()]
        if self.cramer_rao_m is not None:
            rows.append(("Cramér-Rao bound", f"{self.cramer_rao_m:,.0f}", "", "", "", ""))
        return format_table(rows, header=("", "RMSE m", "p50 m", "p68 m", "p95 m", "in the 68% ellipse"))


def _cells(scores: LocationScores) -> list[str]:
    values = {name: scores.values()[name] for name in _COLUMNS}
    formats = {name: "{:.1%}" if name == "coverage" else "{:,.0f}" for name in _COLUMNS}
    return ["" if value is None else formats[name].format(value) for name, value in values.items()]


def compare(
    predicted: dict[str, dict[str, Tensor]],
    samples: dict[str, Tensor],
    scaling: Scaling,
    scenario: Scenario | None,
    **options: Any,
) -> Comparison:
    """Scores predictions of samples, by name, and those of the judges beside them.

    Args:
        predicted: position and covariance by the name of a network, in metres.
        scenario: how the recordings were generated; without it there are no judges.
        options: device and budget of the judges' `map`.
    """
    truth = scaling.position_m * samples["target"]
    found, level, bound = dict(predicted), None, None
    if scenario is not None:
        found["least squares"] = over(LeastSquares(scaling, scenario), samples, **options)
        posterior = GridPosterior(scaling, scenario)
        cost = posterior.cost(samples["mask"].shape[1])
        found["posterior"] = over(posterior, samples, "target", cost=cost, **options)
        level = found["posterior"]["level"]
        variance = cramer_rao(samples, scaling, scenario).diagonal(dim1=1, dim2=2).sum(1)
        bound = float(variance.mean().sqrt())
    errors = {name: (values["position"] - truth).to(torch.float64) for name, values in found.items()}
    covariances = {name: values["covariance"] for name, values in found.items()}
    scores = {name: score(errors[name], covariances[name]) for name in found}
    return Comparison(scores, bound, errors, covariances, level)
