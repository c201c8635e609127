"""The Cramér-Rao bound."""

import math
from dataclasses import replace

import pytest
import torch

from brimful.locate.evaluation.cramer_rao import cramer_rao
from brimful.locate.physics.propagation import DB

from ..helpers import SCENARIO, samples, scaling


def test_around_a_transmitter_of_known_power_it_is_the_deviation_of_the_range():
    """For n receivers at distance d on a circle: each range is known to d s / (20 / ln 10), and the bound on either
    axis is 2 / n of that, squared."""
    receivers, away = 6, 20_000.0
    angle = torch.arange(receivers) * 2 * math.pi / receivers
    features = torch.zeros(1, receivers, 6)
    features[0, :, 3], features[0, :, 4], features[0, :, 5] = angle.cos(), angle.sin(), 1
    features[..., 3:5] *= away / scaling().position_m
    batch = {"features": features, "mask": torch.ones(1, receivers, dtype=torch.bool), "target": torch.zeros(1, 2)}
    bound = cramer_rao(batch, scaling(), replace(SCENARIO, power_sd_db=1e-3))[0]
    expected = 2 / receivers * (away * SCENARIO.level_sd_db / DB) ** 2
    assert bound.diagonal().tolist() == pytest.approx([expected] * 2, rel=1e-3)
    assert abs(float(bound[0, 1])) < 1e-3 * expected


def test_it_falls_with_the_noise():
    quiet, loud = (cramer_rao(samples(50), scaling(), replace(SCENARIO, shadowing_db=db)) for db in (2.0, 8.0))
    assert (quiet.diagonal(dim1=1, dim2=2) < loud.diagonal(dim1=1, dim2=2)).all()
