"""The result of a map."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from ...core.base import arrow, pytree
from ...core.declare.result import Result
from .batch import is_bad


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class MapResult(Result):
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
    done: int
    out: Path | None
    _read: Callable[[], pytree.Tree | None]

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

    def summary(self) -> dict[str, Any]:
        return {
            "items": len(self.status),
            "flagged": int((~self.ok).sum()),
            "items_per_second": self.rate,
            **Result.summary(self),
        }
