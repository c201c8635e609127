"""The work of a map in this process: cuts and items on the way out, finished batches on the way in."""

import contextlib
import threading
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from ...core.base import pytree
from ...core.base.errors import BudgetError, CancelledError
from ...core.base.units import format_bytes
from ...core.memory.cost import Cost
from ...core.memory.plan import Candidate, Plan, choose
from ...core.runs.events import BatchDone, Events, Planned, Warned
from .batch import is_bad
from .batch_sizer import BatchSizer, BatchSpan
from .collectors import BackgroundWriter
from .executor import BatchResult
from .ledger import Ledger
from .pipeline import BatchMeasurement
from .sources import ItemSource, LoadedBatch


class StatusTable:
    """Status and message of every item, and how many are done."""

    def __init__(self, length: int | None) -> None:
        self._status = np.full(length or 0, -1, dtype=np.int8)
        self.messages: dict[int, str] = {}
        self.done = self.bad = 0

    def add(self, index: np.ndarray, status: np.ndarray, messages: dict[int, str]) -> None:
        """Takes note of a batch; messages are by item index."""
        top = int(index.max()) + 1 if len(index) else 0
        if top > len(self._status):  # a stream of unknown length: grow by doubling
            grown = np.full(max(top, 2 * len(self._status)), -1, dtype=np.int8)
            grown[: len(self._status)] = self._status
            self._status = grown
        self._status[index] = status
        self.messages |= messages
        self.done += len(index)
        self.bad += int(np.count_nonzero(is_bad(status)))

    @property
    def status(self) -> np.ndarray:
        return self._status[: self.done]


class LocalScheduler:
    """Hands out cuts, keeps what comes back, and tells the events.

    Args:
        items: the source.
        sizer: decides the cuts.
        write: takes a finished batch and its item indices; runs on a background thread.
        events: the stream.
        ledger: where cuts are noted; None when nothing is kept on disk.
        limit: the budget in bytes.
        gathers: whether results pile up in the memory that is counted (a CPU run without `out`).
        beside: batches whose input and whose results are in that memory beside the one that computes.
        plan: the plan so far; replaced once the batch size has settled.
        on_settled: called with the measured cost.
        cancel: once it is set, from any thread, `next` raises `CancelledError`.
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
        on_settled: Callable[[Cost], None],
        cancel: threading.Event | None = None,
    ) -> None:
        self._items, self._sizer, self._events, self._ledger = items, sizer, events, ledger
        self.tally, self._limit, self._gathers, self._on_settled = tally, limit, gathers, on_settled
        self._beside, self.plan, self._cancel = beside, plan, cancel
        self._writer = BackgroundWriter(lambda done: write(done, items.index(done.start, done.start + done.count)))

    def next(self, available: int) -> BatchSpan | None:
        if self._cancel is not None and self._cancel.is_set():
            raise CancelledError
        return self._sizer.next(available)

    def load(self, span: BatchSpan) -> LoadedBatch:
        loaded = self._items.load(span.start, span.stop, span.capacity)
        if self._items.forward and loaded.count == 0:
            self._sizer.end()
        return loaded

    def begin(self, start: int, stop: int) -> None:
        if self._ledger:
            self._ledger.add(start, stop)

    def done(self, done: BatchResult, report: BatchMeasurement) -> None:
        index = self._items.index(done.start, done.start + done.count)
        messages = {int(index[place]): text for place, text in done.messages.items()}
        self._writer(done)
        self.tally.add(index, done.status, messages)
        if self._gathers and self._items.length is None and done.values is not None:
            self._keeps(self._sizer.kept + pytree.nbytes(done.values), self.tally.done)
        self._events.emit(
            BatchDone(
                items=done.count,
                bad=done.bad,
                done=self.tally.done,
                seconds=report.seconds,
                peak=report.peak,
                flagged=self.tally.bad,
                budget=min(report.available, self._limit),
            )
        )
        seconds = report.seconds if report.timed else None
        told = (report.weight, seconds, report.peak, report.available, report.probe, report.trial)
        if self._sizer.report(*told):
            self._settle(report.available)

    def probe_failed(self) -> None:
        self._sizer.probe_failed()

    def transfer_bytes(self, weight: float, inward: int, outward: int) -> None:
        count = self._items.length
        if self._gathers and count is not None:
            self._keeps(round(outward / weight * self._weight_of_all()), count)
        self._sizer.overlap = (self._beside[0] * inward + self._beside[1] * outward) / weight

    def _keeps(self, bytes: int, count: int) -> None:
        """Results pile up in the memory that is counted."""
        self._sizer.kept = bytes
        if bytes > self._limit:
            raise BudgetError(
                f"the results of {count:,} items take {format_bytes(bytes)}; the budget is "
                f"{format_bytes(self._limit)}. Pass out= to write them to disk as they come."
            )

    def _weight_of_all(self) -> float:
        weights = self._items.weights
        return float(self._items.length or 0) if weights is None else float(weights.sum())

    def out_of_memory(self, weight: float, contended: bool, limit: int) -> None:
        before, cost = self._sizer.settled, self._sizer.whole_cost
        self._sizer.out_of_memory(weight, contended, limit)
        if not before or self._sizer.whole_cost != cost:  # the next run is to know it too
            self._settle(self._limit)

    def ceiling(self) -> float:
        return self._sizer.ceiling

    def predicted_bytes(self, weight: float) -> int:
        cost = self._sizer.cost  # alone: what overlaps otherwise can wait
        return cost.at(weight) if cost else 0

    def allocator_retried(self, weight: float) -> None:
        self._sizer.allocator_retried(weight)

    def warn(self, message: str) -> None:
        self._events.emit(Warned(message=message))

    def _settle(self, available: int) -> None:
        """The batch size is found: plan the rest, tell it, and remember what was measured."""
        sizer = self._sizer
        size = sizer.capacity(available) if sizer.settled else sizer.largest
        if self._ledger:
            self._ledger.settle(size)
        cost = sizer.whole_cost
        if cost is None or sizer.cost is None:
            return
        self._on_settled(replace(cost, fixed=max(0.0, cost.fixed - sizer.kept)))
        with contextlib.suppress(BudgetError):  # it runs all the same, one item at a time
            self.plan = batch_plan(self.plan.work, self._items, cost, self._limit, size, self.plan.devices)
        self._events.emit(Planned(plan=self.plan.to_dict()))

    def conclude(self) -> None:
        """All is done. A run too short to settle on a size has still measured what it costs."""
        if not self._sizer.settled and self._sizer.largest:
            self._settle(self._limit)

    def flush(self) -> None:
        self._writer.drain()

    def close(self) -> None:
        """Waits until all that was finished is kept."""
        try:
            self._writer.close()
        finally:
            if self._ledger:
                self._ledger.close()


def batch_plan(
    work: str, items: ItemSource, cost: Cost, budget: int, size: float | None, devices: tuple[str, ...]
) -> Plan:
    """The plan of a map. Only the lightest item has to fit: heavier ones are flagged, not fatal.

    Args:
        size: the weight of a batch, where that is known; otherwise as much as the budget holds.
    """
    weights = items.weights
    unit = 1.0 if weights is None or not len(weights) else float(weights.min())
    heaviest = 1.0 if weights is None or not len(weights) else float(weights.max())
    fits = cost.guarded(heaviest) <= budget
    total = None if weights is None else float(weights.sum())
    candidate = Candidate(
        strategy="batched",
        cost=cost,
        items=items.length,
        total=total,
        heaviest=heaviest if fits else unit,
        most=None if size is None else max(1, int(size / (heaviest if fits else unit))),
        devices=devices,
        precision="as given",
    )
    plan = choose(work, [candidate], budget)
    return replace(plan, strategy="whole") if plan.steps == 1 else plan
