"""Short batches handed out in blocks: what a worker keeps and hands in, and how large a block is."""

import numpy as np
import torch

from brimful.engine.map import batch_spans
from brimful.engine.map.batch import BatchResult
from brimful.engine.map.batch_spans import BatchSizer, BatchSpan
from brimful.engine.map.hosts import blocks
from brimful.engine.map.hosts.blocks import Block, BlockRun
from brimful.engine.map.size_search import BatchMeasurement, SizerState

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
    run.add(Block(tuple(BatchSpan(start, start + 10, 10.0) for start in starts), STATE))
    return run


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
    (first, seen), (last, _) = run.take()
    assert (first.start, first.count, last.start, len(seen)) == (0, 30, 40, 3)
    assert torch.equal(first.values["x"], torch.arange(30))
    assert first.messages == {23: "item 23"} and first.status[23] == 3 and first.status.sum() == 3
    assert run.take() == [] and not run.due


def test_a_batch_without_values_stays_by_itself():
    run = block_run(0, 10)
    assert run.keep(result(0, values=False), SEEN) and run.keep(result(10), SEEN)
    assert [done.count for done, _ in run.take()] == [10, 10]


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


def sizer(workers: int, length: int = 1_000_000) -> BatchSizer:
    return BatchSizer(length=length, size=100.0, settled=100.0, workers=workers)


def test_blocks_are_longer_the_more_workers_ask_and_the_shorter_a_batch_is():
    assert sizer(2).block_size(seconds=1.0) == 1
    assert sizer(2).block_size(seconds=0.01) == 5
    assert sizer(1000).block_size(seconds=0.5) == 5  # half of its share of what is left
    assert sizer(1000, 10**8).block_size(seconds=0.5) == 10
    assert sizer(1000, 10**8).block_size(seconds=1e-9) == batch_spans._MOST


def test_the_last_batches_and_those_that_are_measured_are_handed_out_one_by_one():
    assert sizer(10, length=1_500).block_size(seconds=0.001) == 1
    measuring = BatchSizer(length=10**6, size=100.0, workers=4)
    assert measuring.block_size(seconds=0.001) == 1
    stream = BatchSizer(length=None, forward=True, size=100.0, settled=100.0, workers=4)
    assert stream.block_size(seconds=0.001) == 1
