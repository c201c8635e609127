"""Geometric dilution of precision."""

import math

import pytest
import torch

from brimful.locate.physics.dilution import gdop


def test_it_is_the_trace_of_the_inverse_of_the_normal_matrix():
    generator = torch.Generator().manual_seed(0)
    receivers, transmitter = torch.randn(50, 6, 2, generator=generator), torch.randn(50, 2, generator=generator)
    detected = torch.rand(50, 6, generator=generator) < 0.8
    detected[:, :3] = True
    for row, value in enumerate(gdop(receivers, transmitter, detected)):
        H = receivers[row, detected[row]] - transmitter[row]
        H = H / H.norm(dim=1, keepdim=True)
        assert float(value) == pytest.approx(float(torch.linalg.inv(H.T @ H).trace().sqrt()), rel=1e-3)


@pytest.mark.parametrize("receivers", [3, 5, 15])
def test_around_the_transmitter_it_is_two_over_the_root_of_their_number(receivers: int):
    angle = torch.arange(receivers) * 2 * math.pi / receivers
    circle = torch.stack((angle.cos(), angle.sin()), -1)
    assert float(gdop(circle, torch.zeros(2), torch.ones(receivers, dtype=torch.bool))) == pytest.approx(
        2 / receivers**0.5
    )


def test_receivers_in_one_place_or_direction_are_infinite():
    detected = torch.ones(4, dtype=torch.bool)
    assert gdop(torch.ones(4, 2), torch.zeros(2), detected) == math.inf
    assert gdop(torch.arange(1.0, 5)[:, None].expand(4, 2), torch.zeros(2), detected) == math.inf
    assert gdop(torch.randn(4, 2), torch.zeros(2), torch.zeros(4, dtype=torch.bool)) == math.inf
