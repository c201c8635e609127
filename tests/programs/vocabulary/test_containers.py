"""Operations on tuples and sets."""

from hypothesis import given
from hypothesis import strategies as st

from brimful.programs.vocabulary import containers as c
from brimful.programs.vocabulary.bound import ELEMENTS

from .expectations import literal_cases

SETS = frozenset({frozenset({1}), frozenset({2, 3})})

VALUES = [
    (c.contained, (2, (1, 2)), True),
    (c.contained, (5, frozenset({1, 2})), False),
    (c.combine, ((1, 2), (2, 3)), (1, 2, 2, 3)),
    (c.combine, (frozenset({1, 2}), (2, 3)), frozenset({1, 2, 3})),
    (c.combine, ((9,), frozenset({3, 1, 2})), (9, 1, 2, 3)),
    (c.intersection, (frozenset({1, 2}), frozenset({2, 3})), frozenset({2})),
    (c.difference, (frozenset({1, 2}), frozenset({2, 3})), frozenset({1})),
    (c.difference, ((1, 2, 1, 3), frozenset({2})), (1, 1, 3)),
    (c.difference, (frozenset(range(20)), tuple(range(19))), frozenset({19})),
    (c.dedupe, ((3, 1, 3, 2, 1),), (3, 1, 2)),
    (c.repeat, ("x", 3), ("x", "x", "x")),
    (c.repeat, (1, -2), ()),
    (c.size, (frozenset({1, 2}),), 2),
    (c.merge, (SETS,), frozenset({1, 2, 3})),
    (c.merge, (((1, 2), (2,)),), (1, 2, 2)),
    (c.merge, ((frozenset({3, 1}), frozenset({2, 0})),), (1, 3, 0, 2)),
    (c.maximum, (frozenset({1, 5, 3}),), 5),
    (c.maximum, (frozenset(),), 0),
    (c.minimum, (frozenset({1, 5, 3}),), 1),
    (c.minimum, ((),), 0),
    (c.mostcommon, ((1, 2, 2, 3),), 2),
    (c.mostcommon, ((7, 3, 7, 3, 9),), 3),
    (c.leastcommon, ((1, 2, 2, 1, 3),), 3),
    (c.leastcommon, ((7, 3, 5),), 3),
    (c.initset, (4,), frozenset({4})),
    (c.totuple, (frozenset({3, 1, 2}),), (1, 2, 3)),
    (c.totuple, (SETS,), (frozenset({2, 3}), frozenset({1}))),
    (c.first, ((3, 1),), 3),
    (c.first, (frozenset({3, 1}),), 1),
    (c.first, (SETS,), frozenset({2, 3})),
    (c.last, ((3, 1),), 1),
    (c.last, (frozenset({3, 1}),), 3),
    (c.last, (SETS,), frozenset({1})),
    (c.insert, (1, frozenset({2})), frozenset({1, 2})),
    (c.remove, (1, (1, 2, 1)), (2,)),
    (c.remove, (1, frozenset({1, 2})), frozenset({2})),
    (c.other, (frozenset({1, 2}), 1), 2),
    (c.other, (frozenset({9, 1, 4}), 1), 4),
    (c.interval, (1, 8, 3), (1, 4, 7)),
    (c.interval, (3, 0, -1), (3, 2, 1)),
    (c.product, ((1, 2), frozenset({3})), frozenset({(1, 3), (2, 3)})),
    (c.product, (5, ()), frozenset()),
    (c.pair, ((1, 2, 3), (4, 5)), ((1, 4), (2, 5))),
    (c.pair, (frozenset({2, 1}), (4, 5)), ((1, 4), (2, 5))),
]

FAILURES = [
    (c.contained, (1, 2), TypeError),
    (c.combine, (1, (2,)), TypeError),
    (c.intersection, ((1,), frozenset({1})), TypeError),
    (c.difference, (3, frozenset()), TypeError),
    (c.dedupe, (frozenset({1}),), AttributeError),
    (c.repeat, (1, (2,)), TypeError),
    (c.size, (1,), TypeError),
    (c.merge, (frozenset({1, 2}),), TypeError),
    (c.maximum, ((1, (2,)),), TypeError),
    (c.minimum, (3,), TypeError),
    (c.mostcommon, ((),), ValueError),
    (c.mostcommon, (frozenset(),), AttributeError),
    (c.leastcommon, (frozenset({1}),), AttributeError),
    (c.totuple, (1,), TypeError),
    (c.first, (frozenset(),), StopIteration),
    (c.last, (frozenset(),), ValueError),
    (c.last, ((),), ValueError),
    (c.insert, (1, (2,)), AttributeError),
    (c.remove, (1, 2), TypeError),
    (c.other, ((1, 1), 1), StopIteration),
    (c.interval, (0, 3, 0), ValueError),
    (c.interval, (0, (), 1), TypeError),
    (c.product, ((1,), 5), TypeError),
    (c.pair, (1, (1,)), TypeError),
]

TOO_LARGE = [
    (c.repeat, (0, ELEMENTS + 1)),
    (c.repeat, (0, 2**63)),
    (c.interval, (0, ELEMENTS + 1, 1)),
    (c.interval, (-(2**63), 2**63 - 1, 1)),
    (c.product, (range(3000), range(3000))),
    (c.merge, (((0,) * 3000,) * 3000,)),
    (c.combine, ((0,) * 3_000_000, (0,) * 3_000_000)),
]


test_values, test_failures, test_values_beyond_the_bound = literal_cases(VALUES, FAILURES, TOO_LARGE)


@given(st.lists(st.integers(0, 5), max_size=12).map(tuple))
def test_tuples(values):
    assert c.dedupe(values) == tuple(sorted(set(values), key=values.index))
    assert c.size(c.remove(3, values)) == len(values) - values.count(3)
    if values:
        common = c.mostcommon(values)
        assert all(values.count(v) < values.count(common) or v >= common for v in values)


@given(st.frozensets(st.integers(-9, 9)), st.frozensets(st.integers(-9, 9)))
def test_sets(a, b):
    assert c.combine(a, b) == c.merge(frozenset({a, b})) == frozenset(c.merge((a, b)))
    assert c.difference(a, b) == c.difference(a, tuple(b)) == a - b
    assert c.totuple(a) == tuple(sorted(a))
    assert c.size(c.product(a, b)) == len(a) * len(b)
