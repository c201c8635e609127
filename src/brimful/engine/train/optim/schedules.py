"""Learning rates as functions of the step: a factor of each parameter group's own rate.

    Constant                           1
    Cosine(first_cycle, cycle_mult)    cosine annealing over the whole run, or with warm restarts
    OneCycle(pct_start)                up to the full rate and down to nearly nothing, as in torch's OneCycleLR
    Plateau(patience)                  reduced whenever the monitored number stops improving
    a function (step, steps) -> factor
    a scheduler of torch's, its class, or a function of an optimizer that makes one

All but Plateau are pure, so a resumed run has nothing to restore; Plateau's state is three numbers.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast

from torch.optim import Optimizer
from torch.optim.lr_scheduler import ReduceLROnPlateau

from ....core.base.errors import ConfigError
from .torch_schedules import GroupSchedule, Settings, TorchSchedule, is_scheduler, torch_schedule

__all__ = ["Constant", "Cosine", "OneCycle", "Plateau"]

_INITIAL, _FINAL = 1 / 25, 1 / 250_000  # factors at the first and the last step of one cycle, as in torch


@dataclass(frozen=True, slots=True, kw_only=True)
class Constant:
    """The full rate throughout."""

    def at(self, step: int, steps: int, per_epoch: int) -> float:
        """The factor where `step` of `steps` steps are done, `per_epoch` of them per epoch."""
        return 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Cosine:
    """Cosine annealing with warm restarts.

    Attributes:
        first_cycle: epochs of the first cycle; by default the whole run.
        cycle_mult: how many times longer each cycle is than the one before.
        min_factor: the factor at the end of a cycle.
    """

    first_cycle: float | None = None
    cycle_mult: float = 1.0
    min_factor: float = 0.0

    def __post_init__(self) -> None:
        if self.first_cycle is not None and not self.first_cycle > 0:
            raise ConfigError(
                f"Cosine.first_cycle is {self.first_cycle}; give epochs above 0, or None for the whole run"
            )
        if not self.cycle_mult >= 1 or not 0 <= self.min_factor <= 1:
            raise ConfigError(
                f"Cosine(cycle_mult={self.cycle_mult}, min_factor={self.min_factor}): cycle_mult is at least 1, "
                "min_factor from 0 to 1"
            )

    def at(self, step: int, steps: int, per_epoch: int) -> float:
        length = float(steps) if self.first_cycle is None else self.first_cycle * per_epoch
        into = float(step)
        while into >= length and self.first_cycle is not None:
            into, length = into - length, length * self.cycle_mult
        return self.min_factor + (1 - self.min_factor) * (1 + math.cos(math.pi * min(1.0, into / length))) / 2


@dataclass(frozen=True, slots=True, kw_only=True)
class OneCycle:
    """Up along a cosine to the full rate, then down along another.

    Attributes:
        pct_start: the share of steps over which the rate rises.
    """

    pct_start: float = 0.3

    def __post_init__(self) -> None:
        if not 0 < self.pct_start < 1:
            raise ConfigError(f"OneCycle.pct_start is {self.pct_start}; give a share between 0 and 1")

    def at(self, step: int, steps: int, per_epoch: int) -> float:
        top, last = self.pct_start * steps - 1, steps - 1
        if step <= top:
            return _between(_INITIAL, 1.0, step / top if top > 0 else 1.0)
        return _between(1.0, _FINAL, min(1.0, (step - top) / max(1e-9, last - top)))


def _between(start: float, stop: float, share: float) -> float:
    return stop + (start - stop) / 2 * (1 + math.cos(math.pi * share))


@dataclass(frozen=True, slots=True, kw_only=True)
class Plateau:
    """Reduced when the monitored number has not improved for more than `patience` epochs.

    Attributes:
        factor: what the rate is multiplied with.
        patience: epochs without improvement that are allowed.
        threshold: the least relative improvement that counts.
        min_factor: the least factor of the full rate.
        group_min_factors: that of each parameter group, where they differ.
    """

    factor: float = 0.1
    patience: int = 10
    threshold: float = 1e-4
    min_factor: float = 0.0
    group_min_factors: tuple[float, ...] = field(default=(), repr=False)

    def __post_init__(self) -> None:
        if not 0 < self.factor < 1 or self.patience < 0:
            raise ConfigError(
                f"Plateau(factor={self.factor}, patience={self.patience}): factor is between 0 and 1, patience >= 0"
            )

    def after(self, state: "PlateauState", value: float, lower: bool) -> "PlateauState":
        """The state after an epoch that ended with that value; pure. NaN is never better."""
        if state.best is None:
            better = not math.isnan(value)
        elif lower:
            better = value < state.best * (1 - self.threshold)
        else:
            better = value > state.best * (1 + self.threshold)
        if better:
            return PlateauState(value, 0, state.factor)
        if state.bad < self.patience:
            return PlateauState(state.best, state.bad + 1, state.factor)
        return PlateauState(state.best, 0, max(self.min_factor, state.factor * self.factor))


@dataclass(frozen=True, slots=True)
class PlateauState:
    best: float | None = None
    bad: int = 0
    factor: float = 1.0


@dataclass(frozen=True, slots=True)
class FunctionSchedule:
    """A function of the user's."""

    function: Callable[[int, int], float]

    def at(self, step: int, steps: int, per_epoch: int) -> float:
        return float(self.function(step, steps))


Schedule = Constant | Cosine | OneCycle | Plateau | FunctionSchedule | TorchSchedule
NAMED: dict[str, Schedule] = {
    "constant": Constant(),
    "cosine": Cosine(),
    "one_cycle": OneCycle(),
    "plateau": Plateau(),
}


BoundSchedule = Constant | Cosine | OneCycle | Plateau | FunctionSchedule | GroupSchedule
"""A schedule of an optimizer."""


def schedule(spec: Any, every: str | None = None) -> Schedule:
    """What a `schedule=` argument asks for; `every`: when a scheduler of torch's advances."""
    if every is not None and (not is_scheduler(spec) or isinstance(spec, ReduceLROnPlateau)):
        raise ConfigError("schedule_every is of torch's schedulers that advance by themselves; leave it out")
    if isinstance(spec, str) and spec in NAMED:
        return NAMED[spec]
    if isinstance(spec, Schedule):
        return spec
    if isinstance(spec, ReduceLROnPlateau):
        return _plateau(spec)
    if is_scheduler(spec):
        return torch_schedule(spec, every)
    if callable(spec):
        return FunctionSchedule(cast(Callable[[int, int], float], spec))
    raise ConfigError(
        f"schedule is {spec!r}; choose one of {', '.join(NAMED)}, one of brimful.schedules with options, a scheduler "
        "of torch, or give a function (step, steps) -> factor"
    )


def bound(chosen: Schedule, optimizer: Optimizer) -> BoundSchedule:
    """A schedule for the parameter groups of an optimizer."""
    if not isinstance(chosen, TorchSchedule):
        return chosen
    made = chosen.around(optimizer)
    return _plateau(made) if isinstance(made, ReduceLROnPlateau) else GroupSchedule.of(chosen, optimizer, made)


def _plateau(scheduler: ReduceLROnPlateau) -> Plateau:
    if scheduler.cooldown or scheduler.threshold_mode != "rel":
        raise ConfigError("ReduceLROnPlateau with cooldown, or an absolute threshold, is not supported; leave them out")
    rates = [float(group["lr"]) for group in scheduler.optimizer.param_groups]
    least = [float(rate) for rate in scheduler.min_lrs]
    factors = tuple(one / rate if rate else 0.0 for one, rate in zip(least, rates, strict=True))
    return Plateau(
        factor=scheduler.factor,
        patience=scheduler.patience,
        threshold=scheduler.threshold,
        min_factor=min(factors),
        group_min_factors=factors if len(set(factors)) > 1 else (),
    )


def initial_rates(chosen: BoundSchedule, groups: list[dict[str, Any]]) -> list[float]:
    """The rates that the factors are of. A scheduler of torch's has set others already, and kept the first."""
    kept = isinstance(chosen, GroupSchedule)
    return [float(group.get("initial_lr", group["lr"]) if kept else group["lr"]) for group in groups]


def warmup_steps(warmup: float, steps: int) -> int:
    """How many steps of warm-up there are: a count, or a share of all steps where it is below 1."""
    return round(warmup * steps) if 0 < warmup < 1 else int(warmup)


def settings(
    chosen: BoundSchedule,
    rates: list[float],
    step: int,
    steps: int,
    per_epoch: int,
    warmup: int = 0,
    plateau: PlateauState = PlateauState(),
) -> list[Settings]:
    """What each parameter group, with those full rates, is set to for the step that follows."""
    if isinstance(chosen, GroupSchedule):
        groups = chosen.settings(step, per_epoch)
        return [group | {"lr": group["lr"] * _warmed(step, warmup)} for group in groups]
    by = factor(chosen, step, steps, per_epoch, warmup, plateau)
    if isinstance(chosen, Plateau) and chosen.group_min_factors:
        least = chosen.group_min_factors
        by = [max(plateau.factor, one) * _warmed(step, warmup) for one in least]
        return [{"lr": rate * one} for rate, one in zip(rates, by, strict=True)]
    return [{"lr": rate * by} for rate in rates]


def factor(
    chosen: Constant | Cosine | OneCycle | Plateau | FunctionSchedule,
    step: int,
    steps: int,
    per_epoch: int,
    warmup: int = 0,
    plateau: PlateauState = PlateauState(),
) -> float:
    """The factor of the learning rate for the step that follows: the schedule's, times (n + 1) / warmup at first."""
    base = plateau.factor if isinstance(chosen, Plateau) else chosen.at(step, steps, per_epoch)
    return base * _warmed(step, warmup)


def _warmed(step: int, warmup: int) -> float:
    return min(1.0, (step + 1) / warmup) if warmup else 1.0
