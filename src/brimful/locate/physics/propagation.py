"""Free-space loss."""

import math

import torch
from torch import Tensor

from .scenario import Scenario

DB = 20 / math.log(10)
"""dB per unit of log distance: what the loss grows by."""


def loss_db(squared_distance: Tensor, scenario: Scenario) -> Tensor:
    """Free-space loss over distances in a plane, given squared, in square metres; receivers stand higher by the
    antennas' height."""
    return scenario.loss_at_1_m + DB / 2 * torch.log(squared_distance + scenario.antenna_height_m**2)
