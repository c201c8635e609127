"""`brimful wpo` as a user meets it."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from brimful import wpo
from brimful.cli.app import app
from brimful.core.memory.plan import Plan
from brimful.wpo.data import cifar

from ..helpers.pictures import is_rendered
from .helpers.cifar_files import write_batches

pytestmark = pytest.mark.usefixtures("one_thread")

CPU = ("--device", "cpu")
TINY = ("--train-kernel-size", "20", "--niters", "6", "--batch-size", "32", "--hidden", "5", "--depth", "2")


def invoke(*arguments: str) -> dict[str, Any]:
    result = CliRunner().invoke(app, [*arguments, "--json"])
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


def fails(*arguments: str) -> str:
    result = CliRunner().invoke(app, [*arguments])
    assert result.exit_code in (1, 2)
    assert result.stdout == "" and "Traceback" not in result.stderr
    return " ".join(result.stderr.split())


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("wpo") / "model"
    summary = invoke("wpo", "train", "--data", "8gaussians", "--samples", "300", "--out", str(out), *TINY, *CPU)
    assert [summary[name] for name in ("centers", "dimensions", "steps", "strategy")] == [20, 2, 6, "single"]
    assert summary["pictures"] == [str(out / "wpo.png")] and (out / "wpo.png").exists()
    assert {"score_matching_loss", "log_likelihood", "sliced_wasserstein", "neighbor_distance_ratio"} < set(summary)
    assert {"predicted_peak_bytes", "observed_peak_bytes", "seconds"} < set(summary)
    return out


def test_samples_are_written(trained: Path, tmp_path: Path):
    summary = invoke("wpo", "sample", str(trained), "-n", "30", "--seed", "3", *CPU)
    samples = np.load(summary["out"])
    assert samples.shape == (30, 2) and summary["samples"] == 30
    np.testing.assert_array_equal(samples, wpo.load(trained).model.sample(30, seed=3).numpy())
    invoke("wpo", "sample", str(trained), "-n", "5", "--t", "0.5", "--out", str(tmp_path / "a" / "x.csv"))
    assert np.loadtxt(tmp_path / "a" / "x.csv", delimiter=",").shape == (5, 2)
    assert "a .npy or a .csv file" in fails("wpo", "sample", str(trained), "--out", str(tmp_path / "x.txt"))
    assert "holds no trained model" in fails("wpo", "sample", str(tmp_path))


@pytest.mark.usefixtures("rendered_pictures")
def test_a_report_is_written_again(trained: Path, tmp_path: Path):
    (trained / "report.safetensors").rename(tmp_path / "report")
    summary = invoke("wpo", "report", str(trained), "--out", str(tmp_path / "pictures"))
    assert summary["pictures"] == [str(tmp_path / "pictures" / "wpo.png")]
    assert is_rendered(summary["pictures"][0])
    (tmp_path / "report").rename(trained / "report.safetensors")


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        (
            ("--strategy", "chunked", "--chunk_size", "7", "--no-calibrate"),
            {"strategy": "chunked", "chunk_size": 7, "centers": 20},
        ),
        (
            ("--strategy", "gradient_accumulation", "--accumulation-steps", "2", "--precision", "float64"),
            {"accumulation_steps": 2},
        ),
        (
            ("--factor", "lowrank", "--rank", "2", "--objective", "likelihood", "--ema-span", "0"),
            {"factor": "lowrank", "centers": 20},
        ),
        (("--add-training-points",), {"centers": 120}),
    ],
)
def test_options(options: tuple[str, ...], wanted: dict[str, Any]):
    summary = invoke("wpo", "train", "--data", "2spirals", "--samples", "100", *TINY, *options, *CPU)
    assert summary["steps"] == 6
    assert {name: summary[name] for name in wanted} == wanted


def test_cifar_is_trained_on(tmp_path: Path):
    write_batches(tmp_path / cifar.FOLDER, 4)
    options = ("--centers", "4", "--steps", "1", "--batch-size", "4", "--hidden", "2", "--depth", "1", "--no-calibrate")
    options += ("--factor", "lowrank", "--rank", "2", *CPU)
    summary = invoke("wpo", "train", "--data", "cifar10", "--data-dir", str(tmp_path), *options)
    assert summary["dimensions"] == 3072
    assert "is missing. Fetch" in fails("wpo", "train", "--data", "cifar10", "--data-dir", str(tmp_path / "no"))


def test_the_plan_has_the_memory_of_every_strategy_by_part():
    arguments = ("plan", "wpo", "train", "--data", "digits", "--budget", "30MB", *CPU)
    plan = Plan.from_dict(invoke(*arguments))
    assert plan.strategy == "chunked" and plan.predicted < 30e6
    assert {other.strategy for other in plan.rejected} == {"single", "gradient_accumulation"}
    measured = Plan.from_dict(invoke(*arguments, "--probe"))
    assert (plan.cost.source, measured.cost.source) == ("formula", "probe")
    assert measured.batch == plan.batch and 1 / 3 < measured.predicted / plan.predicted < 3
    names = ["parameters", "gradients", "optimizer", "moving average", "centers", "data", "factors", "activations"]
    assert [name for name, _ in plan.parts] == names
    assert all([name for name, _ in other.parts] == names for other in plan.rejected)
    text = CliRunner().invoke(app, arguments).stdout
    assert all(word in text for word in (*names, "single", "gradient_accumulation"))


def test_mistakes():
    base = ("wpo", "train", "--samples", "100", *TINY)
    assert "there is no data 'nowhere'" in fails(*base, "--data", "nowhere")
    assert "choose one of auto, single" in fails(*base, "--data", "moons", "--strategy", "magic")
    split = ("--data", "moons", "--strategy", "model_parallel", *CPU)
    assert "give a multiple of 3, such as 33" in fails(*base, *split, "--ranks", "3")
    assert "name several with --devices" in fails(*base, *split)
    assert "the budget is 1.00 MB" in fails("wpo", "train", "--data", "digits", "--budget", "1MB", *CPU)
    assert "add_training_points needs calibrate" in fails(
        *base, "--data", "moons", "--no-calibrate", "--add-training-points"
    )
    assert torch.get_default_dtype() == torch.float32
