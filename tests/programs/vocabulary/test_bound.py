"""The bound on the size of one operation."""

import pytest

from brimful.programs.vocabulary import scaling
from brimful.programs.vocabulary.bound import ELEMENTS, SizeError, begin, bounded, end, reserve, reserved, rewind


@pytest.fixture
def counting():
    begin()
    yield
    end()


@pytest.mark.usefixtures("counting")
def test_reservations_of_one_operation_add_up():
    reserve(ELEMENTS - 10)
    reserve(10)
    with pytest.raises(SizeError, match=r"makes 4,194,305 elements or more; at most 4,194,304 are allowed"):
        reserve(1)
    begin()
    reserve(ELEMENTS)


@pytest.mark.usefixtures("counting")
def test_a_repetition_is_counted_once():
    reserve(7)
    before = reserved()
    reserve(ELEMENTS - 7)
    rewind(before)
    assert reserved() == 7


def test_plain_calls_are_bounded_one_by_one():
    for _ in range(3):
        reserve(ELEMENTS)
    with pytest.raises(SizeError):
        reserve(ELEMENTS + 1)
    assert reserved() is None


@pytest.mark.parametrize("value", [0, True, 2**63 - 1, -(2**63)])
def test_integers_of_64_bits_pass(value):
    assert bounded(value) is value


@pytest.mark.parametrize("value", [2**63, -(2**63) - 1])
def test_larger_integers_raise(value):
    with pytest.raises(SizeError, match="an integer of 64 bits"):
        bounded(value)
    assert issubclass(SizeError, ValueError)


@pytest.mark.parametrize("enlarge", [scaling.vupscale, scaling.upscale])
def test_rows_without_cells_are_counted(enlarge):
    with pytest.raises(SizeError):
        enlarge(((), ()), 10**10)
    assert enlarge(((), ()), 2) == ((),) * 4
