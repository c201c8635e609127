"""Tasks in units of their own: what is missing, what cannot be fitted, and the way back to the units of the data."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from brimful.gp.model.kernels import custom, parse
from brimful.gp.model.likelihood import solve, with_noise
from brimful.gp.model.tasks import MEANS, MESSAGES, TaskStatus, regressors, standardize

from ..helpers.drawn import TEXTS, nlml, plain, thetas, waves

NAN, INF = math.nan, math.inf
KINDS = [(text, 1, False) for text in TEXTS] + [
    ("rbf", 2, False),
    ("rbf", 3, True),
    ("linear", 2, True),
    ("linear + rbf", 2, True),
    ("periodic", 2, True),
    ("rational_quadratic * linear", 2, False),
    ("linear * linear + matern52", 1, False),
]
kinds, means, seeds = st.sampled_from(KINDS), st.sampled_from(MEANS), st.integers(0, 10**6)
scales, positions = st.floats(-4, 4).map(math.exp), st.floats(-5, 5)


def flag(y: list[float], mean: str = "constant", x: list[float] | None = None) -> int:
    x_TND = torch.tensor(x or range(len(y)), dtype=torch.float64).reshape(1, len(y), 1)
    return int(standardize(x_TND, torch.tensor([y], dtype=torch.float64), parse("rbf"), mean)[2])


def test_the_fate_of_tasks_that_cannot_be_fitted():
    assert flag([1.0, 2.0, 4.0]) == 0
    assert flag([]) == flag([NAN, NAN]) == TaskStatus.EMPTY
    assert flag([1.0, NAN, 2.0], "linear") == flag([3.0, NAN]) == TaskStatus.FEW
    assert flag([1.0, 2.0], "constant") == flag([3.0, NAN], "zero") == 0
    assert flag([5.0, 5.0, 5.0]) == flag([0.1, 0.1, 0.1, NAN], "linear") == TaskStatus.FLAT
    assert flag([5.0, 5.0, 5.0], "zero") == 0
    assert flag([0.0, 0.0, 0.0], "zero") == TaskStatus.FLAT
    assert flag([1.0, INF, 2.0]) == flag([1.0, 3.0, 2.0], x=[0.0, -INF, 1.0]) == TaskStatus.INVALID
    assert flag([1.0, NAN, 2.0], x=[0.0, INF, 1.0]) == flag([1.0, INF, 2.0], x=[0.0, NAN, 1.0]) == 0


@pytest.mark.parametrize("wrong", [-0.1, NAN, INF])
def test_known_noise_that_is_none_makes_a_task_invalid(wrong: float):
    x, y = waves(0, 3, 5)
    known = torch.full_like(y, 0.1)
    known[1, 2] = wrong
    tasks, _, fates = standardize(x, y, parse("rbf"), "constant", known)
    assert fates.tolist() == [0, TaskStatus.INVALID, 0]
    assert all(torch.isfinite(value).all() for value in (tasks.x_TND, tasks.y_TN, tasks.known_TN))


def test_every_fate_has_a_sentence():
    assert set(MESSAGES) == set(TaskStatus)


def test_constant_targets_are_flat_for_a_kernel_of_your_own_too():
    own = custom(lambda a, b, params: params["variance"] * torch.exp(-(a - b.T).abs()), variance=1.0)
    x = torch.rand(2, 4, 1, dtype=torch.float64)
    y = torch.tensor([[3.0, 3.0, 3.0, 3.0], [3.0, 3.0, 3.0, 4.0]], dtype=torch.float64)
    assert standardize(x, y, own, "constant")[2].tolist() == [TaskStatus.FLAT, 0]


@given(seeds, means)
def test_a_bad_task_leaves_the_others_alone(seed: int, mean: str):
    x, y = waves(seed, 4, 6, 2)
    alone, units, _ = standardize(x[:1], y[:1], parse("rbf", 2), mean)
    y[1], y[2], y[3, 1] = INF, 1e300, NAN
    together, all_units, fates = standardize(x, y, parse("rbf", 2), mean)
    assert fates[0] == 0
    first = torch.tensor([0])
    for name in ("x_TND", "y_TN", "mask_TN", "H_TNQ", "known_TN"):
        assert torch.equal(getattr(together.select(first), name), getattr(alone, name))
    assert torch.equal(all_units.select(first).y_scale_T, units.y_scale_T)


def test_a_nan_anywhere_in_a_point_makes_it_missing():
    x, y = waves(0, 1, 6, 2)
    y[0, 1], x[0, 4, 1] = NAN, NAN
    tasks, _, _ = standardize(x, y, parse("rbf", 2), "linear")
    assert tasks.mask_TN.tolist() == [[True, False, True, True, False, True]]
    for value in (tasks.x_TND, tasks.y_TN, tasks.H_TNQ, tasks.known_TN):
        assert (value[0, [1, 4]] == 0).all()
        assert torch.isfinite(value).all()


@given(seeds, scales, positions)
def test_inputs_have_extent_one_and_targets_variance_one(seed: int, scale: float, position: float):
    x, y = waves(seed, 3, 9, 2, holes=0.2)
    kernel = parse("rbf", 2, ard=True)
    tasks, units, _ = standardize(scale * (x + position), scale * (y + position), kernel, "constant")
    for task in range(3):
        keep = tasks.mask_TN[task]
        if keep.sum() < 2:  # the holes took the others, and one point has no extent
            continue
        own_x, own_y = tasks.x_TND[task, keep], tasks.y_TN[task, keep]
        torch.testing.assert_close(own_x.amin(0), torch.zeros(2, dtype=x.dtype))
        torch.testing.assert_close(own_x.amax(0), torch.ones(2, dtype=x.dtype))
        assert own_y.mean().item() == pytest.approx(0, abs=1e-9)
        assert own_y.square().mean().item() == pytest.approx(1)
    again = units.inputs(scale * (x + position))
    torch.testing.assert_close(again[tasks.mask_TN], tasks.x_TND[tasks.mask_TN])


def test_dimensions_share_a_unit_where_they_share_a_lengthscale():
    x = torch.tensor([[[0.0, 10.0], [1.0, 30.0], [2.0, 20.0]]])
    y = torch.tensor([[1.0, 2.0, 4.0]])
    assert standardize(x, y, parse("rbf", 2), "zero")[1].x_scale_TD.tolist() == [[20, 20]]
    assert standardize(x, y, parse("rbf", 2, ard=True), "zero")[1].x_scale_TD.tolist() == [[2, 20]]
    linear = standardize(x, y, parse("linear", 2, ard=True), "zero")[1]
    assert linear.x_offset_TD.tolist() == [[0, 0]]
    assert linear.x_scale_TD.tolist() == [[20, 20]]


@settings(max_examples=80)
@given(kinds, means, seeds, scales, scales, positions, st.booleans())
def test_parameters_in_the_units_of_the_data_have_the_same_likelihood(
    kind: tuple[str, int, bool], mean: str, seed: int, wide: float, tall: float, position: float, with_known: bool
):
    kernel = parse(*kind)
    x, y = waves(seed, 2, 8, kind[1])
    x, y = wide * (x + position), tall * (y + position)
    known = tall**2 * torch.rand(y.shape, generator=torch.Generator().manual_seed(seed)) if with_known else None
    tasks, units, _ = standardize(x, y, kernel, mean, known)
    theta = thetas(seed, 2, kernel)
    expected = nlml(kernel, plain(x, y, mean, known), theta + units.shift(kernel))
    torch.testing.assert_close(
        nlml(kernel, tasks, theta) + 8 * torch.log(units.y_scale_T), expected, rtol=1e-6, atol=1e-6
    )


def mean_of(x_TND: Tensor, beta_TQ: Tensor, mean: str) -> Tensor:
    return (regressors(x_TND, mean) @ beta_TQ[:, :, None])[:, :, 0]


@given(kinds, means, seeds, scales, scales, positions)
def test_coefficients_give_the_mean_in_the_units_of_the_data(
    kind: tuple[str, int, bool], mean: str, seed: int, wide: float, tall: float, position: float
):
    kernel = parse(*kind)
    x, y = waves(seed, 2, 8, kind[1])
    x, y = wide * (x + position), tall * (y + position)
    tasks, units, _ = standardize(x, y, kernel, mean)
    beta = torch.randn(2, tasks.coefficients, dtype=x.dtype, generator=torch.Generator().manual_seed(seed))
    own = mean_of(tasks.x_TND, beta, mean) * units.y_scale_T[:, None] + units.y_offset_T[:, None]
    torch.testing.assert_close(mean_of(x, units.coefficients(beta), mean), own, rtol=1e-7, atol=1e-7 * tall)


def test_the_coefficients_of_a_line_are_its_level_and_slope():
    x = torch.tensor([[[1.0], [2.0], [4.0], [7.0]]], dtype=torch.float64)
    kernel, theta = parse("rbf"), torch.zeros(1, 3, dtype=torch.float64)
    tasks, units, _ = standardize(x, 3 - 2 * x[:, :, 0], kernel, "linear")
    solved = solve(with_noise(kernel(tasks.x_TND, tasks.x_TND, theta[:, :-1]), tasks, theta), tasks)
    torch.testing.assert_close(units.coefficients(solved.beta_TQ), torch.tensor([[3.0, -2.0]], dtype=torch.float64))


@pytest.mark.parametrize("mean", MEANS)
def test_nothing_is_scaled_for_a_kernel_of_your_own_and_only_the_level_taken_off(mean: str):
    own = custom(lambda a, b, params: params["height"] * torch.exp(-(a - b.T).abs()), height=1.0)
    x, y = waves(3, 2, 5)
    x, y = 9 * x + 4, 7 * y + 50
    tasks, units, _ = standardize(x, y, own, mean)
    torch.testing.assert_close(tasks.x_TND, x)
    torch.testing.assert_close(tasks.y_TN, y if mean == "zero" else y - y.mean(1, keepdim=True))
    assert (units.shift(own) == 0).all()
    beta = torch.randn(2, tasks.coefficients, dtype=x.dtype, generator=torch.Generator().manual_seed(0))
    expected = mean_of(x, beta, mean) + units.y_offset_T[:, None]
    torch.testing.assert_close(mean_of(x, units.coefficients(beta), mean), expected)
