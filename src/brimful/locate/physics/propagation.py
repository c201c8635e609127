"""Free-space loss. Legend: ... any leading axes, R receivers."""

import math

import torch
from torch import Tensor

from .scenario import Scenario

DB = 20 / math.log(10)  # dB per unit of log distance


def loss_db(receivers: Tensor, transmitter: Tensor, scenario: Scenario) -> Tensor:
    """Free-space loss between points in a plane (..., 2), in metres; receivers stand higher by the antennas' height."""
    apart = (receivers - transmitter).square().sum(-1) + scenario.antenna_height_m**2
    return scenario.loss_at_1_m + DB / 2 * torch.log(apart)
