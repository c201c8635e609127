"""The vocabulary of batts: which names it has, what it yields where an operation fails, and how it is called."""

import re

import pytest

from brimful.programs.language.operation import default_of
from brimful.programs.language.types import Type, constant_empty, safe_default
from brimful.programs.vocabulary.arc import ARC
from brimful.programs.vocabulary.batt import BATT
from brimful.programs.vocabulary.bound import SizeError

from . import test_containers, test_grids, test_numbers, test_patches
from .cases import value


def test_names():
    assert BATT.name == "batt"
    assert BATT.safe
    assert len(BATT.operations) == 312
    assert set(ARC.operations) <= set(BATT.operations)
    assert set(ARC.constants) <= set(BATT.constants)
    assert not set(BATT.operations) & set(BATT.constants)


def test_every_operation_has_an_expectation():
    modules = (test_numbers, test_containers, test_grids, test_patches)
    used = set(re.findall(r"\w+", " ".join(text for module in modules for text in module.CASES)))
    assert set(BATT.operations) - used - {"get_nth_t"} == set()


@pytest.mark.parametrize("name", BATT)
def test_operations_say_what_they_are(name):
    operation = BATT[name]
    assert operation.function.__doc__
    assert operation.value.__code__.co_argcount == operation.function.__code__.co_argcount == len(operation.arguments)
    assert default_of(operation.value) == safe_default(operation.result)


@pytest.mark.parametrize("name", BATT)
def test_too_many_arguments_yield_the_default(name):
    operation = BATT[name]
    arguments = [1] * (len(operation.arguments) + 1)
    assert operation.value(*arguments) == operation.default
    with pytest.raises(TypeError):
        operation.function(*arguments)
    if name not in ("get_nth_by_key_t", "get_nth_by_key_f"):
        assert operation.value(*arguments[2:]) == operation.default


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("rot90(7)", ()),  # Grid
        ("merge(7)", ()),  # Container
        ("add(7, fs())", ()),  # Numerical
        ("identity()", ()),  # Any
        ("size(7)", 0),  # Integer
        ("even(G)", False),  # Boolean
        ("normalize(7)", frozenset()),  # Indices
        ("shift(7, 7)", frozenset()),  # Patch
        ("palette_t(7)", frozenset()),  # IntegerSet
        ("o_g(G)", ()),  # by the number of its arguments alone, since `objects` does not fail
        ("mir_rot_f(IND)", ()),
        ("col_row(IND)", ()),
    ],
)
def test_what_fails_yields_the_default_of_its_type(text, expected):
    found = value(text)
    assert found == expected
    assert type(found) is type(expected)


def test_a_function_that_cannot_be_made_is_one_that_returns_nothing():
    assert value("rbind(7, 1)") is constant_empty
    assert value("power(double, 0)") is constant_empty
    assert value("power(double, 0)(5)") == ()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("apply(size, ((1, 2), 7))", (2, 0)),  # the default of one element, not of the whole
        ("apply(compose(first, first), ((G,), (7,)))", ((1, 0, 0), ())),
        ("mapply(invert, (UNITY, OBJ))", (-1, -1)),
        ("order((G, 7, UNITY), size)", (7, ((1, 0, 0), (0, 2, 2)), (1, 1))),
        ("height_f(fs(7, 8))", 1),  # its lowermost and uppermost row are 0
        ("center(fs(7, 8))", (0, 0)),
        ("cellwise(((0, 1),), (), 5)", ((0, 5),)),  # the color outside of a grid is 0
        ("cover(7, IND)", ()),
        ("mapply(lbind(branch, T), (1, 2))", ()),  # a closure with another number of arguments
        ("mapply(double, fs(1, 2))", ()),  # numbers cannot be merged
        ("mapply_f(G, fs(1, 2))", frozenset()),  # a grid is no function
        ("mfilter(7, even)", ()),
        ("c_iz(7, p_g)", ()),
    ],
)
def test_a_failure_inside_yields_a_default_there(text, expected):
    found = value(text)
    assert found == expected
    assert type(found) is type(expected)


def test_operations_raise_by_themselves():
    with pytest.raises(TypeError):
        BATT["rot90"].function(7)
    with pytest.raises(IndexError):
        BATT["hmirror_i"].function(frozenset())
    assert BATT["mapply"].function(7, frozenset({1})) == ()  # what fails inside does not


def test_an_exception_does_not_depend_on_the_order_of_a_set():
    mixed = [
        frozenset(part) for part in ([5, (1, 2, 3, 4), (0, 1)], [(0, 1), (1, 2, 3, 4), 5], [(1, 2, 3, 4), 5, (0, 1)])
    ]
    for patch in mixed:
        with pytest.raises(TypeError):  # numbers come first
            BATT["recolor_i"].function(1, patch)


@pytest.mark.parametrize(
    ("name", "arity"), [("fill", 3), ("size", 1), ("rbind", 2), ("objects", 4), ("get_nth_by_key_t", 3)]
)
def test_arity_is_read_through_safe_functions(name, arity):
    assert BATT[name].value.__code__.co_argcount == arity


def test_bound_functions_of_safe_operations():
    assert value("rbind(rbind(fill, IND), 7)(G)") == ((1, 0, 0), (0, 7, 7))
    assert value("lbind(lbind(lbind(objects, G), T), F)(T)") == value("o_g(G, R5)")


@pytest.mark.parametrize(
    "text",
    [
        "upscale_t(G, 1000000)",
        "mapply(rbind(upscale_f, 1000000), fs(OBJ))",
        "apply(lbind(connect, (0, 0)), ((0, 100000000),))",
        "apply(lbind(repeat, 1), (1, 100000000))",
        "combine_t(9223372036854775807, 1)",
    ],
)
def test_a_value_that_is_too_large_ends_the_whole_operation(text):
    with pytest.raises(SizeError):
        value(text)


def test_types_that_decide_a_default():
    assert BATT["o_g"].result is Type.CONTAINER
    assert BATT["add"].result is Type.NUMERICAL
    assert BATT["p_g"].result is Type.INTEGER_SET
