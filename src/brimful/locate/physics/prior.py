"""Where transmitters are before anything is detected: in the receivers' hull, or in the rest of a disc around it.

Legend: N recordings, R receivers, K points; metres from the receivers' centroid.
"""

import math
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from . import hull
from .scenario import Scenario

OUTSIDE_TRIES = 16
"""Points of the disc that are tried for one outside the hull. Where the hull fills a share f of the disc, f^16 of the
candidates outside find none, and are rejected; `log_density` counts them."""


@dataclass(frozen=True, slots=True, eq=False)
class TransmitterPrior:
    """The prior of each recording.

    Attributes:
        corners: (N, R, 2), of the receivers' hull.
        area: (N,), of the hull.
        radius: (N,), of the disc.
        inside_share: the probability of being in the hull.
    """

    corners: Tensor
    area: Tensor
    radius: Tensor
    inside_share: float

    @classmethod
    def of(cls, receivers_NR2: Tensor, mask_NR: Tensor, scenario: Scenario) -> Self:
        """The prior for receivers in the plane around their centroid."""
        corners = hull.convex_hull(receivers_NR2, mask_NR)
        farthest = torch.where(mask_NR, receivers_NR2.square().sum(-1), 0.0).max(1).values.sqrt()
        return cls(corners, hull.area(corners), scenario.reach * farthest, scenario.inside_share)

    def sample(self, uniform: Tensor) -> tuple[Tensor, Tensor]:
        """A position of each transmitter (N, 2), and whether there is one, from numbers between 0 and 1, as many per
        recording as `NUMBERS`."""
        in_hull = hull.sample_inside(self.corners, uniform[:, 1:4])
        radial, angle = uniform[:, 4:].reshape(len(uniform), 2, OUTSIDE_TRIES).unbind(1)
        radial, angle = self.radius[:, None] * radial.sqrt(), 2 * math.pi * angle
        tried = torch.stack((radial * angle.cos(), radial * angle.sin()), -1)
        outside = ~hull.inside(self.corners, tried)
        in_rest = tried[torch.arange(len(tried)), outside.int().argmax(1)]
        is_inside = uniform[:, 0] < self.inside_share
        return torch.where(is_inside[:, None], in_hull, in_rest), is_inside | outside.any(1)

    def log_density(self, points_NK2: Tensor) -> Tensor:
        """The log density per square metre (N, K), up to a constant; -inf outside the disc."""
        disc = math.pi * self.radius.square()
        in_hull = math.log(self.inside_share) - self.area.log() if self.inside_share else -math.inf + self.area
        rest = 1 - self.inside_share
        none = (self.area / disc) ** OUTSIDE_TRIES
        in_rest = math.log(rest) - (disc - self.area).log() + (-none).log1p() if rest else -math.inf + self.area
        inside = hull.inside(self.corners, points_NK2)
        in_disc = points_NK2.square().sum(-1) <= self.radius.square()[:, None]
        density = torch.where(inside, in_hull[:, None], in_rest[:, None])
        return torch.where(in_disc | inside, density, -math.inf)


NUMBERS = 4 + 2 * OUTSIDE_TRIES
