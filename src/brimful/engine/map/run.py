"""One call of `map`, from its first plan to its last batch."""

import contextlib
import functools
import threading
import uuid
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ...core.base.errors import BrimfulError, CancelledError, ChangedError
from ...core.base.formatting import format_count
from ...core.declare.result import ResultRecord
from ...core.memory import cost_cache, devices
from ...core.memory.budget import BudgetLike
from ...core.memory.cost import Cost
from ...core.memory.devices import DeviceLike
from ...core.memory.limit import MemoryLimit
from ...core.memory.monitor import Peak
from ...core.memory.oom import OutOfMemory, error_line
from ...core.memory.plan import Plan
from ...core.memory.probe import probe
from ...core.runs import fingerprint
from ...core.runs.compiling import watch_compiling
from ...core.runs.events import Events, Finished, Planned, Started, Warned
from ...core.runs.function_fingerprint import of_function, signature
from ...core.runs.log_state import RunClock
from ...core.runs.rundir import MANIFEST, RunDir
from .batch_spans import BatchSizer
from .executor import Executor
from .fallback import make_executor
from .functions.scripted import sendable
from .hosts.cluster import ClusterHosts
from .hosts.first_size import first_size
from .hosts.local import LocalHosts
from .item_cost import item_cost
from .pipeline import Pipeline
from .result import MapResult
from .scheduler import Scheduler, batch_plan
from .sources import ItemSource
from .store.collectors import MemoryCollector
from .store.ledger import LEDGER, Ledger
from .store.part_queue import MapPart, PartQueue
from .store.shards import WRITING, Shards
from .store.status_table import StatusTable
from .stream import deliver
from .workers import WorkerPool

_NOT_RESUMABLE = (
    "a run on an iterator cannot be resumed after an interruption; pass fingerprint=, a text that changes whenever the "
    "items do, to make it so"
)
_WAITING = 8  # the part of the budget that finished batches may take while they wait for earlier ones to be read
_GUESS = 8  # times an item's input: the bytes that it is assumed to need, until that is measured


@dataclass(slots=True)
class MapRun:
    """One call of `map`."""

    fn: Callable[[Any], Any]
    items: ItemSource
    batch_size: int | str
    fallback: Any
    nonfinite: str
    cost: Cost | None
    name: str
    budget: BudgetLike
    device: DeviceLike
    seed: int = 0
    grad: bool = False
    batch_invariant: bool = False
    retries: int = 0
    timeout: float | None = None
    on_crash: str = "stop"
    warm_up: Callable[[], None] | None = None
    cluster: str | None = None
    resumable: bool = True
    _described: str = ""  # what is run, once that was asked for
    _recalled: dict[str, Cost | None] = field(default_factory=dict)  # by the kind of device

    def hosts(self, out: Path | None = None) -> LocalHosts | ClusterHosts:
        """Where it runs; those of a cluster are asked when they are entered.

        Args:
            out: the run directory.
        """
        if self.cluster is not None:
            return ClusterHosts(self.cluster, self.device, self.budget, self.items, out)
        return LocalHosts(devices.resolve_all(self.device), self.budget)

    def open(self, out: Path, resume: bool, given: str | None) -> RunDir:
        """The run directory, for what decides the result. The budget and the device may change between runs.

        Args:
            given: the user's own fingerprint of the items, and of functions that have none.
        """
        config = {
            "fn": of_function(self.fn, given=given),
            "batch_size": "any" if self.batch_invariant else self.batch_size,
            "fallback": of_function(self.fallback, given=given) if callable(self.fallback) else str(self.fallback),
            "nonfinite": self.nonfinite,
            "seed": self.seed,
            "grad": self.grad,
        }
        digest = self._digest(out) if given is None else f"given: {given}"
        return RunDir.open(out, kind="map", work=self.name, config=config, input=digest, resume=resume)

    def _digest(self, out: Path) -> str:
        """What the items are known by."""
        digest, weights = self.items.fingerprint(), self.items.weights
        if digest is not None:
            return fingerprint.of([digest, "" if weights is None else weights])
        if (out / MANIFEST).exists():
            raise ChangedError(
                f"{out} holds a run already, and a run on an iterator cannot be resumed without fingerprint=, a text "
                "that changes whenever the items do. Choose another directory, and pass it from the start."
            )
        self.resumable = False
        return f"unknown: {uuid.uuid4()}"  # differs from every other

    def parts(
        self,
        events: Events,
        rundir: RunDir | None,
        cancel: threading.Event | None = None,
        ordered: bool | None = None,
    ) -> Generator[MapPart, None, MapResult]:
        """Runs all of it, and returns the result.

        Args:
            ordered: yield finished batches, in order of their positions or as they complete; they are then not
                gathered. None: yield nothing.
        """
        with self.hosts(None if rundir is None else rundir.path) as hosts:
            return (yield from self._parts(hosts, events, rundir, cancel, ordered))

    def _parts(
        self,
        hosts: LocalHosts | ClusterHosts,
        events: Events,
        rundir: RunDir | None,
        cancel: threading.Event | None,
        ordered: bool | None,
    ) -> Generator[MapPart, None, MapResult]:
        """`parts`, on these hosts."""
        clock, record = RunClock(0.0 if rundir is None else rundir.before.seconds), None
        tally = StatusTable(self.items.length)
        collector: MemoryCollector | Shards = MemoryCollector(self.items.length)
        ledger, replay, position, spans = None, [], 0, list[tuple[int, int]]()
        if rundir is not None:
            record = ResultRecord.of(rundir.manifest)
            collector = Shards(rundir.path, rundir.identity)
            for span, batch in collector.finished():
                spans.append(span)
                tally.add(*batch)
            ledger = Ledger(rundir.path / LEDGER)
            replay, position = ledger.unfinished(spans)
        before, device = tally.done, hosts.device
        if self.warm_up is not None and tally.done != self.items.length:  # before memory is counted
            with watch_compiling(events, self.name, clock):
                self.warm_up()
            if clock.compiling:
                devices.free_garbage()  # what compilers leave behind would be freed while batches are measured
        with (
            contextlib.closing(ledger) if ledger else contextlib.nullcontext(),
            hosts.limit() as memory_limit,
        ):
            queue, reserve = None, 0
            if ordered is not None:
                reserve = memory_limit.bytes // _WAITING if ordered and len(hosts.places) > 1 else 0
                queue = PartQueue(ordered, reserve, collector if isinstance(collector, Shards) else None, spans)
            known, cost = self._known(hosts.kinds[0], memory_limit.bytes), self._item_cost(hosts, memory_limit)
            plan = self._first_plan(known, memory_limit.bytes, hosts.names, peek=True)
            if rundir is not None and not rundir.resumed:
                rundir.record(plan=plan.to_dict(), items=self.items.length)
            if not self.resumable:
                events.emit(Warned(message=_NOT_RESUMABLE))
            events.emit(Planned(plan=plan.to_dict()))
            events.emit(
                Started(
                    work=self.name,
                    items=self.items.length,
                    done=before,
                    budget=memory_limit.bytes,
                    seconds=clock.earlier,
                )
            )
            scheduler = Scheduler(
                items=self.items,
                sizer=self._sizer(hosts, plan, known, ledger, replay, position, cost),
                write=(queue or collector).write,
                events=events,
                ledger=ledger,
                tally=tally,
                limit=memory_limit.bytes,
                gathers=device.type == "cpu" and not hosts.remote and rundir is None and queue is None,
                # On CUDA the next and the last; in host memory also what was read ahead or waits to be written, and
                # what the reader of a stream has.
                beside=(2, 3 + (queue is not None)) if device.type == "cpu" else (1, 1),
                plan=plan,
                cancel=cancel,
                on_settled=self._remember,
                kinds=hosts.kinds if hosts.remote else (),
                full=lambda: queue is not None and reserve > 0 and queue.full,
            )
            identity = rundir.identity if rundir is not None and queue is None else None
            backend = self._backend(hosts, memory_limit, scheduler, cost, reserve, queue is not None, identity)
            with (
                _ending(events, backend, scheduler, clock, rundir),
                watch_compiling(events, clock=clock),
                hosts.sampler(events.emit, memory_limit.baseline),
            ):
                if queue is None:
                    backend.run()
                else:
                    yield from deliver(backend, queue, hosts.here, scheduler.flush if rundir is None else None)
                observed = backend.observed
                scheduler.conclude()
                if rundir is not None and isinstance(collector, Shards):
                    scheduler.flush()
                    collector.check_present()
                    collector.remove_abandoned()
                    rundir.check_present()
                if excess := memory_limit.excess(observed):
                    scheduler.warn(excess)
                scheduler.flush()
                if record is None or tally.done > before:
                    seconds = clock.stop()
                    record = ResultRecord(
                        tally.done, tally.bad, seconds, observed, scheduler.plan, compiling=clock.compiling
                    )
                    if rundir is not None:
                        rundir.record(result=record.to_json())
                else:  # all was done before: the result is what it was
                    clock.stop(record.seconds)
        if queue is not None:
            yield from queue.ready()
        return MapResult.of(record, tally, tally.done - before, None if rundir is None else rundir.path, collector)

    @property
    def _options(self) -> dict[str, Any]:
        """Of an executor."""
        return {"nonfinite": self.nonfinite, "seed": self.seed, "grad": self.grad, "retries": self.retries}

    def _item_cost(self, hosts: LocalHosts | ClusterHosts, memory_limit: MemoryLimit) -> Cost | None:
        """Bytes of a single item by its weight, on a CPU; None where nothing tells."""
        if self.cost is not None or self.timeout is not None or memory_limit.device.type != "cpu" or hosts.remote:
            return self.cost
        lenient = Executor(self.fn, memory_limit.device, **self._options, lenient=True)
        return item_cost(lenient, self.items, memory_limit.bytes)

    def _backend(
        self,
        hosts: LocalHosts | ClusterHosts,
        memory_limit: MemoryLimit,
        scheduler: Scheduler,
        cost: Cost | None,
        reserve: int,
        streams: bool,
        identity: str | None,
    ) -> Pipeline | WorkerPool:
        if len(hosts.places) == 1 and self.timeout is None and self.on_crash == "stop" and not hosts.remote:
            executor = make_executor(self.fn, memory_limit.device, fallback=self.fallback, **self._options)
            prompt = streams and executor.device.type == "cpu"
            return Pipeline(executor, memory_limit, scheduler, cost, prompt=prompt, work=self._described)
        fn, fallback = sendable(self.fn), sendable(self.fallback)
        executor = functools.partial(make_executor, fn, fallback=fallback, **self._options)
        options = {"flag_crashes": self.on_crash == "flag", "identity": identity, "apart": streams}
        return WorkerPool(executor, self.items, hosts, scheduler, cost, reserve, self.timeout, **options)

    def _key(self, model: str) -> cost_cache.Key:
        if not self._described or self.items.forward:  # what comes of a stream may not be known yet
            weighed = "" if self.items.weights is None else " by weight"  # bytes an item, or a unit of weight
            self._described = f"map {signature(self.fn)} {self.items.spec()}{weighed}"
        return cost_cache.Key(self._described, model, str(torch.get_default_dtype()))

    def _remember(self, cost: Cost, model: str) -> None:
        cost_cache.remember(self._key(model), cost, recalled=self._recalled.get(model))

    def _known(self, model: str, limit: int) -> Cost | None:
        """What was measured before, or else the formula; None when there is neither. A measurement by which nothing
        would fit is not believed: it may come from a process that grew for reasons of its own."""
        self._recalled[model] = remembered = cost_cache.recall(self._key(model))
        return remembered if remembered and remembered.guarded(1) <= limit else self.cost

    def plan(self, probe: bool) -> Plan:
        """The plan without the run. With `probe`, two small batches are run first, measured and forgotten."""
        with self.hosts() as hosts, hosts.limit() as memory_limit:
            known = self._known(hosts.kinds[0], memory_limit.bytes)
            plan = self._first_plan(known, memory_limit.bytes, hosts.names)
            measured = self._probe(memory_limit, plan) if probe and not hosts.remote else None
            if measured is None:
                return plan
            cost_cache.remember(self._key(hosts.kinds[0]), measured)
            return self._first_plan(measured, memory_limit.bytes, hosts.names)

    def _probe(self, memory_limit: MemoryLimit, plan: Plan) -> Cost | None:
        """The cost through two real batches, small against the budget; None when there is nothing to run, or not even
        one item fits."""
        device, length, weights = memory_limit.device, self.items.length, self.items.weights
        if self.items.forward or not length:
            return None
        executor = Executor(self.fn, device, nonfinite=self.nonfinite, seed=self.seed, grad=self.grad)
        first, second = (min(length, max(4096 // share, plan.batch // share)) for share in (64, 16))

        def peak_of(count: int) -> int:
            loaded = self.items.load(0, count)
            with Peak(device, memory_limit.baseline) as peak:
                executor.run(executor.pin(loaded))
            return peak.bytes

        def weight_of(count: int) -> float:
            return float(count if weights is None else weights[:count].sum())

        with contextlib.suppress(OutOfMemory):
            return probe(peak_of, first, lambda cost, count: second, device, weight_of)

    def _first_plan(self, known: Cost | None, limit: int, names: tuple[str, ...], peek: bool = False) -> Plan:
        """What is predicted before anything ran: by a formula, a remembered probe, or a guess. With `peek`, the first
        item of a stream may be taken out to look at it, since the run will follow."""
        item_bytes = self.items.item_bytes() if peek or not self.items.forward else 1024
        cost = known or Cost(0, _GUESS * max(1, item_bytes), source="guess")
        size = float(self.batch_size) if isinstance(self.batch_size, int) else None
        return batch_plan(self.name, self.items, cost, limit, size, names)

    def _sizer(
        self,
        hosts: LocalHosts | ClusterHosts,
        plan: Plan,
        known: Cost | None,
        ledger: Ledger | None,
        replay: list[tuple[int, int]],
        position: int,
        cost: Cost | None,
    ) -> BatchSizer:
        """Items that are predicted to exceed the budget alone, by that cost, are batches of their own on a CPU."""
        alone = None
        if cost is not None and self.items.weights is not None and hosts.device.type == "cpu":
            alone = np.flatnonzero(cost.fixed + cost.per_unit * self.items.weights > plan.budget)
        fixed, (first, *others) = isinstance(self.batch_size, int), hosts.kinds

        def size(known: Cost | None) -> float:
            own = first_size(self.items, known or plan.cost, known is not None, plan.budget)
            return float(self.batch_size) if isinstance(self.batch_size, int) else own

        sizer = BatchSizer(
            length=self.items.length,
            weights=self.items.weights,
            forward=self.items.forward,
            size=size(known),
            cost=known,
            results=WRITING if ledger is not None and hosts.device.type == "cpu" and not hosts.remote else 0,
            fixed=fixed,
            # Of another kind than this one too, so that a run that goes on elsewhere divides the items as before.
            settled=None if ledger is None else ledger.settled_of.get(first) if others else ledger.settled,
            replay=replay,
            position=position,
            workers=len(hosts.places),
            alone=alone,
            kind=first,
        )
        for kind in others:
            other = self._known(kind, plan.budget)
            sizer.add_kind(kind, size(other), other, ledger.settled_of.get(kind) if ledger else None)
        return sizer


@contextlib.contextmanager
def _ending(
    events: Events, backend: Pipeline | WorkerPool, scheduler: Scheduler, clock: RunClock, rundir: RunDir | None
) -> Iterator[None]:
    """Keeps what was finished and emits how it ended, whatever happens."""
    state, message, tally = "finished", "", scheduler.tally
    try:
        yield
        scheduler.close()
    except (KeyboardInterrupt, CancelledError, GeneratorExit) as error:
        with contextlib.suppress(Exception):
            backend.land()
            scheduler.close()
        state, message = "interrupted", "nothing was kept; with out= (--out) it would be"
        if rundir is not None:
            message = f"run the same command again to go on from {rundir.path}"
        if isinstance(error, GeneratorExit):
            raise
        raise type(error)(f"interrupted after {format_count(tally.done)} items; {message}") from None
    except BaseException as error:
        state, message = "failed", error_line(error, named=not isinstance(error, BrimfulError))
        with contextlib.suppress(Exception):
            scheduler.close()
        raise
    finally:
        with contextlib.suppress(Exception) if state == "failed" else contextlib.nullcontext():
            took = {"seconds": clock.seconds(), "compiling": clock.compiling}
            events.emit(Finished(state=state, done=tally.done, bad=tally.bad, message=message, **took))
