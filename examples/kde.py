"""The log-density of a kernel estimate over a million points, and its score, under 200 MB.

Every point is a component: a bump of one width around it. The log-density is the log-sum-exp of all bumps at x. Its
gradient is known in two ways, which must agree: autograd's, and the mean of (point - x) / width^2 over all points,
weighted by their bumps, which the fold gives in the same pass.
"""

import math
import sys

import torch
from torch import Tensor

import brimful


class Bumps:
    """A Gaussian bump around each point, and its pull on x."""

    def __init__(self, width: float) -> None:
        self.width = width

    def __call__(self, point_kd: Tensor, x_Bd: Tensor) -> tuple[Tensor, Tensor]:
        away_Bkd = (point_kd - x_Bd[:, None]) / self.width
        return -0.5 * away_Bkd.square().sum(-1), away_Bkd / self.width


def spiral(count: int) -> Tensor:
    """Points along two arms, a little off."""
    turn = 3 * math.pi * torch.rand(count).sqrt()
    arm = torch.stack((turn.cos(), turn.sin()), 1) * turn[:, None] / 4
    return arm * torch.where(torch.rand(count, 1) < 0.5, -1, 1) + 0.05 * torch.randn(count, 2)


def main(points: int = 1_000_000, queries: int = 50) -> dict[str, float]:
    torch.manual_seed(0)
    data, x, bumps = spiral(points), spiral(queries).requires_grad_(), Bumps(width=0.1)
    print(brimful.plan_fold(bumps, data, x, budget="200MB").explain())

    lse, score = brimful.fold(bumps, data, x, budget="200MB")
    density = lse - math.log(points * 2 * math.pi * bumps.width**2)
    (gradient,) = torch.autograd.grad(density.sum(), x)
    density, score = density.detach(), score.detach()

    few = x[:3].detach().double()
    logit, _ = bumps(data.double(), few)
    direct = torch.logsumexp(logit, 1) - math.log(points * 2 * math.pi * bumps.width**2)
    found = {
        "mean log-density": float(density.mean()),
        "off the direct one": float((density[:3] - direct).abs().max()),
        "two scores apart": float((score - gradient).abs().max() / score.abs().max()),
    }
    for name, value in found.items():
        print(f"{name:20} {value:.3g}")
    return found


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
