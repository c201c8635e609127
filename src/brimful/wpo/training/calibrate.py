"""Calibration before and after training: the width of components and data sharpening, by held-out likelihood.

Legend: K centers, N rows added as centers, M held out, d dimensions.

A mixture whose components sit on data points is wider than the data. Against that each center moves a fraction of the
way to the mean of its neighbors, as data are sharpened before a kernel density estimate. Three numbers are chosen by
the likelihood of held-out rows: the radius of that mean, the fraction, and one factor on the width of all components.
The network stays as it is. Before training it is that of a kernel density estimate; the network then learns the
precisions of centers that are where they will be used.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float
from torch import Tensor

from ..model.score_model import ScoreModel

_SCREENED = 256  # held-out rows for the grid; the search takes all of them
_RADII, _FRACTIONS, _WIDTHS = (1.0, 2.0, 3.0, 5.0), (0.3, 0.6, 1.0), (1.0, 1.25, 1.6)
_STEPS = ((1.25, 0.2), (1.12, 0.1), (1.05, 0.05))  # of the search: a factor on the width, a change of the fraction
_MAX_DISTANCES = 2**24  # held at once


@dataclass(frozen=True, slots=True)
class Calibration:
    """What was chosen.

    Attributes:
        radius: bandwidth of the neighbors' mean, in standardized units; 0 where centers stay.
        fraction: of the way to that mean that a center moves.
        width: factor on the learned width of every component.
    """

    radius: float = 0.0
    fraction: float = 0.0
    width: float = 1.0

    def __str__(self) -> str:
        moved = f"centers moved by {self.fraction:.2g} within {self.radius:g}, " if self.fraction else ""
        return f"{moved}width {self.width:.3g}"


@torch.no_grad()
def calibrate(
    model: ScoreModel,
    held_out: Float[Tensor, "M d"],
    added: Float[Tensor, "N d"] | None = None,
    *,
    centers: Float[Tensor, "K d"] | None = None,
    start: Calibration | None = None,
) -> Calibration:
    """Moves a model's centers, and scales the width of all components, to maximize the likelihood of held-out rows.

    Args:
        model: it is changed in place.
        held_out: rows that are not trained on.
        added: rows that become centers too, since the network has a precision for any point. The model must not be
            trained on them afterwards.
        centers: the model's centers before they were moved, where they were.
        start: how they were; the search starts from there as well.

    Returns:
        What was chosen, with the radius in the units of the given model, and the width as a factor on its own.
    """
    start = start or Calibration()
    original_Kd = model.standardized_Kd if centers is None else model.standardize(centers)
    if added is not None:
        original_Kd = torch.cat((original_Kd, model.standardize(added)))
    moved_before = replace(start, radius=start.radius / start.width, width=1.0)  # units have changed by the width
    means = {0.0: original_Kd}
    means |= {radius: _local_means(original_Kd, radius) for radius in {*_RADII, moved_before.radius} - {0.0}}
    network, scale_d = model.term.network, model.scale_d
    std, stability = network.std, model.config.stability

    def apply(calibration: Calibration) -> None:
        """The network's input stays the same whatever the width is."""
        moved_Kd = torch.lerp(original_Kd, means[calibration.radius], calibration.fraction)
        model.standardized_Kd = moved_Kd / calibration.width
        model.scale_d, network.std = scale_d * calibration.width, std / calibration.width
        model.config = replace(model.config, stability=stability / calibration.width)
        model.update_factor()

    def likelihood(calibration: Calibration, rows: int | None = None) -> float:
        apply(calibration)
        mean = float(torch.cat([model.log_prob(part) for part in held_out[:rows].split(_SCREENED)]).mean())
        return mean if math.isfinite(mean) else -math.inf

    def hill_climb(best: Calibration) -> tuple[float, Calibration]:
        highest = likelihood(best)
        for width, fraction in _STEPS:
            while better := next(
                (
                    (value, candidate)
                    for candidate in _neighbors(best, width, fraction)
                    if (value := likelihood(candidate)) > highest
                ),
                None,
            ):
                highest, best = better
        return highest, best

    optima = [hill_climb(start) for start in {Calibration(): None, moved_before: None}]
    width = optima[0][1].width
    grid = [Calibration(radius, part, width * factor) for radius in _RADII for part in _FRACTIONS for factor in _WIDTHS]
    optima.append(hill_climb(max(grid, key=lambda calibration: likelihood(calibration, _SCREENED))))
    chosen = max(optima, key=lambda pair: pair[0])[1]
    apply(chosen)
    return chosen


def _neighbors(center: Calibration, width: float, fraction: float) -> Iterator[Calibration]:
    for factor in (width, 1 / width):
        yield replace(center, width=center.width * factor)
    for step in (fraction, -fraction) if center.radius else ():
        if 0 < center.fraction + step <= 1:
            yield replace(center, fraction=center.fraction + step)


def _local_means(rows_Kd: Float[Tensor, "K d"], radius: float) -> Float[Tensor, "K d"]:
    """The mean of the rows around each row, weighted by a Gaussian kernel."""
    parts = rows_Kd.split(max(1, _MAX_DISTANCES // len(rows_Kd)))
    return torch.cat([(torch.cdist(part, rows_Kd).square() / (-2 * radius**2)).softmax(1) @ rows_Kd for part in parts])
