"""Predictions and leave-one-out by kernels against their plain twins: compiled where there is a GPU, interpreted where
there is none."""

import os
from dataclasses import replace

import pytest
import torch

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"  # before the kernel is defined

pytest.importorskip("triton")

from brimful.gp.gpu import leave_one_out, matrices
from brimful.gp.model import posterior
from brimful.gp.model.kernels import parse
from brimful.gp.model.tasks import standardize
from brimful.gp.posteriors import Posterior

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
soak = pytest.mark.soak  # the interpreter takes its time: a few cases here, all of them there
CASES = [
    ("rbf", 1, False, "constant"),
    pytest.param("rbf", 1, False, "linear", marks=soak),
    pytest.param("matern32", 2, False, "constant", marks=soak),
    pytest.param("matern52", 3, True, "zero", marks=soak),
]


def draw(text: str, dimensions: int, ard: bool, mean: str, points: int):
    generator = torch.Generator().manual_seed(7)
    x = 3 * torch.rand(3, points, dimensions, generator=generator, dtype=torch.float64)
    y = torch.sin(4 * x.sum(-1)) + 0.3 * torch.randn(3, points, generator=generator, dtype=torch.float64)
    y[0, 2], y[2, 4:] = torch.nan, torch.nan
    kernel = parse(text, dimensions, ard)
    tasks, units, _ = standardize(x.to(DEVICE), y.to(DEVICE), kernel, mean)
    theta = torch.randn(3, len(kernel.names) + 1, generator=generator, dtype=torch.float64).to(DEVICE) / 2 - 1
    theta[1] = torch.nan  # a task that could not be fitted
    if mean == "linear":
        tasks = replace(tasks, known_TN=0.1 + torch.rand_like(tasks.y_TN))
    return kernel, tasks, units, theta


@pytest.mark.parametrize(("points", "held"), [(6, 32), (20, 16), (20, 8)])
@pytest.mark.parametrize(("text", "dimensions", "ard", "mean"), CASES)
def test_leave_one_out_equals_the_plain_one(
    text: str, dimensions: int, ard: bool, mean: str, points: int, held: int, monkeypatch: pytest.MonkeyPatch
):
    """In the registers in one piece, by halves, and in memory."""
    monkeypatch.setattr(leave_one_out, "_ROWS", held)
    kernel, tasks, _, theta = draw(text, dimensions, ard, mean, points)
    wanted = posterior.leave_one_out(kernel, tasks, theta)
    ours = Posterior(kernel, mean, 0, "fused").leave_one_out(tasks, theta)
    assert torch.isfinite(wanted[0]).sum() == points - 1 + 4
    for own, plain in zip(ours, wanted, strict=True):
        torch.testing.assert_close(own, plain, rtol=1e-8, atol=1e-8, equal_nan=True)


def test_leave_one_out_of_tasks_that_lie_column_by_column():
    kernel, tasks, _, theta = draw("rbf", 1, False, "constant", 20)

    def by_column(rows: torch.Tensor) -> torch.Tensor:
        return rows.transpose(0, 1).contiguous().transpose(0, 1)

    turned = {name: by_column(getattr(tasks, name)) for name in ("x_TND", "y_TN", "mask_TN", "known_TN")}
    ours = Posterior(kernel, "constant", 0, "fused").leave_one_out(replace(tasks, **turned), theta)
    for own, plain in zip(ours, posterior.leave_one_out(kernel, tasks, theta), strict=True):
        torch.testing.assert_close(own, plain, rtol=1e-8, atol=1e-8, equal_nan=True)


@pytest.mark.parametrize(("text", "dimensions", "ard", "mean"), CASES)
def test_predictions_by_matrices_equal_the_plain_ones(
    text: str, dimensions: int, ard: bool, mean: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(matrices.MatrixEvaluator, "at_once", 2)
    points = 35 if dimensions == 2 else 6  # more than one block of them, once
    kernel, tasks, units, theta = draw(text, dimensions, ard, mean, points)
    new = torch.rand(3, points, dimensions, dtype=torch.float64, generator=torch.Generator().manual_seed(5)).to(DEVICE)
    beta = torch.full((3, tasks.coefficients), 0.5, dtype=torch.float64, device=DEVICE)
    wanted = posterior.predict(kernel, tasks, theta, beta, units.inputs(new), mean)
    ours = Posterior(kernel, mean, 0, "matrices").predict(tasks, units, theta, beta, new)
    for own, plain in zip(ours, wanted, strict=True):
        torch.testing.assert_close(own, plain, rtol=1e-8, atol=1e-8, equal_nan=True)


@pytest.mark.parametrize("backend", ["fused", "matrices"])
def test_of_no_tasks_there_is_nothing_to_say(backend: str):
    kernel, tasks, units, theta = draw("rbf", 1, False, "constant", 6)
    none = torch.arange(0, device=DEVICE)
    empty, what = tasks.select(none), Posterior(kernel, "constant", 0, backend)
    assert [len(values) for values in what.leave_one_out(empty, theta[:0])] == [0, 0, 0]
    new, beta = torch.zeros(0, 2, 1, dtype=torch.float64, device=DEVICE), theta[:0, :1]
    assert [values.shape for values in what.predict(empty, units.select(none), theta[:0], beta, new)] == [(0, 2)] * 2
