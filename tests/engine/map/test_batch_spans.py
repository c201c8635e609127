"""Batch sizes, decided from numbers alone."""

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from brimful.core.memory.cost import Cost
from brimful.engine.map.batch_spans import BatchSizer, BatchSpan
from brimful.engine.map.memory_model import Ceiling
from brimful.engine.map.size_search import AllocatorRetried, BatchMeasurement, ItemTooBig, MemoryExceeded, ProbeFailed

GB = 10**9

weights = st.none() | st.lists(st.floats(0.01, 1000), min_size=1, max_size=120).map(lambda w: -np.sort(-np.array(w)))


def weight_of(span: BatchSpan, of: np.ndarray | None) -> float:
    return float(span.stop - span.start) if of is None else float(of[span.start : span.stop].sum())


def report(
    sizer: BatchSizer, weight: float, seconds: float | None, peak: int, available: int, span: BatchSpan | None = None
) -> None:
    """Tells the sizer of a finished batch; without a span, of a part of one."""
    probe, trial = (span.probe, span.trial) if span else (False, 0)
    sizer.observe(BatchMeasurement(weight, seconds or 1.0, seconds is not None, peak, available, probe, trial))


def simulate(
    sizer: BatchSizer,
    of: np.ndarray | None = None,
    available: Callable[[int], int] = lambda step: GB,
    peak: Callable[[float], int] = lambda weight: 1000 + int(10 * weight),
    seconds: Callable[[float], float] = lambda weight: 0.001 + weight * 1e-6,
    full: Callable[[int, float], bool] = lambda step, weight: False,
) -> list[BatchSpan]:
    """A whole run without a device: the spans that were made."""
    spans: list[BatchSpan] = []
    while (span := sizer.next(available(len(spans)))) is not None:
        spans.append(span)
        weight = weight_of(span, of)
        if full(len(spans), weight):
            sizer.observe(MemoryExceeded(weight, contended=False, available=available(len(spans))))
        else:
            report(sizer, weight, seconds(weight), peak(weight), available(len(spans)), span)
        assert len(spans) < 10_000
    return spans


def tile(spans: list[BatchSpan], length: int) -> bool:
    ends = [0, *(span.stop for span in spans)]
    return [span.start for span in spans] == ends[:-1] and ends[-1] == length and all(c.stop > c.start for c in spans)


@given(weights, st.integers(1, 600), st.floats(0.5, 200), st.booleans(), st.integers(2000, 10**6))
def test_every_position_is_covered_once_in_order_and_no_batch_is_over_capacity(
    of: np.ndarray | None, length: int, size: float, fixed: bool, available: int
):
    length = length if of is None else len(of)
    sizer = BatchSizer(length=length, weights=of, size=size, fixed=fixed, cost=Cost(100, 10))
    spans = simulate(sizer, of, lambda step: available)
    assert tile(spans, length)
    for span in spans:
        assert span.stop - span.start == 1 or weight_of(span, of) <= span.capacity * (1 + 1e-9)
        assert span.stop - span.start == 1 or span.capacity <= Cost(0, 10).capacity(available) + 1


@given(weights, st.integers(1, 500), st.floats(0.5, 50), st.integers(0, 10**6), st.integers(0, 10**6))
def test_a_larger_budget_never_gives_a_smaller_batch(
    of: np.ndarray | None, length: int, size: float, one: int, other: int
):
    length = length if of is None else len(of)

    def first(available: int) -> int:
        span = BatchSizer(length=length, weights=of, size=size, cost=Cost(100, 10)).next(available)
        assert span is not None
        return span.stop

    assert first(min(one, other)) <= first(max(one, other))


@given(st.integers(1, 2000), st.integers(1, 300))
def test_a_size_of_the_users_own_is_never_passed(length: int, size: int):
    spans = simulate(BatchSizer(length=length, size=float(size), fixed=True))
    assert tile(spans, length)
    lengths = [span.stop - span.start for span in spans]
    assert all(length == size for length in lengths[:-1])
    assert len(spans) == math.ceil(length / size)


@given(st.integers(0, 10**6), st.integers(50, 300), st.floats(20, 200))
def test_items_of_unequal_weight_are_packed_to_about_equal_weight(seed: int, count: int, size: float):
    of = -np.sort(-np.random.default_rng(seed).uniform(0.5, 10, count))
    spans = simulate(BatchSizer(length=count, weights=of, size=size, settled=size), of)
    assert tile(spans, count)
    for span in spans:
        left = of[span.start :].sum()
        share = left / math.ceil(left / size)
        assert share - of.max() <= weight_of(span, of) <= min(size, share + of.max()) * (1 + 1e-9)


def test_the_size_grows_while_that_is_faster_and_then_settles():
    sizer = BatchSizer(length=10**6, size=8.0)
    spans = simulate(sizer, seconds=lambda weight: 0.01 + weight * 1e-5)
    assert sizer.state.settled
    lengths = [span.stop - span.start for span in spans]
    assert lengths[0] == 8
    assert lengths[-1] >= 4096
    assert [span.probe for span in spans[-5:]] == [False] * 5


def test_the_size_grows_where_every_batch_compiles_something():
    sizer, spans = BatchSizer(length=10**5, size=8.0), list[BatchSpan]()
    while (span := sizer.next(GB)) is not None:
        spans.append(span)
        weight = weight_of(span, None)
        sizer.observe(
            BatchMeasurement(
                weight, 0.05 + weight * 1e-6, False, int(1e4 * weight), GB, span.probe, span.trial, compiled=True
            )
        )
    assert spans[-2].stop - spans[-2].start >= 4096
    assert len(spans) < 60  # six of every size: perhaps the next of them compiles nothing


def test_the_size_stops_growing_where_it_gains_nothing():
    sizer = BatchSizer(length=10**5, size=64.0)
    spans = simulate(sizer, seconds=lambda weight: weight * 1e-3)
    assert sizer.state.settled
    assert max(span.stop - span.start for span in spans) <= 64 * 64


def test_a_large_batch_that_is_slower_is_not_kept():
    def seconds(weight: float) -> float:
        return weight * (1e-3 if weight <= 256 else 4e-3) + 0.02

    sizer = BatchSizer(length=10**6, size=64.0)
    simulate(sizer, seconds=seconds)
    assert sizer.state.size <= 256


@given(st.integers(20_000, 10**7), st.integers(0, 10_000), st.integers(1, 1000))
def test_no_batch_is_expected_to_pass_the_budget_once_the_cost_is_known(budget: int, fixed: int, unit: int):
    sizer = BatchSizer(length=1000, size=1.0, cost=Cost(fixed, unit))
    for span in simulate(sizer, available=lambda step: budget, peak=lambda weight: math.ceil(fixed + unit * weight)):
        assert span.stop - span.start == 1 or fixed + unit * (span.stop - span.start) <= budget


@given(st.integers(1, 30), st.integers(500, 3000), st.booleans())
def test_after_a_batch_ran_out_of_memory_none_is_as_large_again(step: int, length: int, fixed: bool):
    sizer = BatchSizer(length=length, size=16.0, fixed=fixed)
    failed: list[tuple[int, float]] = []

    def full(now: int, weight: float) -> bool:
        if now == step:
            failed.append((now, weight))
        return now == step

    spans = simulate(sizer, full=full)
    assert tile(spans, length)
    for now, weight in failed:
        assert all(span.stop - span.start <= max(1, 0.7 * weight) for span in spans[now : now + 60])


def test_a_ceiling_rises_again_and_each_time_later():
    ceiling = Ceiling().lowered(64, 128)
    waits = []
    for _ in range(4):
        before, quiet = ceiling.weight, 0
        while ceiling.weight == before:
            ceiling, quiet = ceiling.after_batch(), quiet + 1
        waits.append(quiet)
        assert ceiling.weight > before
        ceiling = ceiling.lowered(before, 128)
    assert waits == [64, 128, 256, 512]


def test_what_one_item_that_is_too_big_taught_is_forgotten():
    sizer = BatchSizer(length=100_000, size=16.0)
    simulate_some(sizer, 4)
    before = sizer.state
    for weight in (before.size, before.size / 2, 1.0):
        sizer.observe(MemoryExceeded(weight, contended=False, available=1 << 30))
    assert sizer.state.capacity(1 << 30) < 1
    sizer.observe(ItemTooBig(before))
    assert sizer.state.ceiling == before.ceiling and sizer.state.size == before.size
    assert sizer.state.capacity(1 << 30) == before.capacity(1 << 30)


@given(st.floats(2, 100), st.integers(20, 200))
def test_any_limit_on_the_batch_is_found_and_then_kept(limit: float, length: int):
    sizer = BatchSizer(length=length, size=64.0)
    spans = simulate(sizer, full=lambda step, weight: weight > limit)
    assert tile(spans, length)
    failures = sum(span.stop - span.start > limit for span in spans)
    assert failures <= math.ceil(math.log(length / limit + 1, 1 / 0.7)) + 1


def test_a_ceiling_that_neighbors_caused_rises_again():
    sizer = BatchSizer(length=10**5, size=100.0, fixed=True)
    simulate_some(sizer, 3)
    sizer.observe(MemoryExceeded(100.0, contended=True, available=GB))
    assert sizer.state.ceiling.weight == pytest.approx(70.0)
    simulate_some(sizer, 40)
    assert math.isinf(sizer.state.ceiling.weight)
    sizer.observe(MemoryExceeded(100.0, contended=False, available=GB))
    simulate_some(sizer, 40)
    assert sizer.state.ceiling.weight == pytest.approx(70.0)


def simulate_some(sizer: BatchSizer, count: int) -> None:
    for _ in range(count):
        span = sizer.next(GB)
        assert span is not None
        report(sizer, float(span.stop - span.start), 0.01, 1000, GB, span)


def test_strain_lowers_the_ceiling_a_little():
    sizer = BatchSizer(length=1000, size=100.0, fixed=True)
    sizer.observe(AllocatorRetried(100.0))
    span = sizer.next(GB)
    assert span is not None
    assert span.stop <= 90


def test_batches_of_an_earlier_run_come_first_and_unchanged():
    sizer = BatchSizer(length=100, size=10.0, settled=10.0, replay=[(0, 7), (20, 33)], position=50)
    spans = simulate(sizer)
    assert [(span.start, span.stop) for span in spans[:2]] == [(0, 7), (20, 33)]
    assert spans[2].start == 50
    assert spans[-1].stop == 100


@given(st.integers(50, 400), st.integers(1, 60), st.data())
def test_a_resumed_run_divides_the_items_as_the_first_did(length: int, size: int, data: st.DataObject):
    whole = [(span.start, span.stop) for span in simulate(BatchSizer(length=length, size=float(size), fixed=True))]
    reached = data.draw(st.integers(0, len(whole)))
    lost = data.draw(st.sets(st.integers(0, max(0, reached - 1)))) if reached else set()
    again = BatchSizer(
        length=length,
        size=float(size),
        fixed=True,
        replay=[whole[index] for index in sorted(lost)],
        position=whole[reached - 1][1] if reached else 0,
    )
    redone = [(span.start, span.stop) for span in simulate(again)]
    assert redone == [whole[index] for index in sorted(lost)] + whole[reached:]


def test_work_too_small_to_be_seen_in_memory():
    sizer = BatchSizer(length=10**5, size=8.0)
    assert tile(simulate(sizer, peak=lambda weight: 0), 10**5)


def test_while_a_probe_runs_no_other_batch_is_handed_out():
    sizer = BatchSizer(length=1000, size=8.0)
    first = sizer.next(GB)
    assert first is not None
    assert first.probe
    assert sizer.next(GB) is None
    sizer.observe(ProbeFailed())
    assert sizer.next(GB) is not None


def test_a_stream_is_divided_by_counts_from_its_position_until_it_ends():
    sizer = BatchSizer(length=None, forward=True, size=8.0, fixed=True, position=40)
    spans = []
    for _ in range(5):
        span = sizer.next(GB)
        assert span is not None
        spans.append(span)
        report(sizer, 8.0, 0.01, 1000, GB, span)
    assert (spans[0].start, spans[0].stop) == (40, 48)
    assert [(span.start, span.stop) for span in spans[1:]] == [(-1, 7)] * 4
    sizer.end()
    assert sizer.next(GB) is None


def test_a_stream_whose_items_are_heavy_numbers_still_gets_batches():
    sizer = BatchSizer(length=None, forward=True, size=64.0)
    for _ in range(40):
        span = sizer.next(GB)
        assert span is not None
        weight = max(1.0, span.capacity // 1e6) * 1e6
        report(sizer, weight, 0.01 + weight * 1e-9, 1000, GB, span)
    assert sizer.state.settled
    assert sizer.state.size >= 64e6


def test_times_that_say_nothing_do_not_keep_it_from_settling():
    sizer = BatchSizer(length=10**6, size=8.0)
    for _ in range(60):
        span = sizer.next(GB)
        assert span is not None
        report(sizer, float(span.stop - span.start), None, 1000, GB, span)
    assert sizer.state.settled
    assert sizer.state.size > 8


@given(st.integers(1, 5000), st.integers(1, 4), st.integers(1, 3), st.integers(0, 2**30))
def test_trials_that_come_back_in_parts_do_not_hold_up_the_work(length: int, ahead: int, workers: int, seed: int):
    """The work goes on while spans are on their way, and some of them are done in two halves, which tell no speed."""
    choice = np.random.default_rng(seed)
    sizer = BatchSizer(length=length, size=8.0, workers=workers)
    out: list[BatchSpan] = []
    done = 0
    while True:
        while len(out) < ahead * workers and (span := sizer.next(GB)) is not None:
            out.append(span)
        if not out:
            break
        span = out.pop(0)
        weight = float(span.stop - span.start)
        done += span.stop - span.start
        if weight > 1 and choice.random() < 0.3:
            if span.probe:
                sizer.observe(ProbeFailed())
            for half in (weight // 2, weight - weight // 2):
                report(sizer, half, 0.01, 1000, GB)
        else:
            report(sizer, weight, 0.03 if choice.random() < 0.7 else None, 1000, GB, span)
    assert done == length


def test_growing_spends_few_batches_on_sizes_that_are_too_small():
    """What a batch costs beside its items is large, as where a function waits for its own results."""
    sizer = BatchSizer(length=10**6, size=1024.0)
    spans = simulate(sizer, seconds=lambda weight: 0.03 + weight * 1e-6)
    sizes = [span.stop - span.start for span in spans]
    assert max(sizes) >= 2**17
    assert sum(size < 2**16 for size in sizes[:-1]) <= 8


def test_what_an_earlier_run_knew_of_the_flow_holds_until_it_is_measured():
    known = Cost(1000, 100, source="remembered")
    budget = 10**6
    sizer = BatchSizer(length=10**6, size=64.0, cost=known)
    spans = simulate(sizer, available=lambda step: budget, peak=lambda weight: 1000 + int(50 * weight))
    sizes, tried = [span.stop - span.start for span in spans], sorted({span.trial for span in spans if span.trial})
    measured = next(index for index, span in enumerate(spans) if span.trial == tried[1])
    assert max(sizes[: measured + 1]) <= known.capacity(budget)
    assert max(sizes) > known.capacity(budget)  # it takes less than it did


@pytest.mark.parametrize(("taken", "half"), [(1.0, False), (0.5, True), (1.3, True)])
def test_a_second_size_is_measured_only_where_the_first_takes_other_than_an_earlier_run_did(taken: float, half: bool):
    known, budget = Cost(1000, 100, source="remembered"), 10**6
    sizer = BatchSizer(length=14_000, size=7000.0, cost=known)
    spans = simulate(
        sizer,
        available=lambda step: budget,
        peak=lambda weight: int(taken * known.at(weight)),
        seconds=lambda weight: 1.0,
    )
    assert (spans[1].stop - spans[1].start < 7000) == half


def test_run_after_run_what_is_remembered_of_the_flow_stays():
    """Each run begins from what the one before measured, and grows too fast to measure the flow at two sizes."""
    budget, known = 10**6, None
    for _ in range(4):
        sizer = BatchSizer(length=10**5, size=8.0, cost=known)
        high = 0
        while (span := sizer.next(budget)) is not None:
            weight = float(span.stop - span.start)
            peak = int(1000 + 100 * weight * (1 if span.probe else 2))
            high = max(high, peak if span.probe or span.trial == 0 else 0)
            report(sizer, weight, 0.1, peak, budget, span)
        assert high <= budget
        cost = sizer.state.memory.cost
        assert cost is not None
        assert cost.at(1000) >= 0.9 * 200 * 1000
        known = Cost(cost.fixed, cost.per_unit, cost.margin, "remembered")


@given(st.floats(1.15, 1.6))
def test_a_batch_that_ran_out_of_memory_tells_the_next_run_what_it_takes(more: float):
    """What was remembered of larger batches may be too little for those of a small budget."""
    budget, known, failures = 10**8, Cost(10**6, 1000, source="remembered"), list[int]()
    for _ in range(6):
        sizer = BatchSizer(length=10**6, size=1024.0, cost=known)
        failed = 0
        while (span := sizer.next(budget)) is not None:
            weight = float(span.stop - span.start)
            alone = 10**6 + 1000 * weight
            needs = alone if span.probe else more * alone
            if needs > budget:
                failed += 1
                sizer.observe(MemoryExceeded(weight, contended=False, available=budget))
            else:
                report(sizer, weight, 1e-3 + weight * 1e-9, int(needs), budget, span)
        failures.append(failed)
        cost = sizer.state.memory.cost
        assert cost is not None
        known = Cost(cost.fixed, cost.per_unit, cost.margin, "remembered")
    assert failures[0] > 0
    assert failures[-1] == 0


def test_a_part_of_a_batch_that_ran_out_of_memory_says_nothing_new():
    sizer = BatchSizer(length=10**6, size=1000.0, cost=Cost(0, 1000), settled=1000.0)
    sizer.observe(MemoryExceeded(1000.0, contended=False, available=2 * 10**6))
    once = sizer.state.memory.cost
    sizer.observe(MemoryExceeded(500.0, contended=False, available=2 * 10**6))
    assert once is not None
    assert once.at(1000) == 2 * 10**6
    assert sizer.state.memory.cost == once


@given(st.floats(0.0, 0.9))
def test_one_batch_that_ran_out_of_memory_does_not_leave_the_others_single(fixed: float):
    """However much of the budget is there whatever a batch holds."""
    limit = 10**9
    sizer = BatchSizer(length=10**6, size=1000.0, cost=Cost(fixed * limit, 10), settled=1000.0)
    before = sizer.state.capacity(limit)
    sizer.observe(MemoryExceeded(1000.0, contended=False, available=limit))
    assert sizer.state.capacity(limit) >= min(before, 0.05 * 1000)


@given(st.floats(1.0, 2.0), st.integers(10**6, 10**9))
def test_what_batches_take_in_the_flow_decides_and_not_what_one_takes_alone(more: float, budget: int):
    """Blocks carved up by overlapping batches can make the flow need far more than a batch alone."""
    sizer = BatchSizer(length=10**6, size=8.0)
    high = 0
    spans = []
    while (span := sizer.next(budget)) is not None:
        spans.append(span)
        weight = float(span.stop - span.start)
        alone = 10_000 + 1000 * weight
        high = int(alone) if span.probe else max(high, int(more * alone))
        assert high <= budget or span.probe or span.trial  # a trial may find it out
        report(sizer, weight, 0.001 + weight * 1e-5, high, budget, span)
        if len(spans) > 300:
            break
    if sizer.state.settled and sizer.state.memory.cost is not None:
        predicted = sizer.state.memory.cost.at(sizer.state.capacity(budget))
        assert predicted == pytest.approx(more * (10_000 + 1000 * sizer.state.capacity(budget)), rel=0.1)
        assert predicted <= budget


def test_only_a_run_that_settles_on_a_size_tells_that_larger_batches_are_no_faster():
    known = None
    for length, growing in ((4000, True), (10**6, False), (100, False)):
        sizer = BatchSizer(length=length, size=1000.0, cost=known)
        simulate(sizer, seconds=lambda weight: 0.01 + weight * 44e-6)
        assert sizer.state.growing == growing
        cost = sizer.state.memory.cost
        assert cost is not None
        known = Cost(cost.fixed, cost.per_unit, source="remembered", fastest=1000.0, growing=growing)
