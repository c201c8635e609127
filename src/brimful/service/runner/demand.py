"""What a job needs: from the budget that its request names, or the smallest good one that its plan tells.

Planning may read data and use a device, so it is done in a process of its own.
"""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

from ...core.base.errors import BrimfulError, ConfigError
from ...core.declare import config as declared
from ...core.declare.registry import Command
from ...core.memory.budget import SMALLEST, Budget
from ..child.parent import PARENT
from ..jobs.job import JobRequest
from ..jobs.lease import CPU, Capacity, Demand

HOST_BYTES = 600_000_000
"""Host memory of a process with torch and a workload, beside its budget."""

_SHARE = 4  # of a device, for a command that has a budget and no plan
_PATIENCE = 300.0


def demand_of(
    request: JobRequest, command: Command, config: Mapping[str, Any], capacity: Capacity, planned: int | None
) -> Demand | None:
    """What a job needs; None where only a plan can tell.

    Args:
        config: its options, paths resolved.
        planned: bytes that the plan said.
    """
    names = {info.name for info in declared.describe(command.config)}
    device = _device(command, config) if "device" in names else CPU
    unplaced = Demand(device=device)
    on_host = all(devices == (CPU,) for devices in unplaced.placements(capacity) or [()])
    cores = request.cores or (max(1, capacity.cores // 2) if on_host and "device" in names else 1)
    cores = min(cores, capacity.cores) if request.cores is None else cores
    if "budget" not in names:
        return Demand(device=device, host_bytes=HOST_BYTES, cores=cores)
    largest = largest_budget(device, capacity)
    budget = Budget.parse(request.budget)
    if budget.bytes is not None:
        bytes = budget.bytes
    elif budget.share is not None:
        bytes = int(budget.share * largest)
    elif planned is not None:
        bytes = planned
    elif command.plan is not None:
        return None
    else:
        bytes = largest // _SHARE
    return Demand(device=device, device_bytes=max(SMALLEST, bytes), host_bytes=HOST_BYTES, cores=cores)


def largest_budget(device: str, capacity: Capacity) -> int:
    """The most that a job can lease on each of its devices; of the host's memory, what is left beside its process."""
    sizes = []
    for devices in Demand(device=device).placements(capacity):
        sizes.append(min(capacity.bytes[name] - (HOST_BYTES if name == CPU else 0) for name in devices))
    return max([SMALLEST, *sizes])


def _device(command: Command, config: Mapping[str, Any]) -> str:
    """What a config names; `where`, for a config that has several options for it."""
    try:
        built = declared.build(command.config, dict(config))
    except BrimfulError:
        return str(config.get("device") or "auto")
    return str(getattr(built, "where", None) or getattr(built, "device", None) or "auto")


def plan(request: JobRequest, config: Mapping[str, Any], environment: Mapping[str, str], **more: Any) -> dict[str, Any]:
    """{"plan", "text", "device_bytes"} of a request, planned in a process of its own.

    Args:
        more: `device`, `most` and `budget`, see `child.plan`.

    Raises:
        ConfigError: it cannot be planned; the message says why.
    """
    order = {"workload": request.workload, "command": request.command, "config": dict(config), **more}
    try:
        done = subprocess.run(
            [sys.executable, "-m", "brimful.service.child", "plan"],
            input=json.dumps(order).encode(),
            capture_output=True,
            timeout=_PATIENCE,
            env={**os.environ, **environment, PARENT: str(os.getpid())},
            start_new_session=True,
        )
        answer = json.loads(done.stdout)
    except subprocess.TimeoutExpired as error:
        raise ConfigError(f"planning took longer than {_PATIENCE:.0f} seconds; name a budget instead") from error
    except ValueError as error:
        last = (done.stderr.decode(errors="replace").strip().splitlines() or ["it said nothing"])[-1]
        raise ConfigError(f"it cannot be planned: {last}. Name a budget, and see what its run says") from error
    if "error" in answer:
        raise ConfigError(answer["message"])
    return answer
