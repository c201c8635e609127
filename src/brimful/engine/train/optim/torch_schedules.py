"""Torch's learning-rate schedulers: run ahead on an optimizer without a model, so that a resumed run has nothing to
restore.

That optimizer has the groups of the real one, with their settings, so that each group gets its own rate, and its own
momentum where a scheduler cycles that too. `OneCycleLR` and `CyclicLR` advance at every step, as their documentation
says; all others once an epoch; `schedule_every` says it otherwise.
"""

import copy
import functools
import inspect
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.optim import Optimizer
from torch.optim.lr_scheduler import CyclicLR, LRScheduler, OneCycleLR, ReduceLROnPlateau

from ....core.base.errors import ConfigError

SchedulerFactory = Callable[[Optimizer], LRScheduler]
Settings = dict[str, Any]
"""What a scheduler sets of a parameter group: its rate, and whatever else it changes."""

_BY_STEP = (OneCycleLR, CyclicLR)
_NOT_SET = ("params", "initial_lr")


@dataclass(frozen=True, slots=True, eq=False)
class TorchSchedule:
    """A scheduler of torch's, as it was given.

    Attributes:
        spec: one that is made, its class, or a function of an optimizer that makes one.
        function: the function that makes it, or a text that says all about one that is given: what a run is known by.
        every: when it advances, "step" or "epoch"; None for what is usual.
    """

    spec: Any
    function: Any
    every: str | None = None

    def around(self, optimizer: Optimizer) -> LRScheduler:
        """The scheduler as it is before the first step, around a stand-in for an optimizer; one that is given is
        copied, and its optimizer is not."""
        if isinstance(self.spec, LRScheduler):
            return self._copied(optimizer)
        try:
            made = self.spec(StandIn(optimizer))
        except Exception as error:
            raise ConfigError(
                f"schedule: {_name(self.spec)} could not be made for an optimizer with {len(optimizer.param_groups)} "
                f"parameter group(s): {error}"
            ) from error
        if not isinstance(made, LRScheduler):
            raise ConfigError(f"schedule made a {type(made).__name__}; it must return a scheduler of torch")
        return made

    def _copied(self, optimizer: Optimizer) -> LRScheduler:
        theirs = self.spec.optimizer
        if [_initial(group) for group in theirs.param_groups] != [_initial(group) for group in optimizer.param_groups]:
            raise ConfigError(
                f"schedule: this {type(self.spec).__name__} is of an optimizer with other groups or rates than the one "
                "that trains; give that one as optimizer=, or the scheduler's class"
            )
        alone = StandIn(theirs)
        for group, rate in zip(alone.param_groups, self.spec.get_last_lr(), strict=True):
            group["lr"] = float(rate)
        return copy.deepcopy(self.spec, {id(theirs): alone})


class StandIn(Optimizer):
    """An optimizer with the settings of another, whose groups hold one number each."""

    def __init__(self, like: Optimizer) -> None:
        groups = [
            {name: _plain(value) for name, value in group.items() if name != "params"} | {"params": [torch.zeros(1)]}
            for group in like.param_groups
        ]
        super().__init__(groups, {name: _plain(value) for name, value in like.defaults.items()})

    def step(self, closure: Any = None) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        pass


@dataclass(slots=True, eq=False)
class GroupSchedule:
    """A scheduler around a stand-in, as a function of the step."""

    schedule: TorchSchedule
    scheduler: LRScheduler
    remake: Callable[[], LRScheduler]
    _before: list[Settings] = field(default_factory=list)
    _changed: set[str] = field(default_factory=lambda: {"lr"})
    _advanced: int = 0

    @classmethod
    def of(cls, schedule: TorchSchedule, optimizer: Optimizer, scheduler: LRScheduler) -> "GroupSchedule":
        groups = [{name: _plain(value) for name, value in group.items()} for group in optimizer.param_groups]
        return cls(schedule, scheduler, functools.partial(schedule.around, optimizer), groups)

    def settings(self, step: int, per_epoch: int) -> list[Settings]:
        """What each parameter group is set to where `step` steps are done, `per_epoch` of them per epoch."""
        every = self.schedule.every or ("step" if isinstance(self.scheduler, _BY_STEP) else "epoch")
        target = step if every == "step" else step // max(1, per_epoch)
        if target < self._advanced:
            self.scheduler, self._advanced = self.remake(), 0
        self._note_changed()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of an optimizer that has made no step
            while self._advanced < target:
                self.scheduler.step()
                self._advanced += 1
                self._note_changed()
        groups = self.scheduler.optimizer.param_groups
        return [{name: _plain(group[name]) for name in sorted(self._changed)} for group in groups]

    def _note_changed(self) -> None:
        for now, before in zip(self.scheduler.optimizer.param_groups, self._before, strict=True):
            self._changed |= {name for name in before if name not in _NOT_SET and now.get(name) != before[name]}

    @property
    def cycles_momentum(self) -> bool:
        """Whether it sets more than rates."""
        return bool(getattr(self.scheduler, "cycle_momentum", False))


def is_scheduler(spec: Any) -> bool:
    """Whether it is a scheduler of torch's, its class, or a function of an optimizer that makes one."""
    if isinstance(spec, LRScheduler | ReduceLROnPlateau):
        return True
    made_by = spec.func if isinstance(spec, functools.partial) else spec
    if isinstance(made_by, type):
        return issubclass(made_by, LRScheduler | ReduceLROnPlateau)
    return callable(spec) and len(_required(spec) or ("", "")) == 1


def _required(function: Callable[..., Any]) -> tuple[str, ...] | None:
    """The arguments that must be given, by their place or name; None where that is unknown."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return None
    several = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return tuple(one.name for one in parameters if one.default is inspect.Parameter.empty and one.kind not in several)


def torch_schedule(spec: Any, every: str | None = None) -> TorchSchedule:
    """A scheduler of torch's as a schedule."""
    if isinstance(spec, LRScheduler):
        return TorchSchedule(spec, f"{type(spec).__name__} {spec.state_dict()}", every)
    if missing := (_required(spec) or ())[1:]:
        options = ", ".join(f"{name}=..." for name in missing)
        raise ConfigError(
            f"schedule is {_name(spec)}, which needs {' and '.join(missing)}; give functools.partial({_name(spec)}, "
            f"{options})"
        )
    return TorchSchedule(spec, spec, every)


def _name(spec: Any) -> str:
    made_by = spec.func if isinstance(spec, functools.partial) else spec
    return getattr(made_by, "__name__", type(made_by).__name__)


def _initial(group: dict[str, Any]) -> float:
    return float(group.get("initial_lr", group["lr"]))


def _plain(value: Any) -> Any:
    """A rate that lies on a device, as a number."""
    return float(value) if isinstance(value, torch.Tensor) and value.ndim == 0 else value
