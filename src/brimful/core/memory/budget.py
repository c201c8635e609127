"""The budget: how many bytes the work may use."""

import contextlib
import math
import numbers
import re
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from ..base.errors import BrimfulWarning, BudgetError
from ..base.formatting import format_bytes, parse_bytes
from .host import Memory

if TYPE_CHECKING:  # it is read where there is no torch too
    import torch

SMALLEST = 1_000_000
"""A budget under one megabyte is refused: it is a slip (8 for "8GB") far more often than a wish."""

_DEFAULT = 0.9  # of what is free, when no budget is named
_FORMS = 'Use a size such as "8GB", "8GiB" or "512MB", a share such as "80%", a count of bytes, or None.'


@dataclass(frozen=True, slots=True)
class Budget:
    """How many bytes may be used on a device.

    | what you write          | what it means                                            |
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
    by_device: tuple[tuple[str, "Budget"], ...] = ()

    @classmethod
    def parse(cls, spec: Any) -> Self:
        """Reads any of the forms in the table above."""
        if isinstance(spec, cls):
            return spec
        if spec is None:
            return cls()
        if isinstance(spec, Mapping):
            return cls(by_device=tuple((_device(name), _part(part)) for name, part in spec.items()))
        if isinstance(spec, str) and spec.strip().endswith("%"):
            return cls(share=_share(spec))
        return cls(bytes=_amount(spec))

    def on(self, device: "torch.device | str") -> "Budget":
        """The part of this budget that applies to one device."""
        if not self.by_device:
            return self
        exact, kind = str(device), str(device).split(":")[0]
        table = dict(self.by_device)
        return table.get(exact) or table.get(kind) or Budget()

    def limit(self, memory: Memory, held: int | None = None) -> int:
        """The most bytes this budget allows on a device with that memory; pure.

        Args:
            memory: the device's memory at the start of the work.
            held: what of `memory.own` counts against the budget (by default all of it).
        """
        if self.bytes is not None:
            if self.bytes <= memory.total:
                return self.bytes
            warnings.warn(
                f"the budget is {format_bytes(self.bytes)} but the device has {format_bytes(memory.total)}; "
                f"using {format_bytes(memory.total)}",
                BrimfulWarning,
                stacklevel=2,
            )
            return memory.total
        if self.share is not None:
            return int(memory.total * self.share)
        return int(_DEFAULT * (memory.free + (memory.own if held is None else held)))

    def __str__(self) -> str:
        if self.by_device:
            return ", ".join(f"{name}: {part}" for name, part in self.by_device)
        if self.bytes is not None:
            return format_bytes(self.bytes)
        return f"{self.share * 100:g}%" if self.share is not None else "90% of what is free"


BudgetLike = Budget | Mapping[str, Any] | str | float | None
"""Whatever `Budget.parse` reads."""


def _device(name: Any) -> str:
    if not re.fullmatch(r"cpu|cuda(:[0-9]+)?", str(name)):
        raise BudgetError(f"budget for {name!r}: that is not a device; name 'cpu', 'cuda' or 'cuda:1'")
    return str(name)


def _part(spec: Any) -> Budget:
    part = Budget.parse(spec)
    if part.by_device:
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
        hint = f' Did you mean "{amount}GB"?' if 0 < amount <= 1024 and str(spec).strip().isdigit() else ""
        raise BudgetError(f"budget {spec!r} is {amount} bytes; the least is 1MB.{hint} {_FORMS}")
    return amount
