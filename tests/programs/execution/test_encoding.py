"""Values as bytes: back again as they were, the same bytes for equal values, and damage is noticed."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brimful import CorruptError
from brimful.programs.execution.encoding import FunctionName, decode, encode
from brimful.programs.execution.same_value import same_value

scalars = st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.builds(FunctionName, st.text(max_size=5))
grids = st.integers(1, 6).flatmap(
    lambda width: st.lists(
        st.lists(st.integers(0, 260), min_size=width, max_size=width).map(tuple), min_size=1, max_size=6
    ).map(tuple)
)
values = st.recursive(
    scalars | grids,
    lambda inner: st.lists(inner, max_size=5).map(tuple) | st.frozensets(inner, max_size=5),
    max_leaves=25,
)


def exact(value: Any) -> Any:
    """A value in which True and 1 differ."""
    if isinstance(value, tuple):
        return ("tuple", *map(exact, value))
    if isinstance(value, frozenset):
        return ("set", frozenset(map(exact, value)))
    return type(value).__name__, value


@given(value=values)
def test_a_value_comes_back_as_it_was(value: Any):
    assert exact(decode(encode(value))) == exact(value)
    assert encode(decode(encode(value))) == encode(value)


@given(parts=st.lists(st.tuples(st.integers(0, 9), st.tuples(st.integers(), st.integers())), unique=True))
def test_equal_sets_have_equal_bytes_however_they_came_about(parts: list[Any]):
    assert encode(frozenset(parts)) == encode(frozenset(reversed(parts)))
    grown = frozenset[Any]()
    for part in reversed(parts):
        grown |= {part}
    assert encode(grown) == encode(frozenset(parts))


@given(one=values, other=values)
def test_values_are_the_same_where_their_bytes_are(one: Any, other: Any):
    assert same_value(one, other) == (encode(one) == encode(other))
    assert same_value(one, decode(encode(one))) and same_value((one, other), decode(encode((one, other))))


def test_what_is_equal_need_not_be_the_same_value():
    nested = frozenset({frozenset({(0, (1, 2)), (3, (4, 62))}), frozenset({(62, (62, 62)), (1, (1, 1))})})
    again = frozenset(frozenset(sorted(part, reverse=True)) for part in sorted(nested, key=repr))
    assert same_value((nested, 62), (again, 62)) and not same_value((nested, 1), (again, True))
    assert not same_value(frozenset({1, 2}), frozenset({True, 2})) and not same_value(1, 1.0)
    assert same_value((math.nan, len), (math.nan, len)) and not same_value(len, max)


@given(value=values, data=st.data())
def test_damaged_bytes_give_another_value_or_an_error_that_says_so(value: Any, data: st.DataObject):
    encoded = encode(value)
    with pytest.raises(CorruptError, match="damaged"):
        decode(encoded[: data.draw(st.integers(0, len(encoded) - 1))])
    with pytest.raises(CorruptError, match="damaged"):
        decode(encoded + b"N")
    at = data.draw(st.integers(0, len(encoded) - 1))
    changed = bytearray(encoded)
    changed[at] ^= 1 << data.draw(st.integers(0, 7))
    try:
        decode(bytes(changed))
    except CorruptError as error:
        assert "run it again" in str(error)


@pytest.mark.parametrize(
    "data", [b"", b"x", b"i", b"s\x05ab", b"G\x02", b"(\xff\xff\xff\xff\x0f", b"{\x01", b"(\x01" * 5_000, b"s\x01\xff"]
)
def test_bytes_that_are_no_value(data: bytes):
    with pytest.raises(CorruptError, match="damaged"):
        decode(data)


def test_true_and_one_have_other_bytes_and_grids_are_small():
    assert encode((True,)) != encode((1,)) and encode(((True,),)) != encode(((1,),))
    assert len(encode(((1,) * 30,) * 30)) == 903
    assert decode(memoryview(encode(((300, 1), (2, 3))))) == ((300, 1), (2, 3))


def test_a_function_is_its_name():
    assert decode(encode((len, test_a_function_is_its_name))) == (
        FunctionName("len"),
        FunctionName("test_a_function_is_its_name"),
    )


def test_what_is_no_value_of_a_program():
    for value in ([1], {1: 2}, b"bytes"):
        with pytest.raises(TypeError, match=f"a program gave a {type(value).__name__}"):
            encode((value,))


@pytest.mark.parametrize("value", [0.5, -0.0, float("inf"), (1, 2.5), frozenset({1.5})])
def test_floats_keep_their_bits(value: object):
    assert repr(decode(encode(value))) == repr(value)
