"""Fitting many tasks at once, in torch and compiled: where it ends, and that no task depends on another."""

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from torch import Tensor

from brimful.gp.cpu import fit as compiled
from brimful.gp.model.likelihood import evaluate
from brimful.gp.model.priors import LogNormal
from brimful.gp.optimize import initialization, scoring
from brimful.gp.optimize.initialization import Starts
from brimful.gp.optimize.scoring import CONVERGED, FAILED, UNFINISHED, Optima, ScoringOptions

from ..helpers.drawn import TEXTS, Problem, nlml, problem, waves

Fit = Callable[..., Optima]
both = pytest.mark.parametrize("fit", [scoring.fit, compiled.fit], ids=["torch", "native"])
QUICK = ("rbf", "linear")  # in plain torch the others take seconds each


def cases(*texts: str) -> pytest.MarkDecorator:
    """Both fits of every kernel; in torch all but a few only in the soak tests."""
    native = [pytest.param(compiled.fit, text, id=f"native-{text}") for text in texts]
    plain = [
        pytest.param(scoring.fit, text, id=f"torch-{text}", marks=() if text in QUICK else pytest.mark.soak)
        for text in texts
    ]
    return pytest.mark.parametrize(("fit", "text"), [*native, *plain])


slow_in_torch = pytest.mark.parametrize(
    "fit", [pytest.param(scoring.fit, marks=pytest.mark.soak), compiled.fit], ids=["torch", "native"]
)
pytestmark = pytest.mark.usefixtures("one_thread")


def run(fit: Fit, given: Problem, begin: Starts | None = None, **options) -> Optima:
    return fit(given.kernel, given.tasks, given.limits, ScoringOptions(**options), begin)


def at(theta_TP: Tensor) -> Starts:
    return theta_TP[:, None], torch.ones(len(theta_TP), dtype=torch.int64)


def free_gradient(given: Problem, theta_TP: Tensor) -> Tensor:
    """The gradient of likelihood and priors, 0 for what is fixed or pushed against a bound."""
    theta_TP = theta_TP.clone().requires_grad_()
    objective_T = nlml(given.kernel, given.tasks, theta_TP) + given.limits.prior_penalty(theta_TP)
    (gradient_TP,) = torch.autograd.grad(objective_T.sum(), theta_TP)
    low, high = given.limits.low_TP, given.limits.high_TP
    against = ((theta_TP <= low) & (gradient_TP > 0)) | ((theta_TP >= high) & (gradient_TP < 0))
    return torch.where(against | given.limits.fixed_P, 0.0, gradient_TP)


@cases(*TEXTS)
@pytest.mark.parametrize("priors", [None, "weak"])
def test_where_a_task_has_converged_the_gradient_vanishes(fit: Fit, text: str, priors: str | None):
    given = problem(text, *waves(0, 4, 10, holes=0.1), priors=priors)
    fitted = run(fit, given, tolerance=1e-8, starts=1)
    done = fitted.ending_T == CONVERGED
    assert done.double().mean() >= (0.75 if priors is None else 1.0)
    norm_TP = free_gradient(given, fitted.theta_TP).abs()
    torch.testing.assert_close(fitted.gradient_T, norm_TP.amax(1), rtol=1e-3, atol=1e-4)
    curve_TP = evaluate(given.kernel, given.tasks, fitted.theta_TP)[3].diagonal(dim1=1, dim2=2)
    assert (norm_TP[done] < 5e-4 * (1 + curve_TP[done]).sqrt()).all()


@cases(*TEXTS)
def test_no_initial_value_is_better(fit: Fit, text: str):
    given = problem(text, *waves(1, 4, 8), "linear")
    fitted = run(fit, given)
    limits = given.limits
    grid_GP = initialization.grid(given.kernel, limits)[0]
    for start_P in grid_GP[:: max(1, len(grid_GP) // 30)]:
        start_TP = torch.minimum(torch.maximum(start_P.expand_as(limits.low_TP), limits.low_TP), limits.high_TP)
        assert (fitted.nlml_T <= nlml(given.kernel, given.tasks, start_TP) + 1e-9).all()


@both
def test_the_results_belong_together(fit: Fit):
    given = problem("matern52", *waves(2, 20, 12, holes=0.2), "linear", priors="weak")
    fitted = run(fit, given)
    value, beta_TQ, *_ = evaluate(given.kernel, given.tasks, fitted.theta_TP)
    torch.testing.assert_close(fitted.nlml_T, value, rtol=0.0, atol=1e-7)  # without the prior
    torch.testing.assert_close(fitted.beta_TQ, beta_TQ, rtol=1e-4, atol=1e-6)


@cases("rbf", "matern12", "linear + rbf * periodic")
def test_a_task_is_fitted_alike_whatever_its_neighbors(fit: Fit, text: str):
    given = problem(text, *waves(3, 6, 10, holes=0.2), priors="weak")
    together = run(fit, given, tolerance=1e-8)
    for task in (0, 5):
        alone = run(fit, given.select(task), tolerance=1e-8)
        gap = 0.0 if fit is compiled.fit else 1e-9
        torch.testing.assert_close(alone.nlml_T[0], together.nlml_T[task], rtol=0.0, atol=gap)
        if gap == 0:
            assert torch.equal(alone.theta_TP[0], together.theta_TP[task])
            assert torch.equal(alone.beta_TQ[0], together.beta_TQ[task])
            assert alone.iterations_T[0] == together.iterations_T[task]


@both
def test_bad_neighbors_change_nothing(fit: Fit):
    x, y = waves(4, 12, 10)
    expected = run(fit, problem("rbf", x, y))
    y[1] = 1e300  # its squares overflow
    y[3, ::2] *= 1e160
    y[4] = math.nan
    y[6] = 7.0
    y[7, 3] = math.inf
    x[9] = 2.0
    x[10, 0] = 1e200
    fitted = run(fit, problem("rbf", x, y))
    others = [0, 2, 5, 8, 11]
    gap = 0.0 if fit is compiled.fit else 1e-9
    torch.testing.assert_close(fitted.nlml_T[others], expected.nlml_T[others], rtol=0.0, atol=gap)
    assert torch.equal(fitted.ending_T[others], expected.ending_T[others])


@both
def test_numbers_that_no_covariance_explains_fail_by_themselves(fit: Fit):
    given = problem("rbf", *waves(5, 3, 8))
    given.tasks.y_TN[1] *= 1e200
    fitted = run(fit, given)
    assert fitted.ending_T.tolist() == [CONVERGED, FAILED, CONVERGED]
    assert fitted.nlml_T.isinf().tolist() == [False, True, False]


@both
def test_bounds_hold(fit: Fit):
    x, y = waves(6, 30, 10)
    bounds = {"lengthscale": (0.7, 1.1), "noise": (0.02, 0.03), "variance": (0.5, 0.5)}
    given = problem("rbf", x, y, bounds=bounds)
    theta = run(fit, given).theta_TP + given.units.shift(given.kernel)
    for position, name in enumerate((*given.kernel.names, "noise")):
        low, high = np.log(bounds[name])
        assert (theta[:, position] >= low - 1e-12).all()
        assert (theta[:, position] <= high + 1e-12).all()
    assert (theta[:, 1] > math.log(0.71)).any()


@slow_in_torch
def test_the_usual_bounds_hold(fit: Fit):
    given = problem("linear + rbf * periodic", *waves(7, 10, 6), "linear")
    theta = run(fit, given).theta_TP
    assert (theta >= given.limits.low_TP).all()
    assert (theta <= given.limits.high_TP).all()


@both
def test_the_narrower_a_prior_the_nearer_the_parameter(fit: Fit):
    x, y = waves(8, 8, 6)
    apart = []
    for spread in (0.01, 0.3, 3.0):
        given = problem("rbf", x, y, priors={"lengthscale": LogNormal(0.5, spread)})
        theta = run(fit, given).theta_TP + given.units.shift(given.kernel)
        apart.append((theta[:, 1] - math.log(0.5)).abs().mean().item())
    assert apart[0] < 0.01 < apart[1] < apart[2]


@both
def test_weak_priors_keep_tiny_tasks_from_the_bounds(fit: Fit):
    x, y = waves(9, 30, 3)
    free, held = (problem("rbf", x, y, priors=priors) for priors in (None, "weak"))
    low, high = held.limits.low_TP, held.limits.high_TP
    touches = [
        ((theta <= low) | (theta >= high)).any(1) for theta in (run(fit, entry).theta_TP for entry in (free, held))
    ]
    assert touches[0].any()
    assert not touches[1].any()


@both
def test_known_noise_is_kept_and_the_rest_fitted_to_it(fit: Fit):
    x, y = waves(10, 3, 12, holes=0.1)
    known = torch.full_like(y, 0.05)
    given = problem("rbf", x, y, known_TN=known)
    fitted = run(fit, given)
    assert (fitted.ending_T == CONVERGED).all()
    assert (fitted.theta_TP[:, -1].exp() < 1e-100).all()
    low, high = given.limits.low_TP[0, :2].numpy(), given.limits.high_TP[0, :2].numpy()
    for task in range(3):
        one = given.select(task)

        def value(theta: np.ndarray, one: Problem = one) -> float:
            theta_TP = torch.tensor([[*theta, -math.inf]], dtype=torch.float64)
            return nlml(one.kernel, one.tasks, theta_TP).item()

        starts = np.log([[1.0, 0.03], [1.0, 0.1], [1.0, 0.4], [1.0, 2.0]])
        best = min(minimize(value, start, bounds=list(zip(low, high, strict=True))).fun for start in starts)
        assert fitted.nlml_T[task].item() <= best + 1e-4


@both
def test_the_limit_of_steps_is_kept_and_reported(fit: Fit):
    given = problem("rbf", *waves(11, 20, 12))
    fitted = run(fit, given, steps=1, starts=1)
    assert (fitted.iterations_T <= 1).all()
    unfinished = fitted.ending_T == UNFINISHED
    assert unfinished.double().mean() > 0.8
    assert torch.isfinite(fitted.theta_TP).all()
    full = run(fit, given, starts=1)
    assert (full.ending_T == CONVERGED).all()
    assert (full.nlml_T <= fitted.nlml_T + 1e-9).all()
    assert (full.nlml_T < fitted.nlml_T - 1e-3).any()


@slow_in_torch
def test_more_starts_are_never_worse(fit: Fit):
    given = problem("periodic", *waves(12, 20, 8))
    one, four = run(fit, given, starts=1), run(fit, given, starts=4)
    assert (four.nlml_T <= one.nlml_T).all()
    assert (four.nlml_T < one.nlml_T - 0.01).any()


@both
def test_a_fit_from_where_it_ended_stays_there(fit: Fit):
    given = problem("matern32", *waves(13, 20, 12))
    first = run(fit, given)
    again = run(fit, given, at(first.theta_TP))
    assert again.iterations_T.double().mean() < 0.2 * first.iterations_T.double().mean()
    torch.testing.assert_close(again.nlml_T, first.nlml_T, rtol=0.0, atol=1e-3)


@both
def test_a_start_outside_the_bounds_is_brought_inside(fit: Fit):
    given = problem("rbf", *waves(14, 5, 10))
    fitted = run(fit, given, at(torch.full((5, 3), 40.0, dtype=torch.float64)))
    assert (fitted.theta_TP <= given.limits.high_TP).all()
    assert torch.isfinite(fitted.nlml_T).all()


@both
def test_units_of_the_data_change_nothing(fit: Fit):
    x, y = waves(15, 20, 10)
    near, far = problem("rbf", x, y), problem("rbf", 1e4 * x - 3e4, 1e-3 * y + 5e-3)
    one, other = run(fit, near, tolerance=1e-8), run(fit, far, tolerance=1e-8)
    torch.testing.assert_close(one.nlml_T, other.nlml_T, rtol=0.0, atol=1e-5)


@slow_in_torch
def test_each_dimension_gets_the_lengthscale_that_suits_it(fit: Fit):
    x, _ = waves(16, 4, 40, 2)
    noise = torch.randn(4, 40, dtype=x.dtype, generator=torch.Generator().manual_seed(0))
    given = problem("rbf", x, torch.sin(2 * x[:, :, 0]) + 0.05 * noise, ard=True)
    theta = run(fit, given).theta_TP + given.units.shift(given.kernel)
    assert (theta[:, 1] < math.log(2)).all()
    assert (theta[:, 2] > math.log(4)).all()


@both
def test_no_tasks_are_no_trouble(fit: Fit):
    x, y = waves(18, 1, 4)
    fitted = run(fit, problem("rbf", x[:0], y[:0]))
    assert fitted.theta_TP.shape == (0, 3)
    assert fitted.nlml_T.shape == (0,)


@slow_in_torch
def test_a_better_period_some_hundredths_of_a_cycle_from_a_visited_one_is_reached(fit: Fit):
    generator = np.random.default_rng(4)
    x = np.sort(generator.uniform(0, 1, (6, 40)), 1)
    y = ((x / generator.uniform(0.1, 0.4, (6, 1))) % 1 < 0.4) + 0.01 * generator.normal(size=x.shape)
    some = problem("rbf * periodic", torch.from_numpy(x[:, :, None]), torch.from_numpy(y), priors="weak")
    ends = [
        fit(some.kernel, some.tasks, some.limits, scoring.ScoringOptions(starts=starts, patience=40))
        for starts in (10, 40)
    ]
    usual, thorough = (end.nlml_T + some.limits.prior_penalty(end.theta_TP) for end in ends)
    assert (usual < thorough + 0.1).all()
