"""The scheduler of a map in this process: batches on the way out, their results on the way in."""

import contextlib
import threading
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from ...core.base.errors import BudgetError, CancelledError
from ...core.base.formatting import format_bytes, format_count
from ...core.memory.cost import Cost
from ...core.memory.plan import Candidate, Plan, choose
from ...core.runs.events import BatchDone, Events, MemoryMeasured, NodesDone, Planned, Warned
from .batch import BatchResult, is_bad
from .batch_spans import BatchSizer, BatchSpan
from .hosts.blocks import FinishedBatches
from .size_search import BatchMeasurement, Observation, ResultsMeasured, SizerState
from .sources import ItemSource, LoadedBatch
from .store.collectors import BackgroundWriter
from .store.ledger import Ledger
from .store.result_bytes import ResultBytes
from .store.status_table import StatusTable

_BATCHES = ", batches of "  # what follows the name of a kind of device in a plan
_STEADY = 2  # batches of the chosen size that tell what the rest will take


class Scheduler:
    """Hands out batches, writes what comes back, and emits the events.

    A worker process has a `RemoteScheduler`, which passes each call on to this one. Where workers have devices of
    several kinds, `kind` says which one a call is about; None is the first.

    Args:
        items: the source.
        sizer: decides the sizes.
        write: takes a finished batch and its item indices; runs on a background thread.
        events: the stream.
        ledger: where batches are noted; None when nothing is written to disk.
        tally: the status of each item.
        limit: the budget in bytes.
        gathers: whether results accumulate in the memory that is counted (a CPU run without `out`).
        beside: batches whose input and whose results are in that memory beside the one that computes.
        plan: the plan so far; replaced once the batch size has settled.
        on_settled: called with the measured cost, and the kind of device.
        cancel: once it is set, from any thread, `next` raises `CancelledError`.
        kinds: of device, of each of the plan's devices, where the plan names them by kind; () where it does not.
        full: whether finished batches that wait to be read take all the memory they may: `next` gives none then.
    """

    def __init__(
        self,
        *,
        items: ItemSource,
        sizer: BatchSizer,
        write: Callable[[BatchResult, np.ndarray], None],
        events: Events,
        ledger: Ledger | None,
        tally: StatusTable,
        limit: int,
        gathers: bool,
        beside: tuple[int, int],
        plan: Plan,
        on_settled: Callable[[Cost, str], None],
        cancel: threading.Event | None = None,
        full: Callable[[], bool] = lambda: False,
        kinds: tuple[str, ...] = (),
    ) -> None:
        self.items, self._sizer, self._events, self._ledger = items, sizer, events, ledger
        self.tally, self._limit, self._on_settled = tally, limit, on_settled
        self.plan, self._cancel, self.full, self._kinds = plan, cancel, full, kinds
        weight = None if items.length is None else _total_weight(items)
        self._results = ResultBytes(beside, gathers, limit, items.length, weight)
        self._write, self._writer = write, BackgroundWriter(self._land)
        self._steady, self._varies = 0, False  # batches of the chosen size so far; whether lengths of results differ
        self._carried = dict[str, float]()  # bytes per unit of weight, by part of the plan, in the batch counted last
        self._parts = dict[str, int]()  # bytes by part, of the batch that had the most

    def next(self, available: int, busy: bool = False, kind: str | None = None) -> BatchSpan | None:
        """The next batch under that many bytes; None at the end, or where those under way must come back first. `busy`:
        as for `BatchSizer.next`."""
        if self._cancel is not None and self._cancel.is_set():
            raise CancelledError
        return None if self.full() else self._sizer.next(available, busy, kind)

    def load(self, span: BatchSpan) -> LoadedBatch:
        """The items of a batch; called on the reading thread, in order."""
        loaded = self.items.load(span.start, span.stop, span.capacity)
        if self.items.forward and loaded.count == 0:
            self._sizer.end()
        return loaded

    def state(self, kind: str | None = None) -> SizerState:
        """What is known of sizes and memory."""
        return self._sizer.of(kind)

    def begin(self, start: int, stop: int, kind: str | None = None) -> SizerState:
        """A batch is about to be run. Gives what is known by then of sizes and memory."""
        if self._ledger:
            self._ledger.add(start, stop)
        return self._sizer.of(kind)

    def done(self, done: BatchResult, measurement: BatchMeasurement, kind: str | None = None) -> None:
        """A batch is finished."""
        self._count_bytes(done, measurement, kind)
        self._writer(done, measurement)
        self.observe(measurement, kind)
        self._varies = self._varies or done.varies
        if self._sizer.state.settled and self._is_measured:
            self._correct_plan(measurement)

    def finished(self, group: FinishedBatches, kind: str | None = None) -> None:
        """Neighboring batches are finished."""
        together = replace(group.last, weight=group.weight, seconds=group.seconds)
        self._count_bytes(group.done, together, kind)
        self._writer(group.done, together)
        for _ in range(group.batches):
            before = self._sizer.of(kind)
            self.observe(group.last, kind)
            if self._sizer.of(kind) is before:  # nor would another change it
                break

    def following(
        self, span: BatchSpan, available: int, seconds: float, kind: str | None, most: int
    ) -> list[BatchSpan]:
        """Batches that a worker is given together with one, where each takes it so long, and `most` of them together;
        they are about to be run."""
        spans = self._sizer.following(span, available, seconds, kind, most)
        if self._ledger and spans:
            self._ledger.add_all((other.start, other.stop) for other in spans)
        return spans

    @property
    def _is_measured(self) -> bool:
        """Whether the peak of the plan is what batches took: a line through two probes may be far off at a third on a
        CPU, where memory is not proportional to the size of a batch, and where it depends on what the items are."""
        return self.plan.devices == ("cpu",) or (self._varies and len(self.plan.devices) == 1)

    def _correct_plan(self, measurement: BatchMeasurement) -> None:
        """After a few batches of the chosen size the plan has their peak."""
        self._steady += 1
        if self._steady != _STEADY:
            return
        left = 0.0
        if self._results.gathers and self.items.length:  # results that are yet to come stay in memory
            left = self._sizer.state.memory.results * max(0.0, 1 - self._results.count / self.items.length)
        self.plan = self._with_peak(measurement.peak + int(left))
        self._events.emit(Planned(plan=self.plan.to_dict()))

    def _land(self, done: BatchResult, measurement: BatchMeasurement) -> None:
        """Writes a finished batch, and only then counts it: what is counted is kept, whatever comes. On the writing
        thread."""
        index = self.items.index(done.start, done.start + done.count)
        self._write(done, index)
        self.tally.add(index, done.status, {int(index[item]): text for item, text in done.messages.items()})
        self._events.emit(
            BatchDone(
                items=done.count,
                bad=int(np.count_nonzero(is_bad(done.status))),
                done=self.tally.done,
                seconds=measurement.seconds,
                peak=measurement.peak,
                flagged=self.tally.bad,
                budget=min(measurement.available, self._limit),
            )
        )

    def _count_bytes(self, done: BatchResult, measurement: BatchMeasurement, kind: str | None) -> None:
        """What a batch carries in and out is in memory beside other batches; and results may accumulate there."""
        outward, varies = done.value_bytes, done.varies
        if outward is None:
            return
        weight, inward = measurement.weight, measurement.input_bytes if measurement.probe else None
        self._measure_parts(measurement, outward)
        self._results = self._results.after(done.count, weight, outward, inward is not None)
        memory = self._results.update(self._sizer.of(kind).memory, weight, outward, inward, varies)
        denser = self._results.held * self._results.denser if varies else 0.0
        self._sizer.observe(ResultsMeasured(memory.transfers, memory.results, memory.growth, denser), kind)
        if self._results.gathers and memory.results > self._limit:
            count = self._results.count if varies or self.items.length is None else self.items.length
            raise BudgetError(
                f"the results of {count:,} items take {format_bytes(memory.results)}; the budget is "
                f"{format_bytes(self._limit)}. Pass out= to write them to disk as they come."
            )

    def _measure_parts(self, measurement: BatchMeasurement, outward: int) -> None:
        """Emits the bytes of a batch's input and results, where they are more than before."""
        if measurement.input_bytes is None:
            return
        sizes = {"input of a batch": measurement.input_bytes, "results of a batch": outward}
        self._carried = {name: size / measurement.weight for name, size in sizes.items()}
        if self._sizer.state.settled and not self.plan.parts:  # by a cost that was remembered, without a probe
            self.plan = self._with_peak(self.plan.predicted)
            self._events.emit(Planned(plan=self.plan.to_dict()))
        largest = {name: max(size, self._parts.get(name, 0)) for name, size in sizes.items()}
        if largest != self._parts:
            self._parts = largest
            self._events.emit(MemoryMeasured(parts=largest))

    def _with_peak(self, predicted: int) -> Plan:
        """The plan with another peak, and what of it a batch carries in and out, as far as that is known."""
        named = tuple((name, round(size * self.plan.capacity)) for name, size in self._carried.items())
        rest = ("working memory", max(0, predicted - sum(size for _, size in named)))
        return replace(self.plan, predicted=predicted, parts=(*named, rest) if named else ())

    def observe(self, seen: Observation, kind: str | None = None) -> None:
        """Learns from a batch, or from something else that batch sizes depend on."""
        before = self._sizer.of(kind)
        self._sizer.observe(seen, kind)
        after = self._sizer.of(kind)
        if (after.settled and not before.settled) or after.memory.excess > before.memory.excess:
            available = seen.available if isinstance(seen, BatchMeasurement) else self._limit
            self._plan_rest(available, self._sizer.kind if kind is None else kind)

    def count_workers(self, count: int) -> None:
        """So many take batches from here on."""
        self._sizer.workers = count

    def count_nodes(self, done: dict[str, int]) -> None:
        """Emits what the nodes of a cluster have done so far."""
        self._events.emit(NodesDone(nodes=done))

    def warn(self, message: str) -> None:
        """Emits something that the user should know."""
        self._events.emit(Warned(message=message))

    def _plan_rest(self, available: int, kind: str) -> None:
        """The size for a kind of device is chosen: plan the rest, emit the plan, and remember what was measured."""
        state = self._sizer.of(kind)
        size = state.capacity(available) if state.settled else max(state.memory.alone)
        if self._ledger:
            self._ledger.record_size(size, kind)
        cost = state.memory.cost
        if cost is None:
            return
        fixed = max(0.0, cost.fixed - state.memory.results)
        self._on_settled(replace(cost, fixed=fixed, fastest=state.fastest, growing=state.growing), kind)
        devices = self._devices(kind, size)
        if kind != self._sizer.kind:  # the plan has the numbers of the first kind; of the others it says the size
            self.plan = replace(self.plan, devices=devices)
            self._events.emit(Planned(plan=self.plan.to_dict()))
            return
        with contextlib.suppress(BudgetError):  # it runs all the same, one item at a time
            self.plan = batch_plan(self.plan.work, self.items, cost, self._limit, size, devices)
            # Sizes that were slower than the one chosen have been run as well, and the peak is of all of them.
            largest = max(state.memory.alone, default=0.0)
            predicted = max(self.plan.predicted, cost.at(largest))
            if self.plan.devices == ("cpu",) and size <= largest:  # measured, where a formula may be far off
                predicted = state.memory.largest_peak
            self.plan = self._with_peak(predicted)
        self._events.emit(Planned(plan=self.plan.to_dict()))

    def _devices(self, kind: str, size: float) -> tuple[str, ...]:
        """Those of the plan; where they are of several kinds, with the batch size of that one."""
        if len(self._kinds) < 2:
            return self.plan.devices
        named = zip(self._kinds, self.plan.devices, strict=True)
        text = f"{_BATCHES}{format_count(size)}"
        return tuple(name.split(_BATCHES)[0] + text if own == kind else name for own, name in named)

    def conclude(self) -> None:
        """All is done. A run too short to settle on a size has still measured what it costs."""
        for kind, state in self._sizer.states.items():
            if not state.settled and state.memory.alone:
                self._plan_rest(self._limit, kind)
        memory = self._sizer.state.memory
        if self._steady < _STEADY and memory.alone and self._is_measured:
            # All that it ran were probes, with nothing beside them.
            peaks = (*memory.alone.values(), *memory.overlapped.values())
            self.plan = self._with_peak(max(peaks))
            self._events.emit(Planned(plan=self.plan.to_dict()))

    def flush(self) -> None:
        """Waits until what was finished has been written, and its memory is free again."""
        self._writer.drain()

    def close(self) -> None:
        """Waits until all that was finished is written, and ends the writing thread."""
        self._writer.close()


def _total_weight(items: ItemSource) -> float:
    return float(items.length or 0) if items.weights is None else float(items.weights.sum())


def batch_plan(
    work: str, items: ItemSource, cost: Cost, budget: int, size: float | None, devices: tuple[str, ...]
) -> Plan:
    """The plan of a map. Only the lightest item has to fit: heavier ones are flagged, not fatal.

    Args:
        size: the weight of a batch, where that is known; otherwise as much as the budget holds.
    """
    weights = np.ones(1) if items.weights is None or not len(items.weights) else items.weights
    heaviest = float(weights.max() if cost.guarded(float(weights.max())) <= budget else weights.min())
    candidate = Candidate(
        strategy="batched",
        cost=cost,
        items=items.length,
        total=None if items.weights is None else _total_weight(items),
        heaviest=heaviest,
        most=None if size is None else max(1, int(size / heaviest)),
        devices=devices,
        precision="as given",
    )
    plan = choose(work, [candidate], budget)
    return replace(plan, strategy="whole") if plan.steps == 1 else plan
