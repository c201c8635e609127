"""Error ellipses of covariances. Legend: N positions."""

import math

import torch
from torch import Tensor

from .metrics import ELLIPSE, ellipse_bound


def ellipses(covariance: Tensor, share: float = ELLIPSE) -> Tensor:
    """(N, 3): the half axes of the ellipse that holds such a share, the greater first, and the angle of that one in
    degrees, counterclockwise from east, from -90 to 90."""
    variances, axes = torch.linalg.eigh(covariance.double())
    minor, major = (variances.clamp(min=0) * ellipse_bound(share)).sqrt().unbind(-1)
    x, y = axes[..., 1].unbind(-1)
    angle = torch.rad2deg(torch.atan(y / torch.where(x == 0, 1e-300, x)))
    return torch.stack((major, minor, angle), -1)


def outline(covariance: Tensor, points: int = 64, share: float = ELLIPSE) -> Tensor:
    """(points, 2), the line of one such ellipse around 0."""
    angle = torch.linspace(0, 2 * math.pi, points, dtype=torch.float64)
    circle = torch.stack((angle.cos(), angle.sin()), -1)
    return math.sqrt(ellipse_bound(share)) * circle @ torch.linalg.cholesky(covariance.double()).mT
