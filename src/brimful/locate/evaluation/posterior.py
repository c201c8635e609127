"""The posterior of a transmitter's position on a grid: the ceiling that no network can beat on average.

It knows how recordings are generated: where transmitters are, their power, shadowing and noise, that a receiver which
detected nothing says something too, and what is rejected. Of a recording it sees what the network sees: its features.

With `a` the power that each detected level implies at a point (level + loss), the power integrates out in closed form:

    log p(detected | x) = -sum (a - mean a)^2 / (2 s^2) - (mean a - m)^2 / (2 (s_power^2 + s^2 / n))

and leaves a normal distribution of the power given x, over which the probability that the others detected nothing is
integrated by Gauss-Hermite quadrature. Rejection by GDOP leaves out points whose GDOP is above the limit; the other
grounds for rejection depend on the features alone.

A first grid over the disc of transmitters finds where the mass is; a second one covers just that.

Legend: N recordings, R receivers, G cells of a side, K = G^2 points, Q nodes of the quadrature.
"""

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ...core.memory.cost import Cost
from ..data.features import Scaling
from ..physics.prior import TransmitterPrior
from ..physics.propagation import loss_db
from ..physics.scenario import Scenario
from .geometry import Measurements

_TAIL = 2e-4  # mass on either side of the second grid, by the first one
_NODES = 5
_LEAST = 1e-37  # probability that nothing was detected, below which points are not distinguished


@dataclass(frozen=True)
class GridPosterior:
    """A function of a batch of samples, for `brimful.map`.

    It returns in metres from the receivers' centroid: the posterior's mean (N, 2) and covariance (N, 2, 2). Where the
    batch has a target: `rank` (N, 2), the mass west and south of it, and `level` (N,), the mass where the density is
    higher than there. All three are uniform between 0 and 1 over recordings, if the posterior is right.

    Attributes:
        scaling: of the features.
        scenario: that the recordings come from.
        cells, first_cells: of a side of the second grid, and of the first.
    """

    scaling: Scaling
    scenario: Scenario
    cells: int = 48
    first_cells: int = 32

    def __call__(self, batch: dict[str, Tensor]) -> dict[str, Tensor]:
        measured = Measurements.of(batch, self.scaling, self.scenario).silent_first()
        prior = TransmitterPrior.of(measured.receivers, measured.mask, self.scenario)
        low = -prior.radius[:, None].expand(-1, 2)
        size = -2 * low
        mass = _normalized(self.log_density(measured, prior, *_points(low, size, self.first_cells)))
        low, size = _zoom(mass, low, size, self.first_cells)
        x, y = _points(low, size, self.cells)
        log_p = self.log_density(measured, prior, x, y)
        mass = _normalized(log_p)
        mean = torch.stack(((mass * x).sum(1), (mass * y).sum(1)), 1)
        x, y = x - mean[:, :1], y - mean[:, 1:]
        xx, yy, xy = ((mass * one * two).sum(1) for one, two in ((x, x), (y, y), (x, y)))
        covariance = torch.stack((xx, xy, xy, yy), -1).reshape(-1, 2, 2)
        covariance = covariance + torch.diag_embed((size / self.cells).square() / 12)
        values = {"position": mean, "covariance": covariance}
        if "target" in batch:
            truth = self.scaling.position_m * batch["target"]
            at_truth = self.log_density(measured, prior, truth[:, :1], truth[:, 1:])
            values["level"] = (mass * (log_p > at_truth)).sum(1)
            values["rank"] = _ranks(mass, (truth - low) / size, self.cells)
        return values

    def cost(self, receivers: int) -> Cost:
        """Bytes by the number of recordings, by a formula."""
        return Cost(0, 4 * self.cells**2 * (receivers + 2 * _NODES + 24))

    def log_density(self, measured: Measurements, prior: TransmitterPrior, x: Tensor, y: Tensor) -> Tensor:
        """The log density at points, each coordinate (N, K), up to a constant of each recording."""
        scenario = self.scenario
        total, squares, xx, yy, xy = (torch.zeros_like(x) for _ in range(5))
        losses = []
        for number in range(measured.mask.shape[1]):
            detected, (at_x, at_y) = (
                measured.detected[:, number, None],
                measured.receivers[:, number, :, None].unbind(1),
            )
            east, north = at_x - x, at_y - y
            apart = east.square() + north.square()
            loss = loss_db(apart, scenario)
            implied = (measured.excess[:, number, None] + loss) * detected
            total, squares = total + implied, squares + implied.square()
            inverse = detected / apart.clamp(min=1e-3)
            xx, yy, xy = xx + east * east * inverse, yy + north * north * inverse, xy + east * north * inverse
            losses.append(loss)
        count = measured.detected.sum(1, keepdim=True)
        mean = total / count
        level, power = scenario.level_sd_db**2, scenario.power_sd_db**2
        log_p = -(squares - count * mean.square()).clamp(min=0) / (2 * level)
        log_p = log_p - mean.square() / (2 * (power + level / count))
        precision = count / level + 1 / power
        log_p = log_p + self._log_silence(measured, losses, count * mean / level / precision, precision.rsqrt())
        possible = xx + yy <= scenario.max_gdop**2 * (xx * yy - xy * xy)
        log_p = log_p + prior.log_density(torch.stack((x, y), -1))
        return torch.where(possible, log_p, -math.inf)

    def _log_silence(self, measured: Measurements, losses: list[Tensor], mean: Tensor, deviation: Tensor) -> Tensor:
        """The log probability that those who took part and detected nothing do so, over the power's distribution."""
        scenario = self.scenario
        threshold = scenario.detection_snr_db + scenario.noise_floor_dbm - scenario.power_dbm
        spread = math.hypot(scenario.level_sd_db, scenario.noise_figure_sd_db)
        silent = measured.silent
        nodes, weights = np.polynomial.hermite.hermgauss(_NODES)
        terms = [mean.new_full(mean.shape, weight / math.sqrt(math.pi)) for weight in weights]
        for number in range(int(silent.sum(1).max())):  # those that detected nothing come first
            above = torch.where(silent[:, number, None], mean - losses[number] - threshold, -math.inf)
            for term, node in zip(terms, nodes, strict=True):
                # The normal distribution function, by what is computed fastest.
                term *= 0.5 * torch.erfc((above / math.sqrt(2) + node * deviation) / spread)
        return sum(terms, torch.zeros_like(mean)).clamp(min=_LEAST).log()


def _normalized(log_p: Tensor) -> Tensor:
    return torch.softmax(log_p, 1)


def _points(low: Tensor, size: Tensor, G: int) -> tuple[Tensor, Tensor]:
    """The cells' centers, row by row: x and y, each (N, K)."""
    steps = (torch.arange(G, device=low.device, dtype=low.dtype) + 0.5) / G
    x, y = (low[:, axis, None] + size[:, axis, None] * steps for axis in (0, 1))
    return x[:, None].expand(-1, G, -1).flatten(1), y[:, :, None].expand(-1, -1, G).flatten(1)


def _zoom(mass: Tensor, low: Tensor, size: Tensor, G: int) -> tuple[Tensor, Tensor]:
    """The box that holds nearly all of the mass, and a cell more on every side."""
    grid, ends = mass.reshape(-1, G, G), []
    for below in (grid.sum(1).cumsum(1), grid.sum(2).cumsum(1)):  # over x, over y
        first = ((below < _TAIL).sum(1) - 1).clamp(min=0)
        last = ((below < 1 - _TAIL).sum(1) + 2).clamp(max=G)
        ends.append(torch.stack((first, last), 1))
    first, last = torch.stack(ends, 2).unbind(1)
    return low + size * first / G, size * (last - first) / G


def _ranks(mass: Tensor, place: Tensor, G: int) -> Tensor:
    """The mass west and south of places (N, 2), given as shares of the grid's sides."""
    grid, ranks = mass.reshape(-1, G, G), []
    for axis, line in enumerate((grid.sum(1), grid.sum(2))):
        cells = (place[:, axis, None] * G - torch.arange(G, device=mass.device)).clamp(0, 1)
        ranks.append((line * cells).sum(1))
    return torch.stack(ranks, 1)
