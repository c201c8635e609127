"""Where transmitters are before anything is detected."""

import math

import pytest
import torch

from brimful.locate.physics import hull, prior
from brimful.locate.physics.prior import TransmitterPrior
from brimful.locate.physics.scenario import Scenario


def prior_of_one(scenario: Scenario) -> TransmitterPrior:
    receivers = 1e4 * torch.randn(1, 7, 2, generator=torch.Generator().manual_seed(3)).double()
    receivers = receivers - receivers.mean(1, keepdim=True)
    return TransmitterPrior.of(receivers, torch.ones(1, 7, dtype=torch.bool), scenario)


def many(one: TransmitterPrior, count: int) -> tuple[TransmitterPrior, torch.Tensor]:
    corners, area, radius = (value.expand(count, *value.shape[1:]) for value in (one.corners, one.area, one.radius))
    uniform = torch.rand(count, prior.NUMBERS, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    return TransmitterPrior(corners, area, radius, one.inside_share), uniform


@pytest.mark.parametrize("share", [0.0, 0.7, 1.0])
def test_so_many_are_inside_the_hull_and_all_are_in_the_disc(share: float):
    one = prior_of_one(Scenario(inside_share=share))
    position, placed = many(one, 20_000)[0].sample(many(one, 20_000)[1])
    assert placed.all()
    inside = hull.inside(one.corners, position[None] * (1 - 1e-9))[0]
    assert float(inside.double().mean()) == pytest.approx(share, abs=0.012)
    assert (position.square().sum(1) <= float(one.radius) ** 2).all()


def test_the_density_is_that_of_the_samples():
    """Importance sampling from the disc gives the samples' mean distance, and a total mass of 1."""
    one = prior_of_one(Scenario())
    repeated, uniform = many(one, 20_000)
    position, _ = repeated.sample(uniform)
    generator = torch.Generator().manual_seed(1)
    radial, angle = torch.rand(2, 200_000, generator=generator, dtype=torch.float64)
    radial, angle = float(one.radius) * radial.sqrt(), 2 * math.pi * angle
    points = torch.stack((radial * angle.cos(), radial * angle.sin()), -1)
    weight = one.log_density(points[None])[0].exp() * math.pi * float(one.radius) ** 2
    assert float(weight.mean()) == pytest.approx(1, abs=0.01)
    assert float((weight * radial).mean()) == pytest.approx(float(position.norm(dim=1).mean()), rel=0.02)


def test_nothing_is_outside_the_disc():
    one = prior_of_one(Scenario())
    assert one.log_density(1.01 * one.radius.reshape(1, 1, 1).expand(1, 1, 2)).item() == -math.inf
