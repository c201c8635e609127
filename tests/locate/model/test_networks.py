"""Networks: their size, and what may not change their output."""

from typing import Any

import pytest
import torch

from brimful import ConfigError
from brimful.locate import LocationNetwork, NetworkConfig
from brimful.locate.model.networks import loss, step_cost

from ..helpers import samples


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"network": "small", "covariance": "single"}, 15_267),
        ({"network": "small"}, 15_397),
        ({}, 547_461),
    ],
)
def test_parameters(options: dict[str, Any], expected: int):
    model = LocationNetwork(NetworkConfig(**options))
    assert sum(parameter.numel() for parameter in model.parameters()) == expected


@pytest.fixture(params=["small", "large"])
def network(request: pytest.FixtureRequest) -> LocationNetwork:
    torch.manual_seed(0)
    return LocationNetwork(NetworkConfig(network=request.param, width=16, layers=2)).eval()


def test_neither_order_nor_padding_of_receivers_counts(network: LocationNetwork):
    few = samples(20)
    features, mask = few["features"], few["mask"]
    own = network(features, mask)
    assert torch.allclose(network(features.flip(1), mask.flip(1)), own, atol=1e-5)
    pad = torch.nn.functional.pad
    assert torch.allclose(network(pad(features, (0, 0, 0, 5), value=7.0), pad(mask, (0, 5))), own, atol=1e-5)


def test_where_all_are_masked_the_output_is_finite(network: LocationNetwork):
    few = samples(3)
    assert torch.isfinite(network(few["features"], torch.zeros_like(few["mask"]))).all()


def test_the_loss_is_a_sum_and_a_count(network: LocationNetwork):
    few = samples(20)
    with torch.no_grad():
        total, weight = loss(network, few)
        parts = [{name: value[part] for name, value in few.items()} for part in (slice(9), slice(9, 20))]
        halves = [loss(network, part)[0] for part in parts]
    assert float(weight) == 20
    assert float(total) == pytest.approx(float(halves[0] + halves[1]), rel=1e-5)
    assert step_cost(network, 10).at(64) > step_cost(network, 10).at(1) > 0


def test_a_width_that_heads_do_not_divide_is_refused():
    with pytest.raises(ConfigError, match="width is 30"):
        NetworkConfig(width=30)
