"""Rows that Python could not tell apart have one number, and run once."""

import math
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from brimful.programs.batched.machine import Machine
from brimful.programs.batched.sequential.equal_rows import distinct
from brimful.programs.language.operation import declared
from brimful.programs.vocabulary.arc import ARC

from ..helpers import DEVICE, GRIDS, INDICES, OBJECTS, ODD, _step, compare, exact, function

VALUES = st.one_of(st.integers(0, 2), st.booleans(), GRIDS, INDICES, OBJECTS, ODD, st.just(math.nan), st.just((1, ())))


@given(st.lists(st.tuples(VALUES, VALUES), min_size=1, max_size=12), st.data())
def test_rows_are_one_where_their_values_are(given, data):
    rows = data.draw(st.lists(st.integers(0, len(given) - 1), min_size=1, unique=True).map(sorted))
    first, number = distinct([_step([value[at] for value in given]) for at in (0, 1)], rows)
    chosen = [given[row] for row in rows]
    for value, of in zip(chosen, number.tolist(), strict=True):
        assert exact(value) == exact(given[first[of]])
    assert first == sorted(first)
    assert len({repr(exact(value)) for value in chosen}) <= len(first)


def test_functions_are_one_where_what_they_close_over_is():
    made = function("rbind", function("add"), [1, 2, 1, 1])
    first, number = distinct([made], [0, 1, 2])
    assert (first, number.tolist()) == ([0, 1], [0, 1, 0])


def test_functions_that_are_made_row_by_row_are_one_per_row():
    """As in Python, where two functions are equal only if they are one."""

    def making(value: Any) -> Any:
        return lambda: value

    machine = Machine(DEVICE, ARC["equality"], True)
    made = machine.operation(declared(making, "making"), [_step([1, 2, 1])]).decode(range(3))
    assert len(set(made)) == 3
    assert [function() for function in made] == [1, 2, 1]


def test_what_is_equal_is_called_once():
    called = []

    def noted(value: Any, other: Any) -> Any:
        called.append(value)
        return value, other

    assert compare(declared(noted), [((1, 2),), 3, ((1, 2),), True, 1, 3], [0] * 6) == 6
    assert len(called) == 4 + 6  # and once for every row by itself, to compare
