"""A map over several devices: one worker process each, all taking batches from the same scheduler.

The parent owns the sizer, the ledger and the results; a worker asks for a batch, and sends the results back. Items that
are on disk the worker reads itself; others are sent to it. A worker runs the same pipeline as a single process, with a
`RemoteScheduler` where the parent has its `Scheduler`: each method is one message to the parent. The batches of a
worker that dies go to the others.
"""

import functools
import math
import threading
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
from .pipeline import LOOK, Pipeline
from .scheduler import Scheduler
from .size_search import MemoryExceeded, ProbeFailed
from .sources import ItemSource, LoadedBatch

_SOON = 0.02  # seconds until it is seen again whether finished batches were read


class RemoteScheduler:
    """The scheduler as a worker sees it: every call goes to the parent and waits for its answer."""

    def __init__(self, channel: Channel, items: ItemSource | None) -> None:
        self._channel, self._items, self._lock = channel, items, threading.Lock()

    def _ask(self, name: str, *arguments: Any) -> Any:
        with self._lock:
            self._channel.send((name, arguments))
            return self._channel.receive()

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return functools.partial(self._ask, name)

    def load(self, span: BatchSpan) -> LoadedBatch | None:
        return span.loaded if self._items is None else self._items.load(span.start, span.stop)


def _work(
    channel: Channel,
    executor: Callable[[torch.device], Executor],
    items: ItemSource | None,
    device: torch.device,
    budget: int,
    item_cost: Cost | None,
) -> int:
    """Runs batches until there are none, and returns the peak bytes. Without items, batches are sent with theirs."""
    with MemoryLimit(budget, device, every=LOOK) as memory_limit:
        scheduler: Any = RemoteScheduler(channel, items)
        return Pipeline(executor(device), memory_limit, scheduler, item_cost).run()


@dataclass(slots=True)
class _Assigned:
    """What one worker has: batches that were handed out and are not done, by position; and whether one is a probe."""

    batches: dict[int, LoadedBatch] = field(default_factory=dict)
    probing: bool = False

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
    ) -> None:
        self._scheduler, self.observed = scheduler, 0
        self._sends_items = not items.on_disk
        self._returned: list[LoadedBatch] = []
        self._deaths: dict[int, int] = {}  # of workers, by the position of a batch that each had
        self._workers = LocalWorkers()
        self._assigned = [_Assigned() for _ in devices]
        own, threads = None if self._sends_items else items, max(1, torch.get_num_threads() // len(devices))
        for device in devices:
            limit = Budget.parse(budget).on(device).limit(memory(device), held=0)
            cpus = sum(other.type == "cpu" for other in devices)
            share = (limit - reserve) // cpus if device.type == "cpu" else limit
            self._workers.start(f"brimful-{device}", _work, executor, own, device, share, item_cost, threads=threads)

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
                answer = self._workers.receive(_SOON if self._scheduler.full() else 1.0)
                if answer is not None and answer.event is Event.SENT and answer.value[0] == "next":
                    waiting.append((answer.worker, answer.value[1][0]))
                elif answer is not None:
                    self._handle(answer)
                waiting = [ask for ask in waiting if ask[0] in self._workers.running and not self._hand_out(*ask)]
                yield

    def land(self) -> None:
        """Nothing is under way here: what the workers had not handed in is dropped."""

    def _hand_out(self, worker: int, available: int) -> bool:
        """Sends a worker its next batch. False: it has to wait, for the first probe, for
        finished batches to be read, or to see whether one dies."""
        assigned = self._assigned[worker]
        if self._returned:
            loaded = self._returned.pop(0)
            span: BatchSpan | None = BatchSpan(loaded.start, loaded.stop, math.inf)
        elif (span := self._scheduler.next(available, bool(assigned.batches))) is not None:
            rows = LoadedBatch(span.start, span.stop - span.start, None)
            loaded = self._scheduler.load(span) if self._sends_items else rows
        else:
            others = any(self._assigned[other].batches for other in self._workers.running - {worker})
            if (others or self._scheduler.full()) and not assigned.batches:
                return False
            self._workers.send(worker, None)
            return True
        if loaded.count:
            # Noted here, not when it runs: another worker may finish a later batch first, and a gap would not tell
            # how it had been split.
            self._scheduler.begin(loaded.start, loaded.stop)
            assigned.batches[loaded.start] = loaded
            assigned.probing = assigned.probing or span.probe
        self._workers.send(worker, replace(span, loaded=_compact(loaded)) if self._sends_items else span)
        return True

    def _handle(self, answer: Answer) -> None:
        match answer.event:
            case Event.RETURNED:
                self.observed = max(self.observed, answer.value)
            case Event.RAISED:
                raise answer.value
            case Event.DIED:
                self._take_over(answer.worker, answer.value)
            case Event.SENT:
                name, arguments = answer.value
                assigned = self._assigned[answer.worker]
                if name == "begin":
                    assigned.split(*arguments)
                elif name == "done":
                    assigned.batches.pop(arguments[0].start, None)
                    assigned.probing = assigned.probing and not arguments[1].probe
                elif name == "observe" and isinstance(arguments[0], MemoryExceeded | ProbeFailed):
                    assigned.probing = False
                self._workers.send(answer.worker, getattr(self._scheduler, name)(*arguments))

    def _take_over(self, worker: int, how: str) -> None:
        """A worker died: the others do what it had, unless it is what kills them."""
        assigned = self._assigned[worker]
        for start, loaded in assigned.batches.items():
            self._deaths[start] = self._deaths.get(start, 0) + 1
            if self._deaths[start] > 1:
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
