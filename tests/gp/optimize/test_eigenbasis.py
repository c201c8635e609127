"""Initial values from the shared eigenbasis: as good as the grid's, and nearer to the end."""

import math
from typing import Any

import numpy as np
import pytest
import torch

from brimful.gp.cpu import fit as compiled
from brimful.gp.model.kernels import custom, parse
from brimful.gp.optimize import eigenbasis
from brimful.gp.optimize.initialization import Starts
from brimful.gp.optimize.scoring import ScoringOptions

from ..helpers.drawn import Problem, nlml, problem
from ..helpers.small import fit

COUNT, POINTS = 200, 14


def mixed(seed: int, text: str, mean: str, priors: Any) -> Problem:
    """Tasks with lengthscales and noises of all sizes, drawn from processes over shared inputs."""
    generator = np.random.default_rng(seed)
    x = np.sort(generator.uniform(0, 1, POINTS))
    length = 10 ** generator.uniform(-1.5, 0.5, (COUNT, 1, 1))
    noise = 10 ** generator.uniform(-3, 0, (COUNT, 1, 1))
    K = np.exp(-0.5 * (x[:, None] - x) ** 2 / length**2) + (noise**2 + 1e-10) * np.eye(POINTS)
    y = (np.linalg.cholesky(K) @ generator.normal(size=(COUNT, POINTS, 1)))[:, :, 0]
    shared = torch.from_numpy(x)[None, :, None].expand(COUNT, -1, -1)
    return problem(text, shared, torch.from_numpy(y), mean, priors=priors)


def reached(given: Problem, begin: Starts | None) -> torch.Tensor:
    """The objective at the end: the likelihood with the priors' part."""
    fitted = compiled.fit(given.kernel, given.tasks, given.limits, ScoringOptions(), begin)
    return fitted.nlml_T + given.limits.prior_penalty(fitted.theta_TP)


@pytest.mark.parametrize("priors", [None, "weak"])
@pytest.mark.parametrize("mean", ["zero", "constant", "linear"])
@pytest.mark.parametrize("text", ["rbf", "matern52"])
def test_scoring_ends_no_worse_than_from_the_grid(text: str, mean: str, priors: str | None):
    given = mixed(0, text, mean, priors)
    begin = eigenbasis.starts(given.kernel, given.tasks, given.limits, 4)
    assert begin[0].shape == (COUNT, 4, 3)
    assert int(begin[1].min()) >= 1
    assert int(begin[1].max()) <= 4
    gap = reached(given, begin) - reached(given, None)
    assert float(gap.mean()) < 0.01
    assert float((gap < 0.1).double().mean()) >= 0.97


@pytest.mark.parametrize("priors", [None, "weak"])
def test_the_best_start_is_close_to_the_end(priors: str | None):
    given = mixed(1, "rbf", "constant", priors)
    starts_TSP, _ = eigenbasis.starts(given.kernel, given.tasks, given.limits, 4)
    theta_TP = torch.clamp(starts_TSP[:, 0], given.limits.low_TP, given.limits.high_TP)
    begun = nlml(given.kernel, given.tasks, theta_TP) + given.limits.prior_penalty(theta_TP)
    off = begun - reached(given, None)
    assert float(off.median()) < 0.05
    assert float((off < 1.0).double().mean()) > 0.9


@pytest.mark.parametrize("priors", [None, "weak"])
def test_most_tasks_need_no_step_from_there(priors: str | None):
    given = mixed(5, "rbf", "constant", priors)
    begin = eigenbasis.starts(given.kernel, given.tasks, given.limits, 1)
    fitted = compiled.fit(given.kernel, given.tasks, given.limits, ScoringOptions(), begin)
    assert float((fitted.iterations_T == 0).double().mean()) > 0.5


@pytest.mark.parametrize("priors", [{"variance": (1e4, 0.01)}, {"noise": (3.0, 0.05)}, {"variance": (1e-4, 0.1)}])
def test_strong_priors_end_no_worse_than_from_the_grid(priors: Any):
    given = mixed(7, "rbf", "constant", priors)
    gap = reached(given, eigenbasis.starts(given.kernel, given.tasks, given.limits, 2)) - reached(given, None)
    assert float((gap < 0.1).double().mean()) >= 0.95


def test_a_local_minimum_at_the_end_of_the_lengthscales_starts_there():
    y = np.random.default_rng(6).normal(size=(50, POINTS))  # noise alone: as short as may be
    given = problem("rbf", torch.linspace(0, 1, POINTS)[None, :, None].expand(50, -1, -1).double(), torch.from_numpy(y))
    starts_TSP, _ = eigenbasis.starts(given.kernel, given.tasks, given.limits, 1)
    shortest, longest = (math.log(value) for value in eigenbasis._LENGTHS[:2])
    assert bool((starts_TSP[:, 0, 1] >= shortest - 1e-6).all()) and bool((starts_TSP[:, 0, 1] <= longest + 1e-6).all())
    assert bool((starts_TSP[:, 0, 1] < shortest + 0.3).any())


def test_which_kernels_it_serves():
    assert all(eigenbasis.serves(parse(text)) for text in ("rbf", "matern12", "matern32", "matern52"))
    for text in ("rational_quadratic", "periodic", "linear", "constant", "rbf + constant", "rbf * matern32"):
        assert not eigenbasis.serves(parse(text))
    assert not eigenbasis.serves(parse("rbf", 2, ard=True))
    assert eigenbasis.serves(parse("rbf", 2))
    assert not eigenbasis.serves(custom(lambda a, b, p: a @ b.T, a=1.0))


def test_one_start_when_one_is_asked_for():
    given = mixed(2, "rbf", "zero", None)
    starts_TSP, count_T = eigenbasis.starts(given.kernel, given.tasks, given.limits, 1)
    assert starts_TSP.shape == (COUNT, 1, 3)
    assert count_T.tolist() == [1] * COUNT


@pytest.mark.parametrize("positions", [[7], [5, 40], [5, 40, 199], list(range(3, 20)), list(range(1, 180))])
def test_starts_do_not_depend_on_the_neighbors(positions: list[int], monkeypatch: pytest.MonkeyPatch):
    given = mixed(3, "rbf", "constant", "weak")
    starts_TSP, count_T = eigenbasis.starts(given.kernel, given.tasks, given.limits, 4)
    monkeypatch.setattr(eigenbasis, "_AT_ONCE", 16)
    some = given.select(*positions)
    alone_TSP, alone_T = eigenbasis.starts(some.kernel, some.tasks, some.limits, 4)
    assert torch.equal(count_T[positions], alone_T)
    for task, count in enumerate(alone_T.tolist()):
        assert torch.equal(starts_TSP[positions[task], :count], alone_TSP[task, :count])


@pytest.mark.parametrize("mean", ["zero", "constant", "linear"])
def test_tasks_with_missing_values_among_whole_ones(mean: str):
    x = np.linspace(0, 1, POINTS)
    generator = np.random.default_rng(4)
    y = np.sin(np.outer(generator.uniform(1, 9, 12), x)) + 0.2 * generator.normal(size=(12, POINTS))
    holes = y.copy()
    holes[[1, 5, 11], [0, 7, 3]] = np.nan
    holes[8, 4:10] = np.nan
    solution = fit(x, holes, mean=mean, tolerance=1e-9)
    assert solution.converged.all()
    for task in (0, 1, 5, 8, 11):
        there = ~np.isnan(holes[task])
        alone = fit(x[there], holes[task][there], mean=mean, tolerance=1e-9)
        assert solution.nlml[task] == pytest.approx(alone.nlml[0], abs=1e-4)
        for name, values in alone.params.items():
            assert solution.params[name][task] == pytest.approx(values[0], rel=1e-3, abs=1e-9), name


def test_many_points_begin_from_the_grid_and_keep_to_the_budget():
    x = np.linspace(0, 1, 300)
    y = np.sin(9 * np.outer([1.0, 2.0], x)) + 0.1 * np.random.default_rng(0).normal(size=(2, 300))
    solution = fit(x, y, budget="200MB")
    assert solution.converged.all() and "grid" in solution.method
    assert solution.observed < 100e6


def test_bases_of_many_points_are_made_one_by_one_and_are_the_same():
    given = mixed(2, "rbf", "constant", "weak")
    grids = eigenbasis._grids()
    whole = eigenbasis._bases(given.kernel, given.tasks, grids)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(eigenbasis, "_ALWAYS", 5)
        eigenbasis._moved.cache_clear()
        parts = eigenbasis._bases(given.kernel, given.tasks, grids)
        eigenbasis._moved.cache_clear()
    for one, other in zip(parts[1:], whole[1:], strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-3)
    projector = [V_LNN[20] @ V_LNN[20].mT for V_LNN in (parts[0], whole[0])]
    torch.testing.assert_close(projector[0], projector[1], rtol=1e-4, atol=1e-4)


def test_many_points_need_many_tasks():
    cpu, cuda = torch.device("cpu"), torch.device("cuda")
    assert eigenbasis.pays(256, 1, cpu) and eigenbasis.pays(256, 1, cuda)
    assert not eigenbasis.pays(300, 10, cpu)
    assert eigenbasis.pays(300, 100, cpu) and not eigenbasis.pays(300, 100, cuda)
    assert eigenbasis.pays(1000, 4000, cuda) and not eigenbasis.pays(1001, 10**6, cuda)


def test_shared_inputs_of_300_points_start_from_the_eigenbasis():
    x, generator = np.linspace(0, 1, 300), np.random.default_rng(3)
    y = np.sin(np.outer(generator.uniform(5, 20, 32), x)) + 0.1 * generator.normal(size=(32, 300))
    shared, own = fit(x, y), fit(np.tile(x, (4, 1)), y[:4])
    assert "shared eigenbasis" in shared.method and "shared eigenbasis" not in own.method
    assert "shared eigenbasis" not in fit(x, y[:2]).method
    assert shared.converged.all()
    np.testing.assert_allclose(shared.nlml[:4], own.nlml, atol=0.01)
