"""Several ranks train as one would; one that dies takes nobody's time."""

import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from brimful import ConfigError, InputError, WorkerError, data
from brimful.core.base.errors import CancelledError
from brimful.core.runs.events import EpochDone, Event, Finished
from brimful.core.runs.rundir import inspect
from brimful.engine.distributed.collectives import Group
from brimful.engine.train.config import TrainConfig
from brimful.engine.train.planner import _check_equal_shares

from ...helpers.paths import environment
from . import training
from .training import EventLog, equal, fit, network, points, squares, weights

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.mark.parametrize(
    ("ranks", "dtype", "off"),
    [(2, torch.float64, 1e-10), pytest.param(3, torch.float32, 1e-4, marks=pytest.mark.soak)],
)
def test_the_loss_curve_is_that_of_one_rank(ranks: int, dtype: torch.dtype, off: float):
    options: dict[str, Any] = {"batch_size": 7, "valid": points(10, dtype=dtype), "metrics": training.error}
    options |= {"loss": training.summed, "data": points(23, dtype=dtype), "grad_clip": 1.0, "ema": 0.9}
    alone = fit(network(dtype=dtype), **options)
    events = EventLog()
    together = fit(network(dtype=dtype), ranks=ranks, budget="1GB", progress=events, **options)
    np.testing.assert_allclose(together.curve, alone.curve, rtol=off)
    torch.testing.assert_close(weights(together.model), weights(alone.model), rtol=off, atol=off)
    for name in ("train_loss", "valid_loss", "error", "weight_norm"):
        assert [row[name] for row in together.history] == pytest.approx([row[name] for row in alone.history], rel=off)
    assert len(events.of(EpochDone)) == 3
    assert [event.state for event in events.of(Finished)] == ["finished"]
    assert together.steps == alone.steps
    assert together.plan.budget == 10**9 // ranks  # ranks on one CPU share it


def test_ranks_go_on_where_one_stopped(tmp_path: Path):
    options: dict[str, Any] = {"valid": points(6), "out": tmp_path / "run", "batch_size": 3}
    fit(epochs=1, **options)
    result = fit(epochs=2, ranks=2, **options)
    torch.testing.assert_close(weights(result.model), weights(fit(epochs=2, batch_size=3, valid=points(6)).model))
    assert equal(fit(epochs=2, **options).model, result.model)


def test_a_rank_that_dies_ends_the_others_and_is_named(tmp_path: Path):
    events = EventLog()
    with pytest.raises(WorkerError, match=r"rank 1 died \(exit code -9\)"):
        fit(loss=training.dying, ranks=2, epochs=50, out=tmp_path / "run", progress=events)
    assert inspect(tmp_path / "run").state == "failed"
    assert all("died" in event.message or "rank" in event.message for event in events.of(Finished))


def test_an_error_on_a_rank_is_the_users_own():
    with pytest.raises(ValueError, match="a mistake in the loss"):
        fit(loss=training.failing, ranks=2)


def test_what_cannot_be_sent_is_told_of():
    with pytest.raises(InputError, match="top level of a module"):
        fit(loss=lambda model, batch: squares(model, batch), ranks=2)
    with pytest.raises(ConfigError, match="give the data itself"):
        fit(data=data.loader(points(), batch_size=4, device="cpu"), batch_size=None, ranks=2)


def test_cancelling_is_passed_on(tmp_path: Path):
    cancel = threading.Event()

    def cancel_after_an_epoch(event: Event) -> None:
        if isinstance(event, EpochDone):
            cancel.set()

    options: dict[str, Any] = {"ranks": 2, "epochs": 100_000, "out": tmp_path / "run"}
    with pytest.raises(CancelledError, match=r"interrupted after .* run the same command again"):
        fit(progress=cancel_after_an_epoch, cancel=cancel, **options)
    assert inspect(tmp_path / "run").state == "interrupted"
    assert (tmp_path / "run" / "checkpoints" / "last").exists()


TORCHRUN = """
import sys, torch
from tests.engine.train import training
if __name__ == "__main__":
    torch.set_num_threads(1)
    result = training.fit(training.network(), training.summed, batch_size=7, out=sys.argv[1])
    if result.out is not None:
        torch.save(result.model.state_dict(), sys.argv[2])
"""


@pytest.mark.soak
def test_torchrun_starts_ranks_too(tmp_path: Path):
    script = tmp_path / "script.py"
    script.write_text(TORCHRUN)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", str(script)]
    command += [str(tmp_path / "run"), str(tmp_path / "weights.pt")]
    done = subprocess.run(
        command, env=environment(OMP_NUM_THREADS="1"), capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    state = torch.load(tmp_path / "weights.pt", weights_only=True)
    alone = fit(loss=training.summed, batch_size=7).model.state_dict()
    for name, value in alone.items():
        torch.testing.assert_close(state[name], value, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "options",
    [
        {"batch_size": 5},
        {"batch_size": 4, "accumulation_steps": 4},
        {"batch_size": 10},
        {"batch_size": 4, "loader": {"bucket": 2, "balance": True}},
    ],
)
def test_ranks_that_hold_parts_of_one_model_want_equal_shares(options: dict[str, Any]):
    config = TrainConfig(epochs=1, **options)
    with pytest.raises(ConfigError, match="equal shares"):
        _check_equal_shares(config, Group(0, 2), 24)
    _check_equal_shares(TrainConfig(epochs=1, batch_size=4), Group(0, 2), 24)


def test_a_gradient_that_comes_late_does_not_stay_on_its_rank():
    first, later = (torch.nn.Parameter(torch.zeros(3)) for _ in range(2))
    first.grad = torch.ones(3)
    group = Group(0, 2, torch.device("cuda"), [2.0, 0.0])  # as the first step had it; asking again would wait
    assert group._used([first, later]) == [first]
    later.grad = torch.ones(3)
    with pytest.raises(InputError, match="first gradient after the first step"):
        group._used([first, later])
