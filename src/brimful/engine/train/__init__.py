"""`brimful.train`: a model over a dataset, epoch after epoch, inside a memory budget."""

import contextlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from ...core.base.errors import ConfigError
from ...core.memory import devices
from ...core.memory.plan import Plan
from ...core.runs.events import Event, Events
from ...core.runs.interrupt import asked_to_stop
from ...core.runs.progress import sink_for
from ...core.runs.rundir import RunDir
from ...data.loader import Loader
from ..distributed.collectives import TIMEOUT, Group, joined, torchrun_rank
from . import launcher, run
from .config import Settings
from .loop import Metrics
from .optim.optimizers import Maker
from .result import TrainResult
from .run import Task, Where
from .step.optimizer_step import Loss

_DISK = 50e6  # bytes a second that a checkpoint is written at, at least


def train(
    model: nn.Module,
    loss: Loss,
    data: Any,
    *,
    epochs: int | None = None,
    steps: int | None = None,
    batch_size: int | None = None,
    budget: Any = None,
    device: str | torch.device | Sequence[str | torch.device] = "auto",
    ranks: int | None = None,
    valid: Any = None,
    metrics: Metrics | None = None,
    monitor: str | None = None,
    mode: str = "min",
    patience: int | None = None,
    best: bool = True,
    optimizer: str | Maker = "adamw",
    lr: float = 1e-3,
    weight_decay: float | None = None,
    schedule: Any = "constant",
    warmup: float = 0,
    clip: float | None = None,
    ema: float | None = None,
    precision: str = "auto",
    accumulate: int | str = "auto",
    recompute: Any = "auto",
    compile: bool | dict[str, Any] = False,
    graph: bool = False,
    tier: str = "auto",
    loader: Mapping[str, Any] | None = None,
    seed: int = 0,
    out: str | Path | None = None,
    resume: bool = True,
    fingerprint: str | None = None,
    checkpoint_every: int | None = None,
    checkpoint_seconds: float = 300.0,
    log_every: int = 50,
    max_nonfinite: int = 10,
    alarm: float = 100.0,
    progress: bool | Callable[[Event], None] | None = None,
    name: str = "train",
) -> TrainResult:
    """Trains a model, as fast as the device can, inside a memory budget.

    The optimizer is given the gradient of the whole batch, whatever way it was cut into micro-batches or over ranks.

    Args:
        model: any module; it is moved to the device and trained in place.
        loss: `loss(model, batch)` returns `Weighted(sum, weight)`, or such a tuple, or one number: the batch's mean.
        data: anything `brimful.data.loader` takes, or a `Loader`.
        epochs: how often to go through it. A finished run goes on when it is given more.
        steps: optimizer steps after which training ends, if need be in the midst of an epoch; instead of epochs, or the
            one of the two that comes first.
        batch_size: samples of a batch, over all ranks; a `Loader` brings its own.
        budget: memory to stay inside: "8GB", "80%", bytes, or None for 90% of what is free. See `Budget`.
        device: "auto", "cpu", "cuda:1"; several, as a list or "cuda:0,cuda:1", train one rank each.
        ranks: processes that train together on one device kind; as many as there are devices unless said.
        valid: data to measure the loss on after each epoch.
        metrics: `metrics(model, batches)` returns further numbers, of the validation data.
        monitor: the number that tells the best epoch: "valid_loss" (where there is `valid`), "train_loss", a metric.
        mode: "min" or "max": which of them is better.
        patience: epochs without a better one after which training ends.
        best: leave the model with the best weights; the last ones otherwise.
        optimizer: "adamw", "adam", or a function of the parameters.
        lr, weight_decay: of adamw (0.01 unless said) and adam (0).
        schedule: "constant", "cosine", "one_cycle", "plateau", one of `brimful.engine.schedules`, or a function
            (step, steps) -> factor.
        warmup: steps (or a share of all, below 1) over which the rate grows to its full height.
        clip: the largest gradient norm.
        ema: the decay of a moving average of the weights, which is then what is evaluated and kept.
        precision: "auto", "float32", "bf16", "fp16", "float64".
        accumulate: micro-batches of a batch, or "auto" for as few as fit.
        recompute: names of submodules to run again in the backward pass; "auto" if the model names some
            (`recomputable()`) and nothing else fits.
        compile: run the model through torch.compile; a dict has its options.
        graph: replay steps as CUDA graphs, where shapes allow.
        tier: where the data lives: "device", "pinned" or "auto".
        loader: further options of `brimful.data.loader`, such as {"drop_last": True, "transform": f}.
        seed: of the order of the data and of dropout.
        out: a directory for checkpoints and the log; the run can then be resumed.
        resume: go on with a run that the directory holds; False refuses such a directory.
        fingerprint: a text that changes whenever the data does; its content is read unless given.
        checkpoint_every, checkpoint_seconds: a checkpoint after so many steps, after so long, and after each epoch.
        log_every: steps between two looks at the device.
        max_nonfinite: steps in a row that may be skipped because the loss or its gradient is not finite.
        alarm: how many times its usual norm a gradient must have to be told of.
        progress: None or True shows it, False is silent, a function gets the events.
        name: what to call the work in progress, log and run directory.

    Example:
        >>> import torch, brimful
        >>> x = torch.linspace(-1, 1, 64)[:, None]
        >>> model = torch.nn.Linear(1, 1)
        >>> def loss(model, batch):
        ...     return ((model(batch["x"]) - batch["y"]) ** 2).mean()
        >>> result = brimful.train(model, loss, {"x": x, "y": 3 * x + 1}, epochs=80, batch_size=16, lr=0.05,
        ...                        weight_decay=0, device="cpu", progress=False)
        >>> [round(each.item(), 2) for each in model.parameters()]
        [3.0, 1.0]
    """
    settings = Settings(
        epochs=epochs,
        steps=steps,
        batch_size=batch_size,
        budget=budget,
        precision=precision,
        accumulate=accumulate,
        optimizer=optimizer,
        lr=lr,
        weight_decay=weight_decay,
        schedule=schedule,
        warmup=warmup,
        clip=clip,
        ema=ema,
        monitor=monitor or ("train_loss" if valid is None else "valid_loss"),
        mode=mode,
        patience=patience,
        best=best,
        recompute=recompute,
        compile=compile,
        graph=graph,
        tier=tier,
        loader=dict(loader or {}),
        seed=seed,
        checkpoint_every=checkpoint_every,
        checkpoint_seconds=checkpoint_seconds,
        log_every=log_every,
        max_nonfinite=max_nonfinite,
        alarm=alarm,
        name=name,
    )
    task = Task(model, loss, data, valid, metrics, settings)
    task.check()
    places, group = _places(device, ranks, data)
    with contextlib.ExitStack() as stack:
        events = stack.enter_context(Events())
        if group.first and (sink := sink_for(progress)) is not None:
            events.add(sink)
        where = None
        if out is not None:
            task = task.known(fingerprint)
            if group.first:
                opened = RunDir.open(out, work=name, config=task.identity(), input=task.fingerprint, resume=resume)
                rundir = stack.enter_context(opened)
                events.add(rundir.log)
                where = Where(rundir.path, rundir.identity)
        stop = stack.enter_context(asked_to_stop())
        if len(places) > 1:
            return launcher.run(task, places, where, events, stop)
        stack.enter_context(joined(group, timeout=TIMEOUT + _saving(model)))
        return run.run(task, group, events, where, stop)


def plan_train(
    model: nn.Module,
    loss: Loss,
    data: Any,
    *,
    device: str | torch.device = "auto",
    valid: Any = None,
    **options: Any,
) -> Plan:
    """The plan that `train` would begin with, without training. The loss is called on a few samples, to measure what
    they need; the model is moved to the device."""
    places, group = _places(device, None, data)
    task = Task(model, loss, data, valid, None, Settings(**options))
    task.check()
    return run.plan(task, Group(group.rank, group.ranks, places[0]))


def _saving(model: nn.Module) -> float:
    """Seconds that the first rank may take for a checkpoint while the others wait: weights, moments and an average, at
    the speed of a slow disk."""
    return sum(4 * each.numel() * each.element_size() for each in model.parameters()) / _DISK


def _places(device: Any, ranks: int | None, data: Any) -> tuple[list[torch.device], Group]:
    """The devices that this process has to see to, and what it is itself."""
    if isinstance(data, Loader):
        found = [data.device]
        if device != "auto" and devices.resolve_all(device) != found:
            raise ConfigError(f"device is {device!r} and the loader's is {data.device}; leave one out")
    else:
        found = devices.resolve_all(device)
    if (started := torchrun_rank()) is not None:
        rank, count, local = started
        if ranks not in (None, count):
            raise ConfigError(f"ranks is {ranks} and torchrun started {count}; leave ranks out")
        place = torch.device("cuda", local) if found[0].type == "cuda" else found[0]
        return [place], Group(rank, count, place)
    if ranks is not None and (not isinstance(ranks, int) or isinstance(ranks, bool) or ranks < 1):
        raise ConfigError(f"ranks is {ranks!r}; give a whole number from 1 on")
    if ranks is not None and ranks != len(found):
        if len(found) > 1 or found[0].type == "cuda":
            raise ConfigError(
                f"ranks is {ranks} and the devices are {', '.join(map(str, found))}: a rank needs a device of its own. "
                "Name as many devices, as in device='cuda:0,cuda:1'"
            )
        found = found * ranks
    if len(found) > 1 and isinstance(data, Loader):
        raise ConfigError("several ranks cut the data among them: give the data itself, and loader={...} with options")
    return found, Group(0, 1, found[0])
