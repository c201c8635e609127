"""Where the data lives while it is read: which tier, decided by arithmetic, and why.

    device   all rows on the device; a batch is one index operation, with no copy from the host and no waiting
    pinned   rows stay in host memory or in their file; batches are gathered on a thread and copied ahead of use

On a CPU the tiers are the same, with host memory for the device: all rows in it, or gathered from a file ahead.
"""

from dataclasses import dataclass, replace
from typing import Any

import torch

from ..core.base.errors import BudgetError, ConfigError
from ..core.base.formatting import format_bytes, parse_bytes
from ..core.memory.budget import Budget
from ..core.memory.cost import Cost
from ..core.memory.limit import MemoryLimit
from ..core.memory.plan import Candidate, Plan, Rejected, choose
from .dataset import Dataset
from .shuffle.order import Order

TIERS = ("device", "pinned")
AHEAD = 2
"""Batches that the pinned tier has on their way besides the one in use."""


@dataclass(frozen=True, slots=True)
class Room:
    """What a device has for data.

    Attributes:
        device: which.
        budget: bytes that the data may take.
        beside: what else counts against the budget, in words; empty where there is nothing.
        host: bytes of host memory that may be taken for it; what `budget` says where the device is the host.
    """

    device: torch.device
    budget: int
    beside: str = ""
    host: int = 2**62


def room(device: torch.device, budget: Any = None, reserve: Any = 0) -> Room:
    """What the budget leaves for data on a device: less what is in use there now, less what is reserved."""
    parsed = Budget.parse(budget)
    memory_limit = MemoryLimit(parsed, device)
    kept = _bytes(reserve)
    used = memory_limit.used() if device.type == "cuda" else 0  # on a CPU the budget begins where the process is now
    left = memory_limit.available() - used - kept
    counted = ((used, "in use"), (kept, "reserved"))
    beside = " and ".join(f"{format_bytes(count)} {word}" for count, word in counted if count)
    if left <= 0:
        raise BudgetError(
            f"the budget on {device} is {format_bytes(memory_limit.available())}, and {beside or 'what others hold'} "
            "leaves nothing for data. Use a larger budget or a smaller reserve, or free some memory"
        )
    if device.type == "cpu":
        return Room(device, left, beside, left)
    host = torch.device("cpu")
    return Room(device, left, beside, MemoryLimit(parsed if parsed.by_device else None, host).available())


def _bytes(reserve: Any) -> int:
    count = parse_bytes(reserve) if isinstance(reserve, str) else reserve
    if not isinstance(count, int) or isinstance(count, bool) or count < 0:
        raise ConfigError(f'reserve is {reserve!r}; give bytes to leave for the model, such as "2GB" or 0')
    return count


def plan_tier(rows: Dataset, order: Order, room: Room, tier: str = "auto", ranks: int = 1) -> Plan:
    """The fastest tier that fits; pure. Nothing is loaded: the bytes come from the fields' forms.

    Args:
        rows: the data.
        order: the batches to be cut from it.
        room: what the device has.
        tier: "auto", or the one to use.
        ranks: among how many a batch is divided.
    """
    if tier not in ("auto", *TIERS):
        raise ConfigError(f"tier is {tier!r}; use 'auto', {' or '.join(map(repr, TIERS))}")
    samples, batch = len(rows), min(len(rows), -(-order.batch_size // ranks))
    batch_bytes, on_host = rows.batch_bytes(batch), room.device.type == "cpu"
    copy = 0 if rows.ready(room.device) else rows.nbytes
    held = rows.held if on_host else 0
    needs = rows.held + (AHEAD + 2) * batch_bytes
    if not on_host and needs > room.host:
        raise BudgetError(
            f"reading this source takes {format_bytes(needs)} of host memory, which has {format_bytes(room.host)} for "
            "it. Use a .npy file, which is read row by row, or a smaller batch_size"
        )
    index = 8 * samples / ranks  # the epoch's order lies on the device too
    dtypes = sorted({str(field.dtype).removeprefix("torch.") for field in rows.fields.values()})
    common: Any = {"devices": (str(room.device),), "precision": ", ".join(dtypes)}
    candidates = {
        "device": Candidate(
            strategy="device",
            tier="device",
            cost=Cost(held + 2 * batch_bytes, (copy + index) / samples),
            items=samples,
            divisible=False,
            slowness=1.0,
            **common,
        ),
        "pinned": Candidate(
            strategy="pinned",
            tier="pinned",
            cost=Cost(held, (AHEAD + 2) * batch_bytes),
            items=order.batches,
            most=1,
            unit="batch",
            slowness=2.0,
            **common,
        ),
    }
    allowed = [candidate for name, candidate in candidates.items() if tier in ("auto", name)]
    work = f"loader of {samples:,} samples" + (f", beside {room.beside}" if room.beside else "")
    try:
        plan = choose(work, allowed, room.budget)
    except BudgetError as error:
        advice = "a smaller batch_size" if tier != "device" else "tier='auto', a smaller batch_size"
        kept = f", {format_bytes(held)} of it to read the file at all (a .npy file needs none)" if held else ""
        raise BudgetError(
            f"{error} The data is {format_bytes(rows.nbytes)}{kept}; {advice} or reserve helps."
        ) from error
    plan = replace(plan, items=samples, batch=min(order.batch_size, samples), steps=order.batches)
    unwanted = tuple(
        Rejected(name, candidate.cost.guarded(samples if name == "device" else 1), f"tier={tier!r} was asked for")
        for name, candidate in candidates.items()
        if candidate not in allowed
    )
    return replace(plan, rejected=plan.rejected + unwanted)
