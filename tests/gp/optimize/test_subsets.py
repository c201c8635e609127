"""Starts from subsets of the points, against a search of all of them."""

from dataclasses import replace
from unittest.mock import patch

import numpy as np
import pytest
import torch

from brimful.gp.model.tasks import standardize
from brimful.gp.optimize import scoring, subsets

from ..helpers.drawn import problem, waves


def test_subsets_are_spread_points_and_neighbors():
    x = torch.linspace(0, 1, 31, dtype=torch.float64)[torch.randperm(31, generator=torch.Generator().manual_seed(0))]
    some = problem("rbf", x[None, :, None], torch.sin(9 * x)[None])
    with patch.object(subsets, "POINTS", 5):
        chosen = subsets.subsets(some.tasks)
    assert chosen.x_TND.shape == (3, 5, 1)
    spread, *near = (30 * chosen.x_TND[:, :, 0]).round().long().sort(1).values.tolist()
    assert spread == [3, 9, 15, 21, 27]
    assert near == [[5, 6, 7, 8, 9], [21, 22, 23, 24, 25]]
    torch.testing.assert_close(
        chosen.y_TN[1].sort().values, some.tasks.y_TN[0, (30 * x).round().long().argsort()[5:10]].sort().values
    )


@pytest.mark.parametrize("there", [0, 1, 3, 5, 6, 20])
def test_missing_points_are_in_no_subset_while_there_are_others(there: int):
    x, y = waves(1, 2, 20)
    y[1, there:] = torch.nan
    some = problem("rbf", x, y)
    with patch.object(subsets, "POINTS", 5):
        chosen = subsets.subsets(some.tasks)
    assert chosen.mask_TN[:3].all()
    assert chosen.mask_TN[3:].sum(1).tolist() == [min(there, 5)] * 3


def test_a_mean_without_coefficients_has_sums_too():
    for width in (0, 2):
        summed = subsets.summed(torch.ones(2 * subsets.COUNT, width))
        assert summed.tolist() == [[subsets.COUNT] * width] * 2


def test_noise_that_is_known_goes_along():
    x, y = waves(1, 2, 20)
    known = torch.rand(2, 20, dtype=torch.float64)
    tasks, _, _ = standardize(x, y, problem("rbf", x, y).kernel, "constant", known)
    chosen = subsets.subsets(tasks)
    pairs = {
        (round(a, 9), round(b, 9)) for a, b in zip(tasks.y_TN[0].tolist(), tasks.known_TN[0].tolist(), strict=True)
    }
    assert {
        (round(a, 9), round(b, 9)) for a, b in zip(chosen.y_TN[0].tolist(), chosen.known_TN[0].tolist(), strict=True)
    } <= pairs


@pytest.mark.parametrize(
    ("text", "dimensions", "ard", "mean", "known"),
    [
        ("rbf", 1, False, "constant", False),
        ("matern52", 1, False, "linear", True),
        pytest.param("matern32", 2, True, "zero", False, marks=pytest.mark.soak),
    ],
)
def test_a_fit_from_subsets_ends_where_one_from_all_points_does(
    text: str, dimensions: int, ard: bool, mean: str, known: bool
):
    x, y = waves(2, 6, 70, dimensions)
    y[1, 30:] = torch.nan
    noise = torch.full_like(y, 0.05) if known else None
    some = problem(text, x, y, mean, priors="weak", ard=ard, known_TN=noise)
    options = scoring.ScoringOptions(tolerance=1e-6)
    ours, whole = (fit(some.kernel, some.tasks, some.limits, options) for fit in (subsets.fit, scoring.fit))
    assert (ours.ending_T == scoring.CONVERGED).all()
    gap = (
        ours.nlml_T
        + some.limits.prior_penalty(ours.theta_TP)
        - whole.nlml_T
        - some.limits.prior_penalty(whole.theta_TP)
    )
    assert (gap < 1e-3).all()
    assert (
        ours.iterations_T.sum() <= 1.2 * whole.iterations_T.sum()
    )  # which starts from a refined profile of all points


def test_starts_are_sorted_by_all_points_and_never_repeated():
    some = problem("rbf", *waves(5, 8, 60), priors="weak")
    whole = subsets.MatrixEvaluator(some.kernel, some.tasks)
    theta, count = subsets.starts(some.limits, scoring.ScoringOptions(), subsets.search(some.kernel, some.tasks), whole)
    assert (count >= 1).all()
    for task, used in enumerate(count.tolist()):
        mine = theta[task, :used]
        values = whole.score(torch.full((used,), task), mine).sum(1) / 2 + some.limits.select(
            torch.full((used,), task)
        ).prior_penalty(mine)
        assert (values.diff() >= 0).all()
        assert all(float((mine[i] - mine[j]).abs().max()) >= 0.1 for i in range(used) for j in range(i))


def test_no_tasks():
    some = problem("rbf", *waves(5, 2, 60))
    none = torch.arange(0)
    fitted = subsets.fit(some.kernel, some.tasks.select(none), some.limits.select(none), scoring.ScoringOptions())
    assert [len(values) for values in fitted] == [0] * 6


def test_neighbors_change_nothing():
    some = problem("rbf", *waves(7, 5, 60), priors="weak")
    options = scoring.ScoringOptions()
    together = subsets.fit(some.kernel, some.tasks, some.limits, options)
    one = some.select(3)
    alone = subsets.fit(one.kernel, one.tasks, one.limits, options)
    np.testing.assert_allclose(alone.theta_TP[0], together.theta_TP[3], rtol=1e-6)
    spoilt = replace(some.tasks, y_TN=torch.where(torch.arange(5)[:, None] == 1, torch.nan, some.tasks.y_TN))
    beside = subsets.fit(some.kernel, spoilt, some.limits, options)
    np.testing.assert_allclose(beside.theta_TP[3], together.theta_TP[3], rtol=1e-6)
    assert int(beside.ending_T[1]) == scoring.FAILED
