"""The registration: a name and its commands."""

from collections.abc import Mapping
from typing import Any

import brimful
from brimful.workloads import Command, RunContext, Workload

from . import model
from .options import FitConfig
from .result import RidgeResult
from .store import load, save


def plan(config: FitConfig, probe: bool) -> brimful.Plan:
    items = model.tasks(config.count, config.seed)
    return brimful.plan_map(
        model.solve, items, budget=config.budget, device=config.device, name="ridge fit", probe=probe
    )


def run(config: FitConfig, context: RunContext) -> Mapping[str, Any]:
    mapped = brimful.map(
        model.solve,
        model.tasks(config.count, config.seed),
        budget=config.budget,
        device=config.device,
        out=config.out,
        name="ridge fit",
        progress=context.events.emit,
        cancel=context.cancel,
    )
    result = RidgeResult.from_map(mapped)
    if config.out is not None:
        save(result, config.out)
    return result.summary()


WORKLOAD = Workload(
    "ridge",
    "Many ridge regressions at once.",
    (Command("fit", "Solve one ridge regression per task.", FitConfig, run, plan=plan, job=True, stores=True),),
    load=load,
)
