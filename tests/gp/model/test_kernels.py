"""Kernels against scikit-learn's, their derivatives against autograd, and how they are written."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.gaussian_process import kernels
from torch import Tensor

from brimful.core.base.errors import ConfigError
from brimful.gp.model.kernels import SHAPES, custom, parse

from ..helpers.drawn import thetas

sk: Any = kernels  # its types know no lists of lengthscales
STATIONARY = ("rbf", "matern12", "matern32", "matern52", "rational_quadratic", "periodic")
seeds = st.integers(0, 10**6)
expressions = st.lists(
    st.lists(st.sampled_from(SHAPES), min_size=1, max_size=3).map(" * ".join), min_size=1, max_size=3
)


def points(seed: int, tasks: int, count: int, dimensions: int) -> Tensor:
    return torch.from_numpy(np.random.default_rng(seed).uniform(-3, 3, (tasks, count, dimensions)))


def theirs(shape: str, values: list[float]) -> Any:
    variance, *rest = values
    match shape:
        case "rbf":
            other = sk.RBF(rest)
        case "rational_quadratic":
            other = sk.RationalQuadratic(rest[1], rest[0])
        case "periodic":
            other = sk.ExpSineSquared(rest[1], rest[0])
        case _:
            other = sk.Matern(rest, nu=int(shape[-2]) / int(shape[-1]))
    return sk.ConstantKernel(variance) * other


@settings(max_examples=50)
@given(st.sampled_from(STATIONARY), seeds, st.integers(1, 3), st.booleans())
def test_a_shape_is_scikit_learns(shape: str, seed: int, dimensions: int, ard: bool):
    if shape == "periodic":
        dimensions = 1  # with more, scikit-learn takes the sine of the distance
    kernel = parse(shape, dimensions, ard and shape != "rational_quadratic")  # theirs has one lengthscale
    one, other, theta = points(seed, 2, 7, dimensions), points(seed + 1, 2, 5, dimensions), thetas(seed, 2, kernel)
    ours = kernel(one, other, theta[:, :-1])
    for task in range(2):
        expected = theirs(shape, theta[task, :-1].exp().tolist())(one[task].numpy(), other[task].numpy())
        np.testing.assert_allclose(ours[task], expected, rtol=1e-9, atol=1e-12)


def test_a_lengthscale_a_dimension_belongs_to_its_dimension():
    kernel = parse("rational_quadratic", 2, ard=True)
    x = torch.tensor([[[0.0, 0.0], [1.0, 0.0]]], dtype=torch.float64)
    near, far = (kernel(x, x, torch.log(torch.tensor([[1.0, 2.0, *lengths]])))[0, 0, 1] for lengths in ([9, 1], [1, 9]))
    assert near.item() == pytest.approx((1 + 1 / (4 * 81)) ** -2, rel=1e-6)
    assert far.item() == pytest.approx((1 + 1 / 4) ** -2, rel=1e-6)


def test_linear_is_an_inner_product_and_constant_is_one():
    x, theta = points(0, 2, 4, 3), torch.tensor([[0.0], [math.log(5)]], dtype=torch.float64)
    scale = theta.exp()[:, :, None]
    torch.testing.assert_close(parse("linear", 3)(x, x, theta), scale * (x @ x.mT))
    torch.testing.assert_close(parse("constant", 3)(x, x, theta), scale.expand(2, 4, 4))


@settings(max_examples=40)
@given(expressions, seeds, st.booleans())
def test_products_bind_before_sums(terms: list[str], seed: int, ard: bool):
    kernel = parse(" + ".join(terms), 2, ard)
    x, z, theta = points(seed, 2, 6, 2), points(seed + 1, 2, 4, 2), thetas(seed, 2, kernel)[:, :-1]
    total, position = torch.zeros(2, 6, 4, dtype=x.dtype), 0
    for term in terms:
        product = theta[:, position].exp()[:, None, None]
        position += 1
        for shape in term.split(" * "):
            part = parse(shape, 2, ard)
            stop = position + len(part.names) - 1
            product = product * part(x, z, torch.cat([torch.zeros_like(theta[:, :1]), theta[:, position:stop]], 1))
            position = stop
        total = total + product
    assert position == len(kernel.names)
    torch.testing.assert_close(kernel(x, z, theta), total)


@settings(max_examples=40)
@given(expressions, seeds, st.integers(1, 3), st.booleans())
def test_the_derivatives_are_autograds(terms: list[str], seed: int, dimensions: int, ard: bool):
    kernel = parse(" + ".join(terms), dimensions, ard)
    x, theta = points(seed, 2, 4, dimensions), thetas(seed, 2, kernel)[:, :-1]
    K_TNN, dK_TPNN = kernel.derive(x, theta)
    torch.testing.assert_close(K_TNN, kernel(x, x, theta))
    for task in range(2):
        own = x[task : task + 1]
        expected = torch.autograd.functional.jacobian(
            lambda theta_P, own=own: kernel(own, own, theta_P[None])[0], theta[task]
        )
        assert isinstance(expected, Tensor)
        torch.testing.assert_close(dK_TPNN[task], expected.permute(2, 0, 1), rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("shape", SHAPES)
def test_points_in_one_place_are_no_trouble(shape: str):
    kernel = parse(shape)
    x, theta = torch.full((1, 3, 1), 0.7, dtype=torch.float64), torch.zeros(1, len(kernel.names), dtype=torch.float64)
    K_TNN, dK_TPNN = kernel.derive(x, theta)
    torch.testing.assert_close(K_TNN, torch.full_like(K_TNN, 0.49 if shape == "linear" else 1.0))
    torch.testing.assert_close(dK_TPNN[:, 1:], torch.zeros_like(dK_TPNN[:, 1:]))


@settings(max_examples=20)
@given(expressions, seeds)
def test_the_diagonal_is_the_matrixs(terms: list[str], seed: int):
    kernel = parse(" + ".join(terms), 2)
    x, theta = points(seed, 3, 5, 2), thetas(seed, 3, kernel)[:, :-1]
    torch.testing.assert_close(kernel.diagonal(x, theta), kernel(x, x, theta).diagonal(dim1=1, dim2=2))


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("rbf", ("variance", "lengthscale")),
        ("rq", ("variance", "alpha", "lengthscale")),
        ("linear", ("variance",)),
        ("constant + rbf", ("constant.variance", "rbf.variance", "rbf.lengthscale")),
        ("rbf * linear", ("rbf.variance", "rbf.lengthscale")),
        ("rbf + rbf", ("rbf.variance", "rbf.lengthscale", "rbf2.variance", "rbf2.lengthscale")),
    ],
)
def test_the_names_of_the_parameters(text: str, names: tuple[str, ...]):
    assert parse(text).names == names


def test_the_names_of_the_parameters_with_a_lengthscale_a_dimension():
    assert parse("periodic", 2, ard=True).names == ("variance", "period", "lengthscale_0", "lengthscale_1")
    assert parse("rbf", 1, ard=True).names == ("variance", "lengthscale")


@given(expressions, st.integers(1, 3), st.booleans())
def test_no_two_parameters_have_one_name(terms: list[str], dimensions: int, ard: bool):
    kernel = parse(" + ".join(terms), dimensions, ard)
    assert len(set(kernel.names)) == len(kernel.names) == len(kernel.kinds)


@pytest.mark.parametrize(
    ("written", "meant"),
    [("RBF", "rbf"), ("se", "rbf"), ("matern", "matern52"), ("Rational-Quadratic", "rational_quadratic")],
)
def test_other_ways_to_write_a_name(written: str, meant: str):
    assert parse(f" linear+{written} ") == parse(f"linear + {meant}")


@pytest.mark.parametrize(
    ("text", "wrong"), [("", "''"), ("rbf +", "''"), ("rbf2", "'rbf2'"), ("linear * cosine", "'cos")]
)
def test_an_unknown_name_is_refused_with_those_there_are(text: str, wrong: str):
    with pytest.raises(ConfigError, match=wrong) as refusal:
        parse(text)
    assert all(shape in str(refusal.value) for shape in SHAPES)


def bump(x1: Tensor, x2: Tensor, params: dict[str, Tensor]) -> Tensor:
    return params["variance"] * torch.exp(-0.5 * ((x1 - x2.T) / params["lengthscale"]).square())


def test_a_kernel_of_your_own_is_called_with_one_task_and_its_parameters():
    own, built_in = custom(bump, variance=1.0, lengthscale=0.3), parse("rbf")
    assert own.names == ("variance", "lengthscale")
    assert own.text == "bump"
    x, z, theta = points(0, 3, 6, 1), points(1, 3, 4, 1), thetas(0, 3, built_in)[:, :-1]
    torch.testing.assert_close(own(x, z, theta), built_in(x, z, theta))
    torch.testing.assert_close(own.diagonal(x, theta), built_in.diagonal(x, theta))


def test_a_kernel_of_your_own_needs_positive_initial_values():
    with pytest.raises(ConfigError, match="needs an initial value"):
        custom(bump)
    for value in (0.0, -1.0, math.nan, math.inf, "long"):
        with pytest.raises(ConfigError, match="the initial value of lengthscale is"):
            custom(bump, variance=1.0, lengthscale=value)  # pyright: ignore[reportArgumentType]
