"""A simulated cluster of 1,000 GPUs and 100 million tasks, driven by the real driver: how much work it takes to lead
them, how well they are used, and what a lost worker costs.

    python benchmarks/cluster_simulation.py [--quick] [--out benchmarks/results/cluster-simulation-cpu.json]

Batch times are recorded first, from a real `gp.fit` of one process, and drawn from by every simulated worker. The
driver is the one that a real run has: `WorkerPool`, `Scheduler`, `BatchSizer`, `Ledger` and the event log, on a real
disk; messages are pickled as they would be. Only the workers are simulated (`SimulatedWorkers` implements `Workers`):
they compute nothing, and answer when their batch would be done, after a latency in each direction. Simulated time runs
on while the driver works: every message takes it as many seconds of a processor as it really did, so that a slow driver
lets workers wait. What it could hold counts the seconds of its writing thread besides.

Workers write their shards themselves, and the driver renames them: what that takes it is measured beside, on the same
disk, collecting of small shards included, and counted as the time of its writing thread. What a worker takes to write a
shard is measured as well.
"""

import argparse
import heapq
import os
import pickle
import random
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))
os.environ["BRIMFUL_CACHE_DIR"] = tempfile.mkdtemp()

import numpy as np
import torch

from brimful import gp
from brimful.core.base.formatting import format_table
from brimful.core.memory.cost import Cost
from brimful.core.runs.events import BatchDone, Events, JsonLines
from brimful.engine.distributed.workers import Answer, Event, Workers
from brimful.engine.map.batch import BatchResult, WrittenShard
from brimful.engine.map.batch_spans import BatchSizer, BatchSpan
from brimful.engine.map.hosts.blocks import Block, FinishedBatches
from brimful.engine.map.hosts.local import LocalHosts
from brimful.engine.map.scheduler import Scheduler, batch_plan
from brimful.engine.map.size_search import BatchMeasurement
from brimful.engine.map.sources import item_source
from brimful.engine.map.store.ledger import LEDGER, Ledger
from brimful.engine.map.store.shards import Shards, shard_name
from brimful.engine.map.store.status_table import StatusTable
from brimful.engine.map.store.worker_shards import WorkerShards
from brimful.engine.map.workers import WorkerPool
from saving import save

MEMORY = 10**10  # bytes that a worker says it has
WANTED = 5000  # batches per second that the driver must hold


def record(tasks: int, points: int, batch: int) -> dict[str, Any]:
    """Seconds of the batches of a real fit on this machine, in one process."""
    seconds: list[float] = []

    def listen(event: Any) -> None:
        if isinstance(event, BatchDone) and event.items == batch:
            seconds.append(event.seconds)

    data = gp.synthetic(tasks, points, seed=1)
    gp.fit(data, batch_size=batch, device="cpu", progress=False)  # what is loaded and compiled once
    gp.fit(data, batch_size=batch, device="cpu", progress=listen)
    kept = sorted(round(value, 5) for value in seconds[2:])
    return {"workload": "gp.fit, float64, one process", "points": points, "batch": batch, "seconds": kept}


@dataclass(slots=True)
class SimulatedWorker:
    """One worker: what it has to do, and what it has done and not handed in."""

    spans: deque[BatchSpan] = field(default_factory=deque)
    finished: list[tuple[BatchSpan, float]] = field(default_factory=list)
    running: BatchSpan | None = None
    asking: bool = False
    ended: bool = False
    began: float = 0.0
    busy: float = 0.0
    first: float | None = None
    last: float = 0.0
    block: bool = False


class SimulatedWorkers(Workers):
    """Workers on a simulated clock, and the driver's clock beside it.

    Args:
        seconds: of a batch, drawn at random.
        latency: seconds of a message in one direction.
        failures: when a worker dies, in simulated seconds, one for each failure.
        detection: seconds until the driver hears of it.
    """

    def __init__(
        self,
        seconds: list[float],
        latency: float,
        failures: list[float],
        detection: float,
    ) -> None:
        super().__init__()
        self._rng, self._seconds, self._latency, self._detection = random.Random(0), seconds, latency, detection
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._inbox: list[tuple[float, int, int, bytes]] = []
        self._count, self._now = 0, 0.0
        self._workers: list[SimulatedWorker] = []
        self._current: tuple[int, str] | None = None
        self._returned = self._own = 0.0
        self.clock = self.driver_seconds = 0.0
        self.messages = self.batches = 0
        self.lost = 0.0  # seconds of work that failures undid
        for when in failures:
            self._at(when, self._fail)

    # The interface.

    def start(self, name: str, target: Any, *arguments: Any, threads: int = 1, **more: Any) -> int:
        self._workers.append(SimulatedWorker())
        self.names.append(name)
        worker = len(self._workers) - 1
        self.running.add(worker)
        self._ask(worker)
        return worker

    def send(self, worker: int, message: Any) -> None:
        content = pickle.dumps(message, protocol=5)
        began = time.thread_time()
        now = self.clock + began - self._returned - self._own
        if self._current is not None and self._current[0] == worker and self._current[1] != "next":
            self._current = None  # the answer to what it sent, which it does not wait for
        else:
            given = pickle.loads(content)
            self._at(now + self._latency, lambda: self._given(worker, given))
        self._own += time.thread_time() - began

    def receive(self, timeout: float) -> Answer | None:
        if self._returned:
            worked = time.thread_time() - self._returned - self._own
            self.driver_seconds += worked
            self.clock += worked
        while self._events and (not self._inbox or self._events[0][0] <= self._inbox[0][0]):
            self._now, _, action = heapq.heappop(self._events)
            action()
        assert self._inbox, "the workers wait for the driver, and it for them"
        arrived, _, worker, content = heapq.heappop(self._inbox)
        self.clock, self.messages = max(self.clock, arrived), self.messages + 1
        self._returned, self._own = time.thread_time(), 0.0
        event, value = pickle.loads(content)
        self._current = (worker, value[0]) if event is Event.SENT else None
        if event is not Event.SENT:
            self.running.discard(worker)
        return Answer(worker, event, value)

    def cancel(self) -> None:
        raise NotImplementedError

    def kill(self, worker: int) -> None:
        raise NotImplementedError

    def close(self, grace: float = 0.0) -> None:
        self.running.clear()

    # The workers.

    def _at(self, when: float, action: Callable[[], None]) -> None:
        self._count += 1
        heapq.heappush(self._events, (when, self._count, action))

    def _post(self, worker: int, event: Event, value: Any, after: float = 0.0) -> None:
        self._count += 1
        content = pickle.dumps((event, value), protocol=5)
        heapq.heappush(self._inbox, (self._now + self._latency + after, self._count, worker, content))

    def _ask(self, worker: int) -> None:
        self._hand_in(worker)
        self._workers[worker].asking = True
        self._post(worker, Event.SENT, ("next", (MEMORY,)))

    def _given(self, worker: int, message: Any) -> None:
        own = self._workers[worker]
        if own.ended:
            return
        own.asking = False
        if message is None:
            own.ended = True
            if own.running is None:
                self._leave(worker)
            return
        own.block = isinstance(message, Block)
        own.spans.extend(message.spans() if isinstance(message, Block) else [message])
        if own.running is None:
            self._begin(worker)

    def _begin(self, worker: int) -> None:
        own = self._workers[worker]
        own.running = span = own.spans.popleft()
        own.began = self._now
        own.first = self._now if own.first is None else own.first
        if not own.block:
            self._post(worker, Event.SENT, ("begin", (span.start, span.stop)))
        seconds = self._rng.choice(self._seconds)
        self._at(self._now + seconds, lambda: self._done(worker, span, seconds))
        if not own.spans and not span.probe:
            self._ask(worker)  # while the last one runs

    def _done(self, worker: int, span: BatchSpan, seconds: float) -> None:
        own = self._workers[worker]
        if own.running is not span:  # it died meanwhile
            return
        own.running, own.busy, own.last = None, own.busy + seconds, self._now
        self.batches += 1
        if own.block:
            own.finished.append((span, seconds))
        else:
            self._post(worker, Event.SENT, ("done", (self._result(span.start, span.stop), _seen(span, seconds))))
        if own.spans:
            self._begin(worker)
        elif own.ended:
            self._leave(worker)
        elif not own.asking:
            self._ask(worker)

    def _result(self, start: int, stop: int) -> BatchResult:
        count = stop - start
        written = WrittenShard(f".{shard_name(start, stop)}.01234567.part", b"", 25 * count, 16 * count, False)
        return BatchResult(start, count, None, np.zeros(count, np.int8), written=written)

    def _hand_in(self, worker: int) -> None:
        own = self._workers[worker]
        groups: list[list[tuple[BatchSpan, float]]] = []
        for one in own.finished:
            if groups and groups[-1][-1][0].stop == one[0].start:
                groups[-1].append(one)
            else:
                groups.append([one])
        own.finished = []
        finished = [
            FinishedBatches(
                self._result(group[0][0].start, group[-1][0].stop),
                _seen(*group[-1]),
                len(group),
                float(group[-1][0].stop - group[0][0].start),
                sum(seconds for _, seconds in group),
            )
            for group in groups
        ]
        if finished:
            self._post(worker, Event.SENT, ("finished", (finished,)))

    def _leave(self, worker: int) -> None:
        self._hand_in(worker)
        self._post(worker, Event.RETURNED, MEMORY)

    def _fail(self) -> None:
        """A worker that has something to do dies."""
        able = [worker for worker in sorted(self.running) if not self._workers[worker].ended]
        if not able:
            return
        worker = self._rng.choice(able)
        own = self._workers[worker]
        undone = sum(seconds for _, seconds in own.finished)
        own.busy -= undone
        self.batches -= len(own.finished)
        self.lost += undone + (self._now - own.began if own.running is not None else 0.0)
        own.ended, own.running, own.finished = True, None, []
        own.spans.clear()
        self._post(worker, Event.DIED, "its node was lost", self._detection)

    @property
    def busy(self) -> float:
        return sum(own.busy for own in self._workers)

    def idle(self) -> dict[str, float]:
        """The share of all workers' time that they had nothing to do: before their first batch, between batches, and
        after their last, until all were done."""
        worked = [own for own in self._workers if own.first is not None]
        whole = self.clock * len(worked)
        before, after = sum(own.first or 0.0 for own in worked), sum(self.clock - own.last for own in worked)
        between = sum(own.last - (own.first or 0.0) - own.busy for own in worked)
        shares = {"before": before, "between": between, "after": after}
        return {name: round(seconds / whole, 4) for name, seconds in shares.items()}


def _seen(span: BatchSpan, seconds: float) -> BatchMeasurement:
    return BatchMeasurement(
        float(span.stop - span.start), seconds, True, MEMORY // 2, MEMORY, span.probe, span.trial, span.beside
    )


def simulate(
    tasks: int,
    workers: int,
    batch: int,
    seconds: list[float],
    *,
    latency: float = 0.001,
    failures: int = 0,
    detection: float = 2.5,
    blocks: bool = True,
    shard_seconds: float = 0.0,
) -> dict[str, Any]:
    """One run; what it took the driver, and how busy the workers were."""
    expected = tasks / batch * float(np.mean(seconds)) / workers
    rng = random.Random(1)
    dying = sorted(rng.uniform(0.05, 0.9) * expected for _ in range(failures))
    simulated = SimulatedWorkers(seconds, latency, dying, detection)
    shards = [0]

    def write(done: BatchResult, index: np.ndarray) -> None:
        shards[0] += 1

    with tempfile.TemporaryDirectory() as name, Events() as events:
        folder, items = Path(name), item_source(torch.zeros(()).expand(tasks))
        items.on_disk = True  # workers read their own
        events.add(log := JsonLines(folder / "events.jsonl"))
        ledger = Ledger(folder / LEDGER)
        sizer = BatchSizer(length=tasks, size=float(batch), fixed=True, workers=workers)
        if not blocks:
            sizer.following = lambda span, available, seconds, kind=None: []  # pyright: ignore[reportAttributeAccessIssue]
        scheduler = Scheduler(
            items=items,
            sizer=sizer,
            write=write,
            events=events,
            ledger=ledger,
            tally=StatusTable(tasks),
            limit=MEMORY,
            gathers=False,
            beside=(1, 1),
            plan=batch_plan("simulation", items, Cost(0, 1), MEMORY, float(batch), ("cuda",) * workers),
            on_settled=lambda cost, kind: None,
        )
        pool = _pool(simulated, items, workers, scheduler)
        process, thread = time.process_time(), time.thread_time()
        pool.run()
        scheduler.close()
        writing = time.process_time() - process - (time.thread_time() - thread)
        assert scheduler.tally.done == tasks, f"{scheduler.tally.done:,} of {tasks:,} tasks are done"
        ledger.close()
        lines = sum(1 for _ in (folder / LEDGER).open("rb"))
        log.close()
        logged = sum(1 for _ in (folder / "events.jsonl").open("rb"))
        began = time.perf_counter()
        Ledger(folder / LEDGER).close()
        reopened = time.perf_counter() - began
    span = max(simulated.clock, shards[0] * shard_seconds)
    return {
        "tasks": tasks,
        "workers": workers,
        "batches": simulated.batches,
        "blocks": blocks,
        "latency": latency,
        "simulated_seconds": round(simulated.clock, 2),
        "efficiency": round(simulated.busy / (workers * span), 4),
        "idle": simulated.idle(),
        "batches_per_second": round(simulated.batches / simulated.clock),
        "driver_busy": round(simulated.driver_seconds / simulated.clock, 4),
        "driver_microseconds_per_batch": round(1e6 * simulated.driver_seconds / simulated.batches, 1),
        "writing_thread_microseconds_per_batch": round(1e6 * writing / simulated.batches, 1),
        "driver_could_hold": round(simulated.batches / (simulated.driver_seconds + writing)),
        "messages_per_second": round(simulated.messages / simulated.clock),
        "ledger_lines_per_second": round(lines / simulated.clock),
        "events_per_second": round(logged / simulated.clock),
        "shards_per_second": round(shards[0] / simulated.clock),
        "writer_busy": round(shards[0] * shard_seconds / simulated.clock, 3),
        "ledger_reopened_seconds": round(reopened, 2),
        "failures": failures,
        "work_lost_per_failure": round(simulated.lost / failures, 2) if failures else None,
    }


class _SimulatedHosts(LocalHosts):
    """Workers that are simulated in the place of processes."""

    def __init__(self, simulated: SimulatedWorkers, workers: int) -> None:
        super().__init__([torch.device("cpu")] * workers, "1GB")
        self._simulated = simulated

    def workers(self) -> Workers:
        return self._simulated


def _pool(simulated: SimulatedWorkers, items: Any, workers: int, scheduler: Scheduler) -> WorkerPool:
    """The driver's pool; its workers compute nothing."""
    executor: Any = None
    return WorkerPool(executor, items, _SimulatedHosts(simulated, workers), scheduler)


def shard_seconds(rows: int, count: int) -> tuple[float, float]:
    """Seconds that a shard of so many rows takes a worker to write, and the driver to rename and collect; on disk when
    it is done."""
    values = {"parameters": torch.rand(rows, 3), "nlml": torch.rand(rows)}
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as name:
        worker, shards = WorkerShards(name, "simulation"), Shards(Path(name), "simulation")
        spans = [np.arange(number * rows, (number + 1) * rows) for number in range(count)]
        began = time.perf_counter()
        results = [BatchResult(int(index[0]), rows, values, np.zeros(rows, np.int8)) for index in spans]
        written = [worker.write(one, index) for one, index in zip(results, spans, strict=True)]
        between = time.perf_counter()
        for one, index in zip(written, spans, strict=True):
            shards.write(one, index)
        return (between - began) / count, (time.perf_counter() - between) / count


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a hundredth of the tasks")
    parser.add_argument("--workers", type=int, default=1000)
    parser.add_argument("--tasks", type=int, default=100_000_000)
    parser.add_argument("--batch", type=int, default=1024)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    tasks = options.tasks // 100 if options.quick else options.tasks
    recorded = record(24 * options.batch, 64, options.batch)
    seconds, batch, workers = recorded["seconds"], options.batch, options.workers
    own, shard = shard_seconds(64 * batch, 20 if options.quick else 200)
    common: dict[str, Any] = {"shard_seconds": shard}
    quarter = [value / 4 for value in seconds]
    runs: dict[str, Callable[[], dict[str, Any]]] = {
        "all tasks, ten workers lost": lambda: simulate(tasks, workers, batch, seconds, failures=10, **common),
        "batches of a quarter": lambda: simulate(tasks, workers, batch // 4, quarter, **common),
        "5 ms latency": lambda: simulate(tasks, workers, batch, seconds, latency=0.005, **common),
        "batch by batch": lambda: simulate(tasks // 4, workers, batch, seconds, blocks=False, **common),
        # Of batches that take no time the driver is the limit: what it holds.
        "driver alone": lambda: simulate(tasks // 4, workers, batch, [1e-4], latency=0.0, **common),
    }
    report: dict[str, Any] = {
        "recorded": recorded,
        "shard_milliseconds": round(1e3 * shard, 2),
        "worker_shard_milliseconds": round(1e3 * own, 2),
        "wanted": WANTED,
        "runs": {},
    }
    columns = ("tasks", "efficiency", "batches_per_second", "driver_busy", "driver_could_hold", "messages_per_second")
    columns += ("ledger_lines_per_second", "events_per_second", "shards_per_second", "writer_busy")
    columns += ("work_lost_per_failure",)
    mean, text = 1e3 * float(np.mean(seconds)), ""
    for run in runs:
        report["runs"][run] = runs[run]()
        report["load"] = [round(value, 1) for value in os.getloadavg()]
        rows = [(name, *(done[column] for column in columns)) for name, done in report["runs"].items()]
        text = format_table(rows, header=("", *(column.replace("_", " ") for column in columns)))
        text = f"{workers:,} workers, {batch} tasks per batch of {mean:.1f} ms as recorded\n\n{text}"
        save(options.out, report, text)  # after each: all of them take minutes
    print(text)


if __name__ == "__main__":
    main()
