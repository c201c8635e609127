"""Weighted least squares, many recordings at once: the position and power that explain the measured levels best.

    minimize over x, y, power   sum over those that detected it of ((level - power + loss(x, y)) / level deviation)^2
                                + ((power - mean power) / power deviation)^2

by the Levenberg-Marquardt method. It knows the radio, and nothing of where transmitters are: neither the prior, nor
what it means that a receiver detected nothing.

Legend: N recordings, R receivers.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from ..data.features import Scaling
from ..physics.propagation import DB, loss_db
from ..physics.scenario import Scenario
from .geometry import Measurements

_UNIT = 10_000.0  # metres of a position's unit, so that the three unknowns are of like size
_ITERATIONS = 60


@dataclass(frozen=True)
class LeastSquares:
    """A function of a batch of samples, for `brimful.map`: position (N, 2) and covariance (N, 2, 2) in metres from the
    receivers' centroid, by the linearization at the minimum, and the cost there."""

    scaling: Scaling
    scenario: Scenario
    iterations: int = _ITERATIONS

    def __call__(self, batch: dict[str, Tensor]) -> dict[str, Tensor]:
        doubled = {"features": batch["features"].double(), "mask": batch["mask"]}
        measured = Measurements.of(doubled, self.scaling, self.scenario)
        unknown = self.start(measured)
        cost, J, r = self._linearized(measured, unknown)
        damping = torch.full_like(cost, 1e-2)
        eye = torch.eye(3, dtype=cost.dtype, device=cost.device)
        for _ in range(self.iterations):
            A, b = J.mT @ J, (J.mT @ r[..., None])[..., 0]
            step = torch.linalg.solve(A + damping[:, None, None] * (eye * A.diagonal(dim1=1, dim2=2)[:, None] + eye), b)
            tried = unknown - step
            new_cost, new_J, new_r = self._linearized(measured, tried)
            better = new_cost <= cost
            unknown = torch.where(better[:, None], tried, unknown)
            cost = torch.where(better, new_cost, cost)
            J, r = torch.where(better[:, None, None], new_J, J), torch.where(better[:, None], new_r, r)
            damping = (damping * torch.where(better, 0.3, 4.0)).clamp(1e-9, 1e9)
        covariance = torch.linalg.inv(J.mT @ J + 1e-9 * eye)[:, :2, :2]
        return {"position": _UNIT * unknown[:, :2], "covariance": _UNIT**2 * covariance, "cost": cost}

    def start(self, measured: Measurements) -> Tensor:
        """The receivers' mean, weighted by the power they received, and the mean power: (N, 3)."""
        power = torch.where(measured.detected, 10 ** (measured.excess / 20), 0.0)
        weight = power / power.sum(1, keepdim=True)
        position = (weight[..., None] * measured.receivers).sum(1) / _UNIT
        return torch.cat((position, torch.zeros_like(position[:, :1])), 1)

    def _linearized(self, measured: Measurements, unknown: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The cost (N,), the Jacobian (N, R + 1, 3) and the residuals (N, R + 1)."""
        scenario = self.scenario
        position, power = _UNIT * unknown[:, None, :2], unknown[:, 2:]
        apart = position - measured.receivers
        squared = apart.square().sum(-1)
        r = (power - loss_db(squared, scenario) - measured.excess) * measured.detected / scenario.level_sd_db
        slope = DB * _UNIT * apart / (squared + scenario.antenna_height_m**2)[..., None]
        J = (
            torch.cat((-slope, torch.ones_like(slope[..., :1])), -1)
            * measured.detected[..., None]
            / scenario.level_sd_db
        )
        prior = torch.zeros_like(J[:, :1])
        prior[..., 2] = 1 / scenario.power_sd_db
        r = torch.cat((r, power / scenario.power_sd_db), 1)
        return r.square().sum(1), torch.cat((J, prior), 1), r
