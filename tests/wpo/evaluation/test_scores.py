"""Distances between sets of points."""

import pytest
import torch

from brimful.wpo import memorization, nearest_neighbors, sliced_wasserstein


def normal(n: int, d: int = 3, seed: int = 0) -> torch.Tensor:
    return torch.randn(n, d, generator=torch.Generator().manual_seed(seed))


def test_the_sliced_distance_of_a_shift():
    x = normal(500)
    assert sliced_wasserstein(x, x[torch.randperm(500)]) == pytest.approx(0, abs=1e-12)
    moved = sliced_wasserstein(x, x + torch.tensor([3.0, 0, 0]), directions=1000)
    assert moved == pytest.approx(3 / 3**0.5, rel=0.05)
    assert sliced_wasserstein(x, 2 * x) == pytest.approx(1.0, rel=0.1)
    assert sliced_wasserstein(x, normal(500, seed=1)) == sliced_wasserstein(x, normal(500, seed=1))


def test_sets_of_different_size():
    x = normal(4000)
    assert sliced_wasserstein(x, normal(997, seed=1)) < 0.15
    assert sliced_wasserstein(x, normal(997, seed=1) + 1) > 0.9
    line = torch.linspace(0, 1, 1001)[:, None]
    assert sliced_wasserstein(line, line[::10]) == pytest.approx(0, abs=0.01)


def test_nearest(monkeypatch: pytest.MonkeyPatch):
    x, among = normal(40), normal(70, seed=1)
    wanted = torch.cdist(x, among).min(1)
    monkeypatch.setattr("brimful.wpo.evaluation.scores._MAX_DISTANCES", 200)
    distance, index = nearest_neighbors(x, among)
    torch.testing.assert_close(distance, wanted.values, rtol=1e-4, atol=1e-4)
    assert torch.equal(index, wanted.indices)


def test_copies_are_detected():
    known, fresh = normal(2000), normal(500, seed=1)

    def measured(samples: torch.Tensor) -> tuple[float, float]:
        return memorization(*(nearest_neighbors(rows, known)[0] for rows in (samples, fresh)))

    ratio, rate = measured(normal(500, seed=2))
    assert ratio == pytest.approx(1, abs=0.1) and rate < 0.05
    ratio, rate = measured(known[:500] + 1e-4)
    assert ratio < 0.01 and rate > 0.95
