"""Functions mapped over lists, over columns as row by row."""

import itertools
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brimful.programs.batched.operations import all_pairs, mapping, sets
from brimful.programs.vocabulary import bound
from tests.programs.batched.helpers import GRIDS, NEAR_INDICES, NEAR_OBJECTS, columns, compare, function

SMALL = st.integers(-2, 5)
PAIRS = st.tuples(SMALL, SMALL)
NUMBERS = st.one_of(st.frozensets(SMALL, max_size=4), st.lists(SMALL, max_size=4).map(tuple))
SETS = st.one_of(st.frozensets(NEAR_INDICES, max_size=4), st.frozensets(NEAR_OBJECTS, max_size=4))
TUPLES = st.one_of(
    st.lists(NEAR_OBJECTS, max_size=4).map(tuple),
    st.lists(GRIDS, max_size=3).map(tuple),
    st.lists(PAIRS, max_size=4).map(tuple),
)
CONTAINERS = st.one_of(NUMBERS, NEAR_INDICES, NEAR_OBJECTS, SETS, TUPLES, GRIDS, PAIRS)
FUNCTIONS = [
    function("size"),
    function("first"),
    function("toindices"),
    function("identity"),
    function("increment"),
    function("dneighbors"),
    function("compose", function("initset"), function("first")),
    function("fork", function("combine"), function("identity"), function("identity")),
    function("fork", function("connect"), function("ulcorner"), function("lrcorner")),
]
OF_TWO = ["connect", "shift", "recolor", "add", "astuple", "greater", "combine", "difference"]


@pytest.mark.parametrize("name", ["apply", "mapply"])
@given(columns(CONTAINERS), st.sampled_from(FUNCTIONS))
def test_functions_of_elements(name, arguments, called):
    compare(name, called, *arguments)


@pytest.mark.parametrize("name", ["sfilter", "mfilter"])
@given(columns(CONTAINERS), st.sampled_from(FUNCTIONS))
def test_elements_are_kept(name, arguments, called):
    compare(name, *arguments, called)


@given(columns(CONTAINERS))
def test_containers_of_containers_are_merged(arguments):
    compare("merge", *arguments)


@pytest.mark.parametrize("name", ["papply", "mpapply", "prapply"])
@given(columns(CONTAINERS, CONTAINERS), st.sampled_from(OF_TWO))
def test_functions_of_two_elements(name, arguments, called):
    compare(name, function(called), *arguments)


def test_they_do_not_run_row_by_row():
    rng = random.Random(0)
    patches = [frozenset((rng.randrange(9), rng.randrange(9)) for _ in range(n)) for n in range(12)]
    objects = [frozenset(frozenset({(1, (0, m)), (2, (m, n))}) for m in range(n)) for n in range(12)]
    pairs = [tuple((m, n) for m in range(n % 5)) for n in range(12)]
    grids = [tuple((m, n, 1) for m in range(n)) for n in range(12)]
    assert compare("prapply", function("connect"), patches, patches[::-1]) == 0
    assert compare("prapply", function("shift"), objects, pairs) == 0
    assert compare("prapply", function("add"), grids, [5] * 12) == 0
    assert compare("papply", function("shift"), [tuple(value) for value in objects], pairs) == 0
    assert compare("mpapply", function("recolor"), [(1, 2, 3)] * 12, [tuple(value) for value in objects]) == 0
    assert (
        compare("mpapply", function("hconcat"), [(value, value) for value in grids], [(value,) for value in grids]) == 0
    )
    assert compare("apply", function("rbind", function("order"), function("identity")), grids) == 0
    for of in (grids, objects, [(value, value) for value in grids], patches):
        assert compare("merge", of) == 0
    assert compare("sfilter", objects, function("toindices")) == 0
    assert compare("sfilter", grids, function("matcher", function("first"), [2], rows=12)) == 0


@pytest.mark.parametrize("group", [1, 7, 64])
def test_rows_are_split_into_groups(monkeypatch, group):
    monkeypatch.setattr(all_pairs, "GROUP", group)
    rng = random.Random(1)
    patches = [frozenset((rng.randrange(6), rng.randrange(6)) for _ in range(n)) for n in (0, 3, 12, 1, 30, 2)]
    fixed = function("lbind", function("connect"), [(n, n) for n in range(6)])
    assert compare("prapply", function("connect"), patches, patches) == 0
    assert compare("prapply", function("add"), patches, patches) == 0
    assert compare("prapply", function("rbind", function("recolor"), [1], rows=6), patches, patches) == 0
    assert compare("prapply", fixed, patches, patches) == 0
    assert compare("prapply", function("divide"), patches, patches[::-1]) == 0


@pytest.fixture
def low_bound(monkeypatch):
    """At most 500 elements for one operation."""
    for module in (bound, all_pairs, mapping, sets):
        monkeypatch.setattr(module, "ELEMENTS", 500)


@pytest.mark.parametrize("group", [5, 1 << 16])
def test_rows_with_many_elements_fail_by_their_number(low_bound, monkeypatch, group):
    monkeypatch.setattr(all_pairs, "GROUP", group)
    whole = frozenset(itertools.product(range(5), range(5)))
    lists = [whole, frozenset({(0, 0)}), frozenset(itertools.islice(sorted(whole), 3)), frozenset(), whole]
    for name in ("shoot", "connect", "divide", "add"):
        assert compare("prapply", function(name), lists, lists[::-1]) == 0
    for name in ("apply", "mapply"):
        assert compare(name, function("rbind", function("shoot"), [(1, 1)], rows=5), lists) == 0
        assert compare(name, function("lbind", function("prapply"), function("connect")), lists) >= 0
        assert compare(name, function("fork", function("prapply"), function("first"), function("last")), lists) >= 0
        nested = function(
            "compose", function("merge"), function("fork", function("pair"), function("identity"), function("identity"))
        )
        assert compare(name, nested, [(value, value) for value in lists]) >= 0
    assert compare("mfilter", [tuple([value] * 20) for value in lists], function("size")) == 0


@given(columns(st.lists(st.integers(0, 3), max_size=9).map(tuple), st.integers(0, 100), rows=4, odd=False))
def test_the_bound_is_reached_before_or_after_another_failure(arguments):
    lists, times = arguments
    count = function("compose", function("size"), function("rbind", function("repeat"), times))
    with pytest.MonkeyPatch.context() as patch:
        for module in (bound, all_pairs, mapping, sets):
            patch.setattr(module, "ELEMENTS", 200)
        for parts in ((count, function("identity")), (function("identity"), count)):
            assert compare("apply", function("fork", function("divide"), *parts), lists) == 0


def test_what_is_no_function_fails_for_every_element():
    lists = [(1, 2), (), (3,)]
    for name in ("apply", "mapply"):
        assert compare(name, [5, 5, 5], lists) == 0
    assert compare("papply", [5, 5, 5], lists, lists) == 0
    assert compare("prapply", [5, 5, 5], lists, lists) == 0


CHOICE = [True, False, True, False]


@pytest.mark.parametrize("name", ["apply", "mapply", "argmax", "order", "sfilter", "extract", "valmin"])
def test_a_branch_between_functions(name):
    objects = [frozenset(frozenset({(1, (0, m)), (2, (m, n))}) for m in range(n)) for n in range(4)]
    for first, second in (
        ("size", "height"),
        ("toindices", "uppermost"),
        ("toindices", "normalize"),
        ("first", "flip"),
    ):
        called = function("branch", CHOICE, function(first), function(second))
        arguments = [called, objects] if name in ("apply", "mapply") else [objects, called]
        compare(name, *arguments)
        compare(name, *(function("compose", function("initset"), arg) if arg is called else arg for arg in arguments))
    called = function("branch", CHOICE, function("size"), function("height"))
    assert compare("apply", called, objects) == 0
    assert compare("apply", function("fork", function("add"), called, called), objects) == 0


def test_functions_made_of_elements():
    locations = [frozenset((m, n * m % 5) for m in range(n)) for n in range(6)]
    sets = [frozenset(frozenset({(m, 1), (0, n)}) for m in range(n)) for n in range(6)]
    near = function("lbind", function("lbind"), function("manhattan"))
    fixed = function("lbind", function("argmin"), sets)
    assert compare("apply", function("compose", fixed, near), sets) == 0
    matches = function(
        "compose",
        function("lbind", function("sfilter"), locations),
        function("lbind", function("rbind"), function("equality")),
    )
    assert compare("apply", matches, locations) == 0


def test_the_values_of_all_functions_of_a_set():
    both = function("insert", function("vfrontier"), function("initset", function("hfrontier")))
    assert compare("rapply", both, [(1, 2), (0, 0), (-3, 5)]) == 0
    assert compare("rapply", function("insert", function("vfrontier"), both), [(1, 2)]) == 0
    assert compare("rapply", function("insert", function("first"), both), [(1, 2), (0, 0)]) >= 0
    assert compare("rapply", function("initset", function("first")), [(), (1, 2), frozenset()]) == 0


@given(
    columns(CONTAINERS), st.sampled_from([*FUNCTIONS, function("ulcorner"), function("positive"), function("toobject")])
)
@pytest.mark.parametrize("name", ["argmax", "argmin", "order", "valmax", "valmin", "extract"])
def test_elements_are_compared_and_chosen(name, arguments, called):
    compare(name, *arguments, called)


def test_keys_of_any_form_do_not_run_row_by_row():
    objects = [frozenset(frozenset({(1, (0, m)), (2, (m, n))}) for m in range(n)) for n in range(5)]
    for called in ("ulcorner", "size", "leftmost", "portrait"):
        for name in ("argmax", "argmin", "order", "valmax", "valmin"):
            assert compare(name, objects, function(called)) == 0


def test_a_condition_that_stops_an_iteration_fails_otherwise():
    """Inside of a generator a StopIteration is a RuntimeError."""
    lists = [((),), ((0,), ()), ((), (1,)), ()]
    for called in ("first", "last"):
        assert compare("extract", lists, function(called)) == 0
    sets = [frozenset({frozenset()}), frozenset({frozenset({(0, 1)})}), frozenset()]
    assert compare("extract", sets, function("first")) == 0


INNER = st.lists(st.integers(-1, 4), max_size=5)
OF_INNER = ["extract", "argmax", "argmin", "order", "valmax", "valmin", "sfilter", "mfilter", "apply", "mapply"]


@pytest.mark.parametrize("name", OF_INNER)
@given(
    st.lists(st.lists(INNER, max_size=4), min_size=1, max_size=4),
    st.sampled_from([tuple, frozenset]),
    st.sampled_from([tuple, frozenset]),
    st.integers(0, 3),
    st.integers(0, 60),
)
def test_what_functions_reserve_is_counted_up_to_where_they_fail(name, lists, outer, inner, number, most):
    three = function("compose", function("size"), function("lbind", function("repeat"), [3], rows=len(lists)))
    called = (
        function("positive"),
        three,  # reserves as many elements as its argument says
        function("compose", function("even"), function("fork", function("divide"), three, function("identity"))),
        function("compose", function("positive"), function("compose", function("decrement"), three)),
    )[number]
    first = name in ("apply", "mapply")
    each = function("lbind" if first else "rbind", function(name), called)
    one, many = [inner(*row[:1]) for row in lists], [outer(map(inner, row)) for row in lists]
    with pytest.MonkeyPatch.context() as patch:
        for module in (bound, all_pairs, mapping, sets):
            patch.setattr(module, "ELEMENTS", most)
        compare(name, *((called, one) if first else (one, called)))
        compare("apply", each, many)
        compare("mapply", each, many)
