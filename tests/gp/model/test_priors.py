"""Priors and bounds: in which units they are given, and what is refused."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import lognorm

from brimful.core.base.errors import ConfigError
from brimful.gp.model.kernels import CustomKernel, Kernel, custom, parse
from brimful.gp.model.priors import BOUNDS, WEAK, LogNormal, check, limits
from brimful.gp.model.tasks import Units, standardize

from ..helpers.drawn import thetas, waves

OWN = custom(
    lambda a, b, params: params["height"] * torch.exp(-(a - b.T).abs() / params["width"]), height=2.0, width=1.0
)


def units_of(kernel: Kernel | CustomKernel, x_scale: float = 1.0, y_scale: float = 1.0) -> Units:
    x, y = waves(0, 3, 8)
    return standardize(x_scale * x, y_scale * y, kernel, "constant")[1]


@settings(max_examples=30)
@given(st.floats(0.01, 100), st.floats(0.1, 3), st.floats(0.01, 100), st.floats(0.01, 100), st.integers(0, 10**6))
def test_a_prior_in_the_units_of_the_data_is_log_normal_there(
    median: float, spread: float, x_scale: float, y_scale: float, seed: int
):
    kernel = parse("rbf")
    units = units_of(kernel, x_scale, y_scale)
    given = {"lengthscale": LogNormal(median, spread), "noise": (median, spread)}
    fitted = limits(kernel, units, given, None, False)
    one, other = thetas(seed, 3, kernel), thetas(seed + 1, 3, kernel)

    def density(theta):
        values = (theta + units.shift(kernel)).exp().numpy()[:, 1:]
        return (lognorm.logpdf(values, spread, scale=median) + np.log(values)).sum(1)  # by the logarithm

    ours = fitted.prior_penalty(one) - fitted.prior_penalty(other)
    np.testing.assert_allclose(ours, density(other) - density(one), rtol=1e-6, atol=1e-6)


@settings(max_examples=30)
@given(st.floats(0.01, 100), st.floats(1, 100), st.floats(0.01, 100), st.floats(0.01, 100))
def test_bounds_are_in_the_units_of_the_data(least: float, ratio: float, x_scale: float, y_scale: float):
    kernel = parse("linear + rbf")
    units = units_of(kernel, x_scale, y_scale)
    given = {"linear.variance": (least, least * ratio), "rbf.lengthscale": (least, least * ratio)}
    fitted = limits(kernel, units, None, given, False)
    shift = units.shift(kernel)
    for name, (low, high) in given.items():
        position = kernel.names.index(name)
        np.testing.assert_allclose((fitted.low_TP + shift)[:, position].exp(), low)
        np.testing.assert_allclose((fitted.high_TP + shift)[:, position].exp(), high)
    position = kernel.names.index("rbf.variance")
    np.testing.assert_allclose(fitted.low_TP[:, position].exp(), BOUNDS["variance"][0])


def test_weak_priors_and_the_usual_bounds_do_not_depend_on_the_units():
    kernel = parse("rational_quadratic * periodic")
    near, far = (limits(kernel, units_of(kernel, *scale), "weak", None, False) for scale in ((1, 1), (1e3, 1e-3)))
    for name in ("low_TP", "high_TP", "center_TP", "precision_P"):
        torch.testing.assert_close(getattr(near, name), getattr(far, name))
    for position, kind in enumerate((*kernel.kinds, "noise")):
        assert near.center_TP[0, position].exp().item() == pytest.approx(WEAK[kind].median)
        assert near.precision_P[position].item() == pytest.approx(WEAK[kind].spread ** -2)
        assert near.low_TP[0, position].exp().item() == pytest.approx(BOUNDS[kind][0])
        assert near.high_TP[0, position].exp().item() == pytest.approx(BOUNDS[kind][1])


def test_no_priors_pull_nowhere():
    kernel = parse("rbf")
    assert (limits(kernel, units_of(kernel), None, None, False).prior_penalty(thetas(0, 3, kernel)) == 0).all()


@pytest.mark.parametrize("priors", ["weak", {"noise": LogNormal(0.1, 0.1), "variance": LogNormal(1.0, 1.0)}])
def test_noise_that_is_known_has_no_prior_and_is_not_fitted(priors):
    kernel = parse("rbf")
    fitted = limits(kernel, units_of(kernel), priors, None, True)
    assert fitted.fixed_P.tolist() == [False, False, True]
    theta = thetas(0, 3, kernel)
    theta[:, -1] = -math.inf
    assert torch.isfinite(fitted.prior_penalty(theta)).all()
    assert (fitted.prior_penalty(theta) > 0).all()


def test_some_of_the_tasks():
    kernel = parse("rbf")
    fitted = limits(kernel, units_of(kernel), {"variance": (3.0, 1.0)}, {"noise": (1e-3, 1.0)}, False)
    index, theta = torch.tensor([2, 0]), thetas(0, 3, kernel)
    assert torch.equal(fitted.select(index).prior_penalty(theta[index]), fitted.prior_penalty(theta)[index])
    assert torch.equal(fitted.select(index).low_TP, fitted.low_TP[index])


def test_a_kernel_of_your_own_has_priors_and_bounds_by_its_own_names():
    fitted = limits(OWN, units_of(OWN, 50, 50), {"width": LogNormal(2.0, 0.5)}, {"height": (0.1, 10.0)}, False)
    assert fitted.low_TP[0, 0].exp().item() == pytest.approx(0.1)
    assert fitted.center_TP[0, 1].exp().item() == pytest.approx(2)
    assert fitted.precision_P.tolist() == [0, 4, 0]
    assert fitted.low_TP[0, 1] < -20
    assert fitted.high_TP[0, 1] > 20


@pytest.mark.parametrize("kernel", [parse("rbf"), OWN], ids=["rbf", "own"])
@pytest.mark.parametrize(
    ("priors", "bounds", "message"),
    [
        ("strong", None, "priors is 'strong'; choose 'weak'"),
        ({"lenght": LogNormal(1, 1)}, None, "priors names 'lenght'; the parameters are .*, noise"),
        ({"noise": 3.0}, None, r"the prior of noise is 3.0; give gp.LogNormal\(median, spread\)"),
        ({"noise": (1.0, 0.0)}, None, "median and spread must be positive"),
        (None, {"lenght": (1, 2)}, "bounds names 'lenght'; the parameters are .*, noise"),
        (None, {"noise": 3.0}, r"the bounds of noise are 3.0; give two numbers"),
        (None, {"noise": (1, 2, 3)}, r"the bounds of noise are \(1, 2, 3\); give two numbers"),
        (None, {"noise": (2.0, 1.0)}, "must be positive, the lower one first"),
        (None, {"noise": (0.0, 1.0)}, "must be positive, the lower one first"),
        (None, {"noise": (1.0, math.inf)}, "must be positive, the lower one first"),
    ],
)
def test_what_does_not_fit_the_kernel_is_refused(kernel: Kernel | CustomKernel, priors, bounds, message: str):
    with pytest.raises(ConfigError, match=message):
        check(kernel, priors, bounds)


def test_what_fits_the_kernel_is_not_refused():
    """It returns, and does not raise."""
    assert check(parse("rbf", 2, ard=True), {"lengthscale_1": (1.0, 1.0)}, {"noise": (0.1, 0.1)}) is None
    assert check(OWN, "weak", {"width": (1, 2)}) is None


@pytest.mark.parametrize("value", [0.0, -1.0, math.nan, math.inf, "a", None])
def test_a_prior_has_a_positive_median_and_spread(value: Any):
    for median, spread in ((value, 1.0), (1.0, value)):
        with pytest.raises(ConfigError, match="must be positive numbers"):
            LogNormal(median, spread)
