"""A normal distribution of the plane as a network's output: its parameters, its loss, and its covariance.

Legend: N samples; positions in the unit of the targets.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

BOUND = 10.0
"""Log-variances stay between -10 and 10, in the unit of the targets."""

COVARIANCES = {"full": 5, "single": 3}
"""How a network says its uncertainty, and the numbers it gives for a sample."""


@dataclass(frozen=True, slots=True, eq=False)
class PlaneGaussian:
    """Normal distributions of positions, by the Cholesky factor of their covariance: `[[a, 0], [b, c]]`.

    Attributes:
        mean: (N, 2).
        log_a, log_c: (N,), logarithms of the factor's diagonal.
        slope: (N,), b / c.
    """

    mean: Tensor
    log_a: Tensor
    log_c: Tensor
    slope: Tensor

    @classmethod
    def of(cls, output: Tensor) -> "PlaneGaussian":
        """From the numbers of a network: position and either one log-variance, the same in all directions, or two and a
        number whose hyperbolic tangent is the correlation."""
        mean = output[:, :2]
        bounded = BOUND * torch.tanh(output[:, 2:] / BOUND)
        if output.shape[1] == COVARIANCES["single"]:
            half = bounded[:, 0] / 2
            return cls(mean, half, half, torch.zeros_like(half))
        first, second = bounded[:, 0] / 2, bounded[:, 1] / 2
        # With correlation rho: b = rho s, c = sqrt(1 - rho^2) s; for rho = tanh(t) these are s sinh(t) / cosh(t) and
        # s / cosh(t), so that b / c is sinh(t).
        turn = output[:, 4].clamp(-4, 4)
        return cls(mean, first, second - torch.cosh(turn).log(), torch.sinh(turn))

    def negative_log_likelihood(self, target: Tensor) -> Tensor:
        """(N,)"""
        x, y = (target - self.mean).unbind(1)
        first = x * (-self.log_a).exp()
        second = y * (-self.log_c).exp() - self.slope * first
        return self.log_a + self.log_c + 0.5 * (first.square() + second.square()) + math.log(2 * math.pi)

    def covariance(self) -> Tensor:
        """(N, 2, 2)"""
        a, c = self.log_a.exp(), self.log_c.exp()
        b = self.slope * c
        return torch.stack((a * a, a * b, a * b, b * b + c * c), 1).reshape(-1, 2, 2)
