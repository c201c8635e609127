"""A map over several devices, here or on a cluster: one worker each, all taking batches from the same scheduler.

The parent owns the sizer, the ledger and the results; a worker asks for a batch, and sends the results back. Items that
are on disk the worker reads itself; others are sent to it. A worker runs the same pipeline as a single process, with a
`RemoteScheduler` where the parent has its `Scheduler`: each method is one message to the parent. The batches of a
worker that dies go to the others.
"""

import math
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from ...core.base.errors import WorkerError
from ...core.memory.cost import Cost
from ...core.memory.limit import MemoryLimit
from ..distributed.workers import Answer, Channel, Event, Place, Workers
from .batch_spans import BatchSpan
from .executor import Executor
from .functions.composition import prepare
from .hosts.blocks import HELD, Block, FinishedBatches
from .hosts.cluster import ClusterHosts, NodeBudget
from .hosts.local import LocalHosts
from .hosts.remote_scheduler import TOLD, RemoteScheduler
from .memory_model import LOOK
from .pipeline import Pipeline
from .scheduler import Scheduler
from .size_search import MemoryExceeded, ProbeFailed
from .sources import ItemSource, LoadedBatch
from .store.worker_shards import WorkerShards
from .timeouts import CallClock, SlowItemSearch

_IN_A_ROW = 64  # items that took too long, and no batch between them: it is not the items then
_SOON = 0.02  # seconds until it is seen again whether finished batches were read
_COUNT_NODES = 5.0  # seconds between counts of what the nodes of a cluster have done
_STARTS = 3  # times that a worker is started on a node and finishes nothing, before none is started there


def _work(
    channel: Channel,
    executor: Callable[[torch.device], Executor],
    items: ItemSource | None,
    name: str,
    budget: int | NodeBudget,
    item_cost: Cost | None,
    timeout: float | None,
    shards: WorkerShards | None,
) -> int:
    """Runs batches until there are none, and returns the peak bytes. Without items, batches are sent with theirs."""
    device = torch.device(name)
    allowed = budget if isinstance(budget, int) else budget.bytes(device)
    with MemoryLimit(allowed, device, every=LOOK) as memory_limit:
        scheduler: Any = RemoteScheduler(channel, items, timeout, shards)
        runs = executor(device)
        if timeout is not None:
            prepare(runs.fn, device)
            runs.watch(scheduler.calling)
        try:
            return Pipeline(runs, memory_limit, scheduler, item_cost, prompt=timeout is not None).run()
        finally:
            scheduler.close()


@dataclass(slots=True)
class _Assigned:
    """What one worker has: batches that were handed out and are not done, by position; whether one is a probe; the
    positions of the last that it has begun; and the seconds that its last ones took."""

    place: Place
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
        items: the source. Workers read what is on disk themselves, on a cluster also what is in memory.
        hosts: where the workers are.
        scheduler: hands out the batches.
        item_cost: as for `Pipeline`.
        reserve: bytes of the budget on a CPU that are not the workers' but the parent's.
        timeout: seconds that an item may take; None: as long as it likes.
        identity: the run's, where workers may write their results themselves; None: they are all sent.
        flag_crashes: flags an item that ends its worker, where a batch that ended two ends the run otherwise.
        apart: results come batch by batch, for someone who reads them; on this machine they always do.
    """

    def __init__(
        self,
        executor: Callable[[torch.device], Executor],
        items: ItemSource,
        hosts: LocalHosts | ClusterHosts,
        scheduler: Scheduler,
        item_cost: Cost | None = None,
        reserve: int = 0,
        timeout: float | None = None,
        flag_crashes: bool = False,
        identity: str | None = None,
        apart: bool = False,
    ) -> None:
        self._scheduler, self.observed, self._flag_crashes = scheduler, 0, flag_crashes
        self._hosts, self._workers, self._apart = hosts, hosts.workers(), apart or not hosts.remote
        own = hosts.share(self._workers, items)
        self._sends_items = own is None
        self._returned: list[LoadedBatch] = []
        self._deaths: dict[int, int] = {}  # of workers, by the position of a batch that each had
        self._nodes: dict[str, int] = {}  # items done by each node of a cluster
        self._counted = time.monotonic()
        self._seconds: dict[str, float] = {}  # that batches of a kind of device took, of late
        self._starts: dict[Place, int] = {}  # of workers on a node, since one finished a batch there
        self._clock = CallClock(math.inf if timeout is None else timeout)
        self._searches: dict[tuple[int, int], SlowItemSearch] = {}  # by the positions of what is to be run next
        self._overdue: set[int] = set()  # workers that were ended for it
        self._complete = False  # whether a worker has ended for want of work
        self._slow = 0  # items that took too long, since one did not
        self._assigned = list[_Assigned]()  # `start` has it without self, which would be a cycle of references

        def start(place: Place, workers: Workers = self._workers, assigned: list[_Assigned] = self._assigned) -> None:
            shards = None if identity is None or own is None else hosts.shards(place, identity)
            arguments = executor, own, place.device, hosts.budget_of(place, reserve), item_cost, timeout, shards
            name = f"brimful-{place.device}" + (f" on {place.host}" if place.host else "")
            workers.start(name, _work, *arguments, threads=place.threads, place=place)
            assigned.append(_Assigned(place))

        self._start = start
        for place in hosts.places:
            start(place)

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
                if joined := self._hosts.joined(self._scheduler.warn):
                    for place in joined:
                        self._start(place)
                    self._scheduler.count_workers(len(self._workers.running))
                paused = time.perf_counter()
                yield
                self._clock.pause(time.perf_counter() - paused)
        if self._nodes:
            self._scheduler.count_nodes(self._nodes)

    def _count_node(self, place: Place, items: int) -> None:
        """A node of a cluster has done so many items."""
        if place.host:
            self._nodes[place.host] = self._nodes.get(place.host, 0) + items
            if time.monotonic() - self._counted >= _COUNT_NODES:
                self._counted = time.monotonic()
                self._scheduler.count_nodes(dict(self._nodes))

    def _serve(self, waiting: list[tuple[int, int]]) -> list[tuple[int, int]]:
        """Hands batches to those that asked, and gives those that go on waiting: where there is none for one that has
        nothing to do, there is none for others like it. One that has something waits for an answer to go on."""
        left = list[tuple[int, int]]()
        none = set[str]()  # the kinds of device of those
        for worker, available in waiting:
            idle, kind = not self._assigned[worker].batches, self._assigned[worker].place.kind
            if worker in self._workers.running and ((kind in none and idle) or not self._hand_out(worker, available)):
                left.append((worker, available))
                none.add(kind)
        return left

    def land(self) -> None:
        """Nothing is under way here: what the workers had not handed in is dropped."""

    def _hand_out(self, worker: int, available: int) -> bool:
        """Sends a worker its next batch. False: it has to wait, for the first probe, for
        finished batches to be read, or to see whether one dies."""
        assigned, again = self._assigned[worker], bool(self._returned)
        kind = assigned.place.kind
        if again:
            loaded = self._returned.pop(0)
            span: BatchSpan | None = BatchSpan(
                loaded.start, loaded.stop, math.inf, slow=loaded.slow, crash=loaded.crash
            )
        elif (span := self._scheduler.next(available, bool(assigned.batches), kind)) is not None:
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
                self._scheduler.begin(loaded.start, loaded.stop, kind)
            assigned.batches[loaded.start] = loaded
            assigned.probing = assigned.probing or span.probe
        # Not where it must be known which batch was begun: a call that takes too long is one of that.
        alone = again or self._clock.timeout < math.inf or self._flag_crashes
        seconds, most = self._seconds_of(assigned), HELD // max(1, loaded.nbytes)
        following = [] if alone else self._scheduler.following(span, available, seconds, kind, most)
        if following:
            for other in following:
                rows = LoadedBatch(other.start, other.stop - other.start, None)
                assigned.batches[other.start] = self._scheduler.load(other) if self._sends_items else rows
            stops = (span.stop, *(other.stop for other in following))
            sent = (assigned.batches[each.start].compact() for each in (span, *following)) if self._sends_items else ()
            state = self._scheduler.state(kind)
            self._workers.send(worker, Block(span.start, stops, span.capacity, state, tuple(sent), self._apart))
        else:
            self._workers.send(worker, replace(span, loaded=loaded.compact()) if self._sends_items else span)
        return True

    def _seconds_of(self, assigned: _Assigned) -> float:
        """That its last batches took; of a worker that has done none, those of others like it."""
        known = math.isfinite(assigned.seconds)
        return assigned.seconds if known else self._seconds.get(assigned.place.kind, math.inf)

    def _handle(self, answer: Answer) -> None:
        match answer.event:
            case Event.RETURNED:
                self.observed, self._complete = max(self.observed, answer.value), True
            case Event.RAISED:
                raise answer.value
            case Event.DIED if answer.worker in self._overdue:
                self._search(answer.worker)
            case Event.DIED if self._flag_crashes and self._suspect(answer.worker):
                self._search(answer.worker, crash=answer.value)
            case Event.DIED:
                self._take_over(answer.worker, answer.value)
            case Event.SENT:
                name, arguments = answer.value
                said = self._answer(answer.worker, name, arguments)
                if name not in TOLD:
                    self._workers.send(answer.worker, said)

    def _answer(self, worker: int, name: str, arguments: tuple[Any, ...]) -> Any:
        """What a worker asked the scheduler for."""
        assigned = self._assigned[worker]
        kind = assigned.place.kind
        if name == "calling":
            search = self._searches.get(assigned.begun)
            return self._clock.start(worker, arguments[0], search is not None and search.patient)
        if name == "finished":
            return self._finished(assigned, arguments[0])
        if name == "begin":
            assigned.begun = arguments
            if self._trial(*arguments) is not None:
                return self._scheduler.state(kind)
            assigned.split(*arguments)
        elif name == "done":
            assigned.probing = assigned.probing and not arguments[1].probe
            start, stop = arguments[0].start, arguments[0].start + arguments[0].count
            if (trial := self._trial(start, stop)) is not None:
                return self._end_trial(assigned, trial, stop)
            loaded = assigned.batches.pop(start, None)
            if arguments[1].timed:
                assigned.seconds = self._seconds[kind] = arguments[1].seconds
            self._starts.pop(assigned.place, None)
            self._count_node(assigned.place, stop - start)
            self._searches.pop((start, stop), None)
            self._slow = self._slow if loaded is not None and len(loaded.slow) == loaded.count else 0
        elif name == "observe" and isinstance(arguments[0], MemoryExceeded | ProbeFailed):
            assigned.probing = False
        about = (kind,) if name in ("begin", "done", "observe") else ()
        return getattr(self._scheduler, name)(*arguments, *about)

    def _finished(self, assigned: _Assigned, finished: list[FinishedBatches]) -> None:
        """A worker hands in batches of its block."""
        for group in finished:
            first, count = group.done.start, group.done.count
            for start in [start for start in assigned.batches if 0 <= start - first < count]:
                del assigned.batches[start]
            assigned.seconds = self._seconds[assigned.place.kind] = group.seconds / group.batches
            self._starts.pop(assigned.place, None)
            self._count_node(assigned.place, count)
            self._scheduler.finished(group, assigned.place.kind)

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

    def _suspect(self, worker: int) -> bool:
        """Whether it is the batch that this worker ran when it died that ends workers."""
        begun = self._assigned[worker].begun
        return self._deaths.get(begun[0], 0) > 0 or any(first <= begun[0] < last for first, last in self._searches)

    def _search(self, worker: int, crash: str = "") -> None:
        """A worker was ended because a call took too long, or died in it: another takes its place, and the item is
        looked for."""
        assigned = self._assigned[worker]
        trial = self._trial(*assigned.begun)
        running = assigned.batches.pop(assigned.begun[0] if trial is None else trial[0], None)
        self._returned += [assigned.batches[start] for start in sorted(assigned.batches)]
        assigned.batches.clear()
        if assigned.probing:
            self._scheduler.observe(ProbeFailed(), assigned.place.kind)
        self._start(assigned.place)
        if crash:
            self._scheduler.warn(f"{self._workers.names[worker]} died ({crash}); the item that ends it is looked for")
        if running is None:
            return
        search = self._searches.pop((running.start, running.stop), None)
        if search is None:
            search = SlowItemSearch(replace(running, crash=crash))
        else:
            search.timed_out()
        self._slow += search.whole and not search.split
        if self._slow == _IN_A_ROW:
            did = f"ended their worker ({crash})" if crash else f"took longer than timeout={self._clock.timeout:g} s"
            raise WorkerError(
                f"{_IN_A_ROW} items in a row {did}, and no batch between them was finished. "
                f"{'Look at them' if crash else 'Give them longer'}. With out=, what was finished is kept."
            )
        self._go_on(search)

    def _take_over(self, worker: int, how: str) -> None:
        """A worker died: the others do what it had, unless it is what kills them. What it had is handed out one by one
        from here on, so that it is known which of them one begins."""
        assigned = self._assigned[worker]
        begun = assigned.begun[0]
        for start, loaded in assigned.batches.items():
            if self._flag_crashes and start != begun:
                continue
            self._deaths[start] = self._deaths.get(start, 0) + 1
            if self._deaths[start] > 1 and start == assigned.begun[0]:
                raise WorkerError(
                    f"two workers died on the batch at positions {start} to {loaded.stop} ({how}). With out=, what was "
                    "finished is kept: look at those items, or name a smaller budget, and run the same command again; "
                    "or pass on_crash='flag' to have the item flagged that ends them."
                )
        replaced = self._replace(assigned.place)
        if not self._workers.running and (assigned.batches or not self._complete):
            raise WorkerError(
                f"every worker has died, the last with {how}. With out=, what was finished is kept: run the same "
                "command again to go on."
            )
        self._returned += [assigned.batches[start] for start in sorted(assigned.batches)]
        if assigned.probing:
            self._scheduler.observe(ProbeFailed(), assigned.place.kind)
        taken = "another is started" if replaced else "the others take over its work"
        self._scheduler.warn(f"{self._workers.names[worker]} died ({how}); {taken}")

    def _replace(self, place: Place) -> bool:
        """Starts a worker on a node in the place of one that died, unless they only ever die there."""
        self._starts[place] = self._starts.get(place, 0) + 1
        again = (self._hosts.remote or self._flag_crashes) and self._starts[place] < _STARTS
        if again:
            self._start(place)
        return again
