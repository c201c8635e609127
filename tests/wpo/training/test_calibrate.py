"""Calibration: widths and centers by held-out rows, the network unchanged."""

import math
from typing import Any

import pytest
import torch

from brimful import wpo
from brimful.wpo.training.calibrate import Calibration, calibrate

pytestmark = pytest.mark.usefixtures("one_thread")


def normal(rows: int, seed: int) -> torch.Tensor:
    return torch.randn(rows, 2, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def likelihood(model: wpo.ScoreModel, rows: torch.Tensor) -> float:
    return float(model.log_prob(rows).detach().mean())


@pytest.mark.parametrize("factor", ["triangle", "lowrank"])
def test_a_width_is_recovered(factor: str):
    """Components start three times too wide."""
    rows, held_out = normal(100, 0), normal(200, 1)
    kind: dict[str, Any] = {"factor": factor, "rank": 1, "stability": 1e-6}
    right = wpo.ScoreModel(rows, **kind)
    wide = wpo.ScoreModel(rows, scale=float(3 * right.scale_d.mean()), **kind)
    before = likelihood(wide, held_out)
    chosen = calibrate(wide, held_out)
    assert chosen.width < 1
    assert likelihood(wide, held_out) > max(before, likelihood(right, held_out) - 1e-3)


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(1, 10))])
def test_sharper_centers_are_nearer_to_the_truth(seed: int):
    rows, held_out, fresh = normal(150, 3 * seed), normal(200, 3 * seed + 1), normal(2000, 3 * seed + 2)
    model = wpo.ScoreModel(rows)
    before = likelihood(model, fresh)
    chosen = calibrate(model, held_out)
    assert chosen.fraction > 0
    assert before < likelihood(model, fresh) < -math.log(2 * math.pi) - 1 + 0.2


def test_nothing_changes_where_nothing_helps():
    model = wpo.ScoreModel(normal(1, 0), scale=1.0)
    centers = model.centers.clone()
    chosen = calibrate(model, normal(50, 1))
    torch.testing.assert_close(model.centers, centers)
    assert isinstance(chosen, Calibration) and str(chosen).startswith("width")
