"""`brimful nets train`: the plan, the run, its report, and going on after an interrupt."""

import json
import signal
from pathlib import Path
from typing import Any

import matplotlib.image
import numpy as np
import pytest
from typer.testing import CliRunner

from brimful.cli.app import app
from brimful.core.base.errors import CancelledError
from brimful.core.memory.plan import Plan
from brimful.core.runs.context import RunContext
from brimful.core.runs.events import BatchDone, Finished, read_log
from brimful.core.runs.rundir import LOG
from brimful.engine.map.store.ledger import LEDGER
from brimful.nets import model
from brimful.nets.commands import train
from brimful.nets.options import TrainConfig

from ..helpers.forking import Captured, run_module
from ..helpers.stopping import wait_for

SMALL = ["--count", "90", "--steps", "20", "--hidden", "4", "--points", "5", "--device", "cpu"]


def invoke(*arguments: str) -> dict[str, Any]:
    result = CliRunner().invoke(app, [*arguments, "--json"])
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


@pytest.mark.usefixtures("rendered_pictures")
def test_a_small_run_is_reported_and_not_trained_again(tmp_path: Path):
    out = tmp_path / "run"
    first, again = (invoke("nets", "train", *SMALL, "--out", str(out), "--budget", "2GB") for _ in range(2))
    assert first["networks"] == 90 and 0 < first["diverged"] < 90
    assert {"predicted_peak_bytes", "observed_peak_bytes", "seconds", "batch_size"} < set(first)
    assert first["observed_peak_bytes"] > 0
    (picture,) = first["pictures"]
    pixels = matplotlib.image.imread(picture)
    assert pixels.shape[0] > 400 and pixels.shape[1] > 1000
    assert len(np.unique(pixels[::3, ::3].reshape(-1, pixels.shape[2]), axis=0)) > 50
    for name in ("networks", "diverged", "median_loss"):
        assert first[name] == again[name]
    assert sum(isinstance(event, Finished) for event in read_log(out / LOG)) == 2
    assert sum(event.items for event in read_log(out / LOG) if isinstance(event, BatchDone)) == 90


def test_the_result_is_the_same_whatever_the_budget():
    whole = model.train(model.grid(90), steps=20, hidden=4, points=5).values["loss"].numpy()
    finite = np.isfinite(whole)
    assert finite.sum() > 20
    for budget in ("100MB", "2GB"):
        summary = invoke("nets", "train", *SMALL, "--budget", budget)
        assert summary["diverged"] == (~finite).sum() and summary["pictures"] == []
        assert summary["median_loss"] == pytest.approx(np.median(whole[finite]), rel=1e-2)


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


def test_a_cancelled_run_is_resumed(tmp_path: Path):
    config = TrainConfig(count=90, steps=20, hidden=4, points=5, device="cpu", out=tmp_path / "run")
    cancelled = RunContext()
    cancelled.cancel.set()
    with pytest.raises(CancelledError):
        train(config, cancelled)
    assert train(config, RunContext())["networks"] == 90


@pytest.mark.soak
def test_an_interrupt_exits_with_130_and_the_same_command_goes_on(tmp_path: Path):
    out = tmp_path / "run"
    options = ["--count", "6000", "--steps", "200", "--device", "cpu", "--budget", "1GB", "--out", str(out)]
    with Captured(run_module, "brimful", "nets", "train", *options) as process:
        wait_for(lambda: list(out.glob("shard-*.parquet")) or process.poll() is not None)
        assert process.poll() is None
        process.send_signal(signal.SIGINT)
        stdout, stderr = process.communicate(60)
    assert process.returncode == 130
    assert stdout == ""
    assert f"run the same command again to go on from {out}" in stderr
    assert "Traceback" not in stderr
    finished = {path: path.read_bytes() for path in out.glob("shard-*")}
    assert (out / LEDGER).exists()
    assert invoke("nets", "train", *options)["networks"] == 6000
    assert all(path.read_bytes() == content for path, content in finished.items())
