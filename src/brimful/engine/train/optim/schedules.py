"""Learning rates as functions of the step: a factor of each parameter group's own rate.

    Constant                 1
    Cosine(first, grow)      down along a cosine, over the whole run, or over cycles that begin anew
    OneCycle(peak)           up to the full rate and down to nearly nothing, as in torch's OneCycleLR
    Plateau(patience)        down by a factor whenever the monitored number stops getting better
    any (step, steps) -> factor

All but Plateau are pure, so a resumed run has nothing to restore; Plateau's state is three numbers.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

from ....core.base.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Span:
    """Where a run is: `step` steps are done, of `steps` in all, `per_epoch` of them an epoch."""

    step: int
    steps: int
    per_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Constant:
    """The full rate all along."""

    def factor(self, span: Span) -> float:
        return 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Cosine:
    """Cosine annealing with warm restarts.

    Attributes:
        first: epochs of the first cycle; the whole run unless said.
        grow: how many times longer each cycle is than the one before.
        floor: the factor at the end of a cycle.
    """

    first: float | None = None
    grow: float = 1.0
    floor: float = 0.0

    def __post_init__(self) -> None:
        if self.first is not None and not self.first > 0:
            raise ConfigError(f"Cosine.first is {self.first}; give epochs above 0, or None for the whole run")
        if not self.grow >= 1 or not 0 <= self.floor <= 1:
            raise ConfigError(f"Cosine(grow={self.grow}, floor={self.floor}): grow is at least 1, floor from 0 to 1")

    def factor(self, span: Span) -> float:
        length = float(span.steps) if self.first is None else self.first * span.per_epoch
        into = float(span.step)
        while into >= length and self.first is not None:
            into, length = into - length, length * self.grow
        return self.floor + (1 - self.floor) * (1 + math.cos(math.pi * min(1.0, into / length))) / 2


@dataclass(frozen=True, slots=True, kw_only=True)
class OneCycle:
    """Up along a cosine to the full rate, then down along another.

    Attributes:
        up: the share of steps that go up.
        begin: the factor at the first step.
        end: the factor at the last.
    """

    up: float = 0.3
    begin: float = 1 / 25
    end: float = 1 / 250_000

    def __post_init__(self) -> None:
        if not 0 < self.up < 1:
            raise ConfigError(f"OneCycle.up is {self.up}; give a share between 0 and 1")

    def factor(self, span: Span) -> float:
        top, last = self.up * span.steps - 1, span.steps - 1
        if span.step <= top:
            return _between(self.begin, 1.0, span.step / top if top > 0 else 1.0)
        return _between(1.0, self.end, min(1.0, (span.step - top) / max(1e-9, last - top)))


def _between(start: float, stop: float, share: float) -> float:
    return stop + (start - stop) / 2 * (1 + math.cos(math.pi * share))


@dataclass(frozen=True, slots=True, kw_only=True)
class Plateau:
    """Down by a factor when the monitored number has not got better for more than `patience` epochs.

    Attributes:
        by: what the rate is multiplied with.
        patience: epochs without getting better that are allowed.
        threshold: by what share it must get better to count.
        floor: the least factor.
    """

    by: float = 0.1
    patience: int = 10
    threshold: float = 1e-4
    floor: float = 0.0

    def __post_init__(self) -> None:
        if not 0 < self.by < 1 or self.patience < 0:
            raise ConfigError(f"Plateau(by={self.by}, patience={self.patience}): by is between 0 and 1, patience >= 0")

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
        return PlateauState(state.best, 0, max(self.floor, state.factor * self.by))


@dataclass(frozen=True, slots=True)
class PlateauState:
    best: float | None = None
    bad: int = 0
    factor: float = 1.0


@dataclass(frozen=True, slots=True)
class Own:
    """A function of the user's."""

    function: Callable[[int, int], float]

    def factor(self, span: Span) -> float:
        return float(self.function(span.step, span.steps))


Schedule = Constant | Cosine | OneCycle | Plateau | Own
NAMED: dict[str, Schedule] = {
    "constant": Constant(),
    "cosine": Cosine(),
    "one_cycle": OneCycle(),
    "plateau": Plateau(),
}


def schedule(spec: Any) -> Schedule:
    """What a `schedule=` argument asks for."""
    if isinstance(spec, str) and spec in NAMED:
        return NAMED[spec]
    if isinstance(spec, Schedule):
        return spec
    if callable(spec):
        return Own(cast(Callable[[int, int], float], spec))
    raise ConfigError(
        f"schedule is {spec!r}; choose one of {', '.join(NAMED)}, one of brimful.engine.schedules with options, or "
        "give a function (step, steps) -> factor"
    )


def warmup_steps(warmup: float, steps: int) -> int:
    """How many steps of warm-up there are: a count, or a share of all steps where it is below 1."""
    return round(warmup * steps) if 0 < warmup < 1 else int(warmup)


def factor(chosen: Schedule, span: Span, warmup: int, plateau: PlateauState) -> float:
    """The factor of the learning rate for the step that follows: the schedule's, times (n + 1) / warmup at first."""
    base = plateau.factor if isinstance(chosen, Plateau) else chosen.factor(span)
    return base * min(1.0, (span.step + 1) / warmup) if warmup else base
