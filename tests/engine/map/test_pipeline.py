"""The pipeline on one device, with memory and other processes that do as the test says."""

import itertools
from typing import Any

import numpy as np
import pytest
import torch

from brimful.core.base.compilers import activity
from brimful.core.base.errors import BudgetError
from brimful.core.memory.cost import Cost
from brimful.core.memory.devices import Memory, resident_bytes
from brimful.core.memory.limit import MemoryLimit
from brimful.engine.map import pipeline
from brimful.engine.map.batch import Status
from brimful.engine.map.batch_spans import BatchSizer, BatchSpan
from brimful.engine.map.executor import BatchResult, Executor
from brimful.engine.map.pipeline import Pipeline
from brimful.engine.map.scheduler import Scheduler
from brimful.engine.map.size_search import BatchMeasurement, Observation, SizerState
from brimful.engine.map.sources import LoadedBatch, item_source

from .mapping import Recorded

CPU = torch.device("cpu")
MB = 10**6


class Machine:
    """A device whose free memory the test sets."""

    def __init__(self) -> None:
        self.free, self.own = 10_000 * MB, resident_bytes()

    def read(self, device: torch.device) -> Memory:
        return Memory(total=10_000 * MB, free=self.free, own=self.own)


class BareScheduler(Scheduler):
    """Batches that are handed out and taken back without a run around them."""

    def __init__(self, items: torch.Tensor, **options: Any) -> None:
        self.items = item_source(items)
        self.sizer = BatchSizer(length=len(items), **{"size": 4.0, "fixed": True, **options})
        self.results: dict[int, BatchResult] = {}
        self.begun: list[tuple[int, int]] = []
        self.warnings: list[str] = []
        self.measured: list[BatchMeasurement] = []

    def next(self, available: int) -> BatchSpan | None:
        return self.sizer.next(available)

    def load(self, span: BatchSpan) -> LoadedBatch:
        return self.items.load(span.start, span.stop)

    def begin(self, start: int, stop: int) -> SizerState:
        if (start, stop) not in self.begun:
            self.begun.append((start, stop))
        return self.sizer.state

    def done(self, done: BatchResult, measurement: BatchMeasurement) -> None:
        assert done.start not in self.results
        self.results[done.start] = done
        self.measured.append(measurement)
        self.observe(measurement)

    def observe(self, seen: Observation) -> None:
        self.sizer.observe(seen)

    def flush(self) -> None:
        pass

    def warn(self, message: str) -> None:
        self.warnings.append(message)

    @property
    def status(self) -> list[int]:
        return np.concatenate([self.results[start].status for start in sorted(self.results)]).tolist()

    @property
    def values(self) -> list[float]:
        return [x for start in sorted(self.results) for x in self.results[start].values.tolist()]  # type: ignore[union-attr]


def run_pipeline(
    fn: Any,
    scheduler: BareScheduler,
    machine: Machine | None = None,
    sleep: Any = lambda seconds: None,
    item_cost: Cost | None = None,
) -> None:
    machine = machine or Machine()
    with MemoryLimit("100MB", CPU, read=machine.read) as memory_limit:
        Pipeline(Executor(fn, CPU), memory_limit, scheduler, item_cost, sleep).run()


def full() -> torch.OutOfMemoryError:
    return torch.OutOfMemoryError("CUDA out of memory")


def test_all_work_is_done_once_and_each_batch_is_announced_before_it_runs():
    scheduler = BareScheduler(torch.arange(30.0))
    run_pipeline(lambda x: x + 1, scheduler)
    assert scheduler.values == [x + 1 for x in range(30)]
    assert [(done.start, done.start + done.count) for done in scheduler.results.values()] == scheduler.begun
    assert scheduler.warnings == []


def test_a_batch_during_which_something_is_compiled_tells_no_speed():
    def timed(compiles: set[int]) -> list[bool]:
        calls = itertools.count()

        def function(x: torch.Tensor) -> torch.Tensor:
            if next(calls) in compiles:
                with activity.compiling():
                    pass
            return x

        scheduler = BareScheduler(torch.arange(32.0))
        run_pipeline(function, scheduler)
        return [seen.timed for seen in scheduler.measured]

    usual = timed(set())
    assert usual == [True, False, True, True, True, True, True, False]  # nothing runs before or behind two of them
    assert timed({0}) == [False, *usual[1:]]
    assert timed({5}) == [*usual[:4], False, *usual[5:]]  # the fifth is measured until the sixth is computed


def test_batches_that_were_read_ahead_are_split_when_the_ceiling_has_fallen():
    def small(x: torch.Tensor) -> torch.Tensor:
        if len(x) > 6:
            raise full()
        return x

    recorded, scheduler = Recorded(small), BareScheduler(torch.arange(100.0), size=16.0)
    run_pipeline(recorded, scheduler)
    assert scheduler.values == list(range(100))
    assert scheduler.status == [0] * 100
    over = [call for call, size in enumerate(recorded.sizes) if size > 6]
    assert len(over) == len(scheduler.warnings) == 2
    assert max(recorded.sizes[over[-1] + 1 :]) <= 5


def test_an_item_that_does_not_fit_waits_until_the_others_give_memory_back():
    machine, slept = Machine(), list[float]()

    def function(x: torch.Tensor) -> torch.Tensor:
        if machine.free < 300 * MB:
            raise full()
        return x

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 3:
            machine.free = 10_000 * MB

    scheduler = BareScheduler(torch.arange(3.0), size=1.0)
    machine.free = 250 * MB
    run_pipeline(function, scheduler, machine, sleep)
    assert scheduler.values == [0, 1, 2]
    assert len(slept) == 3
    assert scheduler.warnings == ["other processes hold the memory; waiting for it"]


def test_it_does_not_wait_for_ever():
    machine, slept = Machine(), list[float]()
    machine.free = 250 * MB

    def function(x: torch.Tensor) -> torch.Tensor:
        if (x == 2).any():
            raise full()
        return x

    scheduler = BareScheduler(torch.arange(4.0), size=1.0)
    with pytest.raises(BudgetError, match=r"position 2 does not fit: other processes leave 50.00 MB.*run the same"):
        run_pipeline(function, scheduler, machine, slept.append)
    assert 60 <= sum(slept) <= 70
    assert sorted(scheduler.results) == [0, 1]


def test_an_item_that_does_not_fit_all_there_is_is_flagged_at_once():
    def function(x: torch.Tensor) -> torch.Tensor:
        if (x == 5).any():
            raise full()
        return x * 2

    scheduler, slept = BareScheduler(torch.arange(8.0), size=8.0), list[float]()
    run_pipeline(function, scheduler, sleep=slept.append)
    assert scheduler.status == [0, 0, 0, 0, 0, Status.TOO_BIG, 0, 0]
    assert scheduler.values[:5] == [0, 2, 4, 6, 8]
    assert scheduler.values[6:] == [12, 14]
    assert slept == []


def test_on_a_cpu_an_item_predicted_to_be_too_big_is_not_tried():
    recorded, scheduler = Recorded(lambda x: x), BareScheduler(torch.arange(3.0), size=1.0)
    run_pipeline(recorded, scheduler, item_cost=Cost(101 * MB, 0))
    assert recorded.sizes == []
    assert scheduler.status == [Status.TOO_BIG] * 3


class Swollen(pipeline.Peak):
    """A peak that is over the budget the first time it is read."""

    reads = 0

    def read(self) -> int:
        Swollen.reads += 1
        return 1000 * MB if Swollen.reads == 1 else MB


def test_a_probe_that_strain_has_made_too_large_is_split_and_nothing_is_lost(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(pipeline, "Peak", Swollen)
    Swollen.reads = 0
    scheduler = BareScheduler(torch.arange(200.0), size=8.0, fixed=False, replay=[(0, 8), (8, 16)], position=16)
    run_pipeline(lambda x: x, scheduler)
    assert scheduler.values == list(range(200))
    assert any("over the budget of 100 MB; batches are made smaller" in warning for warning in scheduler.warnings)


def test_a_batch_that_is_over_the_budget_on_a_cpu_makes_the_next_ones_smaller(monkeypatch: pytest.MonkeyPatch):
    class Linear(pipeline.Peak):
        def read(self) -> int:
            return recorded.sizes[-1] * 10 * MB if recorded.sizes else 0

    monkeypatch.setattr(pipeline, "Peak", Linear)
    monkeypatch.setattr(pipeline, "LOOK", 0.0)
    recorded, scheduler = Recorded(lambda x: x), BareScheduler(torch.arange(400.0), size=40.0, settled=40.0)
    run_pipeline(recorded, scheduler)
    assert scheduler.values == list(range(400))
    assert recorded.sizes[0] == 40
    assert recorded.sizes[-1] <= 10


def test_item_after_item_that_does_not_fit_ends_the_run_with_a_sentence():
    def function(x: torch.Tensor) -> torch.Tensor:
        if x[0] >= 8:
            raise full()
        return x

    scheduler = BareScheduler(torch.arange(4000.0), size=4.0)
    with pytest.raises(BudgetError, match="64 items in a row did not fit, each of them alone: of the budget of 100 MB"):
        run_pipeline(function, scheduler)
    assert len(scheduler.results) < 100 and scheduler.results[0].status.tolist() == [0] * 4


def test_items_that_fail_together_are_done_apart():
    def function(x: torch.Tensor) -> torch.Tensor:
        if {3.0, 4.0} <= set(x.tolist()):
            raise ValueError("both")
        return x

    scheduler = BareScheduler(torch.arange(8.0), size=8.0)
    run_pipeline(function, scheduler)
    assert scheduler.values == list(range(8))
    assert scheduler.status == [0] * 8


def test_the_batch_under_way_is_kept_when_the_next_one_raises():
    def function(x: torch.Tensor) -> torch.Tensor:
        if (x == 9).any():
            raise KeyboardInterrupt
        return x

    scheduler = BareScheduler(torch.arange(20.0))
    machine = Machine()
    with MemoryLimit("100MB", CPU, read=machine.read) as memory_limit:
        made = Pipeline(Executor(function, CPU), memory_limit, scheduler)
        with pytest.raises(KeyboardInterrupt):
            made.run()
        made.land()
    assert sorted(scheduler.results) == [0, 4]
