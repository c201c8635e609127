"""Judges beside a network, on the same samples."""

import pytest
import torch

from brimful.locate import compare

from ..helpers import SCENARIO, samples, scaling

pytestmark = pytest.mark.usefixtures("one_thread")


def test_all_are_judged_by_the_same_truth():
    few = samples(60)
    truth = scaling().position_m * few["target"]
    exact = {"position": truth, "covariance": torch.eye(2).expand(60, 2, 2)}
    comparison = compare({"network": exact}, few, scaling(), SCENARIO, device="cpu")
    assert list(comparison.scores) == ["network", "least squares", "posterior"]
    assert comparison.scores["network"].rmse_m == 0
    ratio = comparison.ratio("rmse_m", "least squares")
    assert ratio is not None and ratio > 1
    assert comparison.values()["rmse_over_posterior"] == 0
    assert comparison.cramer_rao_m is not None and comparison.cramer_rao_m > 1_000
    flat = comparison.flat_values()
    assert flat["least_squares_p68_m"] == comparison.scores["least squares"].p68_m
    assert 0.3 < flat["posterior_coverage_share"] < 1
    assert "least squares" in str(comparison) and "Cramér-Rao bound" in str(comparison)


def test_of_ones_own_recordings_there_is_only_the_truth():
    few = samples(10)
    guess = {"position": torch.ones(10, 2), "covariance": torch.eye(2).expand(10, 2, 2)}
    comparison = compare({"network": guess}, few, scaling(), None)
    assert list(comparison.scores) == ["network"] and comparison.cramer_rao_m is None
    assert comparison.ratio("rmse_m") is None
