"""The loop of a map on one device: load ahead, move in, compute, move out, keep, and learn the batch size.

While one batch computes, the next is moved to the device, the one after it is read on a thread of its own, and
the results of the last are moved back and written. A probe runs alone, so that what is measured is its own.
"""

import contextlib
import gc
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Protocol

import torch

from ...core.base import pytree
from ...core.base.background import BackgroundThread
from ...core.base.errors import BudgetError
from ...core.base.units import format_bytes, format_count
from ...core.memory import devices
from ...core.memory.limit import MemoryLimit
from ...core.memory.monitor import Peak
from ...core.memory.oom import InseparableBatch, OutOfMemory
from .batch_sizer import BatchSpan
from .executor import BatchResult, Executor, LaunchedBatch, StagedBatch
from .sources import LoadedBatch

LOOK = 0.02  # seconds between looks at memory, where batches are shorter than that
_SHRINKS = 4  # times that batches are made smaller for a process over its budget: what it keeps then is not theirs
_PATIENCE = 60.0  # seconds to wait for neighbours to give memory back before stopping


@dataclass(frozen=True, slots=True)
class BatchMeasurement:
    """What a finished batch taught.

    Attributes:
        weight: what it weighed.
        seconds: since the batch before it was finished.
        timed: whether those seconds tell its speed: other batches ran before and beside it, and it ran once.
        peak: the highest memory seen so far.
        available: what the next batch may use.
        probe, trial: as in its `BatchSpan`.
    """

    weight: float
    seconds: float
    timed: bool
    peak: int
    available: int
    probe: bool
    trial: int


class Scheduler(Protocol):
    """Where a pipeline gets its batches and reports what it did: here, or in another process."""

    def next(self, available: int) -> BatchSpan | None:
        """The next cut under that many bytes; None at the end."""
        ...

    def load(self, span: BatchSpan) -> LoadedBatch:
        """The items of a cut; called on the reading thread, in order."""
        ...

    def begin(self, start: int, stop: int) -> None:
        """A cut is about to be run."""
        ...

    def done(self, done: BatchResult, report: BatchMeasurement) -> None:
        """A batch is finished."""
        ...

    def probe_failed(self) -> None:
        """A probe came to nothing."""
        ...

    def transfer_bytes(self, weight: float, inward: int, outward: int) -> None:
        """What a batch of that weight carries in and out, in bytes."""
        ...

    def out_of_memory(self, weight: float, contended: bool, limit: int) -> None:
        """A batch ran out of memory, of which there were so many bytes; less than usual where neighbours contended."""
        ...

    def ceiling(self) -> float:
        """The weight above which a batch is known not to fit."""
        ...

    def predicted_bytes(self, weight: float) -> int:
        """The bytes that a batch of that weight is expected to need."""
        ...

    def allocator_retried(self, weight: float) -> None:
        """The allocator had to free and try again."""
        ...

    def warn(self, message: str) -> None:
        """Something the user should know."""
        ...

    def flush(self) -> None:
        """Waits until what was finished has been kept, and its memory is free again."""
        ...


@dataclass(slots=True)
class _Piece:
    """A batch in the loop."""

    loaded: Future[LoadedBatch]
    probe: bool = False
    trial: int = 0
    staged: StagedBatch | None = None
    flows: bool = False  # whether others ran before and beside it


class Pipeline:
    """Runs every batch on one device.

    Args:
        executor: runs the function on a batch.
        memory_limit: the budget on the executor's device.
        scheduler: where the batches come from and the results go.
        sleep: waits some seconds; tests bring their own.
    """

    def __init__(
        self,
        executor: Executor,
        memory_limit: MemoryLimit,
        scheduler: Scheduler,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._executor, self._limit, self._scheduler, self._sleep = executor, memory_limit, scheduler, sleep
        self._waiting: deque[_Piece] = deque()
        self._flying: tuple[LaunchedBatch, _Piece] | None = None
        self._last = time.perf_counter()
        self._retries = self._count_retries()
        self._looked, self._seen = 0.0, 0
        self._heaviest = 0.0  # of all that ran
        self._peak = Peak(memory_limit.device, memory_limit.baseline)
        self._strained, self._over, self._weighed = False, 0, 0.0
        self.observed = 0

    def run(self) -> None:
        """Until there is no more work. After an exception, `land` still keeps what had been computed."""
        with BackgroundThread() as pool, self._peak:
            while (piece := self._take(pool)) is not None:
                self._run(piece, pool)
            self.land()
            self.observed = max(self.observed, self._peak.read())

    def land(self) -> None:
        """Waits for the batch that is still under way, and keeps it."""
        if self._flying is not None:
            (launched, piece), self._flying = self._flying, None
            self._heaviest = max(self._heaviest, _weight(launched.loaded))
            self._keep(launched.loaded, self._executor.finish(launched), piece)

    def _take(self, pool: BackgroundThread) -> _Piece | None:
        self._refill(pool, 1)
        if not self._waiting and self._flying is not None:
            self._flying[1].flows = False  # nothing runs behind it: how soon it lands says nothing
            self.land()  # its report may free the way for more
            self._refill(pool, 1)
        return self._waiting.popleft() if self._waiting else None

    def _refill(self, pool: BackgroundThread, depth: int) -> None:
        while len(self._waiting) < depth and not (self._waiting and self._waiting[-1].probe):
            span = self._scheduler.next(self._limit.available())
            if span is None:
                return
            loaded = pool.submit(lambda span=span: self._executor.pin(self._scheduler.load(span)))
            self._waiting.append(_Piece(loaded, span.probe, span.trial))

    def _run(self, piece: _Piece, pool: BackgroundThread) -> None:
        loaded = piece.loaded.result()
        if loaded.count == 0:
            return
        self._scheduler.begin(loaded.start, loaded.start + loaded.count)
        # On a CPU nothing would stop an item that is too big; on CUDA the allocator does, so there it is tried. What
        # is no heavier than what has run already is not too big, however much the process has grown meanwhile.
        untried = self._limit.device.type == "cpu" and _weight(loaded) > self._heaviest
        if loaded.count == 1 and untried and self._scheduler.predicted_bytes(_weight(loaded)) > self._limit.bytes:
            self._keep(loaded, self._executor.too_big(loaded))
            if piece.probe:
                self._scheduler.probe_failed()
            return
        if loaded.count > 1 and _weight(loaded) > self._scheduler.ceiling():
            piece.staged = None
            self._split(loaded)
            if piece.probe:
                self._scheduler.probe_failed()
            return
        if piece.probe:
            self._alone()
        elif self._flying is None or self._flying[0].computed():
            # The function waits for its own results, so the next batch must be on its way before it is called.
            self._prefetch(pool, wait=False)
        launched = None
        try:
            staged = piece.staged or self._executor.stage(loaded)
            piece.staged = None
            launched = self._executor.launch(staged)
        except OutOfMemory:
            pass
        except InseparableBatch:
            self._split(loaded)
            if piece.probe:
                self._scheduler.probe_failed()
            return
        if launched is None:
            self._overflow(loaded, piece.probe)
            return
        piece.flows = self._flying is not None
        self.land()
        self._flying = (launched, piece)
        if piece.probe:
            self.land()
        else:
            self._prefetch(pool, wait=True)

    def _prefetch(self, pool: BackgroundThread, wait: bool) -> None:
        """Starts moving the next batch in while this one computes, and reading the one after it."""
        self._refill(pool, 2)
        following = self._waiting[0] if self._waiting else None
        if following is None or following.probe or following.staged is not None or self._limit.device.type == "cpu":
            return
        if wait or following.loaded.done():
            try:
                following.staged = self._executor.stage(following.loaded.result())
            except OutOfMemory:  # no room beside this one: it is moved in when its turn comes
                following.staged = None

    def _alone(self) -> None:
        """Clears the device of everything but what is about to be measured."""
        self.land()
        self._scheduler.flush()
        self.observed = max(self.observed, self._peak.read())
        if self._limit.device.type == "cuda":
            torch.cuda.synchronize(self._limit.device)
        devices.release_cache(self._limit.device)
        self._peak.__enter__()
        self._last = time.perf_counter()

    def _keep(self, loaded: LoadedBatch, done: BatchResult, piece: _Piece | None = None) -> None:
        probe, trial = (piece.probe, piece.trial) if piece else (False, 0)
        now = time.perf_counter()
        seconds, self._last = now - self._last, now
        weight, looked = _weight(loaded), probe or trial > 0 or now - self._looked >= LOOK
        if looked:
            self._looked, self._seen = now, self._peak.read()
            self.observed = max(self.observed, self._seen)
        if probe and done.values is not None and loaded.tree is not None:
            self._scheduler.transfer_bytes(weight, pytree.nbytes(loaded.tree), pytree.nbytes(done.values))
        timed = not done.reran and (probe or (piece is not None and piece.flows))
        report = BatchMeasurement(weight, seconds, timed, self._seen, self._limit.available(), probe, trial)
        self._scheduler.done(done, report)
        if looked:
            self._watch(weight, self._seen, probe)

    def _watch(self, weight: float, peak: int, probe: bool) -> None:
        """Signs that the batches are too large, short of an error."""
        retries, alike = self._count_retries(), abs(weight - self._weighed) <= 0.01 * weight
        if retries > self._retries and alike and not probe:
            # After a change of size the cache has to be made anew, once; at one and the same size it never should.
            self._scheduler.allocator_retried(weight)
            if not self._strained:
                self._scheduler.warn(
                    "the allocator had to free memory and try again; batches are made a little smaller"
                )
            self._strained = True
        self._retries, self._weighed = retries, weight
        if self._limit.device.type == "cpu" and peak > self._limit.bytes / 2:
            devices.trim_heap()
        if self._limit.device.type == "cpu" and peak > self._limit.bytes and not probe and self._over < _SHRINKS:
            self._scheduler.allocator_retried(weight * self._limit.bytes / peak)
            if not self._over:
                self._scheduler.warn(
                    f"a batch of weight {format_count(weight)} took {format_bytes(peak)}, over the budget of "
                    f"{format_bytes(self._limit.bytes)}; batches are made smaller"
                )
            self._over += 1
            self._peak.__enter__()

    def _count_retries(self) -> int:
        if self._limit.device.type != "cuda":
            return 0
        return torch.cuda.memory_stats(self._limit.device).get("num_alloc_retries", 0)

    def _overflow(self, loaded: LoadedBatch, probe: bool) -> None:
        """A batch ran out of memory: everything else is put aside, and it is cut in two."""
        contended, limit = self._limit.contended(), self._limit.available()
        self.land()
        for piece in self._waiting:
            piece.staged = None
        gc.collect()  # what the function left in circles
        devices.release_cache(self._limit.device)
        self._retries = self._count_retries()  # it tried again before it failed; that is no further sign
        weight = _weight(loaded)
        if loaded.count > 1:
            self._scheduler.out_of_memory(weight, contended, limit)
            self._scheduler.warn(f"out of memory on {format_count(loaded.count)} items; they are done in two halves")
            self._split(loaded)
            return
        done = self._insist(loaded)
        if probe:
            self._scheduler.out_of_memory(weight, contended, limit)
        self._keep(loaded, done)

    def _insist(self, loaded: LoadedBatch) -> BatchResult:
        """One item, with all the memory there is. While neighbours hold some, it waits for them."""
        waited, pause = 0.0, 0.25
        while True:
            with contextlib.suppress(OutOfMemory):
                return self._executor.finish(self._executor.launch(self._executor.stage(loaded)))
            self._retries = self._count_retries()
            if not self._limit.contended():
                return self._executor.too_big(loaded)
            if waited >= _PATIENCE:
                raise BudgetError(
                    f"item at position {loaded.start} does not fit: other processes leave "
                    f"{format_bytes(self._limit.available())} of the budget of {format_bytes(self._limit.bytes)}. With "
                    "out=, what was finished is kept: run the same command again when there is memory."
                )
            if waited == 0:
                self._scheduler.warn("other processes hold the memory; waiting for it")
            self._sleep(pause)
            waited, pause = waited + pause, min(5.0, pause * 2)

    def _split(self, loaded: LoadedBatch) -> None:
        middle = loaded.count // 2
        for part in (loaded.slice(middle, loaded.count), loaded.slice(0, middle)):
            self._scheduler.begin(part.start, part.start + part.count)
            future: Future[LoadedBatch] = Future()
            future.set_result(part)
            self._waiting.appendleft(_Piece(future))


def _weight(loaded: LoadedBatch) -> float:
    return float(loaded.count if loaded.weights is None else loaded.weights.sum())
