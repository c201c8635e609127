"""The example workload: many small networks, their losses, and the picture of them."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import matplotlib.image
import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from brimful.cli.app import app
from brimful.core.memory.plan import Plan
from brimful.core.runs.context import RunContext
from brimful.core.runs.events import BatchDone, Finished, read_log
from brimful.core.runs.rundir import LOG
from brimful.engine.map.ledger import LEDGER
from brimful.nets import model
from brimful.nets.workload import TrainConfig, run

SMALL = ["--count", "90", "--steps", "20", "--hidden", "4", "--points", "5", "--device", "cpu"]


def invoke(*arguments: str) -> dict[str, Any]:
    result = CliRunner().invoke(app, [*arguments, "--json"])
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


def alone(first: float, second: float, points: int, hidden: int, steps: int, seed: int) -> float:
    """One network trained in plain torch."""
    generator = torch.Generator().manual_seed(seed)

    def draw(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=generator)

    x_ND, y_N, W_DH, v_H = draw(points, model.INPUTS), draw(points), draw(model.INPUTS, hidden), draw(hidden)
    loss = torch.tensor(0.0)
    for _ in range(steps):
        W_DH, v_H = W_DH.detach().requires_grad_(), v_H.detach().requires_grad_()
        f_N = torch.tanh(x_ND @ W_DH / model.INPUTS**0.5) @ v_H / hidden**0.5
        loss = (f_N - y_N).square().mean()
        loss.backward()
        assert W_DH.grad is not None
        assert v_H.grad is not None
        W_DH, v_H = W_DH - first * W_DH.grad, v_H - second * v_H.grad
    return float(loss.detach())


def test_each_network_is_trained_as_it_would_be_alone():
    rates = {"first": torch.tensor([1.0, 5.0, 20.0]), "second": torch.tensor([0.1, 0.5, 1.0])}
    batch = model.train(rates, points=6, hidden=5, steps=12, seed=3)
    for place in range(3):
        expected = alone(float(rates["first"][place]), float(rates["second"][place]), 6, 5, 12, 3)
        assert float(batch.values["loss"][place]) == pytest.approx(expected, rel=1e-4)


def test_a_network_that_runs_away_is_flagged_and_its_loss_infinite():
    batch = model.train({"first": torch.tensor([1.0, 3e3]), "second": torch.tensor([0.1, 1e6])}, steps=30)
    assert batch.status is not None
    assert batch.status.tolist() == [0, model.DIVERGED]
    assert batch.values["loss"].isinf().tolist() == [False, True]


@pytest.mark.parametrize("count", [1, 9, 10, 100])
def test_the_grid_covers_both_ranges(count: int):
    grid = model.grid(count)
    assert len(grid["first"]) == len(grid["second"]) == count
    pairs = set(zip(grid["first"].tolist(), grid["second"].tolist(), strict=True))
    assert len(pairs) == count
    if count == 100:
        assert grid["first"].max().item() == pytest.approx(model.FIRST[1], rel=1e-4)
        assert grid["second"].min().item() == pytest.approx(model.SECOND[0], rel=1e-4)


def test_a_small_run_reports_and_draws(tmp_path: Path):
    report = invoke("nets", "train", *SMALL, "--out", str(tmp_path / "run"))
    assert report["networks"] == 90
    assert 0 < report["diverged"] < 90
    assert report["median_loss"] > 0
    assert report["observed_peak_bytes"] > 0
    picture = Path(report["picture"])
    assert picture.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    pixels = matplotlib.image.imread(picture)
    assert pixels.shape[0] > 400
    assert pixels.shape[1] > 1000
    assert len(np.unique(pixels.reshape(-1, pixels.shape[2]), axis=0)) > 50


def losses(out: Path, budget: str) -> np.ndarray:
    from brimful.engine.map.shards import Shards

    run(TrainConfig(count=90, steps=20, hidden=4, points=5, device="cpu", budget=budget, out=out), RunContext())
    values = Shards(out, "any").values()
    assert values is not None
    return values["loss"].numpy()


def test_the_losses_are_the_same_whatever_the_budget(tmp_path: Path):
    whole = model.train(model.grid(90), steps=20, hidden=4, points=5).values["loss"].numpy()
    assert np.isfinite(whole).sum() > 20
    for budget in ("100MB", "2GB"):
        found = losses(tmp_path / budget, budget)
        assert np.array_equal(np.isinf(found), np.isinf(whole))
        finite = np.isfinite(whole)
        assert np.allclose(found[finite], whole[finite], rtol=1e-2)


def test_a_finished_run_is_not_trained_again(tmp_path: Path):
    out = str(tmp_path / "run")
    first, again = (invoke("nets", "train", *SMALL, "--out", out) for _ in range(2))
    for name in ("networks", "diverged", "median_loss"):
        assert first[name] == again[name]
    assert sum(isinstance(event, Finished) for event in read_log(tmp_path / "run" / LOG)) == 2
    assert sum(event.items for event in read_log(tmp_path / "run" / LOG) if isinstance(event, BatchDone)) == 90


def test_the_plan_before_the_run():
    plan = Plan.from_dict(invoke("plan", "nets", "train", "--count", "5000", "--budget", "200MB", "--device", "cpu"))
    assert plan.work == "nets train"
    assert plan.items == 5000
    assert plan.cost.source == "formula"
    assert plan.predicted * 1.1 <= plan.budget == 200_000_000


def test_the_plan_after_a_probe():
    options = ["--count", "2000", "--steps", "5", "--budget", "500MB", "--device", "cpu"]
    plan = Plan.from_dict(invoke("plan", "nets", "train", *options, "--probe"))
    assert plan.cost.source == "probe"
    again = Plan.from_dict(invoke("plan", "nets", "train", *options))
    assert again.cost.source == "remembered"
    assert again.batch == plan.batch


def test_an_interrupt_exits_with_130_and_the_same_command_goes_on(tmp_path: Path):
    out = tmp_path / "run"
    options = ["--count", "6000", "--steps", "200", "--device", "cpu", "--budget", "1GB", "--out", str(out)]
    command = [sys.executable, "-m", "brimful", "nets", "train", *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ)
    end = time.monotonic() + 100
    while not list(out.glob("shard-*.parquet")):
        assert process.poll() is None
        assert time.monotonic() < end
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert said[0] == ""
    assert f"run the same command again to go on from {out}" in said[1]
    assert "Traceback" not in said[1]
    kept = {path: path.read_bytes() for path in out.glob("shard-*")}
    assert (out / LEDGER).exists()
    report = invoke("nets", "train", *options)
    assert report["networks"] == 6000
    assert all(path.read_bytes() == content for path, content in kept.items())
