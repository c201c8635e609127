"""A made-up workload, declared the way real ones are."""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from brimful.core.base.errors import BrimfulWarning, BudgetError
from brimful.core.declare.config import DeviceOptions, OutOptions, SeedOptions, option, to_dict
from brimful.core.declare.registry import Command, Workload
from brimful.core.memory.budget import Budget
from brimful.core.memory.cost import Cost
from brimful.core.memory.devices import Memory
from brimful.core.memory.plan import Candidate, Plan, choose
from brimful.core.runs.context import RunContext
from brimful.core.runs.events import Finished, Started

MACHINE = Memory(total=16 * 10**9, free=10 * 10**9, own=0)


@dataclass(frozen=True, kw_only=True)
class Fit(SeedOptions, DeviceOptions, OutOptions):
    points: int = option(40, help="points per task", ge=1, le=1000)
    rate: float = option(0.1, help="learning rate", gt=0, lt=1)
    kernel: str = option("rbf", help="the kernel", choices=("rbf", "matern"))
    train_kernel_size: int = option(3, help="a name with underscores", ge=1)
    fused: bool = option(True, help="use the fused kernel")
    limit: int | None = option(None, help="at most this many tasks", ge=1)
    data: Path | None = option(None, help="where the tasks are")


@dataclass(frozen=True, kw_only=True)
class Predict(DeviceOptions):
    model: Path = option(help="a fitted model")
    name: str = option("x", help="what to call it", metavar="NAME")


@dataclass(frozen=True, kw_only=True)
class Fail:
    kind: str = option("budget", help="how", choices=("budget", "crash", "stop", "interrupt", "warn"))


def plan(config: Fit, probe: bool) -> Plan:
    cost = Cost(10**8, config.points * 10**6, source="probe" if probe else "formula")
    return choose(
        "made fit",
        [
            Candidate(strategy="whole", cost=cost, items=1000, divisible=False),
            Candidate(strategy="batched", cost=cost, items=1000, slowness=2.0),
        ],
        Budget.parse(config.budget).limit(MACHINE),
    )


def fit(config: Fit, context: RunContext) -> Mapping[str, Any]:
    context.events.emit(Started(work="made fit", items=1000, done=0, budget=10**9))
    context.events.emit(Finished(state="finished", done=1000, bad=0, seconds=1.5))
    return {"items": 1000, "mean_loss": 0.25, "config": to_dict(config)}


def predict(config: Predict, context: RunContext) -> Mapping[str, Any]:
    return {"model": str(config.model)}


def fail(config: Fail, context: RunContext) -> Mapping[str, Any]:
    match config.kind:
        case "budget":
            raise BudgetError("one item needs 3 GB; the budget is 2 GB")
        case "crash":
            raise ZeroDivisionError("by nothing")
        case "stop":
            raise KeyboardInterrupt
        case "interrupt":
            context.events.emit(Started(work="made fail", items=9, done=0, budget=10**9))
            context.events.emit(Finished(state="interrupted", done=3, bad=0, seconds=1.5, message="3 items are kept"))
            raise KeyboardInterrupt("interrupted after 3 items; 3 items are kept")
    warnings.warn("the budget was clamped", BrimfulWarning, stacklevel=1)
    return {"done": True}


WORKLOAD = Workload(
    "made",
    "A made-up workload.",
    (
        Command("fit", "Fits made-up tasks.", Fit, fit, plan=plan, job=True),
        Command("predict", "Predicts from a model.", Predict, predict),
        Command("fail", "Fails, one way or another.", Fail, fail),
    ),
)
