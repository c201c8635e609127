"""What a job needs: from the budget that its request names, or the smallest good one that its plan tells."""

from ...core.memory.budget import SMALLEST, Budget
from ..jobs.description import CommandDescription
from ..jobs.job import JobRequest
from ..jobs.lease import CPU, Capacity, Demand

HOST_BYTES = 600_000_000
"""Host memory of a process with torch and a workload, beside its budget."""

_SHARE = 4  # of a device, for a command that has a budget and no plan


def demand_of(
    request: JobRequest, command: CommandDescription, named: str, capacity: Capacity, planned: int | None
) -> Demand | None:
    """What a job needs; None where only a plan can tell.

    Args:
        named: the device that its options name.
        planned: bytes that the plan said.
    """
    device = named if command.has("device") else CPU
    unplaced = Demand(device=device)
    on_host = all(devices == (CPU,) for devices in unplaced.placements(capacity) or [()])
    cores = request.cores or (max(1, capacity.cores // 2) if on_host and command.has("device") else 1)
    cores = min(cores, capacity.cores) if request.cores is None else cores
    if not command.has("budget"):
        return Demand(device=device, host_bytes=HOST_BYTES, cores=cores)
    largest = largest_budget(device, capacity)
    budget = Budget.parse(request.budget)
    if budget.bytes is not None:
        bytes = budget.bytes
    elif budget.share is not None:
        bytes = int(budget.share * largest)
    elif planned is not None:
        bytes = planned
    elif command.plans:
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
