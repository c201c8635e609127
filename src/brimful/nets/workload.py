"""`brimful nets`: a small, whole example of a workload, and the demonstration of `map`."""

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..core.declare.config import Common, option
from ..core.declare.registry import Command, Workload
from ..core.memory.cost import Cost
from ..core.memory.plan import Plan
from ..core.runs.context import RunContext
from ..engine.map import map, plan_map
from . import model


@dataclass(frozen=True, kw_only=True)
class TrainConfig(Common):
    """Options of `nets train`."""

    count: int = option(10_000, help="how many networks", ge=1)
    hidden: int = option(16, help="hidden units of a network", ge=1, le=4096)
    points: int = option(16, help="points that each network learns", ge=1, le=100_000)
    steps: int = option(200, help="steps of gradient descent", ge=1)


def _function(config: TrainConfig) -> functools.partial:
    return functools.partial(
        model.train, points=config.points, hidden=config.hidden, steps=config.steps, seed=config.seed
    )


def _formula(config: TrainConfig) -> Cost:
    return Cost(fixed=0, per_unit=model.bytes_per_network(config.points, config.hidden))


def plan(config: TrainConfig, probe: bool) -> Plan:
    items = model.grid(config.count)
    return plan_map(
        _function(config),
        items,
        budget=config.budget,
        device=config.device,
        cost=_formula(config),
        name="nets train",
        probe=probe,
    )


def run(config: TrainConfig, context: RunContext) -> Mapping[str, Any]:
    from .report import draw

    result = map(
        _function(config),
        model.grid(config.count),
        budget=config.budget,
        device=config.device,
        cost=_formula(config),
        name="nets train",
        out=config.out,
        progress=context.events.emit,
    )
    values = result.values
    loss = np.asarray(values["loss"]) if values is not None else np.array([])
    summary: dict[str, Any] = {
        "networks": len(loss),
        "diverged": int((result.status == model.DIVERGED).sum()),
        "median_loss": float(np.median(loss[np.isfinite(loss)])) if np.isfinite(loss).any() else None,
        "batch": result.plan.batch,
        "seconds": result.seconds,
        "networks_per_second": result.rate,
        "predicted_peak_bytes": result.predicted,
        "observed_peak_bytes": result.observed,
        "budget_bytes": result.plan.budget,
        "picture": None,
    }
    if config.out is not None:
        summary["picture"] = str(draw(loss, Path(config.out)))
    return summary


WORKLOAD = Workload(
    name="nets",
    help="Thousands of tiny networks trained side by side: a map of where training works.",
    commands=(
        Command(
            name="train",
            help="Train one network for each pair of learning rates, and draw where training works.",
            config=TrainConfig,
            plan=plan,
            run=run,
            job=True,
        ),
    ),
)
