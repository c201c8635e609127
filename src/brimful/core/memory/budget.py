"""The budget: how many bytes the work may use, and holding it to that on a live device."""

import contextlib
import math
import numbers
import re
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Self

import torch

from ..base.errors import BrimfulWarning, BudgetError
from ..base.units import parse_bytes, show_bytes
from . import devices
from .devices import Memory

SMALLEST = 1_000_000
"""A budget under one megabyte is refused: it is a slip (8 for "8GB") far more often than a wish."""

_UNSAID = 0.9  # of what is free, when no budget is named
_FORMS = 'Use a size such as "8GB", "8GiB" or "512MB", a share such as "80%", a count of bytes, or None.'


@dataclass(frozen=True, slots=True)
class Budget:
    """How many bytes may be used on a device.

    | what you say            | what it means                                            |
    |-------------------------|----------------------------------------------------------|
    | `"8GB"`, `"512MB"`      | decimal bytes: 8,000,000,000                             |
    | `"8GiB"`                | binary bytes: 8,589,934,592                              |
    | `"80%"`                 | that share of the device's (or container's) total        |
    | `8_000_000_000`         | bytes                                                    |
    | `None`                  | 90% of what is free when the work starts                 |
    | `{"cuda:0": "8GB", "cpu": "50%"}` | each device its own; one not named gets None's |

    Zero, a negative or unparsable amount, or less than 1 MB, is a `BudgetError`. More than the device has is
    a warning, and the device's total is used.

    Example:
        >>> Budget.parse("8GB").bytes
        8000000000
    """

    bytes: int | None = None
    share: float | None = None
    each: tuple[tuple[str, "Budget"], ...] = ()

    @classmethod
    def parse(cls, spec: Any) -> Self:
        """Reads any of the forms in the table above."""
        if isinstance(spec, cls):
            return spec
        if spec is None:
            return cls()
        if isinstance(spec, Mapping):
            return cls(each=tuple((_device(name), _part(part)) for name, part in spec.items()))
        if isinstance(spec, str) and spec.strip().endswith("%"):
            return cls(share=_share(spec))
        return cls(bytes=_amount(spec))

    def on(self, device: torch.device | str) -> "Budget":
        """The part of this budget that applies to one device."""
        if not self.each:
            return self
        exact, kind = str(device), str(device).split(":")[0]
        table = dict(self.each)
        return table.get(exact) or table.get(kind) or Budget()

    def limit(self, memory: Memory, held: int | None = None) -> int:
        """The most bytes this budget allows on a device with that memory; pure.

        Args:
            memory: the device's memory at the start of the work.
            held: what of `memory.own` counts against the budget (all of it unless said).
        """
        if self.bytes is not None:
            if self.bytes <= memory.total:
                return self.bytes
            warnings.warn(
                f"the budget is {show_bytes(self.bytes)} but the device has {show_bytes(memory.total)}; "
                f"using {show_bytes(memory.total)}",
                BrimfulWarning,
                stacklevel=2,
            )
            return memory.total
        if self.share is not None:
            return int(memory.total * self.share)
        return int(_UNSAID * (memory.free + (memory.own if held is None else held)))

    def __str__(self) -> str:
        if self.each:
            return ", ".join(f"{name}: {part}" for name, part in self.each)
        if self.bytes is not None:
            return show_bytes(self.bytes)
        return f"{self.share * 100:g}%" if self.share is not None else "90% of what is free"


def _device(name: Any) -> str:
    if not re.fullmatch(r"cpu|cuda(:[0-9]+)?", str(name)):
        raise BudgetError(f"budget for {name!r}: that is not a device; name 'cpu', 'cuda' or 'cuda:1'")
    return str(name)


def _part(spec: Any) -> Budget:
    part = Budget.parse(spec)
    if part.each:
        raise BudgetError(f"budget {spec!r} is for several devices, inside a budget for one. {_FORMS}")
    return part


def _share(text: str) -> float:
    try:
        percent = float(text.strip()[:-1])
    except ValueError:
        percent = math.nan
    if not 0 < percent <= 100:
        raise BudgetError(f"budget {text!r} is not a share of a device: give more than 0% and at most 100%")
    return percent / 100


def _amount(spec: Any) -> int:
    amount = None
    if isinstance(spec, str):
        amount = parse_bytes(spec)
    elif isinstance(spec, numbers.Real) and not isinstance(spec, bool):  # numpy's scalars among them
        with contextlib.suppress(OverflowError):
            amount = int(spec) if math.isfinite(spec) else None  # pyright: ignore[reportArgumentType]
    if amount is None:
        raise BudgetError(f"budget {spec!r} is not an amount of memory. {_FORMS}")
    if amount < SMALLEST:
        hint = f' Did you mean "{amount}GB"?' if 0 < amount <= 1024 else ""
        raise BudgetError(f"budget {spec!r} is {amount} bytes; the least is 1MB.{hint} {_FORMS}")
    return amount


class Hold:
    """A budget held on a live device: enforced while open, and read again before each batch.

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
        >>> with Hold("512MB", torch.device("cpu")) as hold:
        ...     hold.effective() <= hold.limit
        True
    """

    def __init__(
        self,
        budget: Any,
        device: torch.device,
        read: Callable[[torch.device], Memory] = devices.memory,
        every: float = 0.0,
    ) -> None:
        self.device = device
        self._read, self._every = read, every
        self._reached, self._read_at = 0, -math.inf
        now = read(device)
        self.baseline = now.own if device.type == "cpu" else 0
        self.headroom = min(512 * 2**20, now.total // 50)
        self.limit = Budget.parse(budget).on(device).limit(now, held=now.own - self.baseline)
        self._undo = contextlib.ExitStack()

    def used(self) -> int:
        """Bytes in use now that count against the budget."""
        return max(0, self._read(self.device).own - self.baseline)

    def effective(self) -> int:
        """What the next batch may use: the limit, or less where neighbours hold the device's memory."""
        if time.monotonic() - self._read_at >= self._every:
            now = self._read(self.device)
            reachable = now.free + max(0, now.own - self.baseline) - self.headroom
            self._reached, self._read_at = max(0, min(self.limit, reachable)), time.monotonic()
        return self._reached

    def pressed(self) -> bool:
        """Whether others hold so much that waiting for them may help. A little is always held: by the system, by the
        headroom."""
        return self.effective() < 0.8 * self.limit

    def __enter__(self) -> Self:
        if self.device.type == "cuda":
            self.limit = self._undo.enter_context(_cuda_limit(self.limit, self.device))
        return self

    def __exit__(self, *error: object) -> None:
        self._undo.close()


_open_limits: dict[torch.device, list[float]] = {}  # the allocator's own first, then those of open holds
_limits_lock = threading.Lock()


@contextlib.contextmanager
def _cuda_limit(limit: int, device: torch.device) -> Iterator[int]:
    """Sets the allocator's limit, and gives the one in force: the lowest of all holds that are open on the device, in
    whatever thread. When the last ends, the limit is what it was before the first."""
    total = torch.cuda.mem_get_info(device)[1]
    fraction = math.nextafter(min(1.0, limit / total), 0.0)
    if torch.cuda.memory_reserved(device) > limit:
        devices.uncache(device)
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
