"""The loop on one device, with memory and neighbours that do as the test says."""

from typing import Any

import numpy as np
import pytest
import torch

from brimful.core.base.errors import BudgetError
from brimful.core.memory.devices import Memory, resident_bytes
from brimful.core.memory.limit import MemoryLimit
from brimful.engine.map import pipeline
from brimful.engine.map.batch import Status
from brimful.engine.map.batch_sizer import BatchSizer, BatchSpan
from brimful.engine.map.executor import BatchResult, Executor
from brimful.engine.map.pipeline import BatchMeasurement, Pipeline
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


class Desk:
    """Work that is handed out and taken back without anything around it."""

    def __init__(self, items: torch.Tensor, **options: Any) -> None:
        self.items = item_source(items)
        self.sizer = BatchSizer(length=len(items), **{"size": 4.0, "fixed": True, **options})
        self.found: dict[int, BatchResult] = {}
        self.begun: list[tuple[int, int]] = []
        self.warnings: list[str] = []
        self.weight_needs = 0

    def next(self, available: int) -> BatchSpan | None:
        return self.sizer.next(available)

    def load(self, span: BatchSpan) -> LoadedBatch:
        return self.items.load(span.start, span.stop)

    def begin(self, start: int, stop: int) -> None:
        self.begun.append((start, stop))

    def done(self, done: BatchResult, report: BatchMeasurement) -> None:
        assert done.start not in self.found
        self.found[done.start] = done
        seconds = report.seconds if report.timed else None
        self.sizer.report(report.weight, seconds, report.peak, report.available, report.probe, report.trial)

    def flush(self) -> None:
        pass

    def probe_failed(self) -> None:
        self.sizer.probe_failed()

    def transfer_bytes(self, weight: float, inward: int, outward: int) -> None:
        pass

    def out_of_memory(self, weight: float, contended: bool, limit: int) -> None:
        self.sizer.out_of_memory(weight, contended, limit)

    def ceiling(self) -> float:
        return self.sizer.ceiling

    def predicted_bytes(self, weight: float) -> int:
        return self.weight_needs

    def allocator_retried(self, weight: float) -> None:
        self.sizer.allocator_retried(weight)

    def warn(self, message: str) -> None:
        self.warnings.append(message)

    @property
    def status(self) -> list[int]:
        return np.concatenate([self.found[start].status for start in sorted(self.found)]).tolist()

    @property
    def values(self) -> list[float]:
        return [x for start in sorted(self.found) for x in self.found[start].values.tolist()]  # type: ignore[union-attr]


def driven(fn: Any, desk: Desk, machine: Machine | None = None, sleep: Any = None) -> Pipeline:
    machine = machine or Machine()
    with MemoryLimit("100MB", CPU, read=machine.read) as memory_limit:
        made = Pipeline(Executor(fn, CPU), memory_limit, desk, sleep or (lambda seconds: None))
        made.run()
    return made


def full() -> torch.OutOfMemoryError:
    return torch.OutOfMemoryError("CUDA out of memory")


def test_all_work_is_done_once_and_each_cut_is_announced_before_it_runs():
    desk = Desk(torch.arange(30.0))
    driven(lambda x: x + 1, desk)
    assert desk.values == [x + 1 for x in range(30)]
    assert [(done.start, done.start + done.count) for done in desk.found.values()] == desk.begun
    assert desk.warnings == []


def test_batches_that_were_read_ahead_are_cut_when_the_ceiling_has_fallen():
    def small(x: torch.Tensor) -> torch.Tensor:
        if len(x) > 6:
            raise full()
        return x

    recorded, desk = Recorded(small), Desk(torch.arange(100.0), size=16.0)
    driven(recorded, desk)
    assert desk.values == list(range(100))
    assert desk.status == [0] * 100
    over = [place for place, size in enumerate(recorded.sizes) if size > 6]
    assert len(over) == len(desk.warnings) == 2
    assert max(recorded.sizes[over[-1] + 1 :]) <= 5


def test_an_item_that_does_not_fit_waits_until_the_neighbours_give_memory_back():
    machine, slept = Machine(), list[float]()

    def function(x: torch.Tensor) -> torch.Tensor:
        if machine.free < 300 * MB:
            raise full()
        return x

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 3:
            machine.free = 10_000 * MB

    desk = Desk(torch.arange(3.0), size=1.0)
    machine.free = 250 * MB
    driven(function, desk, machine, sleep)
    assert desk.values == [0, 1, 2]
    assert len(slept) == 3
    assert desk.warnings == ["other processes hold the memory; waiting for it"]


def test_it_does_not_wait_for_ever():
    machine, slept = Machine(), list[float]()
    machine.free = 250 * MB

    def function(x: torch.Tensor) -> torch.Tensor:
        if (x == 2).any():
            raise full()
        return x

    desk = Desk(torch.arange(4.0), size=1.0)
    with pytest.raises(BudgetError, match=r"position 2 does not fit: other processes leave 50.00 MB.*run the same"):
        driven(function, desk, machine, slept.append)
    assert 60 <= sum(slept) <= 70
    assert sorted(desk.found) == [0, 1]


def test_an_item_that_does_not_fit_all_there_is_is_flagged_at_once():
    def function(x: torch.Tensor) -> torch.Tensor:
        if (x == 5).any():
            raise full()
        return x * 2

    desk, slept = Desk(torch.arange(8.0), size=8.0), list[float]()
    driven(function, desk, sleep=slept.append)
    assert desk.status == [0, 0, 0, 0, 0, Status.TOO_BIG, 0, 0]
    assert desk.values[:5] == [0, 2, 4, 6, 8]
    assert desk.values[6:] == [12, 14]
    assert slept == []


def test_on_a_cpu_an_item_foretold_to_be_too_big_is_not_tried():
    recorded, desk = Recorded(lambda x: x), Desk(torch.arange(3.0), size=1.0)
    desk.weight_needs = 101 * MB
    driven(recorded, desk)
    assert recorded.sizes == []
    assert desk.status == [Status.TOO_BIG] * 3


class Swollen(pipeline.Peak):
    """A peak that is over the budget the first time it is read."""

    reads = 0

    def read(self) -> int:
        Swollen.reads += 1
        return 1000 * MB if Swollen.reads == 1 else MB


def test_a_probe_that_strain_has_made_too_large_is_cut_and_nothing_is_lost(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(pipeline, "Peak", Swollen)
    Swollen.reads = 0
    desk = Desk(torch.arange(200.0), size=8.0, fixed=False, replay=[(0, 8), (8, 16)], position=16)
    driven(lambda x: x, desk)
    assert desk.values == list(range(200))
    assert any("over the budget of 100 MB; batches are made smaller" in each for each in desk.warnings)


def test_a_batch_that_is_over_the_budget_on_a_cpu_makes_the_next_ones_smaller(monkeypatch: pytest.MonkeyPatch):
    class Linear(pipeline.Peak):
        def read(self) -> int:
            return recorded.sizes[-1] * 10 * MB if recorded.sizes else 0

    monkeypatch.setattr(pipeline, "Peak", Linear)
    monkeypatch.setattr(pipeline, "LOOK", 0.0)
    recorded, desk = Recorded(lambda x: x), Desk(torch.arange(400.0), size=40.0, settled=40.0)
    driven(recorded, desk)
    assert desk.values == list(range(400))
    assert recorded.sizes[0] == 40
    assert recorded.sizes[-1] <= 10


def test_a_process_that_has_grown_does_not_make_its_items_too_big():
    recorded, desk = Recorded(lambda x: x), Desk(torch.arange(6.0), size=1.0)

    def growing(x: torch.Tensor) -> torch.Tensor:
        desk.weight_needs = 101 * MB
        return recorded(x)

    driven(growing, desk)
    assert desk.status == [0] * 6
    assert recorded.sizes == [1] * 6


def test_items_that_fail_together_are_done_apart():
    def function(x: torch.Tensor) -> torch.Tensor:
        if {3.0, 4.0} <= set(x.tolist()):
            raise ValueError("both")
        return x

    desk = Desk(torch.arange(8.0), size=8.0)
    driven(function, desk)
    assert desk.values == list(range(8))
    assert desk.status == [0] * 8


def test_the_batch_under_way_is_kept_when_the_next_one_raises():
    def function(x: torch.Tensor) -> torch.Tensor:
        if (x == 9).any():
            raise KeyboardInterrupt
        return x

    desk = Desk(torch.arange(20.0))
    machine = Machine()
    with MemoryLimit("100MB", CPU, read=machine.read) as memory_limit:
        made = Pipeline(Executor(function, CPU), memory_limit, desk)
        with pytest.raises(KeyboardInterrupt):
            made.run()
        made.land()
    assert sorted(desk.found) == [0, 4]
