"""Planning by arithmetic alone, over random cases; no device is needed."""

import json
import math
import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brimful.core.base.errors import BudgetError
from brimful.core.memory.cost import Cost
from brimful.core.memory.plan import Candidate, Plan, choose

# Everyday sizes, and sizes so small that one byte of rounding decides.
everyday = st.builds(Cost, st.integers(0, 10**10), st.integers(0, 10**9), st.sampled_from([0.0, 0.1, 0.25, 1.0]))
tiny = st.builds(Cost, st.integers(0, 30), st.floats(0.05, 20), st.floats(0, 1))
costs = st.one_of(everyday, tiny)
budgets = st.one_of(st.integers(1, 500), st.integers(1, 10**12))


heaviests = st.one_of(st.just(1.0), st.floats(0.01, 1000))
mosts = st.one_of(st.none(), st.integers(1, 5000))
names = st.sampled_from(["whole", "batched", "sharded"])
slownesses = st.sampled_from([0.5, 1.0, 2.0, 3.0])
alike = st.builds(
    Candidate,
    strategy=names,
    cost=costs,
    items=st.integers(0, 10**6),
    heaviest=heaviests,
    most=mosts,
    divisible=st.booleans(),
    slowness=slownesses,
).map(lambda each: replace(each, total=(each.items or 0) * each.heaviest))
shares = st.floats(0, 1)
ragged = st.builds(
    lambda each, share: replace(
        each, total=max(each.heaviest, (each.total or 0) * share), items=max(1, each.items or 0)
    ),
    alike,
    shares,
)
streams = st.builds(Candidate, strategy=names, cost=costs, heaviest=heaviests, most=mosts, slowness=slownesses)
anything = st.one_of(alike, ragged, streams)
extras = st.one_of(st.integers(-1, 200), st.integers(-1, 10**12))


def case(options: list[Candidate], extra: int) -> "Case":
    """Candidates, and a budget that is mostly enough for the least of one of them."""
    first = options[0]
    total = math.inf if first.total is None else first.total
    needs = first.cost.guarded(min(first.heaviest, total) if first.divisible else total)
    return options, max(1, needs + extra)


def one(kind: st.SearchStrategy[Candidate]) -> st.SearchStrategy["Case"]:
    return st.builds(case, st.tuples(kind).map(list), extras)


several = st.builds(case, st.lists(anything, min_size=1, max_size=3), extras)
Case = tuple[list[Candidate], int]


def attempt(options: list[Candidate], budget: int) -> Plan | None:
    try:
        return choose("test", options, budget)
    except BudgetError:
        return None


@given(several)
def test_the_predicted_peak_margin_included_is_within_the_budget(case: Case):
    options, budget = case
    plan = attempt(options, budget)
    if plan is None:
        return
    assert math.ceil(plan.predicted * (1 + plan.cost.margin)) <= budget == plan.budget
    assert plan.cost.guarded(plan.capacity) <= budget


@given(one(anything), st.one_of(st.integers(0, 3), st.integers(0, 10**12)))
def test_a_larger_budget_never_gives_a_smaller_batch(case: Case, more: int):
    [candidate], budget = case
    small, large = attempt([candidate], budget), attempt([candidate], budget + more)
    if small is None:
        return
    assert large is not None
    assert large.batch >= small.batch
    assert large.capacity >= small.capacity
    if small.steps is not None and large.steps is not None:
        assert large.steps <= small.steps


@given(several, st.integers(0, 10**12))
def test_a_larger_budget_never_gives_a_slower_plan(case: Case, more: int):
    options, budget = case
    named = [replace(each, strategy=f"s{place}") for place, each in enumerate(options)]
    slowness = {each.strategy: each.slowness for each in named}
    small, large = attempt(named, budget), attempt(named, budget + more)
    if small is not None:
        assert large is not None
        assert slowness[large.strategy] <= slowness[small.strategy]


@given(one(alike))
def test_alike_items_fill_the_budget_and_are_all_taken(case: Case):
    [candidate], budget = case
    plan = attempt([candidate], budget)
    if plan is None:
        return
    items = candidate.items or 0
    assert plan.steps is not None
    if items == 0:
        assert (plan.steps, plan.batch) == (0, 0)
        return
    assert (plan.steps - 1) * plan.batch < items <= plan.steps * plan.batch
    if not candidate.divisible:
        assert plan.steps == 1
    elif candidate.most is None and plan.steps > 1:
        fewer = math.ceil(items / (plan.steps - 1))
        assert candidate.cost.guarded(fewer * candidate.heaviest) > budget


@given(one(ragged))
def test_weights_are_respected(case: Case):
    [candidate], budget = case
    plan = attempt([candidate], budget)
    if plan is None:
        return
    assert candidate.total is not None
    assert plan.capacity >= min(candidate.heaviest, candidate.total)
    assert plan.items == candidate.items
    assert plan.steps is not None
    assert plan.steps >= 1
    assert plan.steps * plan.capacity >= candidate.total * (1 - 1e-9)
    if not candidate.divisible:
        assert plan.steps == 1


@given(one(anything))
def test_no_step_holds_more_items_than_allowed(case: Case):
    [candidate], budget = case
    plan = attempt([candidate], budget)
    if plan is not None and candidate.most is not None and candidate.divisible:
        assert plan.batch <= candidate.most


@given(st.lists(anything, min_size=1, max_size=3), budgets)
def test_an_error_has_the_numbers_and_a_way_out_that_works(options: list[Candidate], budget: int):
    try:
        choose("gp fit", options, budget)
    except BudgetError as error:
        text = str(error)
    else:
        return
    assert text.startswith("gp fit: ")
    assert "the budget is" in text
    assert "smaller" in text
    way_out = re.search(r'budget="(\d+)MB"', text)
    assert way_out is not None
    enough = int(way_out[1]) * 10**6
    assert enough > budget
    assert choose("gp fit", options, enough).predicted <= enough


@given(several)
def test_a_plan_is_the_same_after_json(case: Case):
    options, budget = case
    plan = attempt(options, budget)
    if plan is None:
        return
    assert Plan.from_dict(json.loads(json.dumps(plan.to_dict(), allow_nan=False))) == plan
    assert hash(plan) == hash(Plan.from_dict(plan.to_dict()))


@given(several)
def test_every_candidate_not_taken_is_kept_with_a_reason(case: Case):
    options, budget = case
    plan = attempt(options, budget)
    if plan is None:
        return
    assert len(plan.rejected) == len(options) - 1
    for each in plan.rejected:
        assert ("over the budget" in each.reason) == (each.needs > budget)
        assert each.reason in plan.explain()


def test_the_numbers_of_a_budget_error():
    cost = Cost(fixed=100e6, per_unit=3.1e9, margin=0.25)
    with pytest.raises(BudgetError) as caught:
        choose("gp fit", [Candidate(strategy="batched", cost=cost, items=40)], 2 * 10**9)
    assert str(caught.value) == (
        "gp fit: one item needs 4.00 GB (100 MB fixed, margin included); the budget is 2.00 GB. "
        'Use budget="4000MB" or more, or make the items smaller.'
    )


def test_work_that_cannot_be_cut_says_so():
    whole = Candidate(strategy="whole", cost=Cost(0, 10**6, 0.0), items=100, divisible=False)
    with pytest.raises(BudgetError, match=r"cannot be split.*100 MB.*50\.00 MB"):
        choose("train", [whole], 50 * 10**6)


def test_the_fastest_that_fits_is_taken():
    whole = Candidate(strategy="whole", cost=Cost(0, 10**6, 0.0), items=100, divisible=False)
    batched = Candidate(strategy="batched", cost=Cost(0, 10**6, 0.0), items=100, slowness=1.2)
    slow = Candidate(strategy="slow", cost=Cost(0, 10**5, 0.0), items=100, slowness=9.0)
    plan = choose("train", [slow, batched, whole], 100 * 10**6)
    assert (plan.strategy, plan.batch, plan.steps) == ("whole", 100, 1)
    assert {each.strategy: each.reason for each in plan.rejected} == {
        "batched": "fits, but whole is faster",
        "slow": "fits, but whole is faster",
    }
    plan = choose("train", [slow, batched, whole], 50 * 10**6)
    assert (plan.strategy, plan.batch, plan.steps) == ("batched", 50, 2)
    assert plan.rejected[0].reason == "all of it at once is over the budget"
    assert choose("train", [slow, batched, whole], 5 * 10**5).strategy == "slow"


def test_equals_keep_the_order_they_came_in():
    options = [Candidate(strategy=name, cost=Cost(0, 1), items=4) for name in ("b", "a")]
    assert choose("test", options, 10**6).strategy == "b"


def test_items_are_cut_into_equal_steps():
    plan = choose("test", [Candidate(strategy="batched", cost=Cost(0, 10**6, 0.0), items=10)], 9 * 10**6)
    assert (plan.batch, plan.steps, plan.predicted) == (5, 2, 5 * 10**6)


def test_fractions_of_weight_do_not_add_a_step():
    candidate = Candidate(strategy="batched", cost=Cost(0, 10**7, 0.0), items=3, total=3 * 0.1, heaviest=0.1)
    plan = choose("test", [candidate], 10**6)
    assert (plan.batch, plan.steps) == (1, 3)


def test_items_that_weigh_nothing_are_still_run():
    plan = choose("test", [Candidate(strategy="b", cost=Cost(5, 1), items=7, total=0.0, heaviest=0.0)], 10**6)
    assert (plan.batch, plan.steps) == (7, 1)
    plan = choose("test", [Candidate(strategy="b", cost=Cost(5, 1), items=7, total=0.0, heaviest=0.0, most=3)], 10**6)
    assert (plan.batch, plan.steps) == (3, 3)


def test_a_stream_has_a_batch_but_no_number_of_steps():
    plan = choose("test", [Candidate(strategy="batched", cost=Cost(0, 10**6, 0.0))], 9_500_000)
    assert (plan.batch, plan.steps, plan.items) == (9, None, None)
    assert "a stream" in plan.explain()


def test_a_stream_whose_items_cost_nothing_is_still_cut():
    plan = choose("test", [Candidate(strategy="batched", cost=Cost(10, 0))], 10**6)
    assert 0 < plan.batch < 10**6


def test_no_candidates_is_a_mistake_of_the_caller():
    with pytest.raises(ValueError, match="no candidates"):
        choose("test", [], 10**9)


def test_an_explanation_shows_what_will_happen_and_why():
    options = [
        Candidate(strategy="whole", cost=Cost(10**8, 10**6), items=10_000, divisible=False, precision="float64"),
        Candidate(
            strategy="batched",
            cost=Cost(10**8, 10**6, 0.25, source="remembered"),
            items=10_000,
            slowness=2,
            devices=("cuda:0", "cuda:1"),
            tier="device",
        ),
    ]
    text = choose("gp fit", options, 2 * 10**9).explain()
    for part in (
        "gp fit",
        "batched",
        "cuda:0, cuda:1",
        "float32",
        "10,000",
        "1,429 items, 7 steps",
        "100 MB + 1.00 MB per item (from a remembered probe)",
        "1.53 GB of 2.00 GB",
        "25% on top",
        "device",
        "not chosen",
        "whole",
        "all of it at once is over the budget",
    ):
        assert part in text, part


def test_a_plan_says_what_its_memory_is_for():
    cost = Cost(fixed=600, per_unit=10)
    parts = (("parameters", 400), ("data", 200))
    plan = choose("made", [Candidate(strategy="whole", cost=cost, items=10, parts=parts, recompute=True)], 10**6)
    assert plan.parts == (*parts, ("working memory", 100)) and plan.recompute
    assert sum(size for _, size in plan.parts) == plan.predicted
    assert "parameters" in plan.explain() and Plan.from_dict(plan.to_dict()) == plan
