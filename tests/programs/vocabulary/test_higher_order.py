"""Operations that take or return functions."""

import pytest

from brimful.programs.vocabulary import bound
from brimful.programs.vocabulary import higher_order as h
from brimful.programs.vocabulary.bound import SizeError, begin, end
from brimful.programs.vocabulary.containers import first, initset, repeat, size
from brimful.programs.vocabulary.grids import crop
from brimful.programs.vocabulary.objects import color, objects
from brimful.programs.vocabulary.patches import shift, toindices, uppermost
from brimful.programs.vocabulary.scalars import add, astuple, divide, double, even, identity, increment, invert

A, B, C = frozenset({1, 2}), frozenset({3}), frozenset({4})
SETS = frozenset({A, B, C})

VALUES = [
    (h.order, (frozenset({3, -1, 2}), invert), (3, 2, -1)),
    (h.order, (SETS, size), (B, C, A)),
    (h.order, ((2, 3, 1), identity), (1, 2, 3)),
    (h.valmax, (SETS, size), 2),
    (h.valmax, ((), increment), 1),
    (h.valmin, (SETS, size), 1),
    (h.valmin, (frozenset(), increment), 1),
    (h.argmax, (SETS, size), A),
    (h.argmax, ((3, 1, 2), invert), 1),
    (h.argmin, (SETS, size), B),
    (h.argmin, (frozenset({(1, 2), (2, 1)}), h.chain(size, identity, identity)), (1, 2)),
    (h.sfilter, (frozenset({1, 2, 4}), even), frozenset({2, 4})),
    (h.sfilter, ((1, 2, 2), even), (2, 2)),
    (h.mfilter, (SETS, h.matcher(size, 1)), frozenset({3, 4})),
    (h.mfilter, ((A, B), identity), (1, 2, 3)),
    (h.extract, (frozenset({5, 4, 2, 1}), even), 2),
    (h.extract, ((5, 4, 2), even), 4),
    (h.extract, ((2, ()), even), 2),
    (h.apply, (double, (1, 2)), (2, 4)),
    (h.apply, (size, SETS), frozenset({1, 2})),
    (h.rapply, ((double, invert), 3), (6, -3)),
    (h.rapply, (frozenset({double, invert}), 3), frozenset({6, -3})),
    (h.mapply, (identity, SETS), frozenset({1, 2, 3, 4})),
    (h.mapply, (initset, (3, 1)), (3, 1)),
    (h.papply, (add, (1, 2), (10, 20, 30)), (11, 22)),
    (h.papply, (astuple, frozenset({2, 1}), (8, 9)), ((1, 8), (2, 9))),
    (h.mpapply, (repeat, (7, 8), (1, 2)), (7, 8, 8)),
    (h.prapply, (add, (1, 2), frozenset({10, 20})), frozenset({11, 12, 21, 22})),
    (h.prapply, (add, 5, ()), frozenset()),
]

FAILURES = [
    (h.order, (frozenset({1, ()}), identity), TypeError),
    (h.order, ((1, 2), 3), TypeError),
    (h.valmax, (frozenset(), size), TypeError),
    (h.valmin, (5, size), TypeError),
    (h.argmax, (frozenset(), size), ValueError),
    (h.argmax, (frozenset({()}), first), StopIteration),
    (h.argmin, ((), size), ValueError),
    (h.sfilter, (frozenset({()}), first), RuntimeError),
    (h.mfilter, (frozenset({2}), even), TypeError),
    (h.extract, (frozenset({1, 3}), even), StopIteration),
    (h.extract, (frozenset({()}), first), RuntimeError),
    (h.apply, (size, 3), TypeError),
    (h.apply, (first, ((),)), RuntimeError),
    (h.rapply, ((3,), 3), TypeError),
    (h.mapply, (size, SETS), TypeError),
    (h.papply, (add, (1,), (None,)), TypeError),
    (h.mpapply, (add, (1,), (1,)), TypeError),
    (h.prapply, (divide, (1,), (0,)), ZeroDivisionError),
    (h.rbind, (3, 1), AttributeError),
    (h.lbind, ((), 1), AttributeError),
    (h.power, (identity, 0), RecursionError),
    (h.power, (identity, -5), RecursionError),
    (h.power, (identity, 1001), RecursionError),
    (h.power, (identity, (1, 2)), TypeError),
]


@pytest.mark.parametrize(("function", "arguments", "expected"), VALUES)
def test_values(function, arguments, expected):
    assert function(*arguments) == expected
    assert type(function(*arguments)) is type(expected)


@pytest.mark.parametrize(("function", "arguments", "error"), FAILURES)
def test_failures(function, arguments, error):
    with pytest.raises(error):
        function(*arguments)


def test_functions_of_functions():
    assert h.compose(double, increment)(3) == 8
    assert h.chain(double, increment, invert)(3) == -4
    assert h.matcher(size, 2)((1, 1)) is True
    assert h.fork(add, double, increment)(3) == 10
    assert h.power(double, 5)(1) == 32
    assert h.power(double, 1) is double
    assert h.power(increment, 1000)(0) == 1000


def test_arguments_are_fixed_from_the_right_and_from_the_left():
    assert h.rbind(divide, 2)(7) == 3
    assert h.lbind(divide, 7)(2) == 3
    grid = ((1, 2), (3, 4))
    assert h.rbind(crop, (1, 1))(grid, (1, 1)) == ((4,),)
    assert h.lbind(crop, grid)((0, 1), (2, 1)) == ((2,), (4,))
    assert h.rbind(objects, True)(grid, True, True) == h.lbind(objects, grid)(True, True, True)
    assert h.rbind(h.rbind(crop, (1, 1)), (0, 0))(grid) == ((1,),)


def test_ties_go_to_the_canonically_first_element():
    patches = frozenset(frozenset({(color, (row, 0))}) for color, row in ((3, 1), (2, 5), (9, 0)))
    assert color(h.argmax(patches, size)) == 2
    assert color(h.argmin(patches, size)) == 2
    assert [color(patch) for patch in h.order(patches, size)] == [2, 3, 9]
    assert [color(patch) for patch in h.order(patches, uppermost)] == [9, 3, 2]


def test_of_several_failures_the_canonically_first_counts():
    def fails(value):
        return {1: first, 2: size, 3: even}[value](())

    for values in ((1, 2, 3), (3, 2, 1), (2, 3, 1)):
        with pytest.raises(RuntimeError):
            h.apply(fails, frozenset(values))
    with pytest.raises(TypeError):
        h.apply(fails, frozenset({3, 5}))
    with pytest.raises(KeyError):
        h.argmax(frozenset({0, 1, 3}), fails)


def test_nested_applications_are_bounded(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(bound, "ELEMENTS", 1 << 16)
    numbers = tuple(range(2000))
    nested = h.lbind(h.apply, h.rbind(astuple, 1))
    begin()
    try:
        with pytest.raises(SizeError):
            h.apply(lambda _: h.apply(lambda _: nested(numbers), numbers), numbers)
    finally:
        end()


def test_powers_of_powers_are_bounded(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(bound, "ELEMENTS", 1 << 16)
    begin()
    try:
        with pytest.raises(SizeError):
            h.power(h.power(h.power(increment, 1000), 1000), 1000)(0)
    finally:
        end()


def test_a_failure_counts_its_elements_once():
    def fails_at_the_end(value):
        repeat(0, 1_000_000)
        return 1 // (value - 9)

    begin()
    try:
        with pytest.raises(ZeroDivisionError):
            h.apply(fails_at_the_end, frozenset({7, 8, 9}))
    finally:
        end()


def test_shift_and_toindices_over_objects():
    patches = frozenset({frozenset({(1, (0, 0))}), frozenset({(2, (4, 4))})})
    moved = h.apply(h.rbind(shift, (1, 0)), patches)
    assert h.mapply(toindices, moved) == frozenset({(1, 0), (5, 4)})
