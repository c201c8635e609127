"""How large the next batch is: sizes are measured, each larger than the last, until speed or memory decides.

Sizes are weights (an item weighs 1 by default). A run goes from phase to phase:

| phase | batches that are handed out | until |
|---|---|---|
| `Probing` | one, which its worker runs alone, so that the peak measured is its own | it is done |
| `Timing` | a few of that size, which overlap: for their speed, and what overlapping takes | enough are timed |
| `Steady` | all others, of the size chosen | memory had decided, and there is more of it |

After `Timing` (or a probe so long that it tells the speed too) `_choose` takes the next larger size, and `Probing`
begins again, or it settles on a size, which is `Steady`. A batch that runs out of memory ends the search at once, and
lowers the ceiling of all later ones.

Workers have memory of their own: while one runs a probe, the others are given batches of the largest size that was
measured before (`capacity_beside`), and do not wait for it.

`SizerState` is all that is known, as one value. `observe(state, observation)` gives the state after a batch, and
`issue(state, ...)` that after handing one out: pure functions, which touch no device. `BatchSizer` (batch_spans.py)
holds the state of a run, and divides the items into batches of the size that it says.
"""

import math
from dataclasses import dataclass, replace

from .memory_model import Ceiling, MemoryModel

_MIN_SPEEDUP = 1.05  # a size must be this much faster than the best before it to count as growth
_LARGE_SPEEDUP = 1.5  # a size that is this much faster is far from the best: the next is four times as large
_NEAR_FASTEST = 0.95  # sizes this near the fastest are as good: the largest of them is taken
_AMPLE_CAPACITY = 16  # times a size: where memory allows so much, trials would only confirm that larger is faster
_LONG_PROBE = 0.5  # seconds: a probe longer than this has measured the speed as well; no trials are needed
_MIN_SIZES = 4  # sizes to have measured before speed may decide
_LONG_BATCH = 0.02  # seconds: what a batch costs beside its work is lost in this
_TIMINGS, _MAX_TRIALS = 2, 6  # timings wanted of a size that is run so briefly, and the trials that it may take
_MAX_UNTIMED = 6  # sizes without a usable time before the size is left as it is


@dataclass(frozen=True, slots=True)
class BatchMeasurement:
    """A batch is finished.

    Attributes:
        weight: what it weighed.
        seconds: since the batch before it was finished.
        timed: whether those seconds tell its speed: other batches ran before and beside it, and it ran once.
        compiled: whether they would, if nothing had been compiled meanwhile: it is at least as fast.
        peak: the highest memory seen so far.
        available: the bytes that the next batch may use.
        probe, trial, beside: as in its `BatchSpan`.
        input_bytes: the bytes of its items, where they were counted: of a probe, and of others now and then.
    """

    weight: float
    seconds: float
    timed: bool
    peak: int
    available: int
    probe: bool = False
    trial: int = 0
    beside: bool = False
    compiled: bool = False
    input_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class ResultsMeasured:
    """What batches carry in and out, by all that was seen of it so far.

    Attributes:
        transfers, results, growth: those of `MemoryModel`.
        denser: bytes per unit of weight by which results of this probe exceed those of the one before.
    """

    transfers: float
    results: int
    growth: float
    denser: float = 0.0


@dataclass(frozen=True, slots=True)
class MemoryExceeded:
    """A batch ran out of memory.

    Attributes:
        weight: what it weighed.
        contended: whether other processes held memory at the time, so that the ceiling may rise again later.
        available: the bytes that there were.
    """

    weight: float
    contended: bool
    available: int


@dataclass(frozen=True, slots=True)
class AllocatorRetried:
    """The allocator had to free memory and try again on a batch of that weight."""

    weight: float


@dataclass(frozen=True, slots=True)
class ProbeFailed:
    """A probe was not measured, since it was done in parts or by nobody; the next batch is the probe instead."""


@dataclass(frozen=True, slots=True)
class ItemTooBig:
    """A batch ran out of memory, and it was for one of its items, which alone does not fit.

    Attributes:
        before: what was known before that batch; what was learned from it says nothing of others.
    """

    before: "SizerState"


Observation = BatchMeasurement | ResultsMeasured | MemoryExceeded | AllocatorRetried | ProbeFailed | ItemTooBig


@dataclass(frozen=True, slots=True)
class Probing:
    """The memory of a size is measured; `running`: by a batch that is under way."""

    running: bool = False


@dataclass(frozen=True, slots=True)
class Timing:
    """The speed of a size is measured.

    Attributes:
        number: counts the sizes that were timed, from 1.
        weight: of the probe before.
        wanted: how many timings.
        rate_alone: the probe's weight per second, where it ran long enough to tell; overlapped it is no slower.
        issued, finished: batches handed out, and come back.
        rates: weight per second of those that were timed.
        least: the same of those during which something was compiled, for where that never ends.
    """

    number: int
    weight: float
    wanted: int = _TIMINGS
    rate_alone: float = 0.0
    issued: int = 0
    finished: int = 0
    rates: tuple[float, ...] = ()
    least: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Steady:
    """The size is chosen; `memory_bound`: by memory, and not by speed."""

    memory_bound: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SizerState:
    """All that the size of a batch depends on.

    Attributes:
        size: the weight of a batch in this phase, where memory allows it.
        fixed: whether that is the user's own, and stays.
        phase: what is being measured.
        memory: what batches take.
        ceiling: what no batch may exceed.
        rates: (size, weight per second) of the sizes measured.
        first: the first size, while half of it is measured to tell the fixed bytes from those per item.
        timings: sizes that were timed, the present one included.
        untimed: sizes whose batches gave no usable time.
        proven: a weight that ran within so many bytes, whatever the model says.
    """

    size: float
    fixed: bool = False
    phase: Probing | Timing | Steady = Probing()
    memory: MemoryModel = MemoryModel()
    ceiling: Ceiling = Ceiling()
    rates: tuple[tuple[float, float], ...] = ()
    first: float | None = None
    timings: int = 0
    untimed: int = 0
    proven: tuple[float, int] = (0.0, 0)

    @property
    def settled(self) -> bool:
        return isinstance(self.phase, Steady)

    @property
    def fastest(self) -> float:
        """The weight of the fastest batches; where that is not known yet, of the largest, of this run or an earlier."""
        prior = self.memory.prior
        largest = max(self.memory.alone, default=0.0)
        return self.size if self.settled else max(largest, prior.fastest if prior else 0.0)

    @property
    def growing(self) -> bool:
        """Whether larger batches may be faster still: neither this run nor an earlier one was long enough to tell."""
        prior = self.memory.prior
        return not self.settled and (prior is None or not self.memory.remembered or prior.growing)

    def room(self, available: int) -> float:
        """The weight that fits into so many bytes."""
        return min(self.ceiling.weight, self.memory.capacity(available))

    def capacity(self, available: int) -> float:
        """The weight that a batch may have now."""
        room, (weight, within) = self.room(available), self.proven
        if self.settled and available >= 0.98 * within and not self.memory.growth:
            room = max(room, min(weight, self.ceiling.weight))
        return min(self.size, room)

    def most(self, available: int) -> float:
        """The weight above which a batch is halved, though it was handed out: results may have grown since."""
        return self.room(available) if self.memory.growth else self.ceiling.weight


def observe(state: SizerState, seen: Observation) -> SizerState:
    """The state after an observation."""
    match seen, state.phase:
        case BatchMeasurement(probe=True), _:
            return _after_probe(state, seen)
        case BatchMeasurement(trial=trial), Timing(number=number) as timing if trial == number:
            return _after_trial(state, timing, seen)
        case BatchMeasurement(beside=False), Timing(
            issued=issued, finished=finished
        ) as timing:  # a trial that was done in parts
            phase = replace(timing, issued=max(finished, issued - 1))
            return replace(state, phase=phase, ceiling=state.ceiling.after_batch())
        case BatchMeasurement(), _:
            ceiling = state.ceiling.after_batch()
            return state if ceiling is state.ceiling else replace(state, ceiling=ceiling)
        case ResultsMeasured(transfers, results, growth, denser), _:
            memory = state.memory.with_denser_results(denser) if denser else state.memory
            memory = replace(memory, transfers=transfers, results=results, growth=growth)
            return state if memory == state.memory else replace(state, memory=memory)
        case MemoryExceeded(), _:
            return _after_out_of_memory(state, seen)
        case AllocatorRetried(weight=weight), _:
            return replace(state, ceiling=state.ceiling.lowered(0.9 * weight, state.size))
        case ProbeFailed(), Probing():
            return replace(state, phase=Probing())
        case ItemTooBig(before=before), _:
            return _after_too_big(state, before)
    return state


def _after_probe(state: SizerState, seen: BatchMeasurement) -> SizerState:
    """Its memory is known. Where it ran so long that it tells the speed as well, the next size is chosen at once."""
    state = replace(state, memory=state.memory.with_probe(seen.weight, seen.peak))
    if state.settled:  # another batch ran out of memory meanwhile
        return state
    rate = seen.weight / max(seen.seconds, 1e-9)
    best = max((rate for _, rate in state.rates), default=math.inf)
    ample = state.memory.remembered or state.room(seen.available) >= _AMPLE_CAPACITY * seen.weight
    if seen.timed and (seen.seconds >= _LONG_PROBE or (ample and seen.weight > _LARGE_SPEEDUP * best * seen.seconds)):
        return _choose(state, seen.weight, rate, seen.available)
    number = state.timings + 1
    timing = Timing(number, seen.weight)
    if seen.timed and seen.seconds >= _LONG_BATCH:
        timing = Timing(number, seen.weight, wanted=1, rate_alone=rate)
    return replace(state, phase=timing, timings=number)


def _after_trial(state: SizerState, timing: Timing, seen: BatchMeasurement) -> SizerState:
    """Its speed is known, once there are enough timings. Where there are none, the size is doubled a few times."""
    rate = seen.weight / max(seen.seconds, 1e-9)
    rates = (*timing.rates, rate) if seen.timed else timing.rates
    least = (*timing.least, rate) if seen.compiled else timing.least
    finished = timing.finished + 1
    if len(rates) < timing.wanted and finished < _MAX_TRIALS:
        return replace(state, phase=replace(timing, finished=finished, rates=rates, least=least))
    rates = rates or least
    state = replace(state, memory=state.memory.with_trials(timing.weight, seen.peak))
    if rates:
        return _choose(state, seen.weight, max(*rates, timing.rate_alone), seen.available)
    if state.untimed + 1 == _MAX_UNTIMED or state.fixed:
        return replace(state, phase=Steady())
    size = min(2 * state.size, max(state.room(seen.available), 1.0))
    return replace(state, phase=Probing(), size=size, untimed=state.untimed + 1)


def _choose(state: SizerState, weight: float, rate: float, available: int) -> SizerState:
    """Measures a larger size, or settles on the best of those measured.

    Args:
        weight: what a batch of the present size really weighed: less at the end of the items, more where a single item
            is heavier than a batch was meant to be.
        rate: weight per second of this size.
        available: the bytes that a batch may use.
    """
    if state.fixed:
        return replace(state, phase=Steady())
    room, size = state.room(available), state.size
    if len(state.memory.alone) == 1 and room < 2 * size and weight >= 2 and not state.memory.confirmed:
        # The first call of a function is slow and takes memory that it keeps. A second, smaller size tells what an
        # item really takes.
        return replace(state, phase=Probing(), size=float(weight // 2), rates=((weight, rate),), first=weight)
    if state.first is not None:
        size = state.first
        if room >= 1.1 * size:
            return replace(state, phase=Probing(), size=min(2 * size, room), first=None)
    best, rates = max((rate for _, rate in state.rates), default=0.0), (*state.rates, (weight, rate))
    state, size, levelled = replace(state, rates=rates, first=None), max(size, weight), _levelled_off(rates)
    if not levelled and room >= 1.1 * size:
        return replace(state, phase=Probing(), size=min(size * (4 if rate > _LARGE_SPEEDUP * best else 2), room))
    fastest = max(rate for _, rate in rates)
    size = max(size for size, rate in rates if rate >= _NEAR_FASTEST * fastest)
    # A size that ran within the budget is not doubted, whatever the model says.
    proven = max((weight for weight, peak in state.memory.overlapped.items() if peak <= available), default=0.0)
    size = min(size, max(room, proven))
    return replace(state, phase=Steady(memory_bound=not levelled), size=size, proven=(min(size, proven), available))


def _levelled_off(rates: tuple[tuple[float, float], ...]) -> bool:
    """Whether the last size was no faster than those before it. Batches so short that a hiccup may have slowed them
    count only where the size before the last was no faster either."""

    def gained(index: int) -> bool:
        return rates[index][1] >= _MIN_SPEEDUP * max((rate for _, rate in rates[:index]), default=0.0)

    last, (weight, rate) = len(rates) - 1, rates[-1]
    brief = weight / rate < _LONG_BATCH
    return len(rates) >= _MIN_SIZES and not gained(last) and not (brief and gained(last - 1))


def _after_out_of_memory(state: SizerState, seen: MemoryExceeded) -> SizerState:
    """Later batches are smaller; and where this one had all the memory to itself, it takes more than the model says."""
    memory, cost = state.memory, state.memory.cost
    whole = seen.weight >= 0.9 * min(state.size, state.ceiling.weight)  # and not a part of one that failed before
    if cost and whole and not seen.contended and seen.weight > 0:
        excess = max(0.0, seen.available - cost.at(seen.weight)) / seen.weight
        memory = replace(memory, excess=memory.excess + excess)
    ceiling = replace(state.ceiling.lowered(0.7 * seen.weight, state.size), contended=seen.contended)
    return replace(state, phase=state.phase if state.settled else Steady(), memory=memory, ceiling=ceiling)


def _after_too_big(state: SizerState, before: SizerState) -> SizerState:
    """Sizes are as before the batch with that item; what was being measured then is measured anew."""
    phase = state.phase
    if isinstance(phase, Steady):
        phase = before.phase if isinstance(before.phase, Steady) else Probing()
    memory = replace(state.memory, excess=before.memory.excess)
    return replace(state, size=before.size, phase=phase, memory=memory, ceiling=before.ceiling)


def issue(state: SizerState, available: int, workers: int) -> SizerState | None:
    """The state after handing out one more batch; None where a probe or trials must come back first."""
    match state.phase:
        case Probing(running=True):
            return None
        case Steady(memory_bound=True) if state.room(available) >= 2 * state.size:  # another process has gone
            return replace(state, phase=Probing(running=True), size=2 * state.size)
        case Probing():
            return replace(state, phase=Probing(running=True))
        case Timing(issued=issued, finished=finished) as timing:
            # No more than tell the speed, with one before them and one behind that they overlap with: what comes after
            # is better run in larger batches.
            missing = timing.wanted - len(timing.rates) + (finished == 0)
            if issued - finished >= workers * (1 + missing):
                return None
            return replace(state, phase=replace(timing, issued=issued + 1))
    return state


def capacity_beside(state: SizerState, available: int, workers: int) -> float:
    """The weight of a batch that another worker may run while a probe is under way: of a size that was measured. 0
    where there is none, and it has to wait."""
    memory = state.memory
    if workers == 1 or not isinstance(state.phase, Probing):
        return 0.0
    measured = max(memory.alone, default=state.size if memory.remembered else 0.0)
    return min(measured, state.room(available))
