"""Metrics of positions, in metres."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from brimful.locate.evaluation.ellipse import ellipses, outline
from brimful.locate.evaluation.metrics import (
    calibration_curve,
    ellipse_bound,
    fit_scale,
    score,
    squared_mahalanobis,
)


def normal(count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Errors, and the covariance that they have."""
    generator = torch.Generator().manual_seed(0)
    factor = torch.tensor([[2.0, 0], [1.5, 0.7]]).double()
    error = torch.randn(count, 2, generator=generator, dtype=torch.float64) @ factor.mT
    return error, (factor @ factor.mT).expand(count, 2, 2)


def test_rmse_is_the_root_of_the_mean_square_and_no_mean_distance():
    scores = score(torch.tensor([[3.0, 4.0], [0.0, 0.0], [0.0, 0.0], [6.0, 8.0]]))
    assert scores.rmse_m == pytest.approx(math.sqrt(125 / 4))
    assert scores.p50_m == pytest.approx(2.5)
    assert scores.values()["coverage"] is None
    assert score(torch.zeros(0, 2)).values()["rmse_m"] is None


def test_the_ellipse_of_the_true_covariance_holds_what_it_says():
    error, covariance = normal(40_000)
    scores = score(error, covariance)
    assert scores.coverage == pytest.approx(0.68, abs=0.01)
    assert scores.uncertainty_m == pytest.approx(scores.rmse_m, rel=0.02)
    shares, inside = calibration_curve(error, covariance)
    assert np.allclose(shares, inside, atol=0.01)


@given(st.floats(0.2, 5))
def test_a_fitted_scale_mends_covariances(off: float):
    error, covariance = normal(4_000)
    scale = fit_scale(error, off * covariance)
    assert scale == pytest.approx(1 / off, rel=0.1)
    assert score(error, scale * off * covariance).coverage == pytest.approx(0.68, abs=1e-3)


def test_mahalanobis_is_that_of_the_inverse():
    error, covariance = normal(10)
    expected = torch.einsum("ni,nij,nj->n", error, torch.linalg.inv(covariance), error)
    assert torch.allclose(squared_mahalanobis(error, covariance), expected)


def test_ellipses_and_their_outline():
    covariance = torch.tensor([[[4.0, 0], [0, 1.0]], [[1.0, 0.0], [0.0, 9.0]], [[5.0, 4.0], [4.0, 5.0]]])
    major, minor, angle = ellipses(covariance).unbind(1)
    reach = math.sqrt(ellipse_bound(0.68))
    assert major.tolist() == pytest.approx([2 * reach, 3 * reach, 3 * reach])
    assert minor.tolist() == pytest.approx([reach, reach, reach])
    assert angle.abs().tolist() == pytest.approx([0, 90, 45])
    line = outline(covariance[2])
    on_it = squared_mahalanobis(line, covariance[2:].expand(len(line), 2, 2))
    assert on_it.tolist() == pytest.approx([ellipse_bound(0.68)] * len(line))
