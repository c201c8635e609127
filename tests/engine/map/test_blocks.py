"""Short batches handed out in blocks: what a worker keeps and hands in, and how large a block is."""

import pickle
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch

from brimful.engine.map import batch_spans
from brimful.engine.map.batch import BatchResult
from brimful.engine.map.batch_spans import BatchSizer, BatchSpan
from brimful.engine.map.hosts import blocks
from brimful.engine.map.hosts.blocks import Block, BlockRun
from brimful.engine.map.size_search import BatchMeasurement, SizerState
from brimful.engine.map.sources import LoadedBatch

STATE = SizerState(size=10)
SEEN = BatchMeasurement(weight=10, seconds=0.1, timed=True, peak=0, available=1)


def result(start: int, values: bool = True, bad: int | None = None) -> BatchResult:
    numbers = torch.arange(start, start + 10)
    status, messages = np.zeros(10, np.int8), {}
    if bad is not None:
        status[bad], messages[bad] = 3, f"item {start + bad}"
    return BatchResult(start, 10, {"x": numbers} if values else None, status, messages)


def block_run(*starts: int) -> BlockRun:
    run = BlockRun(clock=lambda: 0.0)
    for start in starts:  # a gap begins another block
        run.add(Block(start, (start + 10,), 10.0, STATE))
    return run


def test_a_block_is_of_neighbors():
    block = Block(5, (7, 12), 10.0, STATE)
    assert block.spans() == [BatchSpan(5, 7, 10.0), BatchSpan(7, 12, 10.0)]


def test_a_block_carries_the_items_of_each_batch():
    items = [LoadedBatch(5, 2, torch.arange(2)), LoadedBatch(7, 5, torch.arange(5))]
    spans = Block(5, (7, 12), 10.0, STATE, tuple(items)).spans()
    assert [(span.start, span.stop, span.loaded) for span in spans] == [(5, 7, items[0]), (7, 12, items[1])]


def test_batches_come_in_order_and_are_known_as_they_were_handed_out():
    run = block_run(0, 10)
    assert [run.next(), run.next(), run.next()] == [BatchSpan(0, 10, 10.0), BatchSpan(10, 20, 10.0), None]
    assert run.state(0, 10) is STATE
    assert run.state(0, 5) is None  # half of one that did not fit: the parent is asked


def test_neighbors_are_handed_in_as_one():
    run = block_run(0, 10, 20, 40)
    for start, bad in ((0, None), (20, 3), (10, None), (40, None)):
        assert run.keep(result(start, bad=bad), SEEN)
    assert run.due
    together, other = run.take()
    first, last = together.done, other.done
    assert (first.start, first.count, last.start, together.batches) == (0, 30, 40, 3)
    assert (together.weight, together.seconds) == (30, pytest.approx(0.3))
    assert first.values is not None and torch.equal(first.values["x"], torch.arange(30))
    assert first.messages == {23: "item 23"} and first.status is not None
    assert first.status[23] == 3 and first.status.sum() == 3
    assert run.take() == [] and not run.due


def test_neighbors_stay_apart_where_someone_reads_them():
    run = BlockRun(clock=lambda: 0.0)
    run.add(Block(0, (10, 20, 30), 10.0, STATE, apart=True))
    assert not run.due
    assert run.keep(result(10), SEEN) and run.due  # though the block has more
    assert run.keep(result(0), SEEN)
    assert [group.done.start for group in run.take()] == [0, 10]


def test_a_batch_without_values_stays_by_itself():
    run = block_run(0, 10)
    assert run.keep(result(0, values=False), SEEN) and run.keep(result(10), SEEN)
    assert [group.done.count for group in run.take()] == [10, 10]


def test_a_part_of_a_batch_is_not_of_the_block():
    run = block_run(0)
    half = BatchResult(0, 5, None, np.zeros(5, np.int8))
    assert not run.keep(half, SEEN)
    assert not run.keep(BatchResult(5, 5, None, np.zeros(5, np.int8)), SEEN)


def test_results_wait_no_longer_than_they_may():
    now = [0.0]
    run = block_run(0, 10, 20)
    run.clock = lambda: now[0]
    run.keep(result(0), SEEN)
    assert not run.due
    now[0] = blocks._WAIT
    assert run.due


def block(workers: int, seconds: float, length: int = 10**6, **options: Any) -> list[BatchSpan]:
    """The batches that a worker is given at once."""
    sizer = BatchSizer(length=length, size=100.0, workers=workers, **{"settled": 100.0, **options})
    first = sizer.next(10**9)
    assert first is not None
    return [first, *sizer.following(first, 10**9, seconds)]


def test_blocks_are_longer_the_more_workers_ask_and_the_shorter_a_batch_is():
    assert len(block(2, seconds=1.0)) == 1
    assert len(block(2, seconds=0.01)) == 5
    assert len(block(1000, seconds=0.5)) == 4  # half of its share of what is left
    assert len(block(1000, 0.5, 10**8)) == 10
    assert len(block(1000, 1e-9, 10**8)) == batch_spans._MOST
    spans = block(2, seconds=0.01)
    assert all(before.stop == after.start for before, after in pairwise(spans))


@pytest.mark.parametrize("most", [0, 1, 3])
def test_a_block_has_no_more_batches_than_may_be_sent_together(most: int):
    sizer = BatchSizer(length=10**6, size=100.0, workers=2, settled=100.0)
    first = sizer.next(10**9)
    assert first is not None
    assert len(sizer.following(first, 10**9, 1e-6, most=most)) == max(0, most - 1)


def test_the_last_batches_and_those_that_are_measured_are_handed_out_one_by_one():
    assert len(block(10, 0.001, length=1_500)) == 1
    assert len(block(4, 0.001, settled=None)) == 1
    assert len(block(4, 0.001, replay=[(0, 100)], position=700)) == 1  # what an earlier run did not finish


def test_what_was_measured_for_others_does_not_wait():
    run = block_run(0, 10)
    assert not run.keep(result(0), replace(SEEN, probe=True)) and not run.keep(result(10), replace(SEEN, trial=1))


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.bool])
def test_results_are_the_same_in_another_process(dtype: torch.dtype):
    values = {"x": torch.arange(6).reshape(3, 2).t().to(dtype), "pair": (torch.ones(2), torch.zeros(2, 0))}
    sent = BatchResult(4, 2, values, np.array([0, 3], np.int8), {1: "why"}, True)
    got = pickle.loads(pickle.dumps(sent, protocol=5))
    assert torch.equal(got.values["x"], values["x"]) and got.values["x"].dtype is dtype
    assert torch.equal(got.values["pair"][0], torch.ones(2)) and got.values["pair"][1].shape == (2, 0)
    assert (got.start, got.count, got.messages, got.reran, got.status.tolist()) == (4, 2, {1: "why"}, True, [0, 3])
    got.values["x"][0] = 1  # it is the parent's own
