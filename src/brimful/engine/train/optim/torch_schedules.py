"""Torch's learning-rate schedulers as factors of the rate by step: run ahead on an optimizer without a model, so that a
resumed run has nothing to restore.

`OneCycleLR` and `CyclicLR` advance at every step, as their documentation says; all others once an epoch.
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
_BY_STEP = (OneCycleLR, CyclicLR)


@dataclass(frozen=True, slots=True, eq=False)
class TorchSchedule:
    """A scheduler of torch's, as a function of the step.

    Attributes:
        start: makes the scheduler, as it is before the first step, around an optimizer of its own.
        function: the function that makes it, or a text that says all about one that is given: what a run is known by.
    """

    start: Callable[[], LRScheduler]
    function: Any
    _factors: list[float] = field(default_factory=list)
    _state: list[LRScheduler] = field(default_factory=list)

    def at(self, step: int, steps: int, per_epoch: int) -> float:
        """The factor where `step` of `steps` steps are done, `per_epoch` of them per epoch."""
        if not self._state:
            self._state.append(self.start())
            self._factors.append(self._factor())
        scheduler = self._state[0]
        advanced = step if isinstance(scheduler, _BY_STEP) else step // max(1, per_epoch)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of an optimizer that has made no step
            while len(self._factors) <= advanced:
                scheduler.step()
                self._factors.append(self._factor())
        return self._factors[advanced]

    def _factor(self) -> float:
        group = self._state[0].optimizer.param_groups[0]
        return float(group["lr"]) / float(group["own_lr"])


def is_scheduler(spec: Any) -> bool:
    """Whether it is a scheduler of torch's, its class, or a function of an optimizer that makes one."""
    if isinstance(spec, LRScheduler | ReduceLROnPlateau):
        return True
    made_by = spec.func if isinstance(spec, functools.partial) else spec
    if isinstance(made_by, type):
        return issubclass(made_by, LRScheduler)
    return callable(spec) and _required(spec) == 1


def _required(function: Callable[..., Any]) -> int:
    """How many arguments must be given by their place."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return 2
    places = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(one.kind in places and one.default is inspect.Parameter.empty for one in parameters)


def scheduler_of(spec: Any, lr: float) -> LRScheduler:
    """The scheduler, around an optimizer with that rate; one that is given is copied, and its optimizer is not."""
    if not isinstance(spec, LRScheduler):
        made = spec(_optimizer(lr, lr))
        if not isinstance(made, LRScheduler):
            raise ConfigError(f"schedule made a {type(made).__name__}; it must return a scheduler of torch")
        return made
    group = spec.optimizer.param_groups[0]
    alone = _optimizer(float(group["lr"]), float(group.get("initial_lr", group["lr"])))
    for name, value in group.items():
        if name not in alone.param_groups[0]:
            alone.param_groups[0][name] = value
    return copy.deepcopy(spec, {id(spec.optimizer): alone})


def _optimizer(lr: float, own_lr: float) -> Optimizer:
    optimizer = torch.optim.SGD([torch.zeros(1)], lr=lr, momentum=0.9)
    optimizer.param_groups[0]["own_lr"] = own_lr
    return optimizer


def torch_schedule(spec: Any, lr: float) -> TorchSchedule:
    """A scheduler of torch's as a schedule."""
    known = f"{type(spec).__name__} {spec.state_dict()}" if isinstance(spec, LRScheduler) else spec
    return TorchSchedule(functools.partial(scheduler_of, spec, lr), known)
