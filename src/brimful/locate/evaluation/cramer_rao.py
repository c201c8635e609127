"""The Cramér-Rao bound: how near an unbiased estimate can come to the truth at all, on average.

From the levels of the receivers that detected the transmitter, with its power unknown but for its distribution. An
estimate that knows where transmitters usually are is not unbiased, and may do better.
"""

import torch
from torch import Tensor

from ..data.features import Scaling
from ..physics.propagation import DB
from ..physics.scenario import Scenario
from .geometry import Measurements


def cramer_rao(samples: dict[str, Tensor], scaling: Scaling, scenario: Scenario) -> Tensor:
    """(N, 2, 2) the least covariance of an unbiased estimate, in square metres, at the true positions."""
    measured = Measurements.of(samples, scaling, scenario)
    apart = (scaling.position_m * samples["target"][:, None] - measured.receivers).double()
    slope = DB * apart / (apart.square().sum(-1, keepdim=True) + scenario.antenna_height_m**2)
    J = torch.cat((-slope, torch.ones_like(slope[..., :1])), -1) * measured.detected[..., None] / scenario.level_sd_db
    information = J.mT @ J
    information[:, 2, 2] += scenario.power_sd_db**-2
    return torch.linalg.inv(information)[:, :2, :2]
