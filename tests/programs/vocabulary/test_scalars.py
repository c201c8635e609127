"""Operations on integers, booleans and pairs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brimful.programs.vocabulary import scalars as s
from brimful.programs.vocabulary.bound import SizeError

from .expectations import literal_cases

VALUES = [
    (s.identity, ("anything",), "anything"),
    (s.add, (2, 3), 5),
    (s.add, ((1, 2), (3, 4)), (4, 6)),
    (s.add, (1, (3, 4)), (4, 5)),
    (s.add, ((3, 4), 1), (4, 5)),
    (s.subtract, (2, 3), -1),
    (s.subtract, ((1, 2), (3, 5)), (-2, -3)),
    (s.subtract, (1, (3, 4)), (-2, -3)),
    (s.subtract, ((3, 4), 1), (2, 3)),
    (s.multiply, (2, 3), 6),
    (s.multiply, ((1, 2), (3, 4)), (3, 8)),
    (s.multiply, (2, (3, 4)), (6, 8)),
    (s.multiply, ((3, 4), 2), (6, 8)),
    (s.divide, (7, 2), 3),
    (s.divide, (-7, 2), -4),
    (s.divide, ((9, 8), (2, 4)), (4, 2)),
    (s.divide, (9, (2, 4)), (4, 2)),
    (s.divide, ((9, 8), 2), (4, 4)),
    (s.invert, (3,), -3),
    (s.invert, ((1, -2),), (-1, 2)),
    (s.even, (4,), True),
    (s.even, (-3,), False),
    (s.double, (3,), 6),
    (s.double, ((1, 2),), (2, 4)),
    (s.halve, (-3,), -2),
    (s.halve, ((5, 4),), (2, 2)),
    (s.flip, (0,), True),
    (s.flip, ((1,),), False),
    (s.equality, (frozenset({1, 2}), frozenset({2, 1})), True),
    (s.equality, ((1, 2), (2, 1)), False),
    (s.greater, (2, 1), True),
    (s.greater, (1, 1), False),
    (s.both, (True, 0), 0),
    (s.both, (False, 1), False),
    (s.either, (0, 3), 3),
    (s.either, (True, 3), True),
    (s.increment, (3,), 4),
    (s.increment, ((0, -1),), (1, 0)),
    (s.decrement, (3,), 2),
    (s.decrement, ((0, -1),), (-1, -2)),
    (s.crement, (3,), 4),
    (s.crement, ((0, -1),), (0, -2)),
    (s.sign, (-5,), -1),
    (s.sign, ((0, 7),), (0, 1)),
    (s.positive, (1,), True),
    (s.positive, (0,), False),
    (s.toivec, (3,), (3, 0)),
    (s.tojvec, (3,), (0, 3)),
    (s.astuple, (1, 2), (1, 2)),
    (s.branch, (True, 1, 2), 1),
    (s.branch, ((), 1, 2), 2),
]

FAILURES = [
    (s.add, ((1,), 2), IndexError),
    (s.add, (frozenset({1}), 2), TypeError),
    (s.subtract, ((1,), (2, 3)), IndexError),
    (s.multiply, (None, 2), TypeError),
    (s.divide, (1, 0), ZeroDivisionError),
    (s.divide, ((1, 2), (1, 0)), ZeroDivisionError),
    (s.invert, ((1, ()),), TypeError),
    (s.even, ((1, 2),), TypeError),
    (s.double, (frozenset(),), TypeError),
    (s.halve, (((), 1),), TypeError),
    (s.greater, (1, (1,)), TypeError),
    (s.increment, ((1,),), IndexError),
    (s.decrement, (((1,), 2),), TypeError),
    (s.crement, (((1,), 2),), TypeError),
    (s.sign, ((1,),), IndexError),
    (s.positive, ((1, 2),), TypeError),
]

TOO_LARGE = [
    (s.add, (2**63 - 1, 1)),
    (s.add, ((2**63 - 1, 0), (1, 0))),
    (s.add, (1, (0, 2**63 - 1))),
    (s.subtract, (-(2**63), 1)),
    (s.multiply, (2**32, 2**31)),
    (s.multiply, ((2**32, 0), 2**31)),
    (s.divide, (-(2**63), -1)),
    (s.invert, (-(2**63),)),
    (s.double, (2**62,)),
    (s.double, ((0, 2**62),)),
    (s.increment, (2**63 - 1,)),
    (s.decrement, ((0, -(2**63)),)),
    (s.crement, (2**63 - 1,)),
    (s.multiply, ((tuple(range(1000)), ()), 10_000)),
    (s.double, (((0,) * 3_000_000, ()),)),
]


test_values, test_failures, test_values_beyond_the_bound = literal_cases(VALUES, FAILURES, TOO_LARGE)


def test_repeated_doubling_ends():
    number, grid = 1, ((1,), (2,))
    with pytest.raises(SizeError, match="64 bits"):
        for _ in range(64):
            number = s.double(number)
    with pytest.raises(SizeError, match="elements"):
        for _ in range(64):
            grid = s.add(grid, grid)


@given(st.integers(-100, 100), st.tuples(st.integers(-100, 100), st.integers(-100, 100)))
def test_what_one_operation_does_another_undoes(number, pair):
    assert s.subtract(s.add(pair, number), number) == pair
    assert s.invert(s.invert(pair)) == pair
    assert s.halve(s.double(pair)) == pair
    assert s.decrement(s.increment(number)) == number
    assert s.multiply(s.sign(number), abs(number)) == number
