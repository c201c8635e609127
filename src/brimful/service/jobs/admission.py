"""Which of the jobs that wait may start now: a pure function of what is there, what is leased, the queue and the clock.

- Never over: what is leased, with what starts, is inside the capacity on every device, in host memory and in cores.
- Order: by priority, which rises while a job waits (a point every `AGEING` seconds), then by time in the queue. Of two
  jobs with equal needs and priorities the earlier starts first.
- A job that does not fit lets smaller ones pass for `PATIENCE` seconds. Then room is reserved for it: on one device,
  others start only where they fit beside it, those among them that started since. When the leases from before have
  ended, it fits. So a large job waits for those that ran when its patience ended, and for no later ones.
- A job that could not run on an idle machine waits and holds nobody up: a device may be added, or the budget raised.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ...core.base.formatting import format_bytes
from .lease import CPU, Amount, Capacity, Demand, Lease, total

AGEING = 60.0
PATIENCE = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """A job in the queue, since `since` (seconds since 1970)."""

    job: str
    demand: Demand
    priority: int = 0
    since: float = 0.0


@dataclass(frozen=True, slots=True)
class Decision:
    """The leases of jobs that start now, in that order, and why each other job waits, in a sentence."""

    started: tuple[Lease, ...]
    waiting: dict[str, str]


def order(queue: Iterable[Waiting], clock: float) -> list[Waiting]:
    """The queue, the next first."""
    return sorted(queue, key=lambda one: (-(one.priority + (clock - one.since) / AGEING), one.since, one.job))


def admit(capacity: Capacity, leases: Sequence[Lease], queue: Iterable[Waiting], clock: float) -> Decision:
    """Decides which jobs start at a moment.

    Args:
        capacity: what may be leased altogether, of what is there now.
        leases: of jobs that run; they may exceed the capacity where that was lowered.
        queue: the jobs that wait.
        clock: now, in seconds since 1970.
    """
    started: list[Lease] = []
    waiting: dict[str, str] = {}
    refused: dict[Demand, str] = {}  # room only shrinks on the way down the queue
    reserved: _Reservation | None = None
    used = total(lease.amount for lease in leases)
    for one in order(queue, clock):
        demand = one.demand
        if demand in refused:
            waiting[one.job] = refused[demand]
            continue
        possible = demand.possible(capacity)
        fitting = [(devices, amount) for devices, amount in possible if amount.fits(used, capacity)]
        room = [
            (devices, amount) for devices, amount in fitting if reserved is None or reserved.leaves(amount, capacity)
        ]
        if room:
            devices, amount = max(room, key=lambda choice: _free(choice[0], used, capacity))
            started.append(Lease(job=one.job, devices=devices, demand=demand, since=clock))
            used = used + amount
            reserved = reserved and reserved.beside(amount)
        elif not possible:
            waiting[one.job] = refused[demand] = too_large(demand, capacity)[0][1]
        elif fitting and reserved is not None:
            waiting[one.job] = refused[demand] = (
                f"the room that is free is reserved for job {reserved.job}, which has waited longer"
            )
        else:
            waiting[one.job] = refused[demand] = _busy(demand, used, capacity)
            if reserved is None and clock - one.since >= PATIENCE:
                reserved = _reserve(one, [*leases, *started], capacity)
    return Decision(tuple(started), waiting)


@dataclass(frozen=True, slots=True)
class _Reservation:
    """Room for a job, and what started since it was made and runs beside it."""

    job: str
    amount: Amount
    since: Amount

    def leaves(self, amount: Amount, capacity: Capacity) -> bool:
        """Whether the job still fits when that starts too, once the leases from before have ended."""
        return amount.fits(self.amount + self.since, capacity)

    def beside(self, amount: Amount) -> "_Reservation":
        return _Reservation(self.job, self.amount, self.since + amount)


def _reserve(one: Waiting, leases: Sequence[Lease], capacity: Capacity) -> _Reservation:
    """Room on the devices where the least has started since the job's patience ended."""
    later = total(lease.amount for lease in leases if lease.since >= one.since + PATIENCE)
    possible = sorted(
        one.demand.possible(capacity), key=lambda choice: sum(later.bytes.get(name, 0) for name in choice[0])
    )
    fitting = (amount for _, amount in possible if amount.fits(later, capacity))
    return _Reservation(one.job, next(fitting, possible[0][1]), later)


def _free(devices: tuple[str, ...], used: Amount, capacity: Capacity) -> int:
    """Bytes left where least is left."""
    return min(capacity.bytes[name] - used.bytes.get(name, 0) for name in devices)


def too_large(demand: Demand, capacity: Capacity) -> list[tuple[str, str]]:
    """Why a job could not run on an idle machine: each thing that it needs too much of ("device", "cores" or "budget"),
    and a sentence. Nothing of others."""
    placements = demand.placements(capacity)
    if demand.possible(capacity):
        return []
    if not placements:
        names = ", ".join(capacity.bytes) or "none"
        return [("device", f"there is no device {demand.device!r} for it now; there are {names}")]
    reasons = []
    if demand.cores > capacity.cores:
        reasons.append(("cores", f"it needs {demand.cores} cores, and jobs may use {capacity.cores}; ask for fewer"))
    largest = max(min(capacity.bytes.get(name, 0) for name in devices) for devices in placements)
    need = max(demand.amount(devices).bytes[CPU] for devices in placements)
    host = capacity.bytes.get(CPU, 0)
    if demand.device_bytes > largest:
        message = (
            f"it needs {format_bytes(demand.device_bytes)} on a device, and the largest budget is "
            f"{format_bytes(largest)}; ask for less, or raise the server's budget"
        )
        reasons.append(("budget", message))
    elif need > host:
        message = f"it needs {format_bytes(need)} of host memory, and jobs may use {format_bytes(host)}; ask for less"
        reasons.append(("budget", message))
    return reasons


def _busy(demand: Demand, used: Amount, capacity: Capacity) -> str:
    if used.cores + demand.cores > capacity.cores:
        free, cores = max(0, capacity.cores - used.cores), f"{demand.cores} core{'s' * (demand.cores != 1)}"
        return f"it needs {cores}, and {free} {'is' if free == 1 else 'are'} free; it waits for others"
    placements = demand.placements(capacity)
    free = max(0, max(_free(devices, used, capacity) for devices in placements))
    if demand.device_bytes > free:
        return (
            f"it needs {format_bytes(demand.device_bytes)} on a device, and {format_bytes(free)} are free; it waits "
            "for others"
        )
    return f"it needs {format_bytes(demand.host_bytes)} of host memory beside its device; it waits for others"
