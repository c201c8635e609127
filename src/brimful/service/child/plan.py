"""Plans a job without running it: a budget for it where its request names none.

The smallest good budget: the plan that it gives has the strategy, the data tier and the recomputation of the plan for
all that jobs may lease on a device, and steps of at least an eighth of the size; a little more is then leased.
"""

from collections.abc import Callable
from typing import Any

from ...core.base.errors import BrimfulError
from ...core.declare import config as declared
from ...core.declare import registry
from ...core.memory.budget import SMALLEST
from ...core.memory.plan import Plan

_SMALLER = 8
_MARGIN = 1.1
_LEAST = 512_000_000  # bytes: what a plan does not see, such as libraries' workspaces, is a large part of less


def smallest_good(plan: Callable[[int], Plan], most: int) -> tuple[Plan, int]:
    """Bytes to lease, and the plan that a job with that lease makes.

    Args:
        plan: gives the plan for a budget, or raises `BrimfulError` where nothing fits.
        most: the largest budget there is.
    """
    best, bytes = plan(most), most
    whole = best
    while bytes // 2 >= SMALLEST:
        try:
            smaller = plan(bytes // 2)
        except BrimfulError:
            break
        kind = (smaller.strategy, smaller.tier, smaller.recompute)
        if kind != (whole.strategy, whole.tier, whole.recompute) or smaller.batch * _SMALLER < whole.batch:
            break
        best, bytes = smaller, bytes // 2
    leased = min(most, max(_LEAST, int(_MARGIN * bytes)))
    return (best if leased == bytes else plan(leased)), leased


def plan(
    workload: str, command: str, config: dict[str, Any], most: int, device: str | None = None, budget: int | None = None
) -> dict[str, Any]:
    """{"plan", "text", "device_bytes"} of a job; None each, where its command has nothing to plan.

    Args:
        device: in place of the config's.
        most: the largest budget there is.
        budget: of the request; by default the smallest good one.
    """
    declaration = registry.load(workload).command(command)
    names = {info.name for info in declared.describe(declaration.config)}
    if declaration.plan is None or "budget" not in names:
        return {"plan": None, "text": None, "device_bytes": None}
    explain, values = declaration.plan, dict(config) | ({"device": device} if device else {})

    def plan_for(bytes: int) -> Plan:
        return explain(declared.build(declaration.config, values | {"budget": f"{bytes} B"}), False)

    made, bytes = smallest_good(plan_for, most) if budget is None else (plan_for(budget), budget)
    return {"plan": made.to_dict(), "text": made.explain(), "device_bytes": bytes}
