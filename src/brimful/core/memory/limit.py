"""A budget in force on a live device: enforced while open, and free memory read again before each batch."""

import contextlib
import math
import threading
import time
from collections.abc import Callable, Iterator
from typing import Self

import torch

from ..base.errors import BudgetError
from ..base.formatting import format_bytes
from . import devices
from .budget import Budget, BudgetLike
from .devices import Memory


class MemoryLimit:
    """A budget in force on a live device: enforced while open, and free memory read again before each batch.

    On CUDA the allocator itself refuses to reserve past the limit; the limit that was set before is put back
    at the end, and is never raised. On a CPU nothing can refuse in time (Linux hands out memory it does not
    have), so there the budget means bytes above the process's level at the start, planned and watched.

    Args:
        budget: anything `Budget.parse` reads.
        device: a device as `devices.resolve` gives it.
        read: how to read the device's memory; tests bring their own.
        every: seconds for which a reading holds, for loops whose batches are shorter than that.

    Example:
        >>> import torch
        >>> with MemoryLimit("512MB", torch.device("cpu")) as memory_limit:
        ...     memory_limit.available() <= memory_limit.bytes
        True
    """

    def __init__(
        self,
        budget: BudgetLike,
        device: torch.device,
        read: Callable[[torch.device], Memory] = devices.memory,
        every: float = 0.0,
    ) -> None:
        self.device = device
        self._read, self._every = read, every
        self._available, self._read_at = 0, -math.inf
        now = read(device)
        self.baseline = now.own if device.type == "cpu" else 0
        self.headroom = min(512 * 2**20, now.total // 50)
        self.bytes = Budget.parse(budget).on(device).limit(now, held=now.own - self.baseline)
        self._undo = contextlib.ExitStack()

    def used(self) -> int:
        """Bytes in use now that count against the budget."""
        return max(0, self._read(self.device).own - self.baseline)

    def available(self) -> int:
        """What the next batch may use: the limit, or less where neighbors hold the device's memory."""
        if time.monotonic() - self._read_at >= self._every:
            now = self._read(self.device)
            reachable = now.free + max(0, now.own - self.baseline) - self.headroom
            self._available, self._read_at = max(0, min(self.bytes, reachable)), time.monotonic()
        return self._available

    def excess(self, observed: int) -> str | None:
        """What to say of a peak beyond the budget; None where it was kept."""
        if observed <= self.bytes:
            return None
        over = format_bytes(observed - self.bytes)
        return f"the peak was {format_bytes(observed)}, {over} over the budget of {format_bytes(self.bytes)}"

    def contended(self) -> bool:
        """Whether others hold so much that waiting for them may help. A little is always held: by the system, by the
        headroom."""
        return self.available() < 0.8 * self.bytes

    def __enter__(self) -> Self:
        if self.device.type == "cuda":
            if (held := devices.allocated(self.device)) >= self.bytes:
                raise BudgetError(
                    f"this process holds {format_bytes(held)} of {self.device} already, and the budget of "
                    f"{format_bytes(self.bytes)} counts that too. Delete the tensors that are not needed, or name a "
                    f"budget well above {format_bytes(held)}."
                )
            self.bytes = self._undo.enter_context(_cuda_limit(self.bytes, self.device))
        return self

    def __exit__(self, *error: object) -> None:
        self._undo.close()


_open_limits: dict[torch.device, list[float]] = {}  # the allocator's own first, then those of open memory limits
_limits_lock = threading.Lock()


@contextlib.contextmanager
def _cuda_limit(limit: int, device: torch.device) -> Iterator[int]:
    """Sets the allocator's limit, and gives the one in force: the lowest of all that are open on the device, in any
    thread. When the last ends, the limit is what it was before the first."""
    total = torch.cuda.mem_get_info(device)[1]
    fraction = math.nextafter(min(1.0, limit / total), 0.0)
    if devices.reserved(device) > limit:
        devices.release_cache(device)
    with _limits_lock:
        limits = _open_limits.setdefault(device, [torch.cuda.get_per_process_memory_fraction(device)])
        limits.append(fraction)
        lowest = min(limits)
        torch.cuda.set_per_process_memory_fraction(lowest, device)
    try:
        yield limit if fraction == lowest else int(lowest * total)
    finally:
        with _limits_lock:
            limits.remove(fraction)
            torch.cuda.set_per_process_memory_fraction(min(limits), device)
            if len(limits) == 1:
                del _open_limits[device]
