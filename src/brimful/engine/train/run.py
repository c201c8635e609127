"""One call of `train`, on one rank: from the plan to the result."""

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import torch
from torch import nn

from ...core.base.errors import BudgetError, ConfigError, InputError
from ...core.base.units import format_bytes, format_count
from ...core.memory.limit import MemoryLimit
from ...core.memory.monitor import Peak, sampling
from ...core.memory.oom import is_out_of_memory
from ...core.memory.plan import Plan
from ...core.runs import fingerprint as prints
from ...core.runs.events import Events, Finished, Planned, Started, Warned
from ...core.runs.files import write_atomic
from ...data.loader import Loader
from ...data.sources import source
from ..distributed.collectives import Group
from .checkpoint_dir import Checkpoints
from .config import Settings
from .loop import Metrics, Stopped, Trainer, Work
from .optim.optimizers import trained
from .planner import prepare
from .result import TrainResult
from .step.optimizer_step import Loss
from .step.recompute import recomputing
from .step.rng import own_chance

_FOLDER = "checkpoints"


@dataclass(frozen=True, slots=True)
class Where:
    """A run directory that is open, and what its files are known by."""

    path: Path
    identity: str


@dataclass(frozen=True, slots=True, eq=False)
class Task:
    """What to train, on what, and how."""

    model: nn.Module
    loss: Loss
    data: Any
    valid: Any
    metrics: Metrics | None
    settings: Settings
    fingerprint: str = "not kept"

    def check(self) -> None:
        """Refuses what cannot be trained, before anything is opened."""
        if not isinstance(self.model, nn.Module):
            raise InputError(f"model is a {type(self.model).__name__}; give a torch.nn.Module")
        if not callable(self.loss):
            raise InputError(f"loss is a {type(self.loss).__name__}; give a function of a model and a batch")
        trained(self.model)
        settings = self.settings
        if isinstance(self.data, Loader):
            if settings.batch_size is not None or settings.loader:
                raise ConfigError("data is a Loader, which has its batch_size and options; leave them out here")
        elif settings.batch_size is None:
            raise ConfigError("batch_size is missing; give the samples of a batch, over all ranks together")
        if self.metrics is not None and self.valid is None:
            raise ConfigError("metrics are of the validation data; give valid= too")
        if settings.monitor == "valid_loss" and self.valid is None:
            raise ConfigError("monitor is 'valid_loss' and there is no validation data; give valid=")
        for name, value in self.model.state_dict().items():
            if not isinstance(value, torch.Tensor):
                raise InputError(f"the model's state holds a {type(value).__name__}, {name!r}; keep tensors there")

    def known(self, fingerprint: str | None) -> "Task":
        """The same, with what its data is known by: its content unless a text is given."""
        parts = [_print(self.data) if fingerprint is None else f"given: {fingerprint}"]
        if self.valid is not None:
            parts.append(_print(self.valid) if fingerprint is None else "")
        return replace(self, fingerprint=prints.of(parts))

    def identity(self) -> dict[str, Any]:
        """What decides the result, beside the data. The first weights do not count: a run that is resumed has its
        own."""
        layers = [f"{name} {type(each).__qualname__} {each.extra_repr()}" for name, each in self.model.named_modules()]
        weights = [f"{name} {each.dtype} {tuple(each.shape)}" for name, each in self.model.state_dict().items()]
        frozen = [name for name, each in self.model.named_parameters() if not each.requires_grad]
        return {
            "model": f"{type(self.model).__qualname__} ({prints.of([layers, weights, frozen])[:12]})",
            "loss": prints.of_function(self.loss),
            **self.settings.identity(),
        }


def _print(data: Any) -> str:
    return str(data.state()["fingerprint"]) if isinstance(data, Loader) else source(data).fingerprint()


def plan(task: Task, group: Group) -> Plan:
    """The plan alone."""
    with own_chance(group.device), MemoryLimit(task.settings.budget, group.device) as memory_limit:
        _move(task.model, memory_limit)
        return prepare(task.model, task.loss, task.data, task.valid, task.settings, memory_limit, group).plan


def _move(model: nn.Module, memory_limit: MemoryLimit) -> None:
    """The model to the device, ready to train."""
    try:
        model.to(memory_limit.device).train()
    except RuntimeError as error:
        if not is_out_of_memory(error):
            raise
        size = sum(each.numel() * each.element_size() for each in model.parameters())
        raise BudgetError(
            f"the model's weights take {format_bytes(size)}, and the budget on {memory_limit.device} is "
            f"{format_bytes(memory_limit.bytes)}. Use a larger budget or a smaller model"
        ) from error


def run(task: Task, group: Group, events: Events, where: Where | None, stop: Callable[[], bool]) -> TrainResult:
    """Trains as one rank; the first one keeps checkpoints and tells of them."""
    settings, device = task.settings, group.device

    def warn(message: str) -> None:
        events.emit(Warned(message=message))

    checkpoints = Checkpoints(where.path / _FOLDER, where.identity, warn) if where is not None else None
    with contextlib.ExitStack() as stack:
        ending = stack.enter_context(_ending(events, where))
        if device.type == "cuda":
            stack.enter_context(torch.cuda.device(device))
        stack.enter_context(own_chance(device))
        memory_limit = stack.enter_context(MemoryLimit(settings.budget, device))
        _move(task.model, memory_limit)
        prepared = prepare(
            task.model, task.loss, task.data, task.valid, settings, memory_limit, group, task.fingerprint
        )
        peak = stack.enter_context(Peak(device, memory_limit.baseline))
        stack.enter_context(recomputing(task.model, prepared.recomputed))
        work = Work(task.model, task.loss, task.metrics, prepared, settings)
        ending.trainer = trainer = Trainer(work, group, events, checkpoints, stop, peak)
        trainer.begin()
        samples = prepared.loader.plan.items or 0
        events.emit(Planned(plan=prepared.plan.to_dict()))
        events.emit(
            Started(work=settings.name, items=trainer.epochs * samples, done=trainer.done(), budget=memory_limit.bytes)
        )
        with sampling(events, device, memory_limit.baseline) if group.first else contextlib.nullcontext():
            trainer.run()
        trainer.finish()
        result = _result(task, trainer, peak.read(), where)
        if where is not None:
            _write_history(result, where.path)
        return result


def _result(task: Task, trainer: Trainer, observed: int, where: Where | None) -> TrainResult:
    at = trainer.position
    return TrainResult(
        model=task.model,
        history=at.history,
        curve=at.curve_array(),
        best=at.history[at.best_epoch] if at.best_epoch is not None else None,
        epochs=at.epoch,
        steps=at.step,
        seconds=at.seconds,
        plan=trainer.plan,
        micro_batches=trainer.step.pieces,
        observed=observed,
        stopped=at.stopped,
        out=where.path if where is not None else None,
    )


def _write_history(result: TrainResult, folder: Path) -> None:
    """The history an epoch a row, and loss and gradient norm a step a row, for other programs."""
    steps = pa.table({"loss": result.curve[:, 0], "grad_norm": result.curve[:, 1]})
    for name, table in (("history", result.table()), ("steps", steps)):
        write_atomic(folder / f"{name}.parquet", lambda path, table=table: pq.write_table(table, path))


@dataclass(slots=True)
class _Ending:
    trainer: Trainer | None = None


@contextlib.contextmanager
def _ending(events: Events, where: Where | None) -> Iterator[_Ending]:
    """Says how it ended, whatever happens."""
    ending, started = _Ending(), time.perf_counter()

    def finished(state: str, message: str = "") -> None:
        done = 0 if ending.trainer is None else ending.trainer.done()
        bad = 0 if ending.trainer is None else ending.trainer.skipped
        seconds = time.perf_counter() - started
        events.emit(Finished(state=state, done=done, bad=bad, seconds=seconds, message=message))

    try:
        yield ending
    except (KeyboardInterrupt, Stopped):
        how = "nothing was kept" if where is None else f"run the same command again to go on from {where.path}"
        finished("interrupted", how)
        steps = 0 if ending.trainer is None else ending.trainer.position.step
        raise KeyboardInterrupt(f"interrupted after {format_count(steps)} steps; {how}") from None
    except BaseException as error:
        with contextlib.suppress(Exception):
            finished("failed", str(error).splitlines()[0] if str(error) else type(error).__name__)
        raise
    finished("finished")
