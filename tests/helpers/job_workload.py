"""A workload for tests of the service: a small model, trained in steps that take as long as they are told to."""

import errno
import hashlib
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from brimful.core.base.errors import CancelledError, InputError
from brimful.core.declare import registry
from brimful.core.declare.config import DeviceOptions, OutOptions, SeedOptions, option
from brimful.core.declare.registry import Command, Workload
from brimful.core.runs.context import RunContext
from brimful.core.runs.events import BatchDone, Started
from brimful.engine.train import checkpoints, train

NAME = "steps"


@dataclass(frozen=True, kw_only=True)
class TrainConfig(SeedOptions, DeviceOptions, OutOptions):
    epochs: int = option(4, help="epochs", ge=1)
    pause: float = option(0.0, help="seconds that a step takes", ge=0)
    fail: str | None = option(None, help="how", choices=("error", "kill", "full"))


@dataclass(frozen=True, kw_only=True)
class WaitConfig(DeviceOptions):
    seconds: float = option(0.0, help="how long it takes", ge=0)
    deaf: bool = option(False, help="do not stop when asked to")
    model: Path | None = option(None, help="a folder or file that is read")
    fail_unless: Path | None = option(None, help="fail unless that file is there", local=True)


class _Slow(nn.Module):
    def __init__(self, pause: float, fail: str | None) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 2)
        self.pause, self.fail = pause, fail


def _loss(model: Any, batch: dict[str, torch.Tensor]) -> torch.Tensor:
    if model.training:
        time.sleep(model.pause)
        if model.fail == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if model.fail == "error":
            raise InputError("the data is wrong; give other data")
    return ((model.layer(batch["x"]) - batch["y"]) ** 2).mean()


def _fill_disk(path: Path) -> None:
    """From its second checkpoint on there is no space, until there is that file."""
    written, save = [0], checkpoints.save_tensors

    def full(*arguments: Any) -> None:
        save(*arguments)
        written[0] += 1
        if written[0] > 3 and not path.exists():
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    checkpoints.save_tensors = full


def run_train(config: TrainConfig, context: RunContext) -> dict[str, Any]:
    if config.fail == "full" and config.out is not None:
        _fill_disk(config.out.parent / "space")
    generator = torch.Generator().manual_seed(config.seed)
    x = torch.randn(64, 3, generator=generator)
    data = {"x": x, "y": x[:, :2] * 2 + 0.1 * torch.randn(64, 2, generator=generator)}
    torch.manual_seed(config.seed)
    model = _Slow(config.pause, config.fail)
    result = train(
        model,
        _loss,
        data,
        epochs=config.epochs,
        batch_size=16,
        lr=0.05,
        seed=config.seed,
        budget=config.budget,
        device=config.device,
        out=config.out,
        name="steps train",
        fingerprint=f"{config.seed} {config.epochs}",
        progress=context.events.emit,
        cancel=context.cancel,
    )
    weights = b"".join(weight.detach().numpy().tobytes() for weight in model.parameters())
    return {"weights": hashlib.sha256(weights).hexdigest(), **result.summary()}


def run_wait(config: WaitConfig, context: RunContext) -> dict[str, Any]:
    context.events.emit(Started(work="steps wait", items=1, done=0, budget=0))
    ends = time.monotonic() + config.seconds
    while time.monotonic() < ends:
        if config.deaf:
            time.sleep(0.05)
        elif context.cancel.wait(0.02):
            raise CancelledError("cancelled; nothing was written")
    context.events.emit(BatchDone(items=1, bad=0, done=1, seconds=0.0, peak=0, budget=0))
    return {"items": 1, "model": None if config.model is None else str(config.model)}


WORKLOAD = Workload(
    name=NAME,
    help="For tests.",
    commands=(
        Command(name="train", help="Train.", config=TrainConfig, run=run_train, job=True),
        Command(name="wait", help="Wait.", config=WaitConfig, run=run_wait, job=True),
        Command(name="show", help="No job.", config=WaitConfig, run=run_wait),
    ),
)


def register() -> None:
    registry.WORKLOADS[NAME] = "tests.helpers.job_workload"
