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

from .data.test_datasets import placed

pytestmark = pytest.mark.usefixtures("one_thread")

CPU = ("--device", "cpu")
TINY = ("--train-kernel-size", "20", "--niters", "6", "--batch-size", "32", "--hidden", "5", "--depth", "2")


def run(*arguments: str) -> Any:
    result = CliRunner().invoke(app, [*arguments, *CPU, "--json"])
    assert result.exit_code == 0, result.stderr
    return result


def invoke(*arguments: str) -> dict[str, Any]:
    return json.loads(run(*arguments).stdout)


def fails(*arguments: str) -> str:
    result = CliRunner().invoke(app, [*arguments, *CPU])
    assert result.exit_code == 1
    assert result.stdout == "" and "Traceback" not in result.stderr
    return " ".join(result.stderr.split())


def is_picture(path: str) -> bool:
    return Path(path).read_bytes().startswith(b"\x89PNG") and Path(path).stat().st_size > 10_000


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("wpo") / "model"
    result = run("wpo", "train", "--data", "8gaussians", "--samples", "300", "--out", str(out), *TINY)
    assert "memory on each device, budget" in result.stderr and "> single_gpu" in result.stderr
    said = json.loads(result.stdout)
    assert (said["centers"], said["dimensions"], said["steps"], said["strategy"]) == (20, 2, 6, "single_gpu")
    assert is_picture(said["picture"])
    assert {"held_out_loss", "log_likelihood", "sliced_wasserstein", "neighbour_distance_ratio"} < set(said)
    assert {"table_bytes", "predicted_bytes", "observed_bytes", "seconds"} < set(said)
    return out


def test_draws(model: Path, tmp_path: Path):
    said = invoke("wpo", "sample", str(model), "-n", "30", "--seed", "3")
    drawn = np.load(said["out"])
    assert drawn.shape == (30, 2) and said["draws"] == 30
    np.testing.assert_array_equal(drawn, wpo.load(model).model.sample(30, seed=3).numpy())
    invoke("wpo", "sample", str(model), "-n", "5", "--t", "0.5", "--out", str(tmp_path / "a" / "x.csv"))
    assert np.loadtxt(tmp_path / "a" / "x.csv", delimiter=",").shape == (5, 2)
    assert "a .npy or a .csv file" in fails("wpo", "sample", str(model), "--out", str(tmp_path / "x.txt"))
    assert "holds no trained model" in fails("wpo", "sample", str(tmp_path))


def test_a_report_again(model: Path, tmp_path: Path):
    said = invoke("wpo", "report", str(model), "--out", str(tmp_path / "pictures"))
    assert said["picture"] == str(tmp_path / "pictures" / "wpo.png") and is_picture(said["picture"])
    (model / "shown.safetensors").rename(tmp_path / "kept")
    assert is_picture(invoke("wpo", "report", str(model))["picture"])
    (tmp_path / "kept").rename(model / "shown.safetensors")


@pytest.mark.parametrize("options", [("--strategy", "chunked", "--chunk_size", "7"), ("--strategy", "gradient_accumulation", "--accumulation-steps", "2", "--double"), ("--factor", "lowrank", "--rank", "2", "--monitor", "log_likelihood", "--objective", "likelihood", "--average", "0")])  # fmt: skip  # noqa: E501
def test_options_in_the_seeds_names(options: tuple[str, ...]):
    said = invoke("wpo", "train", "--data", "2spirals", "--samples", "100", *TINY, *options)
    assert said["steps"] == 6
    if "chunked" in options:
        assert (said["strategy"], said["chunk"]) == ("chunked", 7)
    if "gradient_accumulation" in options:
        assert said["micro_batches"] == 2
    if "lowrank" in options:
        assert said["factor"] == "lowrank"


@pytest.mark.parametrize("rows", ["one", "six"])
def test_rows_of_any_width_are_drawn(rows: str, tmp_path: Path):
    table = np.random.default_rng(0).normal(size=(80, 1 if rows == "one" else 6))
    np.save(tmp_path / "rows.npy", table)
    said = invoke("wpo", "train", "--data", str(tmp_path / "rows.npy"), "--out", str(tmp_path / "run"), *TINY)
    assert said["dimensions"] == table.shape[1] and is_picture(said["picture"])


def test_images(tmp_path: Path):
    said = invoke("wpo", "train", "--data", "digits", "--out", str(tmp_path / "run"), *TINY)
    assert said["dimensions"] == 64 and is_picture(said["picture"])
    images = placed(tmp_path / cifar.FOLDER, 4)
    assert images.shape == (24, 3072)
    options = ("--train-kernel-size", "4", "--niters", "1", "--batch-size", "4", "--hidden", "2", "--depth", "1")
    options += ("--factor", "lowrank", "--rank", "2")
    said = invoke(
        "wpo", "train", "--data", "cifar10", "--data-dir", str(tmp_path), "--out", str(tmp_path / "c"), *options
    )
    assert said["dimensions"] == 3072 and is_picture(said["picture"])
    assert wpo.load(tmp_path / "c").image == (3, 32, 32)
    assert "is missing. Fetch" in fails("wpo", "train", "--data", "cifar10", "--data-dir", str(tmp_path / "no"))


def test_a_plan(tmp_path: Path):
    found = Plan.from_dict(invoke("plan", "wpo", "train", "--data", "digits", "--budget", "30MB"))
    assert found.strategy == "chunked" and found.predicted < 30e6
    assert {each.strategy for each in found.rejected} >= {"single"}


def test_mistakes():
    base = ("wpo", "train", "--samples", "100", *TINY)
    assert "there is no data 'nowhere'" in fails(*base, "--data", "nowhere")
    assert "choose one of auto, single_gpu" in fails(*base, "--data", "moons", "--strategy", "magic")
    shared = ("--data", "moons", "--strategy", "model_parallel")
    assert "give a multiple of 3, such as 33" in fails(*base, *shared, "--ranks", "3")
    assert "name several with --devices" in fails(*base, *shared)
    assert "leave one out" in fails(*base, "--data", "moons", "--devices", "0,1")
    assert "the budget is 1.00 MB" in fails("wpo", "train", "--data", "digits", "--budget", "1MB")
    assert torch.get_default_dtype() == torch.float32


def test_training_rows_become_centers(tmp_path: Path):
    out = str(tmp_path / "model")
    arguments = ("wpo", "train", "--data", "8gaussians", "--samples", "300", *TINY)
    assert invoke(*arguments, "--no-settled")["centers"] == 20
    assert invoke(*arguments, "--grown", "--out", out)["centers"] > 200
    assert invoke("wpo", "sample", out, "-n", "5")["draws"] == 5
    assert set(wpo.load(out).settings["settled_at"]) == {"reach", "part", "width"}
    assert "grown needs settled" in fails(*arguments, "--no-settled", "--grown")
