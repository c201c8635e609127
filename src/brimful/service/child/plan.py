"""Plans a job without running it: a budget for it where its request names none.

The smallest good budget: the plan that it gives has the strategy, the data tier and the recomputation of the plan for
all that jobs may lease on a device, and steps of at least an eighth of the size; a little more is then leased.
"""

import json
import sys
import warnings
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
    """The plan, and bytes to lease for it.

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
    return best, min(most, max(_LEAST, int(_MARGIN * bytes)))


def main() -> int:
    """Reads a request from standard input, {"workload", "command", "config", "device", "most", "budget"}, and prints
    {"plan", "text", "device_bytes"} or {"error", "message"}."""
    request = json.load(sys.stdin)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            answer = _answer(request)
        except BrimfulError as error:
            answer = {"error": type(error).__name__, "message": str(error)}
    print(json.dumps(answer))
    return 0


def _answer(request: dict[str, Any]) -> dict[str, Any]:
    command = registry.load(request["workload"]).command(request["command"])
    names = {info.name for info in declared.describe(command.config)}
    if command.plan is None or "budget" not in names:
        return {"plan": None, "text": None, "device_bytes": None}
    explain, values = command.plan, dict(request["config"])
    if request.get("device"):
        values["device"] = request["device"]

    def plan(bytes: int) -> Plan:
        return explain(declared.build(command.config, values | {"budget": f"{bytes} B"}), False)

    given = request.get("budget")
    made, bytes = smallest_good(plan, request["most"]) if given is None else (plan(given), given)
    return {"plan": made.to_dict(), "text": made.explain(), "device_bytes": bytes}
