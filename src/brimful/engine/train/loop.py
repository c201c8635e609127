"""The training loop of one rank: steps, epochs, checkpoints."""

import functools
import json
import math
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from ...core.base import foreach, rng
from ...core.base.errors import ConfigError
from ...core.memory.monitor import Peak
from ...core.runs.events import BatchDone, EpochDone, Events, MemoryMeasured, Metric, Warned
from ...core.runs.log_state import RunClock
from ...data.loading import Loader
from ..distributed.collectives import Group
from .checkpoints import CheckpointDir, Checkpointer
from .evaluate import Evaluator
from .held_memory import held_bytes
from .optim import optimizers, schedules
from .optim.ema import MovingAverage, decay_of_span
from .planner import PreparedTraining
from .state import EpochSums, TrainState
from .step.cuda_graph import GraphedStep
from .step.divergence import DivergenceMonitor
from .step.optimizer_step import OptimizerStep
from .step.precision import LossScale
from .task import TrainTask

_REPORT_EVERY = 0.5  # seconds between two reports of progress
_READ_EVERY = 50  # steps, by default, between two readings of losses where steps would wait for them
_MAX_WARNINGS = 20


class StopRequested(Exception):
    """The run was asked to stop, and the step at hand is done."""


class TrainLoop:
    """Trains one model, as one of the ranks.

    Args:
        task: what to train.
        prepared: its plan, and the batches.
        group: this rank and the others.
        events: where to emit; only the first rank's has listeners.
        checkpoints: where to write them, on the first rank of a run with a directory.
        stop: whether the run was asked to stop.
        peak: the memory used so far.
    """

    def __init__(
        self,
        task: TrainTask,
        prepared: PreparedTraining,
        group: Group,
        events: Events,
        checkpoints: CheckpointDir | None,
        stop: Callable[[], bool],
        peak: Peak,
        clock: RunClock,
    ) -> None:
        config, loader = task.config, prepared.loader
        self._task, self._config, self._prepared, self._loader = task, config, prepared, loader
        self._group, self._events, self._stop, self._peak = group, events, stop, peak
        self._clock = clock
        # Parts of the loop are given what they need and not the loop, which holds them: in a cycle of references the
        # data would stay on the device until a garbage collection.
        self._warn = warn = functools.partial(_emit_warning, events)
        self._device, loader.warn = loader.device, warn
        self._read_every = config.log_every or (1 if self._device.type == "cpu" else _READ_EVERY)
        self.state = TrainState(micro_batches=prepared.micro_batches)
        self.epochs, self.steps = config.planned(len(loader))
        self._warmup = schedules.warmup_steps(config.warmup, self.steps)
        parameters, captured = optimizers.trainable(task.model), config.graph and self._device.type == "cuda"
        optimizer = optimizers.build(
            config.optimizer,
            parameters,
            lr=config.lr,
            weight_decay=config.weight_decay,
            capturable=captured,
        )
        self._optimizer = optimizer
        self._schedule = schedules.bound(config.rate_schedule(), optimizer)
        self._initial_lr = schedules.initial_rates(self._schedule, optimizer.param_groups)
        decay = decay_of_span(config.ema_span, self.steps) if config.ema is None else config.ema
        self._average = MovingAverage(parameters, decay, warmup=config.ema is not None, captured=captured)
        self._model: Any = _compiled(task.model, config.compile)
        scale = LossScale(self._device, prepared.plan.items or 1) if prepared.precision.scaled else None
        self.step = OptimizerStep(
            self._model,
            task.loss,
            optimizer,
            self._device,
            prepared.precision,
            group=group,
            warn=warn,
            micro_batches=prepared.micro_batches,
            grad_clip=config.grad_clip,
            average=self._average,
            scale=scale,
            trim=prepared.trims,
            free=loader.step_down,
        )
        graphed = config.graph
        if graphed and getattr(self._schedule, "cycles_momentum", False):  # a graph holds it as it is
            warn("graph=True and a schedule that cycles momentum exclude each other; steps run one by one")
            graphed = False
        self._take_step = GraphedStep(self.step, warn) if graphed else self.step
        self._evaluator = None
        if prepared.valid is not None:
            self._evaluator = Evaluator(self._model, task.loss, prepared.valid, prepared.precision, group)
        # The steps since the last reading, which on a device waits for it: rows in place there, plain ones as they are.
        self._rows: list[Any] = []
        self._log = torch.zeros(self._read_every, 3, dtype=self.step.dtype, device=self._device)
        self._slots = self._log.unbind()
        some, described = _SomeWarnings(warn), functools.partial(_describe, loader)
        self.monitor = DivergenceMonitor(config.max_nonfinite, scale is not None, some, described)
        self._checkpointer = Checkpointer(
            task.model, optimizer, self._average, scale, loader, checkpoints, group, config.best, warn
        )
        self._parts = dict[str, int]()
        self.kept = self._samples_kept()  # samples that a resumed run would not see again
        self._saved_at = self._reported_at = time.monotonic()

    def run(self) -> None:
        """Trains until all epochs are done, or the monitored number stops improving."""
        self._saved_at = self._reported_at = time.monotonic()
        while not self.state.stopped and (self.state.step < self.steps or self.state.sums.seconds > 0):
            self._epoch()
            self._end_epoch()
        if not self.state.stopped:
            self.state.stopped = "finished"
            self._save()

    def _epoch(self) -> None:
        state, config, batches = self.state, self._config, len(self._loader)
        if state.batch >= batches or state.step >= self.steps:  # resumed between the last step of an epoch and its end
            return
        self._model.train()
        started = time.monotonic() - state.sums.seconds
        for batch in self._loader.epoch(state.epoch):
            self._begin_step()
            seed = rng.derive_seed(config.seed, rng.STEP, state.step, self._group.rank)
            row = self._take_step(batch, seed)
            self._rows.append(row if isinstance(row, tuple) else self._slots[len(self._rows)].copy_(row))
            state.step += 1
            state.batch += 1
            state.sums.seconds = time.monotonic() - started
            if state.step == 1:
                self._check_gradients()
            if len(self._rows) >= self._read_every:
                self._read_rows()
            if state.step >= self.steps:
                break
            if state.batch < batches:
                # Ranks agree by the step, which is the same on all: the first one's rows are also read for checkpoints.
                if (self._group.ranks == 1 or state.step % self._read_every == 0) and self._stop_requested():
                    state.sums.data_seconds += self._loader.stall.waited
                    self._save()
                    raise StopRequested
                if self._checkpoint_due():
                    self._save()
        self._read_rows()
        state.sums.data_seconds += self._loader.stall.waited

    def _begin_step(self) -> None:
        """The learning rate of the step to come, and the decay of the average."""
        self._average.begin_step(self.state.step)
        progress = self.state.step, self.steps, len(self._loader)
        chosen = schedules.settings(self._schedule, self._initial_lr, *progress, self._warmup, self.state.plateau)
        for group, settings in zip(self._optimizer.param_groups, chosen, strict=True):
            for name, value in settings.items():
                if isinstance(group[name], torch.Tensor):  # a graph reads it from the device
                    group[name].fill_(value)
                else:
                    group[name] = value

    def _read_rows(self) -> None:
        """Adds up the steps since the last reading."""
        state = self.state
        sums = state.sums
        rows, self._rows = self._rows, []
        on_device = bool(rows) and isinstance(rows[0], torch.Tensor)
        for total, weight, norm in self._log[: len(rows)].tolist() if on_device else rows:
            if self.monitor.check(len(state.curve), total, weight, norm, state.epoch):
                sums.total, sums.weight = sums.total + total, sums.weight + weight
                sums.norm, sums.norm_max = sums.norm + norm, max(sums.norm_max, norm)
                sums.steps += 1
            else:
                sums.skipped += 1
            state.curve.append((total / weight if weight else math.nan, norm))
        if time.monotonic() - self._reported_at >= _REPORT_EVERY:
            self._report_progress()

    def _report_progress(self) -> None:
        now, plan = time.monotonic(), self._prepared.plan
        self._events.emit(
            BatchDone(
                items=plan.batch,
                bad=0,
                done=self.samples_done(),
                seconds=now - self._reported_at,
                peak=self._peak.read(),
                budget=plan.budget,
                flagged=self.monitor.skipped,
                kept=self.kept,
            )
        )
        self._report_memory()
        if self.state.curve:
            self._events.emit(Metric(metric="loss", value=self.state.curve[-1][0], step=self.state.step))
        self._reported_at = now

    def _report_memory(self) -> None:
        """Emits what is held by now of the parts of the plan, where that is more than before."""
        held = held_bytes(self._checkpointer, self._loader, self._prepared.valid)
        largest = {name: max(size, self._parts.get(name, 0)) for name, size in held.items()}
        if largest != self._parts:
            self._parts = largest
            self._events.emit(MemoryMeasured(parts=largest))

    def samples_done(self) -> int:
        """Samples that were seen, over all epochs."""
        plan = self._loader.plan
        items = plan.items or 0
        return self.state.epoch * items + min(items, self.state.batch * plan.batch)

    def _stop_requested(self) -> bool:
        """Whether any rank was asked to stop; all must leave after the same step."""
        return self._group.sum_over_ranks([float(self._stop())])[0] > 0

    # The end of an epoch.

    def _end_epoch(self) -> None:
        state, config = self.state, self._config
        values = self._evaluate()
        improved = self._update_best(values)
        times = {"seconds": state.sums.seconds, "data_seconds": state.sums.data_seconds}
        state.history.append({"epoch": state.epoch + 1, "step": state.step, **values, **times})
        number, state.sums = state.epoch + 1, EpochSums()
        if state.batch >= len(self._loader):
            state.epoch, state.batch = number, 0
        if config.patience is not None and state.epochs_since_best >= config.patience:
            state.stopped = "early"
        elif state.step >= self.steps:
            state.stopped = "finished"
        for name, value in values.items():
            self._events.emit(Metric(metric=name, value=value, step=state.step))
        self._events.emit(EpochDone(epoch=number, epochs=self.epochs, step=state.step, values=values, **times))
        self._save(is_best=improved)
        self._report_progress()
        if self._stop_requested() and not state.stopped:
            raise StopRequested

    def _evaluate(self) -> dict[str, float]:
        """The epoch's numbers; the same on all ranks."""
        task, sums, precision = self._task, self.state.sums, self._prepared.precision
        values = {"train_loss": sums.total / sums.weight if sums.weight else math.nan}
        self._model.eval()
        with self._average.in_place():
            rng.seed_generators(self._device, rng.derive_seed(self._config.seed, rng.EVALUATION, self.state.epoch, 0))
            if self._evaluator is not None:
                values["valid_loss"] = self._evaluator.mean_loss()
            if task.metrics is not None:
                with torch.no_grad(), precision.context():
                    values |= _numbers(task.metrics(task.model, self._prepared.valid))
            weights = [weight.detach() for weight in task.model.parameters() if weight.is_floating_point()]
            weight_norm = float(foreach.norm(weights))
        self._model.train()
        values |= {
            "lr": float(self._optimizer.param_groups[0]["lr"]),
            "grad_norm": sums.norm / sums.steps if sums.steps else math.nan,
            "grad_norm_max": sums.norm_max,
            "weight_norm": weight_norm,
            "skipped": float(sums.skipped),
        }
        return json.loads(self._group.broadcast_bytes(json.dumps(values).encode()))

    def _update_best(self, values: dict[str, float]) -> bool:
        """Whether the epoch is the best so far."""
        state, config = self.state, self._config
        if config.monitor not in values:
            raise ConfigError(f"monitor is {config.monitor!r}, which is not measured; there are {', '.join(values)}")
        if config.monitor == "train_loss" and state.batch < len(self._loader):
            return False  # of an epoch that ended early: the mean of a few batches is no match for that of all
        value = values[config.monitor]
        if isinstance(self._schedule, schedules.Plateau):
            state.plateau = self._schedule.after(state.plateau, value, config.lower)
        sign = 1 if config.lower else -1
        improved = not math.isnan(value) and (state.best is None or sign * value < sign * state.best)
        before, least = state.best_that_counted, config.min_delta
        if improved and (before is None or sign * value < sign * before - least):
            state.best_that_counted, state.epochs_since_best = value, 0
        else:
            state.epochs_since_best += 1
        if improved:
            state.best, state.best_epoch = value, len(state.history)
        return improved

    # Checkpoints.

    def resume(self) -> None:
        """Goes on from the last checkpoint, if there is one."""
        resumed = self._checkpointer.resume()
        if resumed is None:
            return
        state, metadata = resumed
        self.state = state
        self.kept = self._samples_kept()
        self.step.micro_batches = state.micro_batches = max(self.step.micro_batches, state.micro_batches)
        if state.stopped and self.steps > metadata["steps"]:
            state.stopped, state.epochs_since_best = "", 0

    def finish(self) -> str:
        """Leaves the model with the weights that were asked for, and says which they are."""
        best = self._checkpointer.finish()
        self._task.model.eval()
        average = ", their moving average" if self._average.values else ""
        if not best or self.state.best_epoch is None:
            return f"the last, after step {self.state.step}{average}"
        row, monitor = self.state.history[self.state.best_epoch], self._config.monitor
        return f"those of epoch {row['epoch']}, the best by {monitor}{average}"

    def _checkpoint_due(self) -> bool:
        every = self._config.checkpoint_every
        by_steps = every is not None and self.state.step % every == 0
        by_time = time.monotonic() - self._saved_at >= self._config.checkpoint_seconds
        return self._checkpointer.directory is not None and (by_steps or by_time)

    def _save(self, is_best: bool = False) -> None:
        self._read_rows()
        self.state.micro_batches = self.step.micro_batches
        self.state.seconds = self._clock.seconds()
        self._checkpointer.save(self.state, {"steps": self.steps, "plan": self._prepared.plan.to_dict()}, is_best)
        self._saved_at, self.kept = time.monotonic(), self._samples_kept()

    def _samples_kept(self) -> int | None:
        """Of a checkpoint that holds the state as it is now; None where none are written."""
        return None if self._checkpointer.directory is None else self.samples_done()

    def _check_gradients(self) -> None:
        model = self._task.model
        without = [name for name, weight in model.named_parameters() if weight.requires_grad and weight.grad is None]
        if without:
            self._warn(f"{len(without)} parameter(s) got no gradient and will not change: {_list(without, 3)}")
        split = self.step.micro_batches > 1 or self._group.ranks > 1
        if split and any(isinstance(module, nn.modules.batchnorm._BatchNorm) for module in model.modules()):
            self._warn(
                "the model has batch normalization and batches are split: each part is normalized by itself, which is "
                "not the whole batch's gradient. Use group or layer normalization, or accumulation_steps=1 on one rank"
            )


def _emit_warning(events: Events, message: str) -> None:
    events.emit(Warned(message=message))


class _SomeWarnings:
    """Warns a few times."""

    def __init__(self, warn: Callable[[str], None]) -> None:
        self._warn, self._count = warn, 0

    def __call__(self, message: str) -> None:
        self._count += 1
        if self._count <= _MAX_WARNINGS:
            self._warn(message + ("; further ones are only counted" if self._count == _MAX_WARNINGS else ""))


def _describe(loader: Loader, step: int) -> str:
    """The batch of a step, by its place and some of its samples."""
    epoch, batch = divmod(step, len(loader))
    return f"batch {batch + 1} of epoch {epoch + 1} (samples {_list(loader.index(epoch, batch), 5)})"


def _list(values: Any, limit: int) -> str:
    return ", ".join(map(str, values[:limit])) + (", ..." if len(values) > limit else "")


def _numbers(metrics: Any) -> dict[str, float]:
    if not isinstance(metrics, dict):
        raise ConfigError(f"metrics returned a {type(metrics).__name__}; return a dict of names and numbers")
    return {str(name): float(value) for name, value in metrics.items()}


def _compiled(model: nn.Module, how: Any) -> Any:
    """The model as `compile=` asks: as it is, by `torch.compile` with options, or as the user compiled it."""
    if isinstance(how, nn.Module):
        return how
    return torch.compile(model, **(how if isinstance(how, dict) else {})) if how else model
