"""The result of a map."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa

from ...core.base import arrow, pytree
from ...core.base.units import format_bytes, format_count, format_seconds
from ...core.memory.plan import Plan
from .batch import is_bad


@dataclass(slots=True)
class MapResult:
    """The result of a map.

    Attributes:
        status: one `Status` code per item, in the order of the items.
        messages: item index to what went wrong with it, or what the function said of it.
        plan: the plan the run settled on.
        predicted, observed: peak bytes, as the plan predicts them and as measured over the whole run.
        seconds: wall time of this call.
        done: items done in this call, and not by an earlier one that it went on with.
        out: the run directory, if there is one.
    """

    status: np.ndarray
    messages: dict[int, str]
    plan: Plan
    observed: int
    seconds: float
    done: int
    out: Path | None
    _read: Callable[[], pytree.Tree | None] = field(repr=False)

    @property
    def predicted(self) -> int:
        return self.plan.predicted

    @property
    def rate(self) -> float:
        """Items per second, of those done in this call."""
        return self.done / self.seconds

    @property
    def values(self) -> pytree.Tree | None:
        """The results as the function gave them, all items along the leading axis, on the CPU. Those of a failed
        item are NaN (0 where there is no NaN). With `out` they are read from disk. None when there is not one."""
        return self._read()

    @property
    def ok(self) -> np.ndarray:
        """Which items have a good result, their own or the fallback's."""
        return ~is_bad(self.status)

    def table(self) -> pa.Table:
        """All of it as an Arrow table, one row per item: `item`, `status`, `message`, then the values."""
        count = len(self.status)
        columns: dict[str, pa.Array] = {
            "item": pa.array(np.arange(count)),
            "status": pa.array(self.status),
            "message": pa.array([self.messages.get(item) for item in range(count)], pa.string()),
        }
        values = self.values
        return pa.table(columns | (arrow.to_columns(values)[0] if values is not None else {}))

    def __str__(self) -> str:
        bad = int((~self.ok).sum())
        return (
            f"{format_count(len(self.status))} items in {format_seconds(self.seconds)} ({format_count(self.rate)}/s), "
            f"{format_count(bad)} flagged, peak {format_bytes(self.observed)} of {format_bytes(self.plan.budget)}"
        )
