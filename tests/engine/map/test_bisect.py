"""The search finds exactly the bad items, and asks no more often than it must."""

import math
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brimful.engine.map.bisect import find_bad, find_exhausting, find_first


class Asked:
    """A function that fails on some items, and the items of each call."""

    def __init__(self, bad: set[int]) -> None:
        self.bad, self.calls = bad, list[list[int]]()

    def __call__(self, part: Sequence[int]) -> Exception | None:
        self.calls.append(list(part))
        failing = sorted(self.bad & set(part))
        return ValueError(f"{failing[0]} is bad") if failing else None


@given(st.sets(st.integers(0, 199), min_size=1, max_size=100), st.integers(1, 200), st.data())
def test_any_set_of_bad_items_is_found(items: set[int], group: int, data: st.DataObject):
    bad = data.draw(st.sets(st.sampled_from(sorted(items))))
    asked = Asked(bad)
    isolated, separable = find_bad(sorted(items), asked, group)
    assert set(isolated) == bad and separable
    assert all(str(error) == f"{item} is bad" for item, error in isolated.items())
    few = (len(bad) + 1) * (2 * math.ceil(math.log2(max(2, len(items)))) + 2)
    assert len(asked.calls) <= min(few, 2 * len(items) + few)


@given(st.integers(1, 300), st.data())
def test_the_first_bad_item_is_found_in_as_many_items_as_there_are(count: int, data: st.DataObject):
    bad = data.draw(st.sets(st.integers(0, count - 1), min_size=1))
    asked = Asked(bad)
    first = find_first(range(count), asked, ValueError(f"{min(bad)} is bad"))
    assert first is not None and first[0] == min(bad) and str(first[1]) == f"{min(bad)} is bad"
    assert sum(map(len, asked.calls)) <= count + 1
    assert len(asked.calls) <= math.ceil(math.log2(count)) + 1 if count > 1 else not asked.calls


@pytest.mark.parametrize("share", [2, 3])
def test_many_bad_items_take_about_one_call_each(share: int):
    asked = Asked(set(range(0, 1200, share)))
    assert len(find_bad(range(1200), asked, 600)[0]) == 1200 // share
    assert len(asked.calls) <= 1.5 * 1200


def test_nothing_to_search():
    assert find_bad([], Asked(set()), 8) == ({}, True)


def test_items_that_fail_only_together_are_not_held_to_be_bad():
    def both(part: Sequence[int]) -> Exception | None:
        return ValueError("both") if {2, 3} <= set(part) else None

    assert find_bad(range(8), both, 8) == ({}, False)
    assert find_first(range(8), both, ValueError("both")) is None


@given(st.integers(1, 300), st.data())
def test_the_one_item_that_runs_out_of_memory_is_found(count: int, data: st.DataObject):
    one = data.draw(st.integers(0, count - 1))
    assert find_exhausting(range(count), Asked({one})) == one


@pytest.mark.parametrize("most", [1, 3, 8, 40])
def test_a_batch_that_is_too_large_has_no_such_item(most: int):
    assert find_exhausting(range(64), lambda part: MemoryError() if len(part) > most else None) is None
