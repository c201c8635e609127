"""`brimful.train`: a model over a dataset, epoch after epoch, inside a memory budget."""

import contextlib
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Unpack

import torch
from torch import nn
from torch.nn.modules.loss import _Loss
from torch.utils.data import DataLoader

from ...core.base.errors import ConfigError, InputError, LockedError
from ...core.declare.config import build
from ...core.memory import devices
from ...core.memory.cost import Cost
from ...core.memory.devices import DeviceLike
from ...core.memory.plan import Plan
from ...core.runs.callbacks import sinks_of
from ...core.runs.context import stop_request
from ...core.runs.events import Event, Events, Warned
from ...core.runs.progress import sink_for
from ...core.runs.rundir import RunDir
from ...data.loading import Loader
from ...data.sources import read_once
from ...data.torch_datasets import loader_parts
from ..distributed import rank_store
from ..distributed.collectives import Group
from ..distributed.environment import launched_rank, srun_tasks
from ..distributed.process_group import TIMEOUT, process_group
from ..distributed.start_check import check_alike, check_data, check_shared, describe_rank
from . import launcher, reopen, run
from .checkpoints import CheckpointDir
from .config import TrainConfig
from .keywords import TrainKeywords
from .learning_rate import LearningRates, search
from .optim import optimizers
from .result import TrainResult
from .step.optimizer_step import LossFunction
from .task import MetricsFunction, TrainTask

_DISK_SPEED = 50e6  # bytes per second that a checkpoint is written at, at least
_LET_GO = 40.0  # seconds for the ranks before a restart to end: torchrun gives them 30
_SRUN = (
    "srun started {tasks} tasks, and each trains by itself: nothing says that they are ranks of one run. To train "
    "together, start torchrun once per node (srun --ntasks-per-node=1 torchrun ...): see docs/distributed.md"
)


def train(
    model: nn.Module,
    loss: LossFunction,
    data: Any,
    *,
    valid: Any = None,
    metrics: MetricsFunction | None = None,
    device: DeviceLike = "auto",
    ranks: int | None = None,
    out: str | Path | None = None,
    resume: bool = True,
    fingerprint: str | None = None,
    progress: bool | Callable[[Event], None] | None = None,
    callbacks: Any = (),
    cancel: threading.Event | None = None,
    **options: Unpack[TrainKeywords],
) -> TrainResult:
    """Trains a model, as fast as the device can, inside a memory budget.

    The optimizer is given the gradient of the whole batch, however it is split into micro-batches or over ranks.

    Args:
        model: any module; it is moved to the device and trained in place.
        loss: `loss(model, batch)` returns `Weighted(sum, weight)`, or such a tuple, or one number: the batch's mean.
        data: anything `brimful.data.source` reads, a torch `DataLoader` (its dataset, batch size, order and collate_fn
            are used), or a `Loader`.
        valid: data to measure the loss on after each epoch.
        metrics: `metrics(model, batches)` returns further numbers, of the validation data.
        device: "auto", "cpu", "cuda:1"; several, as a list or "cuda:0,cuda:1", train one rank each.
        ranks: processes that train together on one kind of device; by default one per device.
        out: a directory for checkpoints and the log; the run can then be resumed.
        resume: go on with a run that the directory holds; False refuses such a directory.
        fingerprint: a text that changes whenever the data does; by default the content is read. It also stands for a
            loss or a model that holds something without a fingerprint, such as an open file.
        progress: None or True shows it, False is silent, a function gets the events.
        callbacks: one or several: functions of an event, or objects with `on_epoch_end(epoch, values)`,
            `on_train_begin(event)` and the like. `brimful.metric_sinks` has those of experiment trackers.
        cancel: when it is set, from any thread, the run stops after the step at hand, writes a checkpoint and raises
            `CancelledError`. SIGTERM and Ctrl-C stop it likewise, with `KeyboardInterrupt`.
        options: epochs, steps, batch_size, budget, lr, optimizer, schedule and all others of `TrainConfig`;
            docs/train.md has them in a table.

    Example:
        >>> import torch, brimful
        >>> x = torch.linspace(-1, 1, 64)[:, None]
        >>> model = torch.nn.Linear(1, 1)
        >>> def loss(model, batch):
        ...     return ((model(batch["x"]) - batch["y"]) ** 2).mean()
        >>> result = brimful.train(model, loss, {"x": x, "y": 3 * x + 1}, epochs=80, batch_size=16, lr=0.05,
        ...                        weight_decay=0, device="cpu", progress=False)
        >>> [round(parameter.item(), 2) for parameter in model.parameters()]
        [3.0, 1.0]
    """
    task = _task(model, loss, data, valid, metrics, options)
    rank_devices, group = _ranks(device, ranks, data)
    with contextlib.ExitStack() as stack:
        stop = stack.enter_context(stop_request(cancel))
        stack.enter_context(process_group(group, timeout=TIMEOUT + _checkpoint_seconds(model)))
        ranks_store, launched = rank_store.of_this_run() if group.ranks > 1 else None, launched_rank()
        restarts = 0 if launched is None else launched.restarts
        if ranks_store is not None:
            on_this_machine, restarts = check_alike(ranks_store, describe_rank(group.device))
            task = launcher.with_budget_share(task, group.device, on_this_machine)
        events = stack.enter_context(Events())
        if group.is_first and (sink := sink_for(progress)) is not None:
            events.add(sink)
        for callback in sinks_of(callbacks) if group.is_first else ():
            events.add(callback)
        if (tasks := srun_tasks()) > 1:
            events.emit(Warned(message=_SRUN.format(tasks=tasks)))
        checkpoints = rundir = None
        if out is not None:
            task = task.with_fingerprint(fingerprint)
            if group.is_first:
                name, identity = task.config.name, task.identity(fingerprint)
                wanted = {"work": name, "config": identity, "input": task.fingerprint}
                rundir = stack.enter_context(_open(out, resume, restarts, wanted))
                events.add(rundir.log)
                checkpoints = CheckpointDir(rundir.path, rundir.identity, rundir.before)
            if ranks_store is not None:
                check_shared(ranks_store, Path(out))
                check_data(ranks_store, task.fingerprint)
        if len(rank_devices) > 1:
            result = launcher.run(task, rank_devices, checkpoints, events, stop)
        else:
            result = run.run(task, group, events, checkpoints, stop)
        return result if rundir is None else reopen.record(rundir, result, task.config.best)


def find_lr(
    model: nn.Module,
    loss: LossFunction,
    data: Any,
    *,
    low: float = 1e-7,
    high: float = 1.0,
    steps: int = 100,
    device: DeviceLike = "auto",
    **options: Any,
) -> LearningRates:
    """A good learning rate: a copy of the model is trained for some steps with a rate that grows from `low` to `high`,
    and the one at which the loss falls fastest is suggested. The model is not changed.

    Args:
        model, loss, data, device, options: as in `train`.
    """
    return search(train, model, loss, data, low, high, steps, {"device": device, **options})


def plan_train(
    model: nn.Module,
    loss: LossFunction,
    data: Any,
    *,
    device: DeviceLike = "auto",
    valid: Any = None,
    cost: Cost | None = None,
    **options: Unpack[TrainKeywords],
) -> Plan:
    """The plan that `train` would begin with, without training; the model is moved to the device.

    Args:
        cost: bytes of forward and backward by the number of samples. Without it the loss is called on a few samples,
            to measure what they need.
    """
    rank_devices, group = _ranks(device, None, data)
    task = _task(model, loss, data, valid, None, options)
    return run.plan(task, Group(group.rank, group.ranks, rank_devices[0]), cost)


def _task(model: Any, loss: Any, data: Any, valid: Any, metrics: Any, options: Mapping[str, Any]) -> TrainTask:
    _check_loss(loss)
    optimizers.check(options.get("optimizer", "adamw"))
    if isinstance(data, DataLoader):
        data, options = _from_dataloader(data, options)
    data, valid = read_once(data), read_once(valid)
    if isinstance(inner := getattr(model, "_orig_mod", None), nn.Module):  # compiled by the user, who has its options
        model, options = inner, {**options, "compile": model}
    if options.get("monitor") is None:
        options = {**options, "monitor": "train_loss" if valid is None else "valid_loss"}
    return TrainTask(model, loss, data, valid, metrics, build(TrainConfig, dict(options)))


def _check_loss(loss: Any) -> None:
    """Refuses losses of an output and a target, which torch has, before anything is called."""
    of_outputs = isinstance(loss, _Loss) or getattr(loss, "__module__", None) == "torch.nn.functional"
    if of_outputs or not callable(loss):
        name = getattr(loss, "__name__", type(loss).__name__)
        raise InputError(
            f"loss is {name}, and has to be a function of the model and a batch, such as\n"
            "    def loss(model, batch):\n"
            "        x, y = batch\n"
            f"        return {'torch.nn.functional.mse_loss' if not of_outputs else 'criterion'}(model(x), y)"
        )


def _from_dataloader(given: DataLoader, options: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
    """The dataset of a torch `DataLoader`; its batch size, shuffle and drop_last become options."""
    parts = loader_parts(given)
    if options.get("batch_size") not in (None, parts.batch_size):
        raise ConfigError(
            f"batch_size is {options['batch_size']} and the DataLoader's is {parts.batch_size}; leave one out"
        )
    own = {"shuffle": parts.shuffle, "drop_last": parts.drop_last}
    return parts.dataset, {**options, "batch_size": parts.batch_size, "loader": own | dict(options.get("loader", {}))}


def _open(out: str | Path, resume: bool, restarts: int, wanted: dict[str, Any]) -> RunDir:
    """The run directory. Ranks that were restarted go on with the run, and wait for those before them to let go."""
    until = time.monotonic() + (_LET_GO if restarts else 0.0)
    while True:
        try:
            return RunDir.open(out, kind="train", resume=resume or restarts > 0, **wanted)
        except LockedError:
            if time.monotonic() >= until:
                raise
            time.sleep(0.5)


def _checkpoint_seconds(model: nn.Module) -> float:
    """Seconds that the first rank may take for a checkpoint while the others wait: weights, moments and an average, at
    the speed of a slow disk."""
    return sum(4 * parameter.numel() * parameter.element_size() for parameter in model.parameters()) / _DISK_SPEED


def _ranks(device: DeviceLike, ranks: int | None, data: Any) -> tuple[list[torch.device], Group]:
    """The devices that this process starts ranks on, and what it is itself."""
    rank_devices = [data.device] if isinstance(data, Loader) else devices.resolve_all(device)
    if isinstance(data, Loader) and device != "auto" and devices.resolve_all(device) != rank_devices:
        raise ConfigError(f"device is {device!r} and the loader's is {data.device}; leave one out")
    if (launched := launched_rank()) is not None:
        if ranks not in (None, launched.ranks):
            raise ConfigError(f"ranks is {ranks} and torchrun started {launched.ranks}; leave ranks out")
        own = launched.device(rank_devices[0])
        return [own], Group(launched.rank, launched.ranks, own)
    if ranks is not None and (not isinstance(ranks, int) or isinstance(ranks, bool) or ranks < 1):
        raise ConfigError(f"ranks is {ranks!r}; give a whole number from 1 on")
    if ranks is not None and ranks != len(rank_devices):
        if len(rank_devices) > 1 or rank_devices[0].type == "cuda":
            raise ConfigError(
                f"ranks is {ranks} and the devices are {', '.join(map(str, rank_devices))}: a rank needs a device of "
                "its own. Name as many devices, as in device='cuda:0,cuda:1'"
            )
        rank_devices = rank_devices * ranks
    if len(rank_devices) > 1 and isinstance(data, Loader):
        raise ConfigError("several ranks divide the data: give the data itself, and loader={...} with options")
    return rank_devices, Group(0, 1, rank_devices[0])
