"""Short batches are handed to a worker several at a time, and their results come back together.

A message to a worker and its answer take a millisecond on a cluster, and a thousand workers have one scheduler. So a
worker is given as many batches as take it a moment, a block, and hands in the results of neighbors as one. Each batch
is noted in the ledger as it would be alone: blocks change nothing of how the items are divided.
"""

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from ....core.base import pytree
from ..batch import BatchResult
from ..batch_spans import BatchSpan
from ..size_search import BatchMeasurement, SizerState
from ..sources import LoadedBatch

HELD = 16_000_000
"""Bytes of results that a worker may wait with, and of items that are sent to it together."""

_WAIT = 5.0  # seconds that it may


@dataclass(frozen=True, slots=True)
class Block:
    """Neighboring batches for one worker, to be run one after the other.

    Attributes:
        start: the position of the first item.
        stops: the end of each batch.
        capacity: the weight that a batch may hold.
        state: what is known of sizes and memory.
        loaded: the items of every batch; empty where the worker reads them itself.
        apart: results are handed in batch by batch, as soon as they are there, and not those of neighbors as one.
    """

    start: int
    stops: tuple[int, ...]
    capacity: float
    state: SizerState
    loaded: tuple[LoadedBatch, ...] = ()
    apart: bool = False

    def spans(self) -> list[BatchSpan]:
        starts, loaded = (self.start, *self.stops[:-1]), self.loaded or (None,) * len(self.stops)
        places = zip(starts, self.stops, loaded, strict=True)
        return [BatchSpan(start, stop, self.capacity, loaded=items) for start, stop, items in places]


@dataclass(frozen=True, slots=True)
class FinishedBatches:
    """Neighboring batches that are finished.

    Attributes:
        done: the results of all of them.
        last: what was measured of the last.
        batches: how many they are.
        weight, seconds: of all of them.
    """

    done: BatchResult
    last: BatchMeasurement
    batches: int
    weight: float
    seconds: float


@dataclass(slots=True)
class BlockRun:
    """What a worker has of its blocks.

    Args:
        clock: seconds; tests bring their own.
    """

    clock: Callable[[], float] = time.monotonic
    _spans: deque[BatchSpan] = field(default_factory=deque)
    _stops: dict[int, int] = field(default_factory=dict)  # of batches that are not done, by their starts
    _state: SizerState | None = None
    _finished: list[tuple[BatchResult, BatchMeasurement]] = field(default_factory=list)
    _bytes: int = 0
    _since: float = 0.0
    _apart: bool = False

    def add(self, block: Block) -> None:
        """Takes a block."""
        spans = block.spans()
        self._spans.extend(spans)
        self._stops |= {span.start: span.stop for span in spans}
        self._state, self._apart = block.state, block.apart

    def next(self) -> BatchSpan | None:
        """The next batch; None where another block is needed."""
        return self._spans.popleft() if self._spans else None

    def state(self, start: int, stop: int) -> SizerState | None:
        """What is known, where these are the positions of a batch as it was handed out; None where it was split."""
        return self._state if self._stops.get(start) == stop else None

    def keep(self, done: BatchResult, measurement: BatchMeasurement) -> bool:
        """Takes the result of a batch of a block; False where it is none, or cannot wait."""
        whole = self._stops.pop(done.start, None) == done.start + done.count
        if not whole or measurement.probe or measurement.trial:  # others may wait for what was measured
            return False
        self._since = self._since if self._finished else self.clock()
        self._finished.append((done, measurement))
        self._bytes += 0 if done.values is None else pytree.nbytes(done.values)
        return True

    @property
    def due(self) -> bool:
        """Whether results must be handed in now."""
        waited = not self._stops or self._bytes >= HELD or self.clock() - self._since >= _WAIT
        return bool(self._finished) and (self._apart or waited)

    def take(self) -> list[FinishedBatches]:
        """All results that wait; neighbors as one, unless they are to stay apart."""
        finished, self._finished, self._bytes = sorted(self._finished, key=lambda one: one[0].start), [], 0
        groups: list[list[tuple[BatchResult, BatchMeasurement]]] = []
        for one in finished:
            if groups and not self._apart and _continues(groups[-1][-1][0], one[0]):
                groups[-1].append(one)
            else:
                groups.append([one])
        return [_together(group) for group in groups]


def _together(group: list[tuple[BatchResult, BatchMeasurement]]) -> FinishedBatches:
    weight, seconds = (sum(getattr(seen, name) for _, seen in group) for name in ("weight", "seconds"))
    return FinishedBatches(_joined([done for done, _ in group]), group[-1][1], len(group), weight, seconds)


def _continues(before: BatchResult, after: BatchResult) -> bool:
    return before.start + before.count == after.start and (before.values is None) == (after.values is None)


def _joined(parts: list[BatchResult]) -> BatchResult:
    """Neighboring results as one."""
    if len(parts) == 1:
        return parts[0]
    first = parts[0]
    return BatchResult(
        start=first.start,
        count=sum(part.count for part in parts),
        values=None if first.values is None else pytree.join([part.values for part in parts]),
        status=np.concatenate([part.status for part in parts]),
        messages={part.start - first.start + item: text for part in parts for item, text in part.messages.items()},
        reran=any(part.reran for part in parts),
    )
