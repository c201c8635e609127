"""Where to cut the work: batch sizes found by growing them, and kept under what memory allows.

Sizes are weights (an item weighs 1 by default). At first the size doubles while throughput grows and memory allows:
at each size one batch runs alone, a probe of its memory, and a few in the flow of the work, trials of its speed. Then
it settles. What was settled, and each cut made, goes to the ledger, so
that a resumed run cuts as the first one did. No device is touched here: the numbers come in from outside.
"""

import math
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from ...core.memory.cost import MARGIN, Cost

_GAIN = 1.05  # a size must be this much faster than the best before it to count as growth
_FAR = 1.5  # a size that is this much faster is far from the best: the next is four times as large
_LEVEL = 0.95  # sizes this near the fastest are as good: the largest of them is taken
_ROOMY = 16  # times a size that memory allows: trials would only tell what the probe did, that larger is faster
_CHEAP = 0.5  # seconds: a probe longer than this has measured the speed as well; no trials are needed
_LEAST = 4  # sizes to have tried before speed may decide
_LONG = 0.02  # seconds: what a batch costs beside its work is lost in this
_TIMINGS, _TRIALS = 2, 6  # timings wanted of a size that is run so briefly, and trials after which it has to do without
_BLIND = 6  # doublings without a usable time before the size is left as it is
_ENDLESS = 1 << 40


@dataclass(frozen=True, slots=True)
class BatchSpan:
    """A piece of the work.

    Attributes:
        start, stop: its positions; a start of -1 means wherever the stream is.
        capacity: the weight it may hold, for a stream that weighs its items as they come.
        probe: whether it is to be run alone, and its memory measured.
        trial: the number of the size whose speed it helps to measure, in the flow of others; 0 if none.
    """

    start: int
    stop: int
    capacity: float
    probe: bool = False
    trial: int = 0


class BatchSizer:
    """Decides the next cut, and learns from what is reported back.

    Args:
        length: how many items there are; None for a stream of unknown length.
        weights: each item's weight in order of work; None when all weigh 1 or a stream will tell.
        forward: whether the items are a stream.
        size: the weight of the first batch.
        cost: what is known of the cost; None when nothing is.
        fixed: whether the size is the user's own and stays as it is.
        settled: a size that an earlier run settled on.
        replay: cuts an earlier run made and did not finish, to be made again as they were.
        position: where new cuts begin; a stream goes on by itself from there.
        workers: how many take cuts at the same time.
    """

    def __init__(
        self,
        *,
        length: int | None,
        weights: np.ndarray | None = None,
        forward: bool = False,
        size: float,
        cost: Cost | None = None,
        fixed: bool = False,
        settled: float | None = None,
        replay: list[tuple[int, int]] | None = None,
        position: int = 0,
        workers: int = 1,
    ) -> None:
        self.length, self.forward, self.cost, self._workers = length, forward, cost, workers
        self._sums = None if weights is None else np.concatenate([[0.0], np.cumsum(weights)])
        self._replay = deque(replay or [])
        self._position = position
        self.overlap, self.kept = 0.0, 0  # bytes per unit of weight, and bytes: see whole_cost
        self._ended = False
        self._waiting = False  # a probe is out; its result decides the next size
        self.ceiling, self._top, self._contended, self._calm = math.inf, math.inf, False, 0
        self.size = settled if settled is not None else size
        self.settled, self._fixed = settled is not None, fixed
        self._rates: list[tuple[float, float]] = []  # (size, best weight a second)
        self._prior = cost  # believed until two sizes have been measured: one cannot tell what is fixed
        self._alone: dict[float, int] = {}  # weight of a probe to its peak, alone
        self._flow: dict[float, int] = {}  # and to the peak of its trials, which overlap
        self._runs: list[float] = []
        self._trying, self._trial, self._tries, self._weight = False, 0, 0, 0.0
        self._given, self._wanted = 0, _TIMINGS  # trials cut so far, and timings wanted of them
        self._slowest = 0.0  # what a size does at the least, in the flow: what it did alone
        self._remembered = cost is not None and cost.source == "remembered"
        self._blind = 0
        self._proven = (0.0, 0)  # a weight that ran within so many bytes
        self._more = 0.0  # bytes per unit of weight, beyond what was predicted of a batch that ran out of memory
        self._second: float | None = None  # the first size, while a smaller one is measured
        self._cramped = False  # whether memory, and not speed, decided the size

    def next(self, available: int) -> BatchSpan | None:
        """The next cut under that many bytes; None when a probe or trials must come back first, or at the end."""
        if self._waiting:
            return None
        if self._replay:
            start, stop = self._replay.popleft()
            return BatchSpan(start, stop, math.inf)
        if self._ended or (self.length is not None and not self.forward and self._position >= self.length):
            return None
        if self._cramped and self.settled and self._room(available) >= 2 * self.size:
            # Memory, not speed, ended the growing, and there is more of it now: a neighbour has gone.
            self.settled, self._cramped, self.size = False, False, 2 * self.size
        probe = not self.settled and not self._trying
        trial = self._trial if self._trying and not self.settled else 0
        if trial:
            # No more than tell the speed, with one before them and one behind that they run beside: what comes after
            # is better cut larger.
            enough = self._wanted - len(self._runs) + (self._tries == 0)
            if self._given - self._tries > self._workers * (1 + enough) - 1:
                return None
            self._given += 1
        capacity = self.capacity(available)
        if self.forward:
            start, self._position = self._position, -1
            span = BatchSpan(start, start + max(1, min(_ENDLESS, int(capacity))), capacity, probe, trial)
        else:
            span = BatchSpan(self._position, self._stop(capacity), capacity, probe, trial)
            self._position = span.stop
        self._waiting = probe
        return span

    def capacity(self, available: int) -> float:
        """The weight that a batch may have now."""
        proven, under = self._proven
        room = self._room(available)
        if self.settled and available >= 0.98 * under:
            room = max(room, min(proven, self.ceiling))
        return min(self.size, room)

    def _room(self, available: int) -> float:
        cost = self.whole_cost
        return min(self.ceiling, cost.capacity(available) if cost else math.inf)

    @property
    def whole_cost(self) -> Cost | None:
        """The cost of a batch in the flow of others, with what the results take that pile up meanwhile."""
        cost = self._flow_cost()
        if cost is None:
            return None
        return replace(cost, fixed=cost.fixed + self.kept, per_unit=cost.per_unit + self._more)

    def _flow_cost(self) -> Cost | None:
        """The cost of a batch in the flow of others.

        Overlapping costs more than one more input and output: they are carved out of blocks that the next batch
        then misses. So what the flow took at the sizes tried decides, not what was measured alone.
        """
        if self.cost is None:
            return None
        if not self._alone or (self._prior is not None and len(self._alone) < 2):
            overlap = 0.0 if self._remembered else self.overlap  # a remembered one has it in it
            return replace(self.cost, per_unit=self.cost.per_unit + overlap)
        predicted = {weight: peak + self.overlap * weight for weight, peak in self._alone.items()}
        largest = max(predicted)
        if len(self._flow) < 2:
            more = max((self._flow[weight] - predicted[weight] for weight in self._flow), default=0.0)
            cost = self._fit({weight: peak + max(0.0, more) for weight, peak in predicted.items()})
            if self._remembered and self._prior and self._prior.at(largest) > cost.at(largest):
                cost = self._prior  # an earlier run knew what the flow takes
        else:
            cost = self._fit(self._flow)
            if predicted[largest] > cost.at(largest):  # a probe that took more than the flow made one expect
                cost = self._fit({**self._flow, largest: predicted[largest]})
        return cost

    def _stop(self, capacity: float) -> int:
        """The end of a batch of that capacity. What is left is cut into equal parts, at least one item each."""
        assert self.length is not None
        if self._sums is None:
            left = self.length - self._position
            whole = max(1, int(min(capacity, left)))
            return self._position + (math.ceil(left / math.ceil(left / whole)) if self._evenly else whole)
        done, left = self._sums[self._position], self._sums[-1] - self._sums[self._position]
        share = left / math.ceil(left / capacity) if self._evenly and capacity > 0 else capacity
        # Equal shares rarely fall between two items: take the one that crosses, if it still fits.
        stop = int(np.searchsorted(self._sums, done + share * (1 - 1e-12), side="left"))
        if stop <= self.length and self._sums[min(stop, self.length)] - done > capacity:
            stop -= 1
        return min(max(stop, self._position + 1), self.length)

    @property
    def _evenly(self) -> bool:
        """Whether the rest is cut into equal parts: not while the size still changes, nor when it is the user's."""
        return self.settled and not self._fixed

    def end(self) -> None:
        """The stream has no more items."""
        self._ended, self._waiting = True, False

    def report(
        self, weight: float, seconds: float | None, peak: int, available: int, probe: bool, trial: int = 0
    ) -> bool:
        """Learns from a finished batch. True when this settled the size.

        Args:
            seconds: what it took; None when that says nothing, since failing items made it run again or nothing ran
                beside it.
        """
        if probe:
            return self._probed(weight, seconds, peak, available)
        if trial and trial == self._trial and self._trying and not self.settled:
            return self._tried(weight, seconds, peak, available)
        self._given = max(self._tries, self._given - 1)  # a trial that was done in parts comes back as none
        self._recover()
        return False

    def _probed(self, weight: float, seconds: float | None, peak: int, available: int) -> bool:
        self._waiting, self._weight, self._more = False, weight, 0.0  # from here on it is measured anew
        self._alone[weight] = max(peak, self._alone.get(weight, 0))
        if self._prior is None or len(self._alone) > 1:
            self.cost = self._fit(self._alone)
        best = max((each for _, each in self._rates), default=math.inf)
        roomy = self._remembered or self._room(available) >= _ROOMY * weight
        if seconds is not None and (seconds >= _CHEAP or (roomy and weight > _FAR * best * seconds)):
            return self._grow(weight, weight / max(seconds, 1e-9), available)
        self._trying, self._trial, self._tries, self._given, self._runs = True, self._trial + 1, 0, 0, []
        self._wanted, self._slowest = _TIMINGS, 0.0
        if seconds is not None and seconds >= _LONG:
            self._wanted, self._slowest = 1, weight / seconds
        return False

    def _tried(self, weight: float, seconds: float | None, peak: int, available: int) -> bool:
        self._tries += 1
        if seconds is not None:
            self._runs.append(weight / max(seconds, 1e-9))
        if len(self._runs) < self._wanted and self._tries < _TRIALS:
            return False
        self._trying = False
        self._flow[self._weight] = max(peak, self._alone[self._weight], self._flow.get(self._weight, 0))
        if self._runs:
            return self._grow(weight, max(*self._runs, self._slowest), available)
        self._blind += 1
        if self._blind < _BLIND and not self._fixed:
            self.size = min(self.size * 2, max(self._room(available), 1.0))
            return False
        self.settled = True
        return True

    def probe_failed(self) -> None:
        """A probe came to nothing; the next batch measures instead."""
        self._waiting = False

    def _grow(self, weight: float, rate: float, available: int) -> bool:
        # A batch cut short by the end of the items is judged by what it really weighed; so is a single item that
        # is heavier than a batch was meant to be, which happens when a stream's weights are large numbers.
        if self._fixed:
            self.settled = True
            return True
        room = self._room(available)
        if len(self._alone) == 1 and room < 2 * self.size and weight >= 2:
            # The first call of a function is slow and takes memory that it keeps. A second, smaller size tells what
            # an item really takes.
            self._rates, self._second, self.size = [(weight, rate)], weight, float(weight // 2)
            return False
        if self._second is not None:
            self.size, self._second = self._second, None
            if room >= 1.1 * self.size:
                self.size = min(2 * self.size, room)
                return False
        self._rates.append((weight, rate))
        self.size = max(self.size, weight)
        best = max((each for _, each in self._rates[:-1]), default=0.0)
        flat = rate < _GAIN * best
        if weight / rate < _LONG:  # so short a batch may have met a hiccup: the size before must have been flat too
            flat = flat and len(self._rates) >= 3 and self._rates[-2][1] < _GAIN * max(r for _, r in self._rates[:-2])
        flat = flat and len(self._rates) >= _LEAST
        if flat or room < self.size * 1.1:
            fastest = max(each for _, each in self._rates)
            self.size = max(size for size, each in self._rates if each >= _LEVEL * fastest)
            # A size that ran within the budget is not doubted, whatever the line through all of them says.
            proven = max((each for each, peak in self._flow.items() if peak <= available), default=0.0)
            self.size = min(self.size, max(room, proven))
            self.settled, self._cramped, self._proven = True, not flat, (min(self.size, proven), available)
            return True
        factor = 4 if rate > _FAR * best else 2
        self.size = min(self.size * factor, room)
        return False

    @property
    def largest(self) -> float:
        """The weight of the largest batch that was measured; 0 when none was."""
        return max(self._alone, default=0.0)

    def _fit(self, peaks: Mapping[float, float]) -> Cost:
        """The cost through the two largest sizes measured."""
        largest = sorted(peaks.items())[-2:]
        if len(largest) == 2 and largest[0][0] > 0.8 * largest[1][0]:
            largest = largest[1:]  # two sizes so near each other say nothing about a slope
        margin = self.cost.margin if self.cost else MARGIN
        return Cost.fit(largest, margin)

    def out_of_memory(self, weight: float, contended: bool, limit: int) -> None:
        """A batch of that weight ran out of memory.

        Args:
            weight: what it weighed.
            contended: whether neighbours held memory at the time, so that the ceiling may rise again later.
            limit: the bytes there were, if it had all of them: it takes more, whatever was measured of others.
        """
        cost, whole = self.whole_cost, weight >= 0.9 * min(self.size, self.ceiling)  # and not a part of one that was
        if cost and whole and not contended and weight > 0:
            self._more += max(0.0, limit - cost.at(weight)) / weight
        self._lower(0.7 * weight)
        self._contended, self._waiting, self._trying = contended, False, False
        self.settled = True

    def allocator_retried(self, weight: float) -> None:
        """The allocator had to free and try again: a little less from here on."""
        self._lower(0.9 * weight)

    def _lower(self, ceiling: float) -> None:
        if math.isinf(self.ceiling):
            self._top = self.size
        self.ceiling, self._calm = min(self.ceiling, ceiling), 0

    def _recover(self) -> None:
        if not self._contended or math.isinf(self.ceiling):
            return
        self._calm += 1
        if self._calm >= 8:
            self.ceiling, self._calm = self.ceiling * 1.25, 0
            if self.ceiling >= self._top:
                self.ceiling = math.inf
