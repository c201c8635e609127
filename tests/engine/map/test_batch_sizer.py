"""Where the work is cut, decided from numbers alone."""

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from brimful.core.memory.cost import Cost
from brimful.engine.map.batch_sizer import Cut, Cutter

GB = 10**9

weights = st.none() | st.lists(st.floats(0.01, 1000), min_size=1, max_size=120).map(lambda w: -np.sort(-np.array(w)))


def weight_of(cut: Cut, of: np.ndarray | None) -> float:
    return float(cut.stop - cut.start) if of is None else float(of[cut.start : cut.stop].sum())


def drive(
    cutter: Cutter,
    of: np.ndarray | None = None,
    effective: Callable[[int], int] = lambda step: GB,
    peak: Callable[[float], int] = lambda weight: 1000 + int(10 * weight),
    seconds: Callable[[float], float] = lambda weight: 0.001 + weight * 1e-6,
    full: Callable[[int, float], bool] = lambda step, weight: False,
) -> list[Cut]:
    """A whole run without a device: the cuts that were made."""
    cuts: list[Cut] = []
    while (cut := cutter.next(effective(len(cuts)))) is not None:
        cuts.append(cut)
        weight = weight_of(cut, of)
        if full(len(cuts), weight):
            cutter.full(weight, pressed=False, limit=effective(len(cuts)))
        else:
            cutter.report(weight, seconds(weight), peak(weight), effective(len(cuts)), cut.probe, cut.trial)
        assert len(cuts) < 10_000
    return cuts


def tile(cuts: list[Cut], length: int) -> bool:
    ends = [0, *(cut.stop for cut in cuts)]
    return [cut.start for cut in cuts] == ends[:-1] and ends[-1] == length and all(c.stop > c.start for c in cuts)


@given(weights, st.integers(1, 3000), st.floats(0.5, 200), st.booleans(), st.integers(2000, 10**6))
def test_every_position_is_cut_once_in_order_and_no_cut_is_over_capacity(
    of: np.ndarray | None, length: int, size: float, fixed: bool, effective: int
):
    length = length if of is None else len(of)
    cutter = Cutter(length=length, weights=of, size=size, fixed=fixed, cost=Cost(100, 10))
    cuts = drive(cutter, of, lambda step: effective)
    assert tile(cuts, length)
    for cut in cuts:
        assert cut.stop - cut.start == 1 or weight_of(cut, of) <= cut.capacity * (1 + 1e-9)
        assert cut.stop - cut.start == 1 or cut.capacity <= Cost(0, 10).capacity(effective) + 1


@given(weights, st.integers(1, 500), st.floats(0.5, 50), st.integers(0, 10**6), st.integers(0, 10**6))
def test_a_larger_budget_never_gives_a_smaller_batch(
    of: np.ndarray | None, length: int, size: float, one: int, other: int
):
    length = length if of is None else len(of)

    def first(effective: int) -> int:
        cut = Cutter(length=length, weights=of, size=size, cost=Cost(100, 10)).next(effective)
        assert cut is not None
        return cut.stop

    assert first(min(one, other)) <= first(max(one, other))


@given(st.integers(1, 2000), st.integers(1, 300))
def test_a_size_of_the_users_own_is_never_passed(length: int, size: int):
    cuts = drive(Cutter(length=length, size=float(size), fixed=True))
    assert tile(cuts, length)
    lengths = [cut.stop - cut.start for cut in cuts]
    assert all(each == size for each in lengths[:-1])
    assert len(cuts) == math.ceil(length / size)


@given(st.integers(0, 10**6), st.integers(50, 300), st.floats(20, 200))
def test_items_of_unequal_weight_are_packed_to_about_equal_weight(seed: int, count: int, size: float):
    of = -np.sort(-np.random.default_rng(seed).uniform(0.5, 10, count))
    cuts = drive(Cutter(length=count, weights=of, size=size, settled=size), of)
    assert tile(cuts, count)
    for cut in cuts:
        left = of[cut.start :].sum()
        share = left / math.ceil(left / size)
        assert share - of.max() <= weight_of(cut, of) <= min(size, share + of.max()) * (1 + 1e-9)


def test_the_size_grows_while_that_is_faster_and_then_settles():
    cutter = Cutter(length=10**6, size=8.0)
    cuts = drive(cutter, seconds=lambda weight: 0.01 + weight * 1e-5)
    assert cutter.settled
    lengths = [cut.stop - cut.start for cut in cuts]
    assert lengths[0] == 8
    assert lengths[-1] >= 4096
    assert [cut.probe for cut in cuts[-5:]] == [False] * 5


def test_the_size_stops_growing_where_it_gains_nothing():
    cutter = Cutter(length=10**5, size=64.0)
    cuts = drive(cutter, seconds=lambda weight: weight * 1e-3)
    assert cutter.settled
    assert max(cut.stop - cut.start for cut in cuts) <= 64 * 64


def test_a_large_batch_that_is_slower_is_not_kept():
    def seconds(weight: float) -> float:
        return weight * (1e-3 if weight <= 256 else 4e-3) + 0.02

    cutter = Cutter(length=10**6, size=64.0)
    drive(cutter, seconds=seconds)
    assert cutter.size <= 256


@given(st.integers(20_000, 10**7), st.integers(0, 10_000), st.integers(1, 1000))
def test_no_batch_is_expected_to_pass_the_budget_once_the_cost_is_known(budget: int, fixed: int, unit: int):
    cutter = Cutter(length=5000, size=1.0, cost=Cost(fixed, unit))
    for cut in drive(cutter, effective=lambda step: budget, peak=lambda weight: math.ceil(fixed + unit * weight)):
        assert cut.stop - cut.start == 1 or fixed + unit * (cut.stop - cut.start) <= budget


@given(st.integers(1, 30), st.integers(500, 3000), st.booleans())
def test_after_a_batch_ran_out_of_memory_none_is_as_large_again(step: int, length: int, fixed: bool):
    cutter = Cutter(length=length, size=16.0, fixed=fixed)
    failed: list[tuple[int, float]] = []

    def full(now: int, weight: float) -> bool:
        if now == step:
            failed.append((now, weight))
        return now == step

    cuts = drive(cutter, full=full)
    assert tile(cuts, length)
    for now, weight in failed:
        assert all(cut.stop - cut.start <= max(1, 0.7 * weight) for cut in cuts[now:])


@given(st.floats(2, 100), st.integers(20, 200))
def test_any_limit_on_the_batch_is_found_and_then_kept(limit: float, length: int):
    cutter = Cutter(length=length, size=64.0)
    cuts = drive(cutter, full=lambda step, weight: weight > limit)
    assert tile(cuts, length)
    failures = sum(cut.stop - cut.start > limit for cut in cuts)
    assert failures <= math.ceil(math.log(length / limit + 1, 1 / 0.7)) + 1


def test_a_ceiling_that_neighbours_caused_rises_again():
    cutter = Cutter(length=10**5, size=100.0, fixed=True)
    drive_some(cutter, 3)
    cutter.full(100.0, pressed=True, limit=GB)
    assert cutter.ceiling == pytest.approx(70.0)
    drive_some(cutter, 40)
    assert math.isinf(cutter.ceiling)
    cutter.full(100.0, pressed=False, limit=GB)
    drive_some(cutter, 40)
    assert cutter.ceiling == pytest.approx(70.0)


def drive_some(cutter: Cutter, count: int) -> None:
    for _ in range(count):
        cut = cutter.next(GB)
        assert cut is not None
        cutter.report(float(cut.stop - cut.start), 0.01, 1000, GB, cut.probe, cut.trial)


def test_strain_lowers_the_ceiling_a_little():
    cutter = Cutter(length=1000, size=100.0, fixed=True)
    cutter.strained(100.0)
    cut = cutter.next(GB)
    assert cut is not None
    assert cut.stop <= 90


def test_cuts_of_an_earlier_run_come_first_and_as_they_were():
    cutter = Cutter(length=100, size=10.0, settled=10.0, replay=[(0, 7), (20, 33)], position=50)
    cuts = drive(cutter)
    assert [(cut.start, cut.stop) for cut in cuts[:2]] == [(0, 7), (20, 33)]
    assert cuts[2].start == 50
    assert cuts[-1].stop == 100


@given(st.integers(50, 2000), st.integers(1, 60), st.data())
def test_a_resumed_run_cuts_as_the_first_did(length: int, size: int, data: st.DataObject):
    whole = [(cut.start, cut.stop) for cut in drive(Cutter(length=length, size=float(size), fixed=True))]
    reached = data.draw(st.integers(0, len(whole)))
    lost = data.draw(st.sets(st.integers(0, max(0, reached - 1)))) if reached else set()
    again = Cutter(
        length=length,
        size=float(size),
        fixed=True,
        replay=[whole[place] for place in sorted(lost)],
        position=whole[reached - 1][1] if reached else 0,
    )
    redone = [(cut.start, cut.stop) for cut in drive(again)]
    assert redone == [whole[place] for place in sorted(lost)] + whole[reached:]


def test_work_too_small_to_be_seen_in_memory():
    cutter = Cutter(length=10**5, size=8.0)
    assert tile(drive(cutter, peak=lambda weight: 0), 10**5)


def test_while_a_probe_is_out_there_is_no_other_cut():
    cutter = Cutter(length=1000, size=8.0)
    first = cutter.next(GB)
    assert first is not None
    assert first.probe
    assert cutter.next(GB) is None
    cutter.spoiled()
    assert cutter.next(GB) is not None


def test_a_stream_is_cut_by_counts_from_its_position_until_it_ends():
    cutter = Cutter(length=None, forward=True, size=8.0, fixed=True, position=40)
    cuts = []
    for _ in range(5):
        cut = cutter.next(GB)
        assert cut is not None
        cuts.append(cut)
        cutter.report(8.0, 0.01, 1000, GB, cut.probe, cut.trial)
    assert (cuts[0].start, cuts[0].stop) == (40, 48)
    assert [(cut.start, cut.stop) for cut in cuts[1:]] == [(-1, 7)] * 4
    cutter.end()
    assert cutter.next(GB) is None


def test_a_stream_whose_items_are_heavy_numbers_still_gets_batches():
    cutter = Cutter(length=None, forward=True, size=64.0)
    for _ in range(40):
        cut = cutter.next(GB)
        assert cut is not None
        weight = max(1.0, cut.capacity // 1e6) * 1e6
        cutter.report(weight, 0.01 + weight * 1e-9, 1000, GB, cut.probe, cut.trial)
    assert cutter.settled
    assert cutter.size >= 64e6


def test_times_that_say_nothing_do_not_keep_it_from_settling():
    cutter = Cutter(length=10**6, size=8.0)
    for _ in range(60):
        cut = cutter.next(GB)
        assert cut is not None
        cutter.report(float(cut.stop - cut.start), None, 1000, GB, cut.probe, cut.trial)
    assert cutter.settled
    assert cutter.size > 8


@given(st.integers(1, 5000), st.integers(1, 4), st.integers(1, 3), st.integers(0, 2**30))
def test_trials_that_come_back_in_parts_do_not_hold_up_the_work(length: int, ahead: int, workers: int, seed: int):
    """The work goes on while cuts are on their way, and some of them are done in two halves, which tell no speed."""
    choice = np.random.default_rng(seed)
    cutter = Cutter(length=length, size=8.0, workers=workers)
    out: list[Cut] = []
    done = 0
    while True:
        while len(out) < ahead * workers and (cut := cutter.next(GB)) is not None:
            out.append(cut)
        if not out:
            break
        cut = out.pop(0)
        weight = float(cut.stop - cut.start)
        done += cut.stop - cut.start
        if weight > 1 and choice.random() < 0.3:
            if cut.probe:
                cutter.spoiled()
            for half in (weight // 2, weight - weight // 2):
                cutter.report(half, 0.01, 1000, GB, False)
        else:
            cutter.report(weight, 0.03 if choice.random() < 0.7 else None, 1000, GB, cut.probe, cut.trial)
    assert done == length


def test_growing_spends_few_batches_on_sizes_that_are_too_small():
    """What a batch costs beside its items is large, as where a function waits for its own results."""
    cutter = Cutter(length=10**6, size=1024.0)
    cuts = drive(cutter, seconds=lambda weight: 0.03 + weight * 1e-6)
    sizes = [cut.stop - cut.start for cut in cuts]
    assert max(sizes) >= 2**17
    assert sum(size < 2**16 for size in sizes[:-1]) <= 8


def test_what_an_earlier_run_knew_of_the_flow_holds_until_it_is_measured():
    known = Cost(1000, 100, source="remembered")
    budget = 10**6
    cutter = Cutter(length=10**6, size=64.0, cost=known)
    cuts = drive(cutter, effective=lambda step: budget, peak=lambda weight: 1000 + int(50 * weight))
    sizes, tried = [cut.stop - cut.start for cut in cuts], sorted({cut.trial for cut in cuts if cut.trial})
    measured = next(place for place, cut in enumerate(cuts) if cut.trial == tried[1])
    assert max(sizes[: measured + 1]) <= known.capacity(budget)
    assert max(sizes) > known.capacity(budget)  # it takes less than it did


def test_run_after_run_what_is_remembered_of_the_flow_stays():
    """Each run begins from what the one before measured, and grows too fast to measure the flow at two sizes."""
    budget, known = 10**6, None
    for _ in range(4):
        cutter = Cutter(length=10**5, size=8.0, cost=known)
        high = 0
        while (cut := cutter.next(budget)) is not None:
            weight = float(cut.stop - cut.start)
            peak = int(1000 + 100 * weight * (1 if cut.probe else 2))
            high = max(high, peak if cut.probe or cut.trial == 0 else 0)
            cutter.report(weight, 0.1, peak, budget, cut.probe, cut.trial)
        assert high <= budget
        cost = cutter.whole_cost
        assert cost is not None
        assert cost.at(1000) >= 0.9 * 200 * 1000
        known = Cost(cost.fixed, cost.per_unit, cost.margin, "remembered")


@given(st.floats(1.15, 1.6))
def test_a_batch_that_ran_out_of_memory_tells_the_next_run_what_it_takes(more: float):
    """What was remembered of larger batches may be too little for those of a small budget."""
    budget, known, failures = 10**8, Cost(10**6, 1000, source="remembered"), list[int]()
    for _ in range(6):
        cutter = Cutter(length=10**6, size=1024.0, cost=known)
        failed = 0
        while (cut := cutter.next(budget)) is not None:
            weight = float(cut.stop - cut.start)
            alone = 10**6 + 1000 * weight
            needs = alone if cut.probe else more * alone
            if needs > budget:
                failed += 1
                cutter.full(weight, pressed=False, limit=budget)
            else:
                cutter.report(weight, 1e-3 + weight * 1e-9, int(needs), budget, cut.probe, cut.trial)
        failures.append(failed)
        cost = cutter.whole_cost
        assert cost is not None
        known = Cost(cost.fixed, cost.per_unit, cost.margin, "remembered")
    assert failures[0] > 0
    assert failures[-1] == 0


def test_a_part_of_a_batch_that_ran_out_of_memory_says_nothing_new():
    cutter = Cutter(length=10**6, size=1000.0, cost=Cost(0, 1000), settled=1000.0)
    cutter.full(1000.0, pressed=False, limit=2 * 10**6)
    once = cutter.whole_cost
    cutter.full(500.0, pressed=False, limit=2 * 10**6)
    assert once is not None
    assert once.at(1000) == 2 * 10**6
    assert cutter.whole_cost == once


@given(st.floats(0.0, 0.9))
def test_one_batch_that_ran_out_of_memory_does_not_leave_the_others_single(fixed: float):
    """However much of the budget is there whatever a batch holds."""
    limit = 10**9
    cutter = Cutter(length=10**6, size=1000.0, cost=Cost(fixed * limit, 10), settled=1000.0)
    before = cutter.capacity(limit)
    cutter.full(1000.0, pressed=False, limit=limit)
    assert cutter.capacity(limit) >= min(before, 0.05 * 1000)


@given(st.floats(1.0, 2.0), st.integers(10**6, 10**9))
def test_what_batches_take_in_the_flow_decides_and_not_what_one_takes_alone(more: float, budget: int):
    """Blocks carved up by overlapping batches can make the flow need far more than a batch alone."""
    cutter = Cutter(length=10**6, size=8.0)
    high = 0
    cuts = []
    while (cut := cutter.next(budget)) is not None:
        cuts.append(cut)
        weight = float(cut.stop - cut.start)
        alone = 10_000 + 1000 * weight
        high = int(alone) if cut.probe else max(high, int(more * alone))
        assert high <= budget or cut.probe or cut.trial  # a trial may find it out
        cutter.report(weight, 0.001 + weight * 1e-5, high, budget, cut.probe, cut.trial)
        if len(cuts) > 3000:
            break
    if cutter.settled and cutter.whole_cost is not None:
        foretold = cutter.whole_cost.at(cutter.capacity(budget))
        assert foretold == pytest.approx(more * (10_000 + 1000 * cutter.capacity(budget)), rel=0.1)
        assert foretold <= budget
