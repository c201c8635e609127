"""Runs that are stopped, killed or damaged at any moment: resumed, they end with the bits of one that was not."""

import contextlib
import errno
import os
import random
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.torch
import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_pre_hook

import brimful
from brimful import ChangedError, ConfigError, DivergedError, LockedError, RunDirError, StorageError
from brimful.core.runs.events import EpochDone, Finished, read_log
from brimful.core.runs.rundir import LOG, inspect
from brimful.engine.train import checkpoints
from brimful.engine.train.optim.schedules import Plateau

from ...helpers.stopping import Orders, wait_for
from . import train_runner, training
from .training import EventLog, equal, fit, network, points, squares, weights

pytestmark = pytest.mark.usefixtures("one_thread")


class Stop(Exception):
    """The end of a run that a test brings about."""


@contextlib.contextmanager
def stopping(at: int) -> Iterator[nn.Module]:
    """A model like the others that fails in its forward pass number `at`, by a hook that is no part of it."""
    model, forwards = network(0.3), [0]

    def count(module: nn.Module, inputs: Any) -> None:
        forwards[0] += module is model
        if forwards[0] == at:
            raise Stop

    hook = register_module_forward_pre_hook(count)
    try:
        yield model
    finally:
        hook.remove()


OPTIONS: dict[str, Any] = {
    "valid": points(6),
    "checkpoint_every": 1,
    "loader": {"transform": training.noisy},
    "schedule": "one_cycle",
    "grad_clip": 1.0,
}


@pytest.mark.parametrize(
    ("extra", "apart"),
    [({"ema": 0.9, "accumulation_steps": 2}, 5), pytest.param({}, 1, marks=pytest.mark.soak)],
)
def test_a_run_that_failed_at_any_call_goes_on_to_the_same_bits(tmp_path: Path, extra: dict[str, Any], apart: int):
    options = {**OPTIONS, **extra, "epochs": 2}
    whole = fit(network(0.3), **options)
    for at in range(1, 100, apart):
        out = tmp_path / str(at)
        try:
            with stopping(at) as model:
                fit(model, out=out, **options)
        except Stop:
            pass
        else:
            assert at > 18
            break
        begun = (out / "checkpoints" / "last").exists()  # other first weights make no difference from then on
        result = fit(network(0.3, seed=9 if begun else 0), out=out, **options)
        assert equal(result.model, whole.model), at
        assert result.curve.tolist() == whole.curve.tolist()
        kept = ("epoch", "step", "train_loss", "valid_loss", "lr", "weight_norm")
        assert [[row[name] for name in kept] for row in result.history] == [
            [row[name] for name in kept] for row in whole.history
        ]


def test_the_plateau_and_the_patience_go_on_too(tmp_path: Path):
    options = {**OPTIONS, "epochs": 9, "schedule": Plateau(patience=1, factor=0.5), "lr": 0.4, "patience": 4}
    whole = fit(network(0.3), **options)
    with pytest.raises(Stop), stopping(30) as model:
        fit(model, out=tmp_path / "run", **options)
    result = fit(network(0.3), out=tmp_path / "run", **options)
    assert (result.epochs, result.stopped) == (whole.epochs, whole.stopped)
    assert [row["lr"] for row in result.history] == [row["lr"] for row in whole.history]
    assert equal(result.model, whole.model)


def test_a_finished_run_is_not_done_again(tmp_path: Path):
    first = fit(out=tmp_path / "run", valid=points(6))
    heard = EventLog()
    again = fit(network(seed=4), out=tmp_path / "run", valid=points(6), progress=heard)
    assert equal(first.model, again.model)
    assert again.steps == first.steps and heard.of(EpochDone) == []
    assert again.history == first.history
    assert inspect(tmp_path / "run").state == "finished"
    assert inspect(tmp_path / "run").done == 72


def test_more_epochs_extend_a_run(tmp_path: Path):
    fit(out=tmp_path / "run", epochs=2)
    longer = fit(out=tmp_path / "run", epochs=5)
    assert equal(longer.model, fit(epochs=5).model)
    assert [row["epoch"] for row in longer.history] == [1, 2, 3, 4, 5]
    assert fit(out=tmp_path / "run", epochs=1).epochs == 5


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"lr": 0.5}, "lr was 0.02 and is now 0.5"),
        ({"seed": 3}, "seed was 0 and is now 3"),
        ({"batch_size": 5}, "batch_size was 4"),
        ({"data": points(20)}, "the input data is not the same"),
        ({"valid": points(5)}, "the input data is not the same"),
        ({"loss": training.summed}, "loss was 'squares"),
        ({"model": nn.Linear(3, 1)}, "model was 'Sequential"),
        ({"schedule": "cosine"}, "schedule was"),
    ],
)
def test_a_changed_run_is_refused(tmp_path: Path, change: dict[str, Any], told: str):
    options: dict[str, Any] = {"valid": points(6), "out": tmp_path / "run"}
    fit(**options)
    with pytest.raises(ChangedError, match=told):
        fit(**{**options, **change})
    with pytest.raises(RunDirError, match="already holds a run"):
        fit(**options, resume=False)


# Damage.


def stopped(out: Path, at: int = 15) -> None:
    with pytest.raises(Stop), stopping(at) as model:
        fit(model, out=out, **OPTIONS)


def numbers(out: Path) -> list[Path]:
    return sorted(each for each in (out / "checkpoints").iterdir() if each.is_dir())


@pytest.mark.parametrize("file", ["weights.safetensors", "tensors.safetensors", "state.json"])
@pytest.mark.parametrize("damage", ["cut", "flip", "gone"])
def test_a_damaged_checkpoint_gives_way_to_the_one_before(tmp_path: Path, file: str, damage: str):
    whole = fit(network(0.3), **OPTIONS)
    stopped(tmp_path / "run")
    newest = numbers(tmp_path / "run")[-1] / file
    content = bytearray(newest.read_bytes())
    if damage == "cut":
        newest.write_bytes(content[: len(content) // 2])
    elif damage == "flip":
        content[-9] ^= 4
        newest.write_bytes(content)
    else:
        newest.unlink()
    heard = EventLog()
    result = fit(network(0.3), out=tmp_path / "run", progress=heard, **OPTIONS)
    assert equal(result.model, whole.model)
    assert any("is skipped" in each for each in heard.warnings)


@pytest.mark.parametrize("name", ["last", "best"])
def test_a_torn_pointer_does_no_harm(tmp_path: Path, name: str):
    whole = fit(network(0.3), **OPTIONS)
    stopped(tmp_path / "run")
    pointer = tmp_path / "run" / "checkpoints" / name
    assert (pointer.parent / pointer.read_text().strip()).is_dir()
    pointer.write_text("00")
    assert equal(fit(network(0.3), out=tmp_path / "run", **OPTIONS).model, whole.model)


def test_no_whole_checkpoint_begins_anew(tmp_path: Path):
    whole = fit(network(0.3), **OPTIONS)
    stopped(tmp_path / "run")
    for each in numbers(tmp_path / "run"):
        (each / "state.json").unlink()
    assert equal(fit(network(0.3), out=tmp_path / "run", **OPTIONS).model, whole.model)


def test_a_damaged_best_leaves_the_last_weights(tmp_path: Path):
    options = {**OPTIONS, "monitor": "lr", "mode": "max"}  # the best is in the midst
    fit(network(0.3), out=tmp_path / "run", **options)
    best = (tmp_path / "run" / "checkpoints" / "best").read_text().strip()
    (tmp_path / "run" / "checkpoints" / best / "tensors.safetensors").unlink()
    heard = EventLog()
    result = fit(network(0.3), out=tmp_path / "run", progress=heard, **options)
    assert any("best checkpoint cannot be read" in each for each in heard.warnings)
    assert equal(result.model, fit(network(0.3), **{**options, "best": False}).model)


def test_few_checkpoints_are_kept(tmp_path: Path):
    fit(out=tmp_path / "run", epochs=5, checkpoint_every=1, valid=points(6))
    assert len(numbers(tmp_path / "run")) <= 4


@pytest.mark.parametrize("when", [1, 2, 7, 18])  # files, of which a checkpoint has two
def test_a_full_disk_is_told_of_and_leaves_the_checkpoint_before(
    tmp_path: Path, when: int, monkeypatch: pytest.MonkeyPatch
):
    whole = fit(network(0.3), **OPTIONS)
    calls, save = [0], checkpoints.save_tensors

    def full(tensors: dict[str, Tensor], path: Path) -> None:
        calls[0] += 1
        save(tensors, path)
        if calls[0] == when:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(checkpoints, "save_tensors", full)
        with pytest.raises(StorageError, match="the disk is full"):
            fit(network(0.3), out=tmp_path / "run", **OPTIONS)
    assert not list((tmp_path / "run" / "checkpoints").glob("*.new"))
    assert len(numbers(tmp_path / "run")) == {1: 0, 2: 0, 7: 2, 18: 3}[when]
    assert equal(fit(network(0.3), out=tmp_path / "run", **OPTIONS).model, whole.model)


def test_a_run_that_diverged_keeps_its_checkpoints(tmp_path: Path):
    def broken(model: nn.Module, batch: dict[str, Tensor]) -> Tensor:
        return squares(model, batch) * torch.nan

    with pytest.raises(DivergedError, match="lower learning rate"):
        fit(loss=broken, out=tmp_path / "run", max_nonfinite=1)
    assert inspect(tmp_path / "run").state == "failed"


# Killed, interrupted.


@pytest.fixture(scope="module")
def runner() -> Iterator[Orders]:
    with Orders("tests.engine.train.train_runner") as made:
        yield made


def kill_rounds(runner: Orders, folder: Path, rounds: int, rng: random.Random, **options: Any) -> None:
    """Kills a run at random moments, goes on with it, and compares its weights with those of an uninterrupted one."""
    reference = train_runner.work({"seconds": 0.0, "epochs": 3, **options})
    for number in range(rounds):
        out = folder / f"run{number}"
        order = {"seconds": 0.01, "out": str(out), "checkpoint_every": 1, "epochs": 3, **options}
        for _ in range(rng.randint(1, 3)):
            runner.kill(order, rng.uniform(0.0, 0.25), when=(out / "checkpoints" / "last").exists)
        result = train_runner.work({**order, "seconds": 0.0})
        assert equal(result.model, reference.model)
        assert result.curve.tolist() == reference.curve.tolist()
        run = inspect(out)
        assert (run.state, run.done, run.seconds) == ("finished", run.items, result.seconds)
        shutil.rmtree(out)


FOLDED = [{"loss": "folded_in_chunks"}, {"loss": "folded_in_tiles", "accumulation_steps": 2}]


@pytest.mark.parametrize("options", [{}, FOLDED[1]], ids=["plain", "fold"])
def test_killed_at_random_moments_it_goes_on_to_the_same_bits(runner: Orders, tmp_path: Path, options: dict[str, Any]):
    kill_rounds(runner, tmp_path, 1, random.Random(1), **options)


@pytest.mark.soak
@pytest.mark.parametrize("part", range(6))
@pytest.mark.parametrize("options", [{}, *FOLDED], ids=["plain", "chunks", "tiles"])
def test_killed_at_many_random_moments(runner: Orders, tmp_path: Path, options: dict[str, Any], part: int):
    kill_rounds(runner, tmp_path, 10, random.Random(), **options)


def test_ctrl_c_ends_after_the_step_and_says_how_to_go_on(runner: Orders, tmp_path: Path):
    out = tmp_path / "run"
    order = {"seconds": 0.02, "out": str(out), "epochs": 4}
    pid = runner.start(**order)
    wait_for((out / LOG).exists)
    time.sleep(0.15)
    said = runner.stop(pid, signal.SIGINT)
    assert "KeyboardInterrupt: interrupted after" in said and f"to go on from {out}" in said
    assert inspect(out).state == "interrupted"
    assert (out / "checkpoints" / "last").exists()
    reference = train_runner.work({"seconds": 0.0, "epochs": 4})
    result = train_runner.work({**order, "seconds": 0.0})
    assert equal(result.model, reference.model)
    assert [event.state for event in read_log(out / LOG) if isinstance(event, Finished)] == ["interrupted", "finished"]


def test_a_second_writer_is_refused(tmp_path: Path):
    def meddling(model: nn.Module, batch: dict[str, Tensor]) -> Tensor:
        with pytest.raises(LockedError):
            fit(loss=meddling, out=tmp_path / "run")
        return squares(model, batch)

    fit(loss=meddling, out=tmp_path / "run", epochs=1)


def test_weights_are_what_a_checkpoint_of_safetensors_says(tmp_path: Path):
    result = fit(out=tmp_path / "run")
    number = (tmp_path / "run" / "checkpoints" / "best").read_text().strip()
    stored = safetensors.torch.load_file(tmp_path / "run" / "checkpoints" / number / "weights.safetensors")
    again = network()
    again.load_state_dict(stored)  # as they are
    assert equal(again, result.model)
    assert isinstance(result, brimful.TrainResult)
    with pytest.raises(ConfigError):
        fit(checkpoint_every=0)
    assert len(weights(result.model)) == 41


@pytest.mark.parametrize("steps", [1, 6, 8, 17])
def test_steps_end_a_run_in_the_midst_of_an_epoch_and_more_go_on_from_there(tmp_path: Path, steps: int):
    options: Any = {"epochs": None, "best": False}
    whole = fit(network(0.2), steps=17, **options)
    assert (whole.steps, whole.epochs, len(whole.history)) == (17, 2, 3)
    first = fit(network(0.2), steps=steps, **options, out=tmp_path / "run")
    assert (first.steps, first.stopped) == (steps, "finished")
    np.testing.assert_array_equal(first.curve, whole.curve[:steps])
    rest = fit(network(0.2), steps=17, **options, out=tmp_path / "run")
    np.testing.assert_array_equal(rest.curve, whole.curve)
    assert torch.equal(weights(rest.model), weights(whole.model))


def test_epochs_and_steps_end_at_what_comes_first():
    assert fit(steps=100).steps == 18
    assert fit(steps=4).steps == 4
    with pytest.raises(ConfigError, match="steps="):
        fit(epochs=None)
