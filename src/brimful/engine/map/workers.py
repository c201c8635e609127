"""A map over several devices: one worker process each, all taking batches from the same scheduler.

The parent owns the sizer, the ledger and the results; a worker asks for a batch, and sends the results back. Items that
are on disk the worker reads itself; others are sent to it. A worker runs the same pipeline as a single process, with a
`RemoteScheduler` where the parent has its `Scheduler`: each method is one message to the parent. The batches of a
worker that dies go to the others.
"""

import math
import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from ...core.base import pytree
from ...core.base.errors import WorkerError
from ...core.memory.budget import Budget, BudgetLike
from ...core.memory.cost import Cost
from ...core.memory.devices import memory
from ...core.memory.limit import MemoryLimit
from ..distributed.workers import Answer, Channel, Event, LocalWorkers
from .batch_spans import BatchSpan
from .executor import Executor
from .functions.composition import prepare
from .hosts.blocks import Block, FinishedBatches
from .hosts.remote_scheduler import RemoteScheduler
from .pipeline import LOOK, Pipeline
from .scheduler import Scheduler
from .size_search import MemoryExceeded, ProbeFailed
from .sources import ItemSource, LoadedBatch
from .timeouts import CallClock, SlowItemSearch

_IN_A_ROW = 64  # items that took too long, and no batch between them: it is not the items then
_SOON = 0.02  # seconds until it is seen again whether finished batches were read


def _work(
    channel: Channel,
    executor: Callable[[torch.device], Executor],
    items: ItemSource | None,
    device: torch.device,
    budget: int,
    item_cost: Cost | None,
    timeout: float | None,
) -> int:
    """Runs batches until there are none, and returns the peak bytes. Without items, batches are sent with theirs."""
    with MemoryLimit(budget, device, every=LOOK) as memory_limit:
        scheduler: Any = RemoteScheduler(channel, items, timeout)
        runs = executor(device)
        if timeout is not None:
            prepare(runs.fn, device)
            runs.watch(scheduler.calling)
        try:
            return Pipeline(runs, memory_limit, scheduler, item_cost, prompt=timeout is not None).run()
        finally:
            scheduler.hand_in()


@dataclass(slots=True)
class _Assigned:
    """What one worker has: batches that were handed out and are not done, by position; whether one is a probe; the
    positions of the last that it has begun; and the seconds that its last ones took."""

    device: torch.device
    batches: dict[int, LoadedBatch] = field(default_factory=dict)
    probing: bool = False
    begun: tuple[int, int] = (-1, -1)
    seconds: float = math.inf

    def split(self, start: int, stop: int) -> None:
        """The worker splits a batch in two when it does not fit."""
        for first, loaded in list(self.batches.items()):
            if first <= start and stop <= loaded.stop and (first, loaded.stop) != (start, stop):
                del self.batches[first]
                for begin, end in ((first, start), (start, stop), (stop, loaded.stop)):
                    if begin < end:
                        self.batches[begin] = loaded.slice(begin - first, end - first)


class WorkerPool:
    """The workers of a map, served by the parent.

    Args:
        executor: makes the executor of a device.
        items: the source. Workers read what is on disk themselves.
        devices: one for each worker.
        budget: as given; workers on the CPU share what it allows there.
        scheduler: hands out the batches.
        item_cost: as for `Pipeline`.
        reserve: bytes of the budget on a CPU that are not the workers' but the parent's.
        timeout: seconds that an item may take; None: as long as it likes.
    """

    def __init__(
        self,
        executor: Callable[[torch.device], Executor],
        items: ItemSource,
        devices: Sequence[torch.device],
        budget: BudgetLike,
        scheduler: Scheduler,
        item_cost: Cost | None = None,
        reserve: int = 0,
        timeout: float | None = None,
    ) -> None:
        self._scheduler, self.observed = scheduler, 0
        self._sends_items = not items.on_disk
        self._returned: list[LoadedBatch] = []
        self._deaths: dict[int, int] = {}  # of workers, by the position of a batch that each had
        self._workers = LocalWorkers()
        self._assigned: list[_Assigned] = []
        self._clock = CallClock(math.inf if timeout is None else timeout)
        self._searches: dict[tuple[int, int], SlowItemSearch] = {}  # by the positions of what is to be run next
        self._overdue: set[int] = set()  # workers that were ended for it
        self._slow = 0  # items that took too long, since one did not
        own, cpus = None if self._sends_items else items, sum(other.type == "cpu" for other in devices)
        threads = max(1, torch.get_num_threads() // len(devices))

        def start(device: torch.device) -> None:
            limit = Budget.parse(budget).on(device).limit(memory(device), held=0)
            share = (limit - reserve) // cpus if device.type == "cpu" else limit
            arguments = executor, own, device, share, item_cost, timeout
            self._workers.start(f"brimful-{device}", _work, *arguments, threads=threads)
            self._assigned.append(_Assigned(device))

        self._start = start
        for device in devices:
            start(device)

    def run(self) -> int:
        """Serves the workers until all work is done, and returns the peak bytes of any of them."""
        for _ in self.steps():
            pass
        return self.observed

    def steps(self) -> Generator[None]:
        """Serves the workers, message after message. Between two the caller may do as it likes; meanwhile they finish
        what they have."""
        waiting: list[tuple[int, int]] = []  # those that asked for a batch when none could be given
        with self._workers:
            while self._workers.running:
                soon = self._scheduler.full() or self._clock.timeout < 1
                answer = self._workers.receive(_SOON if soon else 1.0)
                if answer is not None:
                    self._clock.stop(answer.worker)
                if answer is not None and answer.event is Event.SENT and answer.value[0] == "next":
                    waiting.append((answer.worker, answer.value[1][0]))
                elif answer is not None:
                    self._handle(answer)
                waiting = self._serve(waiting)
                for worker in self._clock.overdue():
                    self._clock.forget(worker)
                    self._overdue.add(worker)
                    self._workers.kill(worker)
                paused = time.perf_counter()
                yield
                self._clock.pause(time.perf_counter() - paused)

    def _serve(self, waiting: list[tuple[int, int]]) -> list[tuple[int, int]]:
        """Hands batches to those that asked, and gives those that go on waiting: where there is none for one that has
        nothing to do, there is none for others like it. One that has something waits for an answer to go on."""
        left = list[tuple[int, int]]()
        for worker, available in waiting:
            idle = not self._assigned[worker].batches
            if worker in self._workers.running and ((left and idle) or not self._hand_out(worker, available)):
                left.append((worker, available))
        return left

    def land(self) -> None:
        """Nothing is under way here: what the workers had not handed in is dropped."""

    def _hand_out(self, worker: int, available: int) -> bool:
        """Sends a worker its next batch. False: it has to wait, for the first probe, for
        finished batches to be read, or to see whether one dies."""
        assigned, again = self._assigned[worker], bool(self._returned)
        if again:
            loaded = self._returned.pop(0)
            span: BatchSpan | None = BatchSpan(loaded.start, loaded.stop, math.inf, slow=loaded.slow)
        elif (span := self._scheduler.next(available, bool(assigned.batches))) is not None:
            rows = LoadedBatch(span.start, span.stop - span.start, None)
            loaded = self._scheduler.load(span) if self._sends_items else rows
        else:
            others = any(self._assigned[other].batches for other in self._workers.running if other != worker)
            if (others or self._scheduler.full()) and not assigned.batches:
                return False
            self._workers.send(worker, None)
            return True
        if loaded.count:
            # Noted here, not when it runs: another worker may finish a later batch first, and a gap would not tell
            # how it had been split.
            if self._trial(loaded.start, loaded.stop) is None:
                self._scheduler.begin(loaded.start, loaded.stop)
            assigned.batches[loaded.start] = loaded
            assigned.probing = assigned.probing or span.probe
        # Not where it must be known which batch was begun: a call that takes too long is one of that.
        alone = again or self._sends_items or self._clock.timeout < math.inf
        following = [] if alone else self._scheduler.following(span, available, assigned.seconds)
        if following:
            for other in following:
                assigned.batches[other.start] = LoadedBatch(other.start, other.stop - other.start, None)
            stops = (span.stop, *(other.stop for other in following))
            self._workers.send(worker, Block(span.start, stops, span.capacity, self._scheduler.state))
        else:
            self._workers.send(worker, replace(span, loaded=_compact(loaded)) if self._sends_items else span)
        return True

    def _handle(self, answer: Answer) -> None:
        match answer.event:
            case Event.RETURNED:
                self.observed = max(self.observed, answer.value)
            case Event.RAISED:
                raise answer.value
            case Event.DIED if answer.worker in self._overdue:
                self._timed_out(answer.worker)
            case Event.DIED:
                self._take_over(answer.worker, answer.value)
            case Event.SENT:
                name, arguments = answer.value
                self._workers.send(answer.worker, self._answer(answer.worker, name, arguments))

    def _answer(self, worker: int, name: str, arguments: tuple[Any, ...]) -> Any:
        """What a worker asked the scheduler for."""
        assigned = self._assigned[worker]
        if name == "calling":
            search = self._searches.get(assigned.begun)
            return self._clock.start(worker, arguments[0], search is not None and search.patient)
        if name == "finished":
            return self._finished(assigned, arguments[0])
        if name == "begin":
            assigned.begun = arguments
            if self._trial(*arguments) is not None:
                return self._scheduler.state
            assigned.split(*arguments)
        elif name == "done":
            assigned.probing = assigned.probing and not arguments[1].probe
            start, stop = arguments[0].start, arguments[0].start + arguments[0].count
            if (trial := self._trial(start, stop)) is not None:
                return self._end_trial(assigned, trial, stop)
            loaded = assigned.batches.pop(start, None)
            assigned.seconds = arguments[1].seconds if arguments[1].timed else assigned.seconds
            self._searches.pop((start, stop), None)
            self._slow = self._slow if loaded is not None and len(loaded.slow) == loaded.count else 0
        elif name == "observe" and isinstance(arguments[0], MemoryExceeded | ProbeFailed):
            assigned.probing = False
        return getattr(self._scheduler, name)(*arguments)

    def _finished(self, assigned: _Assigned, finished: list[FinishedBatches]) -> None:
        """A worker hands in batches of its block."""
        for group in finished:
            first, count = group.done.start, group.done.count
            for start in [start for start in assigned.batches if 0 <= start - first < count]:
                del assigned.batches[start]
            assigned.seconds = group.seconds / group.batches
            self._scheduler.finished(group)

    def _trial(self, start: int, stop: int) -> tuple[int, int] | None:
        """The part of a batch that a search runs, and whose results count for nothing, with these positions in it; None
        where they are of a batch that counts."""
        for (first, last), search in self._searches.items():
            if not search.whole and first <= start and stop <= last:
                return first, last
        return None

    def _end_trial(self, assigned: _Assigned, trial: tuple[int, int], stop: int) -> None:
        """A part that a search runs is done up to that position."""
        if stop == trial[1]:
            assigned.batches.pop(trial[0], None)
            search = self._searches.pop(trial)
            search.passed()
            self._go_on(search)

    def _go_on(self, search: SlowItemSearch) -> None:
        """Queues what a search runs next; a batch that takes too long though no item does alone, in two halves."""
        parts = search.batch.halves() if search.split and search.batch.count > 1 else (search.part,)
        if not search.split:
            self._searches[parts[0].start, parts[0].stop] = search
        self._returned[:0] = parts

    def _timed_out(self, worker: int) -> None:
        """A worker was ended because a call took too long: another takes its place, and the item is looked for."""
        assigned = self._assigned[worker]
        trial = self._trial(*assigned.begun)
        running = assigned.batches.pop(assigned.begun[0] if trial is None else trial[0], None)
        self._returned += [assigned.batches[start] for start in sorted(assigned.batches)]
        assigned.batches.clear()
        if assigned.probing:
            self._scheduler.observe(ProbeFailed())
        self._start(assigned.device)
        if running is None:
            return
        search = self._searches.pop((running.start, running.stop), None)
        if search is None:
            search = SlowItemSearch(running)
        else:
            search.timed_out()
        self._slow += search.whole and not search.split
        if self._slow == _IN_A_ROW:
            raise WorkerError(
                f"{_IN_A_ROW} items in a row took longer than timeout={self._clock.timeout:g} seconds, and no batch "
                "between them was finished. Give them longer. With out=, what was finished is kept."
            )
        self._go_on(search)

    def _take_over(self, worker: int, how: str) -> None:
        """A worker died: the others do what it had, unless it is what kills them. What it had is handed out one by one
        from here on, so that it is known which of them one begins."""
        assigned = self._assigned[worker]
        for start, loaded in assigned.batches.items():
            self._deaths[start] = self._deaths.get(start, 0) + 1
            if self._deaths[start] > 1 and start == assigned.begun[0]:
                raise WorkerError(
                    f"two workers died on the batch at positions {start} to {loaded.stop} ({how}). With out=, what was "
                    "finished is kept: look at those items, or name a smaller budget, and run the same command again."
                )
        if not self._workers.running:
            raise WorkerError(
                f"every worker has died, the last with {how}. With out=, what was finished is kept: run the same "
                "command again to go on."
            )
        self._returned += [assigned.batches[start] for start in sorted(assigned.batches)]
        if assigned.probing:
            self._scheduler.observe(ProbeFailed())
        self._scheduler.warn(f"{self._workers.names[worker]} died ({how}); the others take over its work")


def _compact(loaded: LoadedBatch) -> LoadedBatch:
    """A batch that holds its own rows only: a view would be sent with all of the array behind it."""
    if loaded.tree is None:
        return loaded
    return replace(loaded, tree=pytree.apply(loaded.tree, lambda tensor: tensor.detach().cpu().clone()))
