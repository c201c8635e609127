"""Where the data lives while it is read: which tier, decided by arithmetic, and why.

    device   all rows on the device; a batch is one index operation, with no copy from the host and no waiting
    pinned   rows stay in host memory or in their file; batches are gathered on a thread and copied ahead of use
    window   rows are read chunk by chunk, ahead of use, and only a window of chunks is in host memory

On a CPU the tiers are the same, with host memory for the device: all rows in it, or gathered from a file ahead.
"""

from dataclasses import dataclass, replace
from typing import Any

import torch

from ..core.base.errors import BudgetError, ConfigError
from ..core.base.formatting import format_bytes, parse_bytes
from ..core.memory.budget import Budget, BudgetLike
from ..core.memory.cost import MARGIN, Cost
from ..core.memory.limit import MemoryLimit
from ..core.memory.plan import Candidate, Plan, Rejected, choose
from .chunked import chunked
from .dataset import Dataset
from .shuffle.order import Order
from .tiers.staged import AHEAD
from .tiers.window import window_bytes

TIERS = ("device", "pinned", "window")
"""The fastest first."""

_SORTED = {"cpu": 16, "cuda": 56}  # bytes per sample to sort an epoch's order: keys, what sorts them, this epoch's
_IN_MEMORY, _ON_DISK = 2.0, 4.0  # expected time of the pinned tier, and where rows are read one by one from a disk
_WINDOW, _LAST = 3.0, 5.0


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


def room(device: torch.device, budget: BudgetLike = None, reserve: Any = 0) -> Room:
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


@dataclass(frozen=True, slots=True)
class TierOptions:
    """Which tiers may be used.

    Attributes:
        tier: "auto", or the one to use.
        preload: True for the device tier, False for any other, None for whichever is best.
        below: the tier that turned out not to fit; only those after it are left.
        any_window: whether an order without a window may be given one, where all samples do not fit.
    """

    tier: str = "auto"
    preload: bool | None = None
    below: str | None = None
    any_window: bool = True

    def __post_init__(self) -> None:
        if self.tier not in ("auto", *TIERS):
            raise ConfigError(f"tier is {self.tier!r}; use 'auto', {' or '.join(map(repr, TIERS))}")
        if self.preload not in (None, True, False):
            raise ConfigError(f"preload_to_gpu is {self.preload!r}; use True, False or None")
        if self.preload is not None and self.tier != "auto" and self.preload != (self.tier == "device"):
            raise ConfigError(f"preload_to_gpu={self.preload} and tier={self.tier!r} exclude each other; leave one out")

    def unwanted(self, tier: str) -> str | None:
        """Why a tier is not to be used."""
        if self.below is not None and TIERS.index(tier) <= TIERS.index(self.below):
            return "the device ran out of memory in it" if tier == self.below else f"{self.below} did not fit either"
        if self.tier not in ("auto", tier):
            return f"tier={self.tier!r} was asked for"
        if self.preload is not None and self.preload != (tier == "device"):
            return f"preload_to_gpu={self.preload} was asked for"
        return None


def plan_tier(
    rows: Dataset, order: Order, room: Room, options: TierOptions = TierOptions(), ranks: int = 1
) -> tuple[Plan, Order]:
    """The fastest tier that fits; pure. Nothing is loaded: the bytes come from the fields' forms.

    Args:
        rows: the data.
        order: the batches to be split from it.
        room: what the device has.
        options: which tiers may be used.
        ranks: among how many a batch is divided.

    Returns:
        The plan, and the order: where only the window tier fits and no window is given, with the largest that does.
    """
    samples, on_host = len(rows), room.device.type == "cpu"
    batch = rows.batch_bytes(min(samples, -(-order.batch_size // ranks)))
    windowed = order
    if options.any_window and order.shuffle and order.chunk_rows and not order.window:
        window = largest_window(rows, order, room)
        windowed = order if window * order.chunk_rows >= samples else replace(order, window=window)
    candidates, host = _candidates(rows, order, windowed, room, batch, ranks)
    rejected, allowed = [], []
    for name, candidate in candidates.items():
        least = candidate.cost.guarded(samples if name == "device" else 1)
        if (reason := options.unwanted(name)) is not None:
            rejected.append(Rejected(name, least, reason))
        elif not on_host and host[name] > room.host:
            short = f"takes {format_bytes(host[name])} of host memory, which has {format_bytes(room.host)} for it"
            rejected.append(Rejected(name, host[name], short))
        else:
            allowed.append(candidate)
    work = f"loader of {samples:,} samples, {format_bytes(rows.nbytes)}"
    work += f", beside {room.beside}" if room.beside else ""
    try:
        if not allowed:
            raise BudgetError("")
        plan = choose(work, allowed, room.budget)
    except BudgetError as error:
        raise _nothing_fits(rows, options, rejected, str(error), on_host) from error
    chosen = windowed if plan.tier == "window" else order
    if plan.tier == "window" and chosen is not order and ranks > 1:
        raise BudgetError(
            "only the window tier fits, and all ranks must have the same window: give window=, in samples or bytes"
        )
    if chosen.window:
        plan = replace(plan, work=f"{plan.work}, shuffled within {chosen.window * chosen.chunk_rows:,} of them")
    plan = replace(plan, items=samples, batch=min(order.batch_size, samples), steps=order.batches)
    return replace(plan, rejected=plan.rejected + tuple(rejected)), chosen


def _candidates(
    rows: Dataset, order: Order, windowed: Order, room: Room, batch: int, ranks: int
) -> tuple[dict[str, Candidate], dict[str, int]]:
    """What each tier costs, on the device and on the host."""
    samples, on_host = len(rows), room.device.type == "cpu"
    start, stop = order.rows_of(0, ranks)
    copy = 0 if rows.ready(room.device) else rows.nbytes * (stop - start) / samples
    held = rows.held if on_host else 0
    index = (_SORTED[room.device.type] if order.shuffle else 8) * (stop - start)
    dtypes = sorted({str(field.dtype).removeprefix("torch.") for field in rows.fields.values()})
    common: Any = {"devices": (str(room.device),), "precision": ", ".join(dtypes)}
    by_batch: Any = {"items": order.batches, "most": 1, "unit": "batch", **common}
    candidates = {
        "device": Candidate(
            strategy="device",
            tier="device",
            cost=Cost(held + 2 * batch, (copy + index) / samples),
            items=samples,
            divisible=False,
            slowness=1.0,
            **common,
        ),
        "pinned": Candidate(
            strategy="pinned",
            tier="pinned",
            cost=Cost(held, (AHEAD + 2) * batch),
            slowness=_ON_DISK if rows.on_disk and rows.nbytes > room.host else _IN_MEMORY,
            **by_batch,
        ),
    }
    by_chunks = order.chunk_rows > 0 and chunked(rows, order.chunk_rows) is not None
    host = {
        "device": 0 if by_chunks and rows.sequential else rows.held + (AHEAD + 2) * batch,
        "pinned": rows.held + (AHEAD + 2) * batch,
    }
    if by_chunks:
        window, ahead, block = window_bytes(rows, windowed, ranks)
        parts = (("window", window), ("chunks ahead", ahead), ("batches to sort", block))
        fixed = 0 if rows.sequential else held
        candidates["window"] = Candidate(
            strategy="window",
            tier="window",
            cost=Cost(fixed + (window + ahead + block if on_host else 0), (AHEAD + 2) * batch),
            slowness=_WINDOW if windowed is order else _LAST,  # a full shuffle wherever it fits
            parts=tuple(part for part in parts if part[1]) if on_host else (),
            **by_batch,
        )
        host["window"] = window + ahead + block + (0 if rows.sequential else rows.held) + (AHEAD + 2) * batch
    return candidates, host


def largest_window(rows: Dataset, order: Order, room: Room) -> int:
    """The chunks of the largest window that takes no more than half of the host memory there is; 1 at least."""
    limit = (min(room.host, room.budget) if room.device.type == "cpu" else room.host) / 2
    chunk, ahead, block = window_bytes(rows, replace(order, window=1), 1)
    left = limit / (1 + MARGIN) - ahead - block - (AHEAD + 2) * rows.batch_bytes(min(len(rows), order.batch_size)) - 1
    chunks = -(-len(rows) // order.chunk_rows)
    return max(1, min(chunks, (int(left // chunk) - 1) | 1))


def _nothing_fits(
    rows: Dataset, options: TierOptions, rejected: list[Rejected], error: str, on_host: bool
) -> BudgetError:
    if not error:  # no candidate was left for the device
        reasons = [other.reason for other in rejected if other.reason.startswith("takes")] or ["fits no tier"]
        return BudgetError(
            f"reading this source {reasons[0]}. Use a .npy file, which is read row by row, a smaller window or a "
            "smaller batch_size"
        )
    forced = options.tier == "device" or options.preload is True
    advice = "tier='auto', a smaller batch_size" if forced else "a smaller batch_size"
    held = rows.held if on_host else 0
    kept = f", {format_bytes(held)} of it to read the file at all (a .npy file needs none)" if held else ""
    return BudgetError(f"{error} The data is {format_bytes(rows.nbytes)}{kept}; {advice} or reserve helps.")
