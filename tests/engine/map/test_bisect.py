"""Halving finds exactly the bad items, and asks no more often than it must."""

import math
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brimful.engine.map.bisect import find_bad


def searched(items: Sequence[int], bad: set[int]) -> tuple[dict[int, Exception], list[list[int]]]:
    asked: list[list[int]] = []

    def attempt(part: Sequence[int]) -> Exception | None:
        asked.append(list(part))
        failing = sorted(bad & set(part))
        return ValueError(f"{failing[0]} is bad") if failing else None

    return find_bad(items, attempt), asked


@given(st.sets(st.integers(0, 199), min_size=1, max_size=100), st.data())
def test_any_set_of_bad_items_is_found(items: set[int], data: st.DataObject):
    bad = data.draw(st.sets(st.sampled_from(sorted(items)), min_size=1))
    isolated, asked = searched(sorted(items), bad)
    assert set(isolated) == bad
    assert all(str(error) == f"{item} is bad" for item, error in isolated.items())
    assert len(asked) <= 2 * len(bad) * (math.ceil(math.log2(max(2, len(items) / len(bad)))) + 1)
    assert all(len(part) <= math.ceil(len(items) / 2) for part in asked) or len(items) == 1


@pytest.mark.parametrize("bad", [{0}, {63}, {31, 32}])
def test_one_bad_item_among_many_takes_few_attempts(bad: set[int]):
    isolated, asked = searched(range(64), bad)
    assert set(isolated) == bad
    assert len(asked) <= 2 * len(bad) * 6


def test_nothing_to_search():
    assert searched([], set()) == ({}, [])


def test_items_that_fail_only_together_are_not_held_to_be_bad():
    isolated = find_bad(range(8), lambda part: ValueError("both") if {2, 3} <= set(part) else None)
    assert isolated == {}
