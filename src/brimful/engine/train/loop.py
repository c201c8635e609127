"""The training loop of one rank: steps, epochs, checkpoints."""

import json
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from ...core.base import foreach
from ...core.base.errors import ConfigError
from ...core.memory.monitor import Peak
from ...core.memory.plan import Plan
from ...core.runs.events import BatchDone, EpochDone, Events, Metric, Warned
from ..distributed.collectives import Group
from .checkpoint_dir import Checkpoints
from .checkpointer import Keeping, Parts
from .config import Settings
from .evaluate import mean_loss
from .optim import optimizers, schedules
from .optim.ema import Average, averaged
from .planner import Prepared
from .state import Position, Sums
from .step import rng
from .step.cuda_graph import Graphed
from .step.divergence import Watch
from .step.optimizer_step import Loss, Step
from .step.precision import Scale
from .step.step_log import Record

Metrics = Callable[[nn.Module, Any], dict[str, float]]
_TELL = 0.5  # seconds between two reports of progress
_MOST_WARNINGS = 20


class Stopped(Exception):
    """The user asked for an end, and the step at hand is done."""


@dataclass(slots=True, eq=False)
class Work:
    """What is trained, with what."""

    model: nn.Module
    loss: Loss
    metrics: Metrics | None
    prepared: Prepared
    settings: Settings


class Trainer:
    """Trains one model, as one of the ranks.

    Args:
        work: what to train.
        group: this rank and the others.
        events: where to tell; the first rank's alone has listeners.
        checkpoints: where to keep them, on the first rank of a run with a directory.
        stop: whether the user asked for an end.
        peak: the memory used so far.
    """

    def __init__(
        self,
        work: Work,
        group: Group,
        events: Events,
        checkpoints: Checkpoints | None,
        stop: Callable[[], bool],
        peak: Peak,
    ) -> None:
        settings, prepared = work.settings, work.prepared
        self._work, self._settings, self._group, self._events = work, settings, group, events
        self._stop, self._peak = stop, peak
        self._loader, self._valid = prepared.loader, prepared.valid
        self._device = self._loader.device
        self._schedule = schedules.schedule(settings.schedule)
        parameters = optimizers.trained(work.model)
        self.optimizer = optimizers.build(
            settings.optimizer,
            parameters,
            lr=settings.lr,
            weight_decay=settings.weight_decay,
            capturable=settings.graph and self._device.type == "cuda",
        )
        self._rates = [float(part["lr"]) for part in self.optimizer.param_groups]
        self._average = Average(parameters, settings.ema) if settings.ema is not None else None
        self._running = _compiled(work.model, settings.compile)
        scale = Scale(self._device, prepared.plan.items or 1) if prepared.precision.scaled else None
        self.step = Step(
            self._running,  # pyright: ignore[reportArgumentType]
            work.loss,
            self.optimizer,
            self._device,
            prepared.precision,
            group=group,
            warn=self._warn,
            pieces=prepared.pieces,
            clip=settings.clip,
            average=self._average,
            scale=scale,
        )
        self._take = Graphed(self.step, self._warn) if settings.graph else self.step
        dtype = torch.float64 if any(each.dtype == torch.float64 for each in parameters) else torch.float32
        self._record = Record(self._device, dtype, 1 if self._device.type == "cpu" else settings.log_every)
        self._watch = Watch(settings.max_nonfinite, settings.alarm, scale is not None, self._warn_some, self._describe)
        self.position = Position(pieces=prepared.pieces)
        self.epochs, self.steps = settings.planned(len(self._loader))
        self._warmup = schedules.warmup_steps(settings.warmup, self.steps)
        self._parts = Parts(work.model, self.optimizer, self._average, scale, self._loader)
        self._keeping = Keeping(self._parts, checkpoints, group, settings.best, self._warn)
        self._valid_pieces = 1
        self._warnings = 0
        self._seconds = 0.0
        self._saved_at = self._told_at = self._resumed_at = time.monotonic()

    # Going through the epochs.

    def run(self) -> None:
        """Trains until all epochs are done, or the monitored number stops getting better."""
        self._resumed_at = self._saved_at = self._told_at = time.monotonic()
        self._seconds = self.position.seconds
        while not self.position.stopped and (self.position.step < self.steps or self.position.sums.seconds > 0):
            self._epoch()
            self._end_epoch()
        if not self.position.stopped:
            self.position.stopped = "finished"
            self._save()

    def _epoch(self) -> None:
        at, settings, total = self.position, self._settings, len(self._loader)
        if at.batch >= total or at.step >= self.steps:  # resumed between the last step of an epoch and its end
            return
        self._running.train()
        started = time.monotonic() - at.sums.seconds
        for batch in self._loader.epoch(at.epoch):
            self._set_rate()
            seed = rng.seed_of(settings.seed, rng.STEP, at.step, self._group.rank)
            self._record.add(self._take(batch, seed))
            at.step += 1
            at.batch += 1
            at.sums.seconds = time.monotonic() - started
            if at.step == 1:
                self._check_gradients()
            if self._record.full:
                self._read()
            # By the step, which is the same on all ranks: the first one's record is also read for its checkpoints.
            every = 1 if self._device.type == "cpu" else settings.log_every
            within = at.batch < total and at.step < self.steps
            if at.step % every == 0 and self._agreed_to_stop() and within:
                self._interrupt()
            if self._group.ranks == 1 and within and self._stop():
                self._interrupt()
            if within and self._is_due():
                self._save()
            if at.step >= self.steps:
                break
        self._read()

    def _set_rate(self) -> None:
        at = self.position
        span = schedules.Span(at.step, self.steps, len(self._loader))
        factor = schedules.factor(self._schedule, span, self._warmup, at.plateau)
        for part, rate in zip(self.optimizer.param_groups, self._rates, strict=True):
            if isinstance(part["lr"], torch.Tensor):  # a graph reads it from the device
                part["lr"].fill_(rate * factor)
            else:
                part["lr"] = rate * factor

    def _read(self) -> None:
        """Takes in what the device has recorded since the last time."""
        at = self.position
        sums, first = at.sums, len(at.curve)
        for place, (total, weight, norm) in enumerate(self._record.read()):
            step = first + place
            made = self._watch.look(step, total, weight, norm, at.epoch)
            if made:
                sums.total, sums.weight = sums.total + total, sums.weight + weight
                sums.norm, sums.norm_max = sums.norm + norm, max(sums.norm_max, norm)
                sums.steps += 1
            else:
                sums.skipped += 1
            at.curve.append((total / weight if weight else math.nan, norm))
        now = time.monotonic()
        if now - self._told_at >= _TELL:
            self._tell(now)

    def _tell(self, now: float) -> None:
        at, plan = self.position, self._work.prepared.plan
        self._events.emit(
            BatchDone(
                items=plan.batch,
                bad=0,
                done=self.done(),
                seconds=now - self._told_at,
                peak=self._peak.read(),
                budget=plan.budget,
                flagged=self._watch.skipped,
            )
        )
        if at.curve:
            self._events.emit(Metric(metric="loss", value=at.curve[-1][0], step=at.step))
        self._told_at = now

    def done(self) -> int:
        """Samples that were seen, over all epochs."""
        at, plan = self.position, self._loader.plan
        return at.epoch * (plan.items or 0) + min(plan.items or 0, at.batch * plan.batch)

    def _agreed_to_stop(self) -> bool:
        """Whether any rank was asked to stop; all must leave after the same step."""
        return self._group.ranks > 1 and self._group.add_up([float(self._stop())])[0] > 0

    def _interrupt(self) -> None:
        self._read()
        self._save()
        raise Stopped

    # The end of an epoch.

    def _end_epoch(self) -> None:
        at, settings = self.position, self._settings
        values = self._evaluate()
        better = self._judge(values)
        seconds = at.sums.seconds
        at.history.append({"epoch": at.epoch + 1, "step": at.step, **values, "seconds": seconds})
        number, at.sums = at.epoch + 1, Sums()
        if at.batch >= len(self._loader):
            at.epoch, at.batch = number, 0
        if settings.patience is not None and at.waited >= settings.patience:
            at.stopped = "early"
        elif at.step >= self.steps:
            at.stopped = "finished"
        for name, value in values.items():
            self._events.emit(Metric(metric=name, value=value, step=at.step))
        self._events.emit(EpochDone(epoch=number, epochs=self.epochs, step=at.step, seconds=seconds, values=values))
        self._tell(time.monotonic())
        self._save(is_best=better)
        if self._stop_after_epoch():
            raise Stopped

    def _stop_after_epoch(self) -> bool:
        asked = self._stop() if self._group.ranks == 1 else self._agreed_to_stop()
        return asked and not self.position.stopped

    def _evaluate(self) -> dict[str, float]:
        """The epoch's numbers; the same on all ranks."""
        work, at = self._work, self.position
        sums = at.sums
        values = {"train_loss": sums.total / sums.weight if sums.weight else math.nan}
        self._running.eval()
        with averaged(self._average):
            rng.sow(self._device, rng.seed_of(self._settings.seed, rng.EVALUATION, at.epoch, 0))
            if self._valid is not None:
                values["valid_loss"], self._valid_pieces = mean_loss(
                    self._running,  # pyright: ignore[reportArgumentType]
                    work.loss,
                    self._valid,
                    work.prepared.precision,
                    self._group,
                    self._valid_pieces,
                )
                if work.metrics is not None:
                    with torch.no_grad(), work.prepared.precision.context():
                        values |= _numbers(work.metrics(work.model, self._valid))
            weights = [each.detach() for each in work.model.parameters() if each.is_floating_point()]
            norm = float(foreach.norm(weights))
        self._running.train()
        values |= {
            "lr": float(self.optimizer.param_groups[0]["lr"]),
            "grad_norm": sums.norm / sums.steps if sums.steps else math.nan,
            "grad_norm_max": sums.norm_max,
            "weight_norm": norm,
            "skipped": float(sums.skipped),
        }
        return json.loads(self._group.share(json.dumps(values).encode()))

    def _judge(self, values: dict[str, float]) -> bool:
        """Whether the epoch is the best so far."""
        at, settings = self.position, self._settings
        if settings.monitor not in values:
            raise ConfigError(f"monitor is {settings.monitor!r}, which is not measured; there are {', '.join(values)}")
        if settings.monitor == "train_loss" and at.batch < len(self._loader):
            return False  # of an epoch that ended early: the mean of a few batches is no match for that of all
        value = values[settings.monitor]
        if isinstance(self._schedule, schedules.Plateau):
            at.plateau = self._schedule.after(at.plateau, value, settings.lower)
        better = not math.isnan(value) and (at.best is None or (value < at.best if settings.lower else value > at.best))
        if better:
            at.best, at.best_epoch, at.waited = value, len(at.history), 0
        else:
            at.waited += 1
        return better

    @property
    def plan(self) -> Plan:
        return self._work.prepared.plan

    @property
    def skipped(self) -> int:
        return self._watch.skipped

    # Checkpoints.

    def begin(self) -> None:
        """Goes on from the last checkpoint, if there is one."""
        saved = self._keeping.begin()
        if saved is None:
            return
        self.position = at = self._parts.restore(saved)
        self.step.pieces = at.pieces = max(self.step.pieces, at.pieces)
        if at.stopped and self.steps > saved.facts.get("steps", saved.facts.get("epochs", 0) * len(self._loader)):
            at.stopped, at.waited = "", 0

    def finish(self) -> None:
        """Leaves the model with the weights that were asked for."""
        self._keeping.finish()
        self._work.model.eval()

    def _is_due(self) -> bool:
        if not self._keeping.on_disk:
            return False
        every = self._settings.checkpoint_every
        by_steps = every is not None and self.position.step % every == 0
        return by_steps or time.monotonic() - self._saved_at >= self._settings.checkpoint_seconds

    def _save(self, is_best: bool = False) -> None:
        self._read()
        at = self.position
        at.pieces = self.step.pieces
        at.seconds = self._seconds + time.monotonic() - self._resumed_at
        self._keeping.save(at, {"steps": self.steps, "plan": self.plan.to_dict()}, is_best)
        self._saved_at = time.monotonic()

    # What is told.

    def _warn(self, message: str) -> None:
        self._events.emit(Warned(message=message))

    def _warn_some(self, message: str) -> None:
        self._warnings += 1
        if self._warnings <= _MOST_WARNINGS:
            last = "; further ones are counted, not told" if self._warnings == _MOST_WARNINGS else ""
            self._warn(message + last)

    def _describe(self, step: int) -> str:
        epoch, batch = divmod(step, len(self._loader))
        numbers = self._loader.index(epoch, batch)
        shown = ", ".join(str(number) for number in numbers[:5]) + (", ..." if len(numbers) > 5 else "")
        return f"batch {batch + 1} of epoch {epoch + 1} (samples {shown})"

    def _check_gradients(self) -> None:
        named = self._work.model.named_parameters()
        without = [name for name, each in named if each.requires_grad and each.grad is None]
        if without:
            shown = ", ".join(without[:3]) + (", ..." if len(without) > 3 else "")
            self._warn(f"{len(without)} parameter(s) got no gradient and will not change: {shown}")
        cut = self.step.pieces > 1 or self._group.ranks > 1
        if cut and any(isinstance(each, nn.modules.batchnorm._BatchNorm) for each in self._work.model.modules()):
            self._warn(
                "the model has batch normalisation and batches are cut: each part is normalised by itself, which is "
                "not the whole batch's gradient. Use group or layer normalisation, or accumulate=1 on one rank"
            )


def _compiled(model: nn.Module, how: Any) -> Any:
    return torch.compile(model, **(how if isinstance(how, dict) else {})) if how else model


def _numbers(found: Any) -> dict[str, float]:
    if not isinstance(found, dict):
        raise ConfigError(f"metrics returned a {type(found).__name__}; return a dict of names and numbers")
    return {str(name): float(value) for name, value in found.items()}
