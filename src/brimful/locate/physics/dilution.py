"""Geometric dilution of precision: by how much the receivers' geometry multiplies an error in range."""

import math

import torch
from jaxtyping import Bool, Float
from torch import Tensor

_SINGULAR = 1e-9  # the determinant of H'H, whose entries are at most R, below which the geometry is singular


def gdop(
    receivers: Float[Tensor, "*b R 2"], transmitter: Float[Tensor, "*b 2"], detected: Bool[Tensor, "*b R"]
) -> Float[Tensor, "*b"]:
    """`sqrt(trace((H'H)^-1))`, where the rows of H are the unit vectors from the transmitter to the receivers that
    detect it. Infinite where they all lie in one direction, as receivers at one place do.

    Example:
        >>> corners = torch.tensor([[1.0, 0], [0, 1], [-1, 0], [0, -1]])
        >>> gdop(corners, torch.zeros(2), torch.ones(4, dtype=torch.bool))
        tensor(1.)
    """
    apart = receivers - transmitter.unsqueeze(-2)
    unit = apart / apart.square().sum(-1, keepdim=True).sqrt().clamp(min=1e-9)
    x, y = torch.where(detected.unsqueeze(-1), unit, 0.0).unbind(-1)
    xx, yy, xy = (x * x).sum(-1), (y * y).sum(-1), (x * y).sum(-1)
    determinant = xx * yy - xy * xy
    singular = determinant <= _SINGULAR
    return torch.where(singular, math.inf, ((xx + yy) / torch.where(singular, 1.0, determinant)).sqrt())
