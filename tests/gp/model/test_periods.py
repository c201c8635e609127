"""Periods: how short they may be, which initial values there are, and that fits recover them."""

import math
from collections.abc import Sequence

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from brimful import gp
from brimful.gp.cpu import fit as compiled
from brimful.gp.model import periods
from brimful.gp.model.initial_grid import FREQUENCIES
from brimful.gp.model.kernels import parse
from brimful.gp.optimize import scoring

from ..helpers.drawn import Problem, problem, waves
from ..helpers.small import fit

pytestmark = pytest.mark.usefixtures("one_thread")
KERNELS = ("periodic", "rbf * periodic", "linear + rbf * periodic", "periodic + periodic")
bothways = pytest.mark.parametrize(
    "method", [pytest.param(scoring.fit, marks=pytest.mark.soak), compiled.fit], ids=["torch", "native"]
)


def weeks(points: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    x = np.arange(float(points))
    return x, np.sin(2 * np.pi * x / 7)[None] + 0.1 * np.random.default_rng(seed).normal(size=(1, points))


def shortest(x: Sequence[float], bounds: dict[str, tuple[float, float]] | None = None) -> float:
    """The lower bound of the period, in units of the data."""
    x_TND = torch.tensor(x, dtype=torch.float64)[None, :, None]
    some = problem("periodic", x_TND, torch.sin(3 * x_TND[:, :, 0]), bounds=bounds)
    within = periods.bound_periods(some.limits, some.kernel, some.tasks, bounds or ())
    return float(torch.exp(within.low_TP + some.units.shift(some.kernel))[0, some.kernel.periods[0]])


def bounded(some: Problem) -> Problem:
    within = periods.bound_periods(some.limits, some.kernel, some.tasks, ())
    return Problem(some.kernel, some.tasks, some.units, within)


def test_a_period_is_at_least_twice_the_spacing_of_even_points():
    assert shortest(list(range(20))) == pytest.approx(2)
    assert shortest([*range(10), *range(12, 20)]) == pytest.approx(2)  # some are missing
    assert shortest([*range(20), 7.001]) == pytest.approx(2)  # one was taken twice
    assert shortest(list(range(20)) * 2) == pytest.approx(2)
    assert shortest([0.1 * position for position in range(400)]) == pytest.approx(0.2)


def test_irregular_points_tell_shorter_periods():
    x = np.sort(np.random.default_rng(0).uniform(0, 50, 50)).tolist()
    assert shortest(x) == pytest.approx(0.5 * (x[-1] - x[0]) / 50)


@pytest.mark.parametrize("x", [[3.0], [3.0, 3.0], [0.0, 1.0], [0.0, 0.5, 1.0], [0.0, 1e-12, 1.0]])
def test_a_few_points_leave_a_period_of_their_extent(x: list[float]):
    assert shortest(x) <= 1 + 1e-9


def test_no_points_at_all_are_no_trouble():
    some = bounded(problem("periodic", torch.zeros(2, 0, 1), torch.zeros(2, 0)))
    assert torch.isfinite(periods.initial_periods(some.kernel, some.tasks, some.limits)).all()


def test_bounds_that_are_given_stay():
    assert shortest(list(range(20)), bounds={"period": (0.3, 4.0)}) == pytest.approx(0.3)
    some = problem("rbf", *waves(0, 3, 8))
    assert periods.bound_periods(some.limits, some.kernel, some.tasks, ()) is some.limits


def test_missing_points_and_neighbors_do_not_change_the_bounds():
    x, y = waves(1, 6, 12, holes=0.3)
    whole = bounded(problem("periodic", x, y))
    x[:, -1] = x[:, 0] + 1e-3
    y[:, -1] = torch.nan
    y[:, 0] = torch.where(torch.isnan(whole.tasks.y_TN[:, 0]), torch.nan, y[:, 0])
    for task in range(6):
        kept = torch.nonzero(~torch.isnan(y[task]))[:, 0]
        alone = bounded(problem("periodic", x[task : task + 1, kept], y[task : task + 1, kept]))
        padded = bounded(problem("periodic", x, y)).limits.low_TP[task]
        torch.testing.assert_close(alone.limits.low_TP[0], padded, rtol=1e-12, atol=1e-12)


@settings(max_examples=20)
@given(st.sampled_from(KERNELS), st.integers(1, 2), st.integers(0, 10**6), st.floats(1e-3, 20), st.floats(1, 100))
def test_initial_periods_lie_in_the_bounds_and_do_not_depend_on_neighbors(
    text: str, dimensions: int, seed: int, least: float, ratio: float
):
    x, y = waves(seed, 9, 11, dimensions, holes=0.3)
    y[0], y[1, 1:], y[2, 2:], y[3] = torch.nan, torch.nan, torch.nan, 7.0
    kernel = parse(text, dimensions)
    bounds = {kernel.names[position]: (least, least * ratio) for position in kernel.periods}
    some = problem(text, x, y, bounds=bounds)
    initial_grid = periods.initial_periods(some.kernel, some.tasks, some.limits)
    assert initial_grid.shape == (9, len(FREQUENCIES), len(kernel.periods))
    assert (initial_grid >= some.limits.low_TP[:, None, kernel.periods] - 1e-9).all()
    assert (initial_grid <= some.limits.high_TP[:, None, kernel.periods] + 1e-9).all()
    assert (initial_grid[:, :, 0].diff(dim=1) >= 0).all()
    for positions in ([4], [8, 1], [3, 7, 0]):
        part = some.select(*positions)
        assert torch.equal(periods.initial_periods(part.kernel, part.tasks, part.limits), initial_grid[positions])


def test_a_longer_neighbor_does_not_change_the_initial_periods():
    x, y = waves(2, 12, 16)
    wide = [torch.cat([value, torch.full_like(value[:, :9], torch.nan)], 1) for value in (x, y)]
    one, other = problem("periodic", x, y), problem("periodic", wide[0], wide[1])
    torch.testing.assert_close(
        periods.initial_periods(one.kernel, one.tasks, one.limits),
        periods.initial_periods(other.kernel, other.tasks, other.limits),
        rtol=0.0,
        atol=1e-12,
    )


def test_narrow_bounds_are_filled_and_a_narrow_prior_says_where_to_look():
    x, y = (torch.from_numpy(value) for value in weeks(120))
    for priors, bounds, (least, most) in (
        (None, {"period": (8.0, 9.0)}, (8.0, 9.0)),
        ({"period": gp.LogNormal(30.0, 0.1)}, None, (30 * math.exp(-0.3), 30 * math.exp(0.3))),
    ):
        some = problem("periodic", x[None, :, None], y, priors=priors, bounds=bounds)
        result = (
            periods.initial_periods(some.kernel, some.tasks, some.limits) + some.units.shift(some.kernel)[:, None, 1:2]
        )
        assert torch.exp(result).amin() == pytest.approx(least)
        assert torch.exp(result).amax() == pytest.approx(most)
        assert len(torch.unique(result)) > 30


@pytest.fixture(scope="module")
def week_alone() -> float:
    return float(fit(*weeks(84), kernel="periodic", priors=None, bounds={"period": (7, 7)}).nlml[0])


@pytest.mark.parametrize(
    "options",
    [
        {"priors": None},
        {"priors": None, "bounds": {"period": (6.5, 7.5)}},
        {"priors": {"period": gp.LogNormal(7, 0.05)}},
        {"priors": None, "bounds": {"period": (2.5, 500.0)}},
    ],
)
def test_a_weekly_period_is_recovered(options: dict, week_alone: float):
    fitted = fit(*weeks(84), kernel="periodic", **options)
    assert fitted.params["period"][0] == pytest.approx(7, abs=0.02)
    assert fitted.nlml[0] <= week_alone + 0.1


@pytest.mark.soak
@pytest.mark.parametrize("points", [364, 728])
def test_a_weekly_period_is_recovered_from_years_of_days(points: int):
    x, y = weeks(points)
    fitted = fit(x, y, kernel="periodic")
    assert fitted.status[0] == 0
    assert fitted.params["period"][0] == pytest.approx(7, abs=0.01)


@pytest.mark.parametrize("text", ["linear + periodic", pytest.param("rbf + periodic", marks=pytest.mark.soak)])
def test_a_weekly_period_is_recovered_under_a_trend(text: str):
    x, y = weeks(100)
    fitted = fit(x, y + 0.5 * x, kernel=text)
    assert fitted.params["periodic.period"][0] == pytest.approx(7, abs=0.05)


def test_two_periods_are_both_recovered():
    generator = np.random.default_rng(0)
    x = np.sort(generator.uniform(0, 45, 75))
    y = (np.sin(2 * np.pi * x / 7) + np.sin(2 * np.pi * x / 2.3))[None] + 0.1 * generator.normal(size=(1, 75))
    fitted = fit(x, y, kernel="periodic + periodic")
    result = sorted(float(fitted.params[name][0]) for name in ("periodic.period", "periodic2.period"))
    assert result == pytest.approx([2.3, 7.0], rel=0.01)


def test_short_periods_are_recovered_from_irregular_points():
    generator = np.random.default_rng(3)
    x, period = np.sort(generator.uniform(0, 1, (30, 40)), axis=1), generator.uniform(0.02, 0.2, (30, 1))
    y = np.sin(2 * np.pi * x / period) + 0.1 * generator.normal(size=x.shape)
    result = fit(x, y, kernel="periodic", priors=None).params["period"]
    assert (np.abs(result / period[:, 0] - 1) < 0.02).mean() >= 0.96


def midpoint_gaps(kernel: str, y: np.ndarray, truth: np.ndarray, priors: str | None) -> np.ndarray:
    x = np.linspace(0, 1, y.shape[1])
    mean = fit(x, y, kernel=kernel, priors=priors).predict((x[1:] + x[:-1]) / 2)[0]
    return np.sqrt(np.mean((mean - truth) ** 2, axis=1))


def test_between_even_points_a_wave_is_no_faster_than_they_tell():
    generator = np.random.default_rng(1)
    x, phase = np.linspace(0, 1, 20), generator.uniform(0, 6, (25, 1))
    middle, noise = (x[1:] + x[:-1]) / 2, 0.1 * generator.normal(size=(25, 20))
    y, truth = (np.sin(2 * np.pi * at / 0.2 + phase) for at in (x, middle))
    assert midpoint_gaps("periodic", y + noise, truth, None).mean() < 0.07
    y, truth = (np.sin(5 * at + phase) for at in (x, middle))
    smooth = midpoint_gaps("rbf", y + noise, truth, "weak").mean()
    for kernel in ("periodic", "rbf * periodic"):  # a harmonic may still be too fast, but seldom is
        gaps = midpoint_gaps(kernel, y + noise, truth, "weak")
        assert np.median(gaps) < 1.2 * smooth
        assert (gaps < 3 * smooth).mean() >= 0.96


@bothways
def test_a_task_is_fitted_alike_whatever_its_neighbors(method):
    some = bounded(problem("rbf * periodic", *waves(3, 5, 10, holes=0.2), priors="weak"))
    options = scoring.ScoringOptions(tolerance=1e-8)
    together = method(some.kernel, some.tasks, some.limits, options)
    for task in (0, 4):
        part = some.select(task)
        alone = method(part.kernel, part.tasks, part.limits, options)
        gap = 0.0 if method is compiled.fit else 1e-9
        torch.testing.assert_close(alone.nlml_T[0], together.nlml_T[task], rtol=0.0, atol=gap)


@pytest.mark.parametrize(("texts", "tasks"), [(KERNELS[:1], 2), pytest.param(KERNELS, 6, marks=pytest.mark.soak)])
def test_the_twins_end_in_the_same_optimum(texts: Sequence[str], tasks: int):
    gaps = []
    for seed, text in enumerate(texts):
        some = bounded(problem(text, *waves(seed, tasks, 12, holes=0.15), priors="weak"))
        options = scoring.ScoringOptions(tolerance=1e-8, steps=300, starts=6)
        pair = [method(some.kernel, some.tasks, some.limits, options) for method in (compiled.fit, scoring.fit)]
        gaps += (pair[0].nlml_T - pair[1].nlml_T).abs().tolist()
    assert np.mean(np.array(gaps) < 1e-6) >= 0.95  # of local minima that are alike, a machine's rounding chooses


@pytest.mark.parametrize("text", KERNELS)
def test_tiny_tasks_are_no_trouble(text: str):
    x = torch.tensor([[0.0, 1.0, 2.0, 3.0]] * 9, dtype=torch.float64)
    y = torch.sin(5 * x) + 0.1 * x
    for points in range(4):
        y[points, points:] = torch.nan
    y[4], x[5], x[6, :2], x[7, 1] = 2.0, 1.0, 0.0, 1e-13
    some = bounded(problem(text, x[:, :, None], y))
    assert torch.isfinite(periods.initial_periods(some.kernel, some.tasks, some.limits)).all()
    fitted = fit(x.numpy(), y.numpy(), kernel=text)
    assert (fitted.status[:2] >= gp.TaskStatus.EMPTY).all()
    assert (fitted.status[[2, 3, 6, 7, 8]] == 0).all()
    alone = fit(x[8:].numpy(), y[8:].numpy(), kernel=text)
    np.testing.assert_allclose(alone.nlml[0], fitted.nlml[8], rtol=0.0, atol=1e-9)


def test_bounds_beyond_all_sense_are_no_trouble():
    x, y = weeks(30)
    for bounds in ((1e-320, 1e-310), (1e-310, 1e300), (1e200, 1e300)):
        assert fit(x, y, kernel="periodic", bounds={"period": bounds}).status.shape == (1,)
