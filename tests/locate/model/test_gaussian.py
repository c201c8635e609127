"""The normal distribution that a network gives."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.distributions import MultivariateNormal

from brimful.locate.model.gaussian import PlaneGaussian

outputs = st.lists(st.floats(-3, 3), min_size=7, max_size=7)


@given(outputs, st.sampled_from([3, 5]))
def test_its_likelihood_is_torchs(numbers: list[float], width: int):
    values = torch.tensor([numbers], dtype=torch.float64)
    gaussian, target = PlaneGaussian.of(values[:, :width]), values[:, 5:]
    peer = MultivariateNormal(gaussian.mean, gaussian.covariance())
    assert float(gaussian.negative_log_likelihood(target)) == pytest.approx(-float(peer.log_prob(target)), rel=1e-6)


@given(outputs)
def test_its_correlation_is_the_hyperbolic_tangent(numbers: list[float]):
    values = torch.tensor([numbers[:5]], dtype=torch.float64)
    (a, b), (_, d) = PlaneGaussian.of(values).covariance()[0].tolist()
    assert b / (a * d) ** 0.5 == pytest.approx(float(values[0, 4].tanh()), abs=1e-9)


def test_a_single_variance_is_the_same_in_all_directions():
    covariance = PlaneGaussian.of(torch.tensor([[1.0, 2.0, 0.6]])).covariance()[0]
    assert covariance[0, 0] == covariance[1, 1] and covariance[0, 1] == 0


@pytest.mark.parametrize("extreme", [1e6, -1e6])
def test_log_variances_are_bounded_and_gradients_finite(extreme: float):
    output = torch.full((1, 5), extreme, requires_grad=True)
    lost = PlaneGaussian.of(output).negative_log_likelihood(torch.zeros(1, 2))
    assert torch.isfinite(PlaneGaussian.of(output.detach()).covariance()).all()
    bounded = torch.tensor([[0.0, 0.0, extreme, extreme, extreme]], requires_grad=True)
    PlaneGaussian.of(bounded).negative_log_likelihood(torch.ones(1, 2)).sum().backward()
    assert bounded.grad is not None and torch.isfinite(bounded.grad).all()
    assert not torch.isnan(lost).any()
