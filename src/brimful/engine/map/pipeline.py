"""The pipeline of a map on one device: load ahead, move in, compute, move out, hand over, and measure.

While one batch computes, the next is moved to the device, the one after it is read on a thread of its own, and
the results of the last are moved back and written. A probe runs alone, so that what is measured is its own.
"""

import functools
import time
from collections import deque
from collections.abc import Callable, Generator
from concurrent.futures import Future
from dataclasses import dataclass

import torch

from ...core.base import pytree
from ...core.base.background import BackgroundThread
from ...core.base.compilers.activity import Count, listening
from ...core.base.errors import BudgetError
from ...core.base.formatting import format_bytes, format_count
from ...core.base.rng import preserve_rng
from ...core.memory import devices, garbage
from ...core.memory.cost import Cost
from ...core.memory.limit import MemoryLimit
from ...core.memory.monitor import Peak
from ...core.memory.oom import InseparableBatch, OutOfMemory, is_out_of_memory, retry_smaller
from .batch import BatchResult
from .executor import Executor, LaunchedBatch, StagedBatch
from .memory_model import LOOK
from .scheduler import Scheduler
from .size_search import AllocatorRetried, BatchMeasurement, ItemTooBig, MemoryExceeded, ProbeFailed, SizerState
from .sources import LoadedBatch

_SHRINKS = 4  # times that batches are made smaller for a process over its budget: what it keeps then is not theirs
_IN_A_ROW = 64  # items that did not fit alone, and no other between them: it is not the items then
_PATIENCE = 60.0  # seconds to wait for other processes to give memory back before stopping


@dataclass(slots=True)
class _Batch:
    """A batch in the pipeline.

    Attributes:
        future: its items, which may still be being read.
        probe, trial, beside: as in its `BatchSpan`.
        staged: the batch on the device, once it was moved there ahead of its turn.
        overlaps: whether others run before and beside it.
        waited: seconds it has waited for memory, once its single item did not fit; None before that.
        before: what was known of sizes before it, or the batch that it is a part of, was run.
    """

    future: Future[LoadedBatch]
    probe: bool = False
    trial: int = 0
    beside: bool = False
    staged: StagedBatch | None = None
    overlaps: bool = False
    waited: float | None = None
    before: SizerState | None = None

    @property
    def loaded(self) -> LoadedBatch:
        return self.future.result()


class Pipeline:
    """Runs every batch on one device.

    Args:
        executor: runs the function on a batch.
        memory_limit: the budget on the executor's device.
        scheduler: where the batches come from and the results go.
        item_cost: bytes of a single item by its weight: those beyond the budget are not run. None: all are tried.
        sleep: waits some seconds; tests bring their own.
        prompt: hands over every batch before the next is run. By default that is done while the next is computed.
        work: what is run, by which another run of the same knows it; "": none will.
    """

    def __init__(
        self,
        executor: Executor,
        memory_limit: MemoryLimit,
        scheduler: Scheduler,
        item_cost: Cost | None = None,
        sleep: Callable[[float], None] = time.sleep,
        prompt: bool = False,
        work: str = "",
    ) -> None:
        self._work, self._batches = work, 0
        self._executor, self._limit, self._scheduler, self._sleep = executor, memory_limit, scheduler, sleep
        self._device, self._on_cpu = memory_limit.device, memory_limit.device.type == "cpu"
        self._waiting: deque[_Batch] = deque()
        self._flying: tuple[LaunchedBatch, _Batch] | None = None
        self._peak = Peak(memory_limit.device, memory_limit.baseline)
        self._last_done, self._last_look, self._last_peak, self._last_weight = time.perf_counter(), 0.0, 0, 0.0
        self._item_cost, self._in_a_row = item_cost, 0
        self._heaviest = 0.0  # of all that ran
        self._compiled, self._compiled_before = Count(), 0
        self._retries = self._count_retries()
        self._shrinks = 0  # times that batches were made smaller, short of an error
        self._prompt, self._landed = prompt, False
        self.observed = 0

    def run(self) -> int:
        """Runs all batches, and returns the peak bytes. After an exception, `land` still hands over what had been
        computed."""
        with preserve_rng(self._device):
            for _ in self.steps():
                pass
        return self.observed

    def steps(self) -> Generator[None]:
        """Runs batch after batch. Between two the caller may do as it likes: that time is not counted."""
        with BackgroundThread() as reader, self._peak, listening(self._compiled):
            while (batch := self._take(reader)) is not None:
                if batch.loaded.count:
                    self._run(batch, reader)
                    del batch
                    paused = time.perf_counter()
                    yield
                    self._last_done += time.perf_counter() - paused
            self.land()
            self.observed = max(self.observed, self._peak.read())
        if self._work and self._batches == 1:
            devices.leave(self._device, (self._work, self._heaviest))

    def land(self) -> None:
        """Waits for the batch that is still under way, and hands over its results."""
        if self._flying is not None:
            (launched, batch), self._flying = self._flying, None
            self._heaviest = max(self._heaviest, launched.loaded.weight)
            self._hand_over(launched.loaded, self._executor.finish(launched), batch)

    def _take(self, reader: BackgroundThread) -> _Batch | None:
        self._refill(reader, 1)
        if not self._waiting and self._flying is not None:
            self._flying[1].overlaps = False  # nothing runs behind it: how soon it lands says nothing
            self.land()  # the next size may depend on its measurement
            self._refill(reader, 1)
        return self._waiting.popleft() if self._waiting else None

    def _refill(self, reader: BackgroundThread, depth: int) -> None:
        while len(self._waiting) < depth and not (self._waiting and self._waiting[-1].probe):
            span = self._scheduler.next(self._limit.available())
            if span is None:
                return
            future = reader.submit(lambda span=span: self._executor.pin(self._scheduler.load(span)))
            self._waiting.append(_Batch(future, span.probe, span.trial, span.beside))

    def _run(self, batch: _Batch, reader: BackgroundThread) -> None:
        try:
            self._fit(batch)
            if batch.probe:
                self._clear_device(batch.loaded.weight)
            elif self._flying is None or self._flying[0].computed():
                # The function waits for its own results, so the next batch must be on its way before it is called.
                self._prefetch(reader, wait=False)
            shrink = functools.partial(self._shrink, batch)
            launched = retry_smaller(functools.partial(self._launch, batch), shrink, self._device)
        except OutOfMemory:  # a single item
            self._flag(batch)
            return
        self._in_a_row = 0
        batch.overlaps = self._flying is not None or (self._prompt and self._landed)
        self.land()
        self._flying, self._landed = (launched, batch), not batch.probe
        if batch.probe or self._prompt:
            self.land()
        else:
            self._prefetch(reader, wait=True)

    def _flag(self, batch: _Batch) -> None:
        """Hands over a single item that does not fit.

        Raises:
            BudgetError: item after item does not fit.
        """
        loaded = batch.loaded
        self._replace(batch, loaded)
        if batch.before is not None:
            self._scheduler.observe(ItemTooBig(batch.before))
        self._hand_over(loaded, self._executor.too_big(loaded), batch)
        # Where they differ in weight, the heaviest come first, and lighter ones may fit.
        self._in_a_row += batch.waited is not None and (loaded.weights is None or loaded.weight <= self._heaviest)
        if self._in_a_row == _IN_A_ROW:
            raise BudgetError(
                f"{_IN_A_ROW} items in a row did not fit, each of them alone: of the budget of "
                f"{format_bytes(self._limit.bytes)} this process holds {format_bytes(self._limit.used())} already. "
                "Free what it holds, or name a larger budget. With out=, what was finished is kept."
            )

    def _launch(self, batch: _Batch) -> LaunchedBatch:
        staged, batch.staged = batch.staged or self._executor.stage(batch.loaded), None
        try:
            return self._executor.launch(staged)
        except InseparableBatch:
            self._halve(batch)
        return self._launch(batch)

    def _prefetch(self, reader: BackgroundThread, wait: bool) -> None:
        """Starts moving the next batch in while this one computes, and reading the one after it."""
        self._refill(reader, 2)
        following = self._waiting[0] if self._waiting else None
        if following is None or following.probe or following.staged is not None or self._on_cpu:
            return
        if wait or following.future.done():
            try:
                following.staged = self._executor.stage(following.loaded)
            except Exception as error:  # no room beside this one: it is moved in when its turn comes
                if not is_out_of_memory(error):
                    raise

    def _fit(self, batch: _Batch) -> None:
        """Notes that a batch is about to be run, in halves where it is above the ceiling.

        On a CPU nothing would stop an item that is too big; on CUDA the allocator does, so there it is tried.

        Raises:
            OutOfMemory: it is a single item that is predicted not to fit.
        """
        known = self._scheduler.begin(batch.loaded.start, batch.loaded.stop)
        batch.before = batch.before or known
        while batch.loaded.count > 1 and batch.loaded.weight > known.most(self._limit.available()):
            self._halve(batch)
        alone, cost = self._on_cpu and batch.loaded.count == 1, self._item_cost
        if alone and cost is not None and cost.at(batch.loaded.weight) > self._limit.bytes:
            raise OutOfMemory

    def _halve(self, batch: _Batch) -> None:
        """Goes on with the first half of a batch; the second half is the next in the queue."""
        first, second = batch.loaded.halves()
        self._replace(batch, first)
        self._waiting.appendleft(_Batch(_ready(second), beside=batch.beside, before=batch.before))
        for half in (second, first):
            self._scheduler.begin(half.start, half.stop)

    def _replace(self, batch: _Batch, part: LoadedBatch) -> None:
        """Goes on with a part of a batch, or all of it once more, which measures nothing."""
        if batch.probe:
            self._scheduler.observe(ProbeFailed())
        batch.future, batch.probe, batch.trial, batch.staged = _ready(part), False, 0, None

    def _shrink(self, batch: _Batch) -> bool:
        """A batch ran out of memory. All others leave the device, and it is halved; a single item is tried once more,
        and then as long as other processes hold memory that they may give back.

        Raises:
            OutOfMemory: the single item has all the memory there is, and does not fit.
        """
        loaded, contended, available = batch.loaded, self._limit.contended(), self._limit.available()
        self.land()
        for other in self._waiting:
            other.staged = None
        self._retries = self._count_retries()  # the allocator tried again before it failed; that is no further sign
        if loaded.count > 1 or batch.probe:
            self._scheduler.observe(MemoryExceeded(loaded.weight, contended, available))
        if loaded.count > 1:
            self._scheduler.warn(f"out of memory on {format_count(loaded.count)} items; they are done in two halves")
            self._halve(batch)
            self._fit(batch)
        else:
            self._replace(batch, loaded)
            if batch.waited is None and self._in_a_row < 2:  # its last try; of many in a row garbage is not the reason
                garbage.collect()
            batch.waited = 0.0 if batch.waited is None else self._wait(batch, batch.waited, contended)
        return True

    def _wait(self, batch: _Batch, waited: float, contended: bool) -> float:
        """Waits for other processes to give memory back, each time longer, and returns the seconds waited so far."""
        if not contended:
            raise OutOfMemory
        if waited >= _PATIENCE:
            raise BudgetError(
                f"item at position {batch.loaded.start} does not fit: other processes leave "
                f"{format_bytes(self._limit.available())} of the budget of {format_bytes(self._limit.bytes)}. With "
                "out=, what was finished is kept: run the same command again when there is memory."
            )
        if waited == 0:
            self._scheduler.warn("other processes hold the memory; waiting for it")
        pause = min(5.0, waited + 0.25)
        self._sleep(pause)
        return waited + pause

    def _clear_device(self, weight: float) -> None:
        """Leaves nothing on the device but what is about to be measured: a batch of that weight."""
        self.land()
        self._scheduler.flush()
        self.observed = max(self.observed, self._peak.read())
        if self._on_cpu:
            devices.trim_heap()
        elif not devices.is_as_left(self._device, (self._work, weight)):
            torch.cuda.synchronize(self._device)
            devices.release_cache(self._device)
        self._peak.__enter__()
        self._last_done = time.perf_counter()

    def _hand_over(self, loaded: LoadedBatch, done: BatchResult, batch: _Batch) -> None:
        self._batches += 1
        now = time.perf_counter()
        seconds, self._last_done = now - self._last_done, now
        compiled = self._compiled.functions > self._compiled_before  # meanwhile: how long it took tells no speed
        self._compiled_before = self._compiled.functions
        tells = not done.reran and (batch.probe or batch.overlaps)
        looked = batch.probe or batch.trial > 0 or now - self._last_look >= LOOK
        if looked:
            self._last_look, self._last_peak = now, self._peak.read()
            self.observed = max(self.observed, self._last_peak)
        measurement = BatchMeasurement(
            weight=loaded.weight,
            seconds=seconds,
            timed=tells and not compiled,
            compiled=tells and compiled,
            peak=self._last_peak,
            available=self._limit.available(),
            probe=batch.probe,
            trial=batch.trial,
            beside=batch.beside,
            input_bytes=pytree.nbytes(loaded.tree) if looked and loaded.tree is not None else None,
        )
        self._scheduler.done(done, measurement)
        if looked:
            self._check_memory(measurement)

    def _check_memory(self, seen: BatchMeasurement) -> None:
        """Signs that the batches are too large, short of an error."""
        retries, alike = self._count_retries(), abs(seen.weight - self._last_weight) <= 0.01 * seen.weight
        if retries > self._retries and alike and not seen.probe:
            # After a change of size the cache has to be made anew, once; at one and the same size it never should.
            message = "the allocator had to free memory and try again; batches are made a little smaller"
            self._shrink_later(seen.weight, message)
        self._retries, self._last_weight = retries, seen.weight
        if self._on_cpu and seen.peak > self._limit.bytes / 2:
            devices.trim_heap()
        if self._on_cpu and seen.peak > self._limit.bytes and not seen.probe and self._shrinks < _SHRINKS:
            message = (
                f"a batch of weight {format_count(seen.weight)} took {format_bytes(seen.peak)}, over the budget of "
                f"{format_bytes(self._limit.bytes)}; batches are made smaller"
            )
            self._shrink_later(seen.weight * self._limit.bytes / seen.peak, message)
            self._peak.__enter__()

    def _shrink_later(self, weight: float, message: str) -> None:
        """Makes the batches that follow lighter than that; the user is warned once."""
        self._scheduler.observe(AllocatorRetried(weight))
        if not self._shrinks:
            self._scheduler.warn(message)
        self._shrinks += 1

    def _count_retries(self) -> int:
        return 0 if self._on_cpu else devices.allocator_retries(self._device)


def _ready(loaded: LoadedBatch) -> Future[LoadedBatch]:
    future: Future[LoadedBatch] = Future()
    future.set_result(loaded)
    return future
