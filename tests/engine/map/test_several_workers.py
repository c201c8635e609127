"""Batches of several workers, decided from numbers alone: nobody waits for another's probe, and all end together."""

import heapq
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from brimful.core.memory.cost import Cost
from brimful.engine.map.batch_spans import BatchSizer, BatchSpan
from brimful.engine.map.size_search import BatchMeasurement, MemoryExceeded

GB = 10**9
FIXED, PER_ITEM = 10**8, 10**7  # bytes of a batch
START, OVERHEAD, SECONDS = 5.0, 0.5, 0.03  # of a worker's first batch, of every batch, per item


@dataclass
class Workers:
    """Workers on a clock of their own, which ask ahead while they run a batch."""

    sizer: BatchSizer
    count: int
    share: int = 4 * GB
    spans: list[BatchSpan] = field(default_factory=list)
    work: float = 0.0
    seconds: float = 0.0

    def run(self) -> None:
        ahead: list[list[BatchSpan]] = [[] for _ in range(self.count)]
        running: list[tuple[float, int, float, BatchSpan]] = []
        idle, started, now = set(range(self.count)), set[int](), 0.0
        while True:
            for worker in sorted(idle):
                span = ahead[worker].pop() if ahead[worker] else self._ask(busy=False)
                if span is None:
                    continue
                spent = OVERHEAD + SECONDS * (span.stop - span.start) + (0.0 if worker in started else START)
                started.add(worker)
                self.work += spent
                heapq.heappush(running, (now + spent, worker, spent, span))
                idle.discard(worker)
                if not span.probe and (following := self._ask(busy=True)) is not None:
                    ahead[worker].append(following)
            if not running:
                break
            now, worker, spent, span = heapq.heappop(running)
            weight = float(span.stop - span.start)
            self.sizer.observe(
                BatchMeasurement(
                    weight, spent, True, FIXED + int(PER_ITEM * weight), self.share, span.probe, span.trial, span.beside
                )
            )
            idle.add(worker)
        self.seconds = now

    def _ask(self, busy: bool) -> BatchSpan | None:
        span = self.sizer.next(self.share, busy)
        if span is not None:
            memory = self.sizer.state.memory
            known = memory.remembered or span.stop - span.start <= max(memory.alone, default=0.0)
            assert known or not span.beside
            self.spans.append(span)
        return span

    @property
    def busy(self) -> float:
        """The share of their time that they worked."""
        return self.work / self.seconds / self.count


@pytest.mark.parametrize("count", [2, 4])
@pytest.mark.parametrize("cost", [None, Cost(6e7, 5e5), Cost(FIXED, PER_ITEM, source="remembered")])
def test_few_large_batches_keep_all_workers_busy(count: int, cost: Cost | None):
    workers = Workers(BatchSizer(length=3500, size=1024.0, cost=cost, workers=count), count)
    workers.run()
    assert sum(span.stop - span.start for span in workers.spans) == 3500
    assert workers.busy > 0.8
    assert max(span.stop - span.start for span in workers.spans) > 200


@given(st.integers(1, 5000), st.integers(1, 4), st.floats(1, 2000), st.integers(1, 20))
def test_every_item_is_run_once_and_no_batch_exceeds_a_workers_share(length: int, count: int, size: float, room: int):
    share = FIXED + PER_ITEM * 10 * room
    workers = Workers(BatchSizer(length=length, size=min(size, 10.0 * room), workers=count), count, share)
    workers.run()
    assert sorted((span.start, span.stop) for span in workers.spans) == [(s.start, s.stop) for s in workers.spans]
    assert [0, *(span.stop for span in workers.spans[:-1])] == [span.start for span in workers.spans]
    assert workers.spans[-1].stop == length
    assert all(FIXED + PER_ITEM * (span.stop - span.start) <= 1.001 * share for span in workers.spans)


def test_nothing_runs_beside_the_first_probe_of_which_nothing_is_known():
    sizer = BatchSizer(length=1000, size=64.0, workers=2)
    first = sizer.next(GB)
    assert first is not None
    assert first.probe
    assert sizer.next(GB) is None


def test_a_probe_of_one_worker_alone_has_nothing_beside_it():
    sizer = BatchSizer(length=1000, size=64.0)
    for _ in range(2):
        span = sizer.next(GB)
        assert span is not None
        assert span.probe
        assert sizer.next(GB) is None
        sizer.observe(BatchMeasurement(float(span.stop - span.start), 1.0, True, 1000, GB, probe=True))


def test_what_ran_beside_a_probe_is_no_trial_of_the_size_that_is_timed_next():
    sizer = BatchSizer(length=10**6, size=64.0, workers=2)
    probe = sizer.next(GB)
    assert probe is not None
    sizer.observe(BatchMeasurement(64.0, 1.0, True, 1000, GB, probe=True))
    probe, beside = sizer.next(GB), sizer.next(GB)
    assert probe is not None
    assert beside is not None
    assert probe.probe
    assert beside.beside
    sizer.observe(BatchMeasurement(256.0, 0.1, True, 2000, GB, probe=True))
    trials = 0
    while sizer.next(GB) is not None:
        trials += 1
    assert trials
    sizer.observe(BatchMeasurement(64.0, 0.1, True, 2000, GB, beside=True))
    assert sizer.next(GB) is None


def test_memory_that_runs_out_beside_a_probe_lowers_what_later_batches_hold():
    sizer = BatchSizer(length=10**6, size=64.0, workers=2)
    sizer.next(GB)
    sizer.observe(BatchMeasurement(64.0, 1.0, True, 1000, GB, probe=True))
    probe, beside = sizer.next(GB), sizer.next(GB)
    assert probe is not None
    assert beside is not None
    sizer.observe(MemoryExceeded(64.0, contended=False, available=GB))
    later = sizer.next(GB)
    assert later is not None
    assert later.stop - later.start < 64


def test_the_last_batches_of_unequal_items_are_shared():
    weights = -np.sort(-np.random.default_rng(0).uniform(1, 20, 400))
    sizer = BatchSizer(length=400, weights=weights, size=float(weights.sum()), workers=2, settled=float(weights.sum()))
    first = sizer.next(GB)
    assert first is not None
    assert weights[: first.stop].sum() <= 0.51 * weights.sum()
    assert sizer.next(GB, busy=True) is None
    assert sizer.next(GB) is not None
