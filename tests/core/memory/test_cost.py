"""The affine cost of a step: its estimate, its inverse, and its fit to measurements."""

import json
import math
from dataclasses import asdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brimful.core.memory.cost import MARGIN, Cost

bytes_ = st.one_of(st.integers(0, 10**12), st.floats(0, 1e12, allow_subnormal=False))
margins = st.one_of(st.just(0.0), st.just(MARGIN), st.floats(0, 2))
costs = st.builds(Cost, bytes_, bytes_, margins)
small_costs = st.builds(Cost, st.integers(0, 50), st.floats(0.01, 20), margins)
budgets = st.integers(0, 10**13)


@given(costs, st.floats(0, 1e6), st.floats(0, 1e6))
def test_more_weight_never_costs_less(cost: Cost, one: float, other: float):
    low, high = sorted((one, other))
    assert cost.at(low) <= cost.at(high)
    assert cost.guarded(low) <= cost.guarded(high)
    assert cost.at(low) <= cost.guarded(low)


@given(st.one_of(costs, small_costs), st.one_of(budgets, st.integers(0, 300)))
def test_what_the_capacity_holds_is_within_the_budget(cost: Cost, budget: int):
    weight = cost.capacity(budget)
    assert weight >= 0
    if math.isinf(weight):
        assert cost.guarded(1e9) <= budget or cost.per_unit * 1e9 < 1
    elif weight > 0 or cost.guarded(0) <= budget:
        assert cost.guarded(weight) <= budget


@given(st.one_of(costs, small_costs), st.one_of(budgets, st.integers(0, 300)))
def test_the_capacity_is_the_largest_to_within_two_bytes(cost: Cost, budget: int):
    weight = cost.capacity(budget)
    if cost.guarded(0) > budget:
        assert weight == 0
    elif math.isfinite(weight):
        more = weight * (1 + 1e-9) + 2 / cost.per_unit
        assert cost.guarded(more) > budget


@given(st.one_of(costs, small_costs), st.one_of(budgets, st.integers(0, 300)), st.integers(0, 3))
def test_a_larger_budget_never_has_a_smaller_capacity(cost: Cost, budget: int, more: int):
    assert cost.capacity(budget) <= cost.capacity(budget + more)


def test_weight_that_costs_nothing_has_no_end():
    assert Cost(10, 0, 0.0).capacity(10) == math.inf
    assert Cost(10, 0, 0.0).capacity(9) == 0


@pytest.mark.parametrize("field", ["fixed", "per_unit", "margin"])
@pytest.mark.parametrize("value", [-1, float("nan"), float("inf")])
def test_impossible_numbers_are_refused(field: str, value: float):
    with pytest.raises(ValueError, match=f"{field} is"):
        numbers = {"fixed": 1.0, "per_unit": 1.0, "margin": 0.1, field: value}
        Cost(numbers["fixed"], numbers["per_unit"], numbers["margin"])


@given(st.integers(0, 10**10), st.integers(1, 10**9), st.lists(st.integers(1, 1000), min_size=2, unique=True))
def test_a_fit_of_exact_samples_is_exact(fixed: int, per_unit: int, weights: list[int]):
    cost = Cost.fit([(weight, fixed + per_unit * weight) for weight in weights])
    assert cost.source == "probe"
    for weight in weights:
        assert cost.at(weight) == pytest.approx(fixed + per_unit * weight, rel=1e-6, abs=1)


@given(st.lists(st.tuples(st.integers(0, 1000), st.integers(0, 10**10)), min_size=1, max_size=6))
def test_a_fit_is_always_a_cost_and_two_probes_are_covered(samples: list[tuple[int, int]]):
    cost = Cost.fit(samples)
    assert cost.fixed >= 0
    assert cost.per_unit >= 0
    if len({weight for weight, _ in samples}) == len(samples) <= 2:
        for weight, peak in samples:
            assert cost.at(weight) >= peak * (1 - 1e-9) - 1


def test_noise_that_falls_becomes_a_flat_cost_at_the_largest_peak():
    assert Cost.fit([(1, 900), (10, 500)]) == Cost(900, 0, source="probe")


def test_a_line_below_the_origin_becomes_one_through_it_that_covers_every_sample():
    cost = Cost.fit([(10, 10), (20, 100)])
    assert cost.fixed == 0
    assert cost.at(20) >= 100
    assert cost.at(10) >= 10


def test_one_probe_scales_with_weight():
    cost = Cost.fit([(10, 500)])
    assert cost.at(20) == 1000


def test_a_fit_needs_a_sample():
    with pytest.raises(ValueError, match="at least one"):
        Cost.fit([])


@given(costs)
def test_a_cost_survives_json(cost: Cost):
    assert Cost(**json.loads(json.dumps(asdict(cost)))) == cost
