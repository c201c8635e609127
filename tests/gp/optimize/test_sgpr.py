"""The bound of inducing points against the exact likelihood, and its derivatives."""

import math
from dataclasses import replace

import pytest
import torch

from brimful.gp.model import likelihood, posterior, sgpr
from brimful.gp.model.sgpr import choose_inducing
from brimful.gp.optimize.sgpr import SparseEvaluator

from ..helpers.drawn import Problem, problem, thetas, waves

CASES = [
    ("rbf", 1, False, "constant", False),
    ("matern12", 2, False, "constant", True),
    ("matern32", 3, True, "linear", False),
    ("rational_quadratic", 1, False, "zero", False),
    ("linear + rbf * periodic", 1, False, "constant", True),
]


def drawn(case: int, points: int = 24) -> tuple[Problem, torch.Tensor]:
    """Tasks with missing points, some with a known noise, and parameters for them."""
    text, dimensions, ard, mean, known = CASES[case]
    some = problem(text, *waves(4, 5, points, dimensions, holes=0.2), mean, ard=ard)
    if known:
        some = replace(some, tasks=replace(some.tasks, known_TN=0.1 * some.tasks.mask_TN.double()))
    theta = thetas(2, 5, some.kernel)
    theta[:, -1] = theta[:, -1].clamp(min=math.log(1e-3))
    return some, theta


def bound(evaluator: SparseEvaluator, theta: torch.Tensor) -> torch.Tensor:
    value = evaluator.score(torch.arange(5), theta).sum(1)
    return -0.5 * (value + math.log(2 * math.pi) * evaluator.count_T)


@pytest.mark.parametrize("case", range(len(CASES)))
def test_it_is_a_lower_bound_that_rises_to_the_likelihood(case: int):
    some, theta = drawn(case)
    exact = -likelihood.score(some.kernel, some.tasks, theta)[0]
    bounds = [bound(SparseEvaluator(some.kernel, some.tasks, count), theta) for count in (2, 8, 24)]
    for lower, higher in zip(bounds, [*bounds[1:], exact], strict=True):
        assert bool((lower <= higher + 1e-6).all())
    torch.testing.assert_close(bounds[-1], exact, rtol=1e-6, atol=2e-4)
    assert bool((bounds[0] < exact - 1e-3).any())


@pytest.mark.parametrize("case", range(len(CASES)))
@pytest.mark.parametrize("count", [5, 24])
def test_the_gradient_is_that_of_the_bound(case: int, count: int):
    some, theta = drawn(case)
    evaluator, index = SparseEvaluator(some.kernel, some.tasks, count), torch.arange(5)
    out = evaluator.evaluate(index, theta)
    torch.testing.assert_close(out.value_L2, evaluator.score(index, theta))
    for parameter in range(theta.shape[1]):
        step = torch.zeros_like(theta)
        step[:, parameter] = 1e-5
        slope = (bound(evaluator, theta - step) - bound(evaluator, theta + step)) / 2e-5
        torch.testing.assert_close(out.gradient_LP[:, parameter], slope, rtol=1e-4, atol=1e-3)
    if count == 24:
        _, beta, _, information = likelihood.evaluate(some.kernel, some.tasks, theta)
        torch.testing.assert_close(out.info_LPP, information, rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(out.beta_LQ, beta, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("case", range(len(CASES)))
def test_with_all_points_predictions_are_the_exact_ones(case: int):
    some, theta = drawn(case)
    tasks, beta = some.tasks, torch.zeros(5, some.tasks.coefficients, dtype=torch.float64)
    new = torch.rand(5, 6, tasks.x_TND.shape[2], dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    normal = torch.randn(5, 2, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    for ours, wanted in (
        (
            sgpr.predict(some.kernel, tasks, theta, beta, new, tasks.mean, 24),
            posterior.predict(some.kernel, tasks, theta, beta, new, tasks.mean),
        ),
        (sgpr.leave_one_out(some.kernel, tasks, theta, 24), posterior.leave_one_out(some.kernel, tasks, theta)),
    ):
        for one, other in zip(ours, wanted, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5, equal_nan=True)
    samples = sgpr.sample(some.kernel, tasks, theta, beta, new, tasks.mean, normal, 24)
    exact = posterior.sample(some.kernel, tasks, theta, beta, new, tasks.mean, normal)
    torch.testing.assert_close(samples, exact, rtol=1e-2, atol=1e-2)


def test_leave_one_out_is_the_prediction_without_the_point(monkeypatch: pytest.MonkeyPatch):
    some, theta = drawn(0)
    tasks, chosen = some.tasks, choose_inducing(some.tasks, 6)
    monkeypatch.setattr(sgpr, "choose_inducing", lambda tasks, most: chosen)
    mean, variance, _ = sgpr.leave_one_out(some.kernel, tasks, theta, 6)
    point = 3
    without = tasks.mask_TN.clone()
    without[:, point] = False
    fewer = replace(tasks, mask_TN=without, y_TN=tasks.y_TN * without)
    beta = torch.zeros(5, 1, dtype=torch.float64)
    at = tasks.x_TND[:, point : point + 1]
    alone, function = sgpr.predict(some.kernel, fewer, theta, beta, at, "constant", 6)
    there = tasks.mask_TN[:, point]
    torch.testing.assert_close(mean[there, point], alone[there, 0], rtol=1e-6, atol=1e-6)
    expected = function[there, 0] + torch.exp(theta[there, -1])
    torch.testing.assert_close(variance[there, point], expected, rtol=1e-6, atol=1e-6)


def test_inducing_points_are_apart_and_none_is_missing():
    some, _ = drawn(1, points=30)
    chosen = choose_inducing(some.tasks, 8)
    assert bool(chosen.used_TM.all())
    assert bool(some.tasks.mask_TN.gather(1, chosen.index_TM).all())
    assert all(len(set(row)) == 8 for row in chosen.index_TM.tolist())
    points = chosen.points(some.tasks)
    nearest = torch.cdist(points, points).masked_fill(torch.eye(8, dtype=torch.bool), math.inf).amin((1, 2))
    gaps = torch.cdist(some.tasks.x_TND, points).amin(2).masked_fill(~some.tasks.mask_TN, 0.0).amax(1)
    assert bool((nearest >= gaps - 1e-9).all())  # no point is farther from them than they are apart


def test_points_in_one_place_count_once():
    some, theta = drawn(0)
    alike = replace(some.tasks, x_TND=torch.round(some.tasks.x_TND * 3) / 3)
    chosen = choose_inducing(alike, 10)
    assert int(chosen.used_TM.sum(1).max()) <= 4
    exact = -likelihood.score(some.kernel, alike, theta)[0]
    torch.testing.assert_close(bound(SparseEvaluator(some.kernel, alike, 10), theta), exact, rtol=1e-6, atol=1e-3)
