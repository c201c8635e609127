"""Sets are read in one order, whatever they were made from."""

import os
import random
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brimful.programs.vocabulary import order
from brimful.programs.vocabulary.order import canonical_key, greatest, least, ordered

LEAVES = st.one_of(st.integers(-3, 3), st.booleans(), st.none(), st.sampled_from([len, sorted, ordered]))
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(st.lists(inner, max_size=3).map(tuple), st.frozensets(inner, max_size=3)),
    max_leaves=12,
)
INDICES = st.frozensets(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=6)
CELLS = st.frozensets(st.tuples(st.integers(0, 9), st.tuples(st.integers(0, 3), st.integers(0, 3))), max_size=6)
SETS = st.one_of(
    st.lists(VALUES, max_size=8, unique=True),
    st.lists(INDICES, max_size=8, unique=True),
    st.lists(CELLS, max_size=8, unique=True),
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), max_size=8, unique=True),
)


def adder(value):
    return lambda x: x + value


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({3, -1, True}, [-1, True, 3]),
        ({(1, 0), (0, 5), (0, 2), (0,)}, [(0,), (0, 2), (0, 5), (1, 0)]),
        ({(2, (0, 0)), (1, (4, 4)), (1, (0, 7))}, [(1, (0, 7)), (1, (4, 4)), (2, (0, 0))]),
        ({(0, 1), (0, (1, 2)), (0, (0, 3))}, [(0, 1), (0, (0, 3)), (0, (1, 2))]),
        ({None, (1,), 7, frozenset()}, [7, (1,), frozenset(), None]),
    ],
)
def test_elements_ascend_by_kind_and_by_value(values, expected):
    assert ordered(frozenset(values)) == expected


def test_larger_sets_come_first_then_the_one_with_the_smallest_element():
    small, large, left = frozenset({(0, 0)}), frozenset({(9, 9), (8, 8)}), frozenset({(9, 9), (0, 1)})
    assert ordered(frozenset({small, large, left})) == [left, large, small]


def test_sets_of_one_size_and_one_smallest_element_are_told_apart_by_the_others():
    first, second = frozenset({(0, 0), (1, 1), (2, 0)}), frozenset({(0, 0), (1, 1), (2, 2)})
    assert ordered(frozenset({second, first})) == [first, second]


def test_tuples_of_sets_are_not_compared_by_inclusion():
    values = [(frozenset({i}), i) for i in range(6)]
    for seed in range(20):
        random.Random(seed).shuffle(values)
        assert [pair[1] for pair in ordered(frozenset(values))] == list(range(6))


def test_functions_are_ordered_by_what_they_close_over():
    functions = [adder(n) for n in (5, 2, 9, 1)]
    assert [f(0) for f in ordered(frozenset(functions))] == [1, 2, 5, 9]
    assert [f.__name__ for f in ordered({ordered, least, canonical_key})] == ["canonical_key", "least", "ordered"]


def test_what_is_no_set_keeps_its_order():
    assert ordered((3, 1, 2)) == (3, 1, 2)
    assert ordered(5) == 5


def test_nothing_is_the_first_of_an_empty_set():
    with pytest.raises(StopIteration):
        least(frozenset())
    with pytest.raises(StopIteration):
        greatest(frozenset())


@given(SETS, st.randoms())
def test_the_order_does_not_depend_on_insertion(values, rng):
    shuffled = list(values)
    rng.shuffle(shuffled)
    grown = set(range(100, 164))
    grown.update(shuffled)
    expected = sorted(set(values), key=canonical_key)
    for container in (frozenset(values), frozenset(shuffled), frozenset(grown - set(range(100, 164)))):
        assert ordered(container) == expected
    if values:
        assert least(frozenset(shuffled)) == expected[0]
        assert greatest(frozenset(shuffled)) == expected[-1]


def test_the_order_does_not_depend_on_the_hash_seed():
    code = (
        "import runpy, sys\n"
        "ordered = runpy.run_path(sys.argv[1])['ordered']\n"
        "s = frozenset({'red', 'green', 'blue', None, 1, (1, 'x'), (1, 'y'), frozenset({'a', 'b'}), ordered})\n"
        "print([getattr(v, '__name__', sorted(v) if isinstance(v, frozenset) else v) for v in ordered(s)])"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", code, order.__file__],
            env={**os.environ, "PYTHONHASHSEED": str(seed)},
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        for seed in (1, 2, 3)
    }
    assert len(outputs) == 1


def test_nan_comes_after_all_other_numbers():
    assert [str(value) for value in ordered({float("nan"), 3, float("inf"), (0,)})] == ["3", "inf", "nan", "(0,)"]
    assert least({float("nan"), 3}) == 3
