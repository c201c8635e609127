"""What `nets train` does with its options."""

import functools
from typing import Any

from ..core.declare.report import with_report
from ..core.memory.cost import Cost
from ..core.memory.plan import Plan
from ..core.runs.context import RunContext
from ..engine.map import map, plan_map
from . import model
from .options import TrainConfig
from .report import report
from .result import NetsResult


def _arguments(config: TrainConfig) -> dict[str, Any]:
    """The arguments of `map` that `plan_map` takes too."""
    return {
        "fn": functools.partial(
            model.train, points=config.points, hidden=config.hidden, steps=config.steps, seed=config.seed
        ),
        "items": model.grid(config.count),
        "budget": config.budget,
        "device": config.device,
        "cluster": config.cluster,
        "cost": Cost(fixed=0, per_unit=model.bytes_per_network(config.points, config.hidden)),
        "name": "nets train",
    }


def plan_train(config: TrainConfig, probe: bool) -> Plan:
    return plan_map(**_arguments(config), probe=probe)


def train(config: TrainConfig, context: RunContext) -> dict[str, Any]:
    mapped = map(**_arguments(config), out=config.out, progress=context.events.emit, cancel=context.cancel)
    result = NetsResult.from_map(mapped)
    return with_report(result.summary(), lambda out: report(result, out), config.out)
