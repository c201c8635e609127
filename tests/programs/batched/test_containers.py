"""Operations on tuples and sets, over columns as row by row."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.programs.batched.helpers import GRIDS, INTEGERS, NEAR_INDICES, NEAR_OBJECTS, columns, compare, function

SMALL = st.integers(-2, 5)
PAIRS = st.tuples(SMALL, SMALL)
CELLS = st.tuples(SMALL, PAIRS)
ELEMENTS = [
    SMALL,
    st.booleans(),
    PAIRS,
    CELLS,
    NEAR_INDICES,
    NEAR_OBJECTS,
    GRIDS,
    st.lists(SMALL, max_size=3).map(tuple),
]
LISTS = [
    of for element in ELEMENTS for of in (st.frozensets(element, max_size=4), st.lists(element, max_size=4).map(tuple))
]
CONTAINERS = st.one_of(*LISTS, GRIDS, PAIRS, CELLS, SMALL)
VALUES = st.one_of(*ELEMENTS)

OF_ONE = ["size", "first", "last", "totuple", "maximum", "minimum", "dedupe", "mostcommon", "leastcommon", "initset"]
OF_TWO = ["combine", "intersection", "difference", "product", "pair"]


def of_one_form(*strategies):
    """Rows that are mostly alike, as the rows of a column are."""
    return st.sampled_from(strategies).flatmap(lambda strategy: columns(strategy, rows=4))


def of_two_forms(first, second):
    both = st.tuples(st.sampled_from(first), st.sampled_from(second))
    return both.flatmap(lambda pair: columns(*pair, rows=4))


@pytest.mark.parametrize("name", OF_ONE)
@given(of_one_form(CONTAINERS, *LISTS, GRIDS, PAIRS, CELLS))
def test_operations_of_one_container(name, arguments):
    compare(name, *arguments)


@pytest.mark.parametrize("name", OF_TWO)
@given(of_two_forms([CONTAINERS, *LISTS, GRIDS, PAIRS], [CONTAINERS, *LISTS, GRIDS, PAIRS]))
def test_operations_of_two_containers(name, arguments):
    compare(name, *arguments)


@pytest.mark.parametrize("name", OF_TWO)
@given(st.sampled_from(LISTS).flatmap(lambda of: columns(of, of, rows=4, odd=False)))
def test_two_containers_of_one_form(name, arguments):
    compare(name, *arguments)


@pytest.mark.parametrize("name", ["contained", "remove", "insert"])
@given(of_two_forms([VALUES, *ELEMENTS], [CONTAINERS, *LISTS, GRIDS, PAIRS, CELLS]))
def test_a_value_and_a_container(name, arguments):
    compare(name, *arguments)
    if name == "remove":
        compare("other", *arguments[::-1])


@pytest.mark.parametrize("place", range(len(ELEMENTS)))
@given(st.data())
def test_an_element_and_its_container(place, data):
    lists = data.draw(st.lists(LISTS[2 * place + data.draw(st.integers(0, 1))], min_size=1, max_size=4))
    value = [random.Random(0).choice(sorted(of, key=repr)) if of else data.draw(ELEMENTS[place]) for of in lists]
    for name in ("contained", "remove", "insert"):
        compare(name, value, lists)
    compare("other", lists, value)


@given(columns(st.one_of(VALUES, CONTAINERS), st.one_of(SMALL, INTEGERS, st.booleans()), rows=4))
def test_an_item_is_repeated(arguments):
    compare("repeat", *arguments)


@given(columns(*[st.one_of(SMALL, INTEGERS, st.booleans())] * 3, rows=4))
def test_intervals(arguments):
    compare("interval", *arguments)


def test_they_do_not_run_row_by_row():
    rng = random.Random(0)
    objects = [frozenset(frozenset({(1, (0, m)), (2, (m, n))}) for m in range(n)) for n in range(6)]
    grids = [tuple((m % 2, n, 1) for m in range(n)) for n in range(6)]
    cells = [(n, (n, 2)) for n in range(6)]
    tuples = [tuple(value) * 2 for value in objects]
    numbers = [tuple(rng.randrange(3) for _ in range(n)) for n in range(6)]
    for name in OF_ONE:
        for of in (objects, tuples, grids, numbers):
            assert compare(name, of) == 0 or name in ("maximum", "minimum")
        assert compare(name, cells) == 0 or name in ("dedupe", "mostcommon", "leastcommon")
    for name in ("combine", "intersection", "difference"):
        assert compare(name, objects, objects[::-1]) == 0
        assert compare(name, tuples, objects) == 0
        assert compare(name, objects, [5] * 6) == 0
    assert compare("contained", [(1, 2)] * 6, [(1, 2), (3, 4)] * 3) == 0
    assert compare("pair", tuples, tuples) == 0 and compare("pair", numbers, numbers) == 0
    assert compare("product", numbers, numbers) == 0


def test_many_elements_fail_by_their_number():
    assert compare("repeat", [1, 1, 1], [1 << 9, (1 << 22) + 1, 1 << 61]) == 0
    assert compare("interval", [0, 0, 5], [1 << 9, 1 << 23, 1 << 59], [1, 1, 1]) == 0
    long = tuple(range(2_049))
    assert compare("product", [long, (1, 2)], [long, (3,)]) == 0


MIXED = [
    st.tuples(SMALL, NEAR_OBJECTS),
    st.tuples(PAIRS, SMALL, st.booleans()),
    st.tuples(GRIDS, st.tuples(NEAR_INDICES, SMALL)),
]
LISTS_OF_MIXED = [
    of for mixed in MIXED for of in (st.frozensets(mixed, max_size=4), st.lists(mixed, max_size=4).map(tuple))
]


@pytest.mark.parametrize("name", [*OF_ONE, "equality"])
@given(of_one_form(*MIXED, *LISTS_OF_MIXED))
def test_tuples_of_several_forms(name, arguments):
    compare(name, *arguments * (2 if name == "equality" else 1))


@given(st.sampled_from([*MIXED, *LISTS_OF_MIXED]).flatmap(lambda of: columns(of, of, rows=4, odd=False)))
def test_two_tuples_of_several_forms(arguments):
    for name in ("equality", "combine", "pair", "difference"):
        compare(name, *arguments)


def test_pairs_of_several_forms_do_not_run_row_by_row():
    objects = [tuple(frozenset({(1, (0, m)), (2, (m, n))}) for m in range(n)) for n in range(6)]
    numbers = [tuple(range(n)) for n in range(6)]
    pairs = [tuple(zip(*both, strict=True)) for both in zip(numbers, objects, strict=True)]
    assert compare("pair", numbers, objects) == 0
    assert compare("dedupe", [value * 2 for value in pairs]) == 0
    recolored = function("fork", function("recolor"), function("first"), function("last"))
    assert compare("mapply", recolored, pairs) == 0
    assert compare("combine", [frozenset(value) for value in pairs], pairs[::-1]) == 0
    for name in ("rbind", "lbind"):
        assert compare(name, objects, numbers) == 0
