"""Dividing the items into batches, of the size that `size_search` says.

Spans, and the sizes settled on, go to the ledger, so that a resumed run divides the items as the first one did. Workers
may have devices of several kinds: each kind has its own size, and all take their batches from the same items.
"""

import math
from collections import deque
from dataclasses import dataclass, replace

import numpy as np

from ...core.memory.cost import Cost
from .memory_model import MemoryModel
from .size_search import Observation, Probing, SizerState, Steady, Timing, capacity_beside, issue, observe
from .sources import LoadedBatch

_ENDLESS = 1 << 40
_LAST = 8  # the last batches of several workers are no smaller than this part of a full one
_MOMENT = 0.05  # seconds that a block of batches takes a worker, at least
_ASKING = 200  # workers that may ask for a block in a second
_MOST = 64  # batches of a block
_EARLY = 16  # the first batch of several workers is no larger than this part of a worker's share of all items


@dataclass(frozen=True, slots=True)
class BatchSpan:
    """The items of one batch.

    Attributes:
        start, stop: their positions; a start of -1 means wherever the stream is.
        capacity: the weight it may hold, for a stream that weighs its items as they come.
        probe: whether it is to be run alone, and its memory measured.
        trial: the number of the `Timing` that it belongs to; 0 if none.
        beside: whether it is run while another worker has a probe, and tells nothing of the phase that follows.
        loaded: the items themselves, on the way to a worker process that does not read them.
        slow, crash: as in `LoadedBatch`.
    """

    start: int
    stop: int
    capacity: float
    probe: bool = False
    trial: int = 0
    beside: bool = False
    loaded: LoadedBatch | None = None
    slow: tuple[int, ...] = ()
    crash: str = ""


class BatchSizer:
    """Divides the items into batches, and learns from what is observed of them.

    Args:
        length: how many items there are; None for a stream of unknown length.
        weights: each item's weight in order of execution; None when all weigh 1 or a stream will tell.
        forward: whether the items are a stream.
        size: the weight of the first batch.
        cost: what is known of the cost; None when nothing is.
        results: bytes that results take in the memory that is counted, whatever a batch holds.
        fixed: whether the size is the user's own and stays as it is.
        settled: a size that an earlier run settled on.
        replay: spans of an earlier run that it did not finish, to be run again as they were.
        position: where new spans begin; a stream goes on by itself from there.
        workers: how many run batches at the same time.
        alone: positions, in ascending order, of items that are batches of their own.
        kind: the device of the first workers; size, cost and settled are of that one.

    Attributes:
        kind: as given.
        states: what is known of each kind of device.
        workers: as given; it may change while they run.
    """

    def __init__(
        self,
        *,
        length: int | None,
        weights: np.ndarray | None = None,
        forward: bool = False,
        size: float,
        cost: Cost | None = None,
        results: int = 0,
        fixed: bool = False,
        settled: float | None = None,
        replay: list[tuple[int, int]] | None = None,
        position: int = 0,
        workers: int = 1,
        alone: np.ndarray | None = None,
        kind: str = "",
    ) -> None:
        self._length, self._forward, self.workers = length, forward, workers
        self._sums = None if weights is None else np.concatenate([[0.0], np.cumsum(weights)])
        self.kind, self._first, self._fixed, self._results = kind, size, fixed, results
        self.states: dict[str, SizerState] = {}
        self.add_kind(kind, size, cost, settled)
        self._replay, self._position, self._ended = deque(replay or []), position, False
        self._alone = np.zeros(0, np.int64) if alone is None else alone

    def add_kind(self, kind: str, size: float, cost: Cost | None = None, settled: float | None = None) -> SizerState:
        """Begins with a kind of device; size, cost and settled are as for the first."""
        length, memory = self._length, MemoryModel(cost, results=self._results)
        if self.workers > 1 and length and not self._forward and not self._fixed and not memory.remembered:
            # The others wait for the first batch, since nothing was measured before it.
            size = min(size, max(self._weight(0, length) / (_EARLY * self.workers), self._weight(0, 1)))
        state = SizerState(size=size, fixed=self._fixed, memory=memory)
        if settled is not None:
            state = replace(state, size=settled, phase=Steady())
        self.states[kind] = state
        return state

    @property
    def state(self) -> SizerState:
        """What is known of the first kind of device."""
        return self.states[self.kind]

    def of(self, kind: str | None) -> SizerState:
        """What is known of a kind of device; None: of the first. One that joins later begins as the first did, with
        nothing known."""
        name = self.kind if kind is None else kind
        return self.states[name] if name in self.states else self.add_kind(name, self._first)

    def next(self, available: int, busy: bool = False, kind: str | None = None) -> BatchSpan | None:
        """The next span under that many bytes; None when a probe or trials must come back first, or at the end.

        Args:
            kind: of the device that it is for; None: the first.
            busy: whether it is for one of several workers that has a batch already, and could let this one wait. It
                gets none beside another's probe, nor of the last, which go to those that have nothing to do.
        """
        if self._replay:
            return BatchSpan(*self._replay.popleft(), math.inf)
        if self._ended or (self._length is not None and not self._forward and self._position >= self._length):
            return None
        known = self.of(kind)
        state = issue(known, available, self.workers)
        if state is None:
            beside = 0.0 if busy else capacity_beside(known, available, self.workers)
            return self._span(beside, known.settled, beside=True) if beside else None
        if busy and self._share_left() < state.capacity(available):
            return None
        self.states[self.kind if kind is None else kind] = state
        probe, trial = isinstance(state.phase, Probing), state.phase.number if isinstance(state.phase, Timing) else 0
        return self._span(state.capacity(available), state.settled, probe=probe, trial=trial)

    def _span(
        self, capacity: float, settled: bool, probe: bool = False, trial: int = 0, beside: bool = False
    ) -> BatchSpan:
        """The next items, of that weight."""
        start = self._position
        if self._forward:
            self._position, stop = -1, start + max(1, min(_ENDLESS, int(capacity)))
        else:
            self._position = stop = self._next_alone(self._stop(self._shared(capacity), settled))
        return BatchSpan(start, stop, capacity, probe, trial, beside)

    def _weight(self, start: int, stop: int) -> float:
        return float(stop - start) if self._sums is None else float(self._sums[stop] - self._sums[start])

    def _shared(self, capacity: float) -> float:
        """That capacity, or less towards the end, so that several workers end together: a worker takes its share of
        what is left, and the shares grow smaller."""
        return min(capacity, max(self._share_left(), capacity / _LAST))

    def _share_left(self) -> float:
        """The weight that every worker has yet to be given; infinite where batches need not end together."""
        if self.workers == 1 or self._fixed or self._forward or self._length is None:
            return math.inf
        return self._weight(self._position, self._length) / self.workers

    def following(
        self, span: BatchSpan, available: int, seconds: float, kind: str | None = None, most: int = _MOST
    ) -> list[BatchSpan]:
        """Batches that follow one at once, for a worker that takes so long for each: as many as keep it busy for a
        moment, which is longer the more workers ask, and no more than half of its share of what is left. None where
        something is measured. Together with that one they are `most` at most."""
        plain = not (span.probe or span.trial or span.beside) and span.stop == self._position and not self._forward
        state = self.of(kind)
        if self._length is None or not plain or issue(state, available, self.workers) is not state:
            return []
        capacity = state.capacity(available)
        left = self._weight(self._position, self._length) / self.workers
        moment = max(_MOMENT, self.workers / _ASKING)
        share = int(left / (2 * max(1.0, capacity)))
        count = min(_MOST, most, share, int(moment / max(seconds, 1e-6)))
        return [self._span(capacity, state.settled) for _ in range(count - 1)]

    def _stop(self, capacity: float, settled: bool) -> int:
        """The end of a batch of that capacity, which holds at least one item. Once the size is settled, and not the
        user's own, what is left is divided into equal batches."""
        assert self._length is not None
        evenly = settled and not self._fixed
        if self._sums is None:
            left = self._length - self._position
            count = max(1, int(min(capacity, left)))
            return self._position + (math.ceil(left / math.ceil(left / count)) if evenly else count)
        done, left = self._sums[self._position], self._sums[-1] - self._sums[self._position]
        share = left / math.ceil(left / capacity) if evenly and capacity > 0 else capacity
        # Equal shares rarely fall between two items: take the one that crosses, if it still fits.
        stop = int(np.searchsorted(self._sums, done + share * (1 - 1e-12), side="left"))
        if stop <= self._length and self._sums[min(stop, self._length)] - done > capacity:
            stop -= 1
        return min(max(stop, self._position + 1), self._length)

    def _next_alone(self, stop: int) -> int:
        """The end of a batch, or the first item before it that has to be alone."""
        if not len(self._alone):
            return stop
        rank = int(np.searchsorted(self._alone, self._position))
        if rank == len(self._alone):
            return stop
        first = int(self._alone[rank])
        return min(stop, max(first, self._position + 1))

    def observe(self, seen: Observation, kind: str | None = None) -> None:
        """Learns from an observation on a kind of device; None: the first."""
        self.states[self.kind if kind is None else kind] = observe(self.of(kind), seen)

    def end(self) -> None:
        """The stream has no more items."""
        self._ended = True
