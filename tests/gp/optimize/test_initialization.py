"""Where descents start: the profile over the lengthscale, and scores that are the same compiled."""

import math
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import Tensor

from brimful.gp.cpu import fit as compiled
from brimful.gp.model import likelihood
from brimful.gp.model.kernels import parse
from brimful.gp.model.priors import limits
from brimful.gp.model.tasks import Units
from brimful.gp.optimize import initialization, wave_search

from ..helpers.drawn import problem, waves

pytestmark = pytest.mark.usefixtures("one_thread")


def of_one_task():
    """The kernel and the limits of a task, by itself."""
    one = torch.ones(1, dtype=torch.float64)
    kernel = parse("rbf")
    return kernel, limits(kernel, Units(one[:, None], one[:, None], one, one), None, None, False)


def test_two_minima_between_points_of_the_grid_are_two_starts():
    kernel, within = of_one_task()
    valleys = (-2.05, -2.45)  # between two lengthscales of the grid

    def scored(index_L: Tensor, theta_LP: Tensor) -> tuple[Tensor, Tensor]:
        log_length, ratio = theta_LP[:, 1], theta_LP[:, 2] - theta_LP[:, 0]
        each = [40 * (log_length - valley).square() + 0.2 * place for place, valley in enumerate(valleys)]
        return theta_LP, torch.minimum(*each) + 0.5 * (ratio + 5).square()

    begin, count = initialization.grid_search(kernel, within, 3, scored)
    assert count.tolist() == [2]
    lengths = sorted(begin[0, :2, 1].tolist())
    assert abs(lengths[1] - valleys[0]) < 0.2 and abs(lengths[0] - valleys[1]) < 0.2
    assert (begin[0, :2, 2] - begin[0, :2, 0] + 5).abs().max() < 0.5  # and the best noise between two of the grid


def test_the_best_rows_start_each_at_its_best_noise_whatever_is_beside_them():
    score = torch.tensor([[[9.0, 3.0], [5.0, 2.0], [1.0, 4.0], [30.0, 20.0], [math.nan, math.inf]]] * 2).double()
    score[1] = math.inf
    theta = torch.arange(20.0).view(1, 5, 2, 2).repeat(2, 1, 1, 1).double()
    begin, count = initialization.best_rows(theta, score, 4)
    assert count.tolist() == [3, 0]  # of the fourth too much would have to be gained, and the last has no score
    assert begin[0, :3].tolist() == [theta[0, row, level].tolist() for row, level in ((2, 0), (1, 1), (0, 1))]
    few, count = initialization.best_rows(theta, score, 2)
    assert count.tolist() == [2, 0] and few.equal(begin[:, :2])


def test_two_rough_parts_side_by_side_on_the_grid_are_both_started_from():
    kernel = parse("rbf + matern32")
    one = torch.ones(1, dtype=torch.float64)
    within = limits(kernel, Units(one[:, None], one[:, None], one, one), None, None, False)
    valleys = torch.tensor([[0.05, 0.85], [0.05, 0.33], [0.85, 0.02]], dtype=torch.float64).log()

    def scored(index_L: Tensor, theta_LP: Tensor) -> tuple[Tensor, Tensor]:
        apart_LV = (theta_LP[:, None, [1, 3]] - valleys).square().sum(2)
        each_LV = torch.arange(3) + 20 * apart_LV
        return theta_LP, each_LV.min(1).values + 0.1 * (theta_LP[:, 4] + 5).square()

    begin, count = initialization.grid_search(kernel, within, 6, scored)
    assert int(count) >= 3
    torch.testing.assert_close(begin[0, :3, [1, 3]], valleys)


def test_points_without_a_score_start_nothing():
    kernel, within = of_one_task()

    def scored(index_L: Tensor, theta_LP: Tensor) -> tuple[Tensor, Tensor]:
        return theta_LP, torch.full_like(theta_LP[:, 0], math.inf)

    assert initialization.grid_search(kernel, within, 3, scored)[1].tolist() == [0]


@pytest.mark.parametrize("text", ["rbf", "rbf + matern32", "linear"])
@pytest.mark.parametrize("bounds", [None, {"noise": (1e-3, 0.3)}])
@pytest.mark.parametrize("known", [False, True])
def test_compiled_scores_are_those_of_torch(text: str, bounds: dict | None, known: bool):
    x, y = waves(1, 9, 11, holes=0.3)
    own = torch.full_like(y, 0.1) if known else None
    bounds = {} if known or text != "rbf" else bounds
    given = problem(text, x, y, priors=None if bounds else "weak", bounds=bounds or None, known_TN=own)

    def score(index_L: Tensor, theta_LP: Tensor) -> tuple[Tensor, Tensor]:
        return likelihood.score(given.kernel, given.tasks.select(index_L), theta_LP)

    count_T = given.tasks.mask_TN.sum(1).double()
    plain = initialization.scored_by(given.kernel, given.limits, count_T, score)
    grid_GP, _ = initialization.grid(given.kernel, given.limits)
    index_L, theta_LP = torch.arange(9).repeat_interleave(len(grid_GP)), grid_GP.repeat(9, 1)
    with ThreadPoolExecutor(1) as pool:
        native = compiled._scored(given.kernel, given.tasks, given.limits, pool)
        ours = native(index_L, theta_LP)
    assert theta_LP.equal(grid_GP.repeat(9, 1))
    for one, other in zip(ours, plain(index_L, theta_LP), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-7, atol=1e-6)


def test_large_tasks_start_from_subsets_whatever_is_beside_them(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(compiled, "_WHOLE", 20)
    x, y = waves(2, 8, 40)
    y[::2, 15:] = torch.nan
    given = problem("rbf", x, y)
    with ThreadPoolExecutor(1) as pool:
        begin, count = compiled._starts(given.kernel, given.tasks, given.limits, 3, pool)
        for task in (0, 1, 5):
            alone = given.select(task)
            one, used = compiled._starts(alone.kernel, alone.tasks, alone.limits, 3, pool)
            assert used[0] == count[task] > 0
            assert torch.equal(one[0, : used[0]], begin[task, : used[0]])


def test_a_narrow_minimum_beside_a_period_of_the_grid_is_where_it_starts():
    kernel = parse("periodic")
    theta = torch.tensor([[0.0, -math.log(5.0), -1.0, -3.0]], dtype=torch.float64)
    candidates = torch.cat([theta, theta, theta, theta])[None]
    candidates[0, 1, 1], candidates[0, 2, 1] = -math.log(5.06), -math.log(9.0)  # one valley, and another place
    candidates[0, 3, 2] += 2.0  # the same period, smoother

    def scored(index_L: Tensor, theta_LP: Tensor) -> tuple[Tensor, Tensor]:
        assert index_L.tolist() == [7] * len(theta_LP)
        off = torch.exp(-theta_LP[:, 1]) - 5.12
        return theta_LP, 10 - 8 * torch.exp(-(off / 0.05).square()) + (theta_LP[:, 2] + 1).square()

    first = scored(torch.full((4,), 7), candidates[0])[1][None]
    first[0, 2] = 9.9
    begin, score = wave_search.refined(kernel, candidates, first, torch.tensor([7]), scored)
    assert abs(float(torch.exp(-begin[0, 0, 1])) - 5.12) < 0.01 and score[0, 0] < 2.2 < first.min()
    assert torch.isfinite(score[0]).tolist() == [True, True, True, False]  # two led to one valley
    assert sorted(round(float(torch.exp(-row[1])), 1) for row in begin[0, 1:3]) == [5.1, 9.0]
    nothing = torch.full_like(first, math.inf)
    assert torch.isinf(wave_search.refined(kernel, candidates, nothing, torch.tensor([7]), scored)[1]).all()


@pytest.mark.parametrize("text", ["periodic", "rbf * periodic"])
@pytest.mark.parametrize("known", [False, True])
def test_beside_an_optimum_neighbors_and_multiples_of_its_period_are_starts(text: str, known: bool):
    kernel, one = parse(text), torch.ones(2, dtype=torch.float64)
    within = limits(kernel, Units(one[:, None], one[:, None], one, one), None, None, known)
    period, own = kernel.periods[0], kernel.periods[0] + 1
    optimum = torch.zeros(2, len(kernel.names) + 1, dtype=torch.float64)
    optimum[:, period], optimum[:, -1] = -math.log(5.0), initialization.NO_NOISE if known else -3.0
    valleys = torch.tensor([5.05, 10.0], dtype=torch.float64)

    def scored(index_L: Tensor, theta_LP: Tensor) -> tuple[Tensor, Tensor]:
        assert set(index_L.tolist()) == {1}
        assert not known or (theta_LP[:, -1] == initialization.NO_NOISE).all()
        off_LV = (torch.exp(-theta_LP[:, None, period]) - valleys).abs()
        steep_L = (theta_LP[:, own] + theta_LP[:, period] + math.log(5.0)).square()
        return theta_LP, off_LV.min(1).values + steep_L + theta_LP.square().sum(1) / 1e9

    nlml = torch.tensor([math.inf, 0.0], dtype=torch.float64)
    begin, count = wave_search.beside(kernel, within, optimum, nlml, 5, scored)
    assert count.tolist() == [0, 5]
    assert {round(float(torch.exp(-row[period])), 2) for row in begin[1]} >= {5.05, 10.0}
    gaps = (begin[1, :, None] - begin[1]).abs().amax(2) + torch.eye(5)
    assert (gaps > 1e-3).all()  # no two alike
