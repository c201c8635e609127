"""The result of a map: from a run, or from the directory of one that has finished, where nothing is run, locked or
written. When a run ends, its manifest records what the shards do not hold: the plan, the peak and the seconds."""

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow as pa

from ...core.base import arrow, pytree
from ...core.declare.result import Result, ResultRecord
from ...core.runs.rundir import identity_of
from .batch import is_bad
from .store.collectors import MemoryCollector
from .store.shards import Shards
from .store.status_table import StatusTable


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class MapResult(Result):
    """The result of a map.

    Attributes:
        status: one `Status` code per item, in the order of the items.
        messages: item index to what went wrong with it, or what the function said of it.
        plan: the plan the run settled on.
        predicted, observed: peak bytes, as the plan predicts them and as measured over the whole run.
        seconds: wall time, that of earlier calls which this one went on with among it.
        done: items done in this call, and not by an earlier one that it went on with; 0 for a result that was opened.
        out: the run directory, if there is one.
    """

    status: np.ndarray
    messages: dict[int, str]
    done: int
    out: Path | None
    _read: Callable[[], pytree.Tree | None]
    _parts: Callable[[], Iterator[tuple[np.ndarray, pytree.Tree | None]]]

    @classmethod
    def of(
        cls,
        record: ResultRecord,
        tally: StatusTable,
        done: int,
        out: Path | None,
        collector: MemoryCollector | Shards,
    ) -> Self:
        """The result of what was recorded; the collector has its values."""
        return cls(
            status=tally.status,
            messages=tally.messages,
            plan=record.plan,
            observed=record.observed,
            seconds=record.seconds,
            compiling=record.compiling,
            done=done,
            out=out,
            _read=functools.partial(collector.values, tally.done),
            _parts=collector.parts,
        )

    @property
    def rate(self) -> float:
        """Items per second, all items over all seconds."""
        return len(self.status) / self.seconds if self.seconds else 0.0

    @property
    def values(self) -> Any:
        """The results as the function gave them, all items along the leading axis, on the CPU. Those of a failed
        item are NaN, 0 where there is no NaN, and empty in a `Ragged`. With `out` they are read from disk. None when
        there is not one."""
        return self._read()

    def parts(self) -> Iterator[tuple[np.ndarray, pytree.Tree | None]]:
        """The values part by part, with the indices of their items: of the shards one by one where there are some, so
        that they are never all in memory. None for a part in which every item failed."""
        return self._parts()

    @property
    def ok(self) -> np.ndarray:
        """Which items have a good result, their own or the fallback's."""
        return ~is_bad(self.status)

    def table(self) -> pa.Table:
        """All of it as an Arrow table, one row per item: `item`, `status`, `message`, then the values."""
        count = len(self.status)
        columns: dict[str, pa.Array] = {
            "item": arrow.array_of(np.arange(count)),
            "status": arrow.array_of(self.status),
            "message": arrow.text_array([self.messages.get(item) for item in range(count)]),
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


def reopen(path: Path, manifest: dict[str, Any]) -> MapResult | None:
    """The result of a run; None where it has not finished. Values are read from the shards when they are asked for.

    Raises:
        CorruptError: a shard is damaged, or they do not hold every item once.
    """
    record = ResultRecord.of(manifest)
    if record is None:
        return None
    shards, tally = Shards(path, identity_of(manifest)), StatusTable(None)
    for batch in shards.statuses(record.done):
        tally.add(*batch)
    return MapResult.of(record, tally, 0, path, shards)
