"""The types of values in programs, as operations declare them in their annotations.

Programs may pass anything to anything, and every operation may fail: a type says what an operation expects and
returns, decides its safe default, and lets the front end name calls that can never work.

    Grid      tuple of rows, each a tuple of colors          Cell     a color at a location
    Object    frozenset of cells                             Indices  frozenset of locations (i, j)
    Patch     Object or Indices                              Piece    Grid or Patch
    Element   Grid or Object                                 IJ       a location or a vector: two integers
    Numerical Integer or IJ                                  Samples  the demonstration pairs of a task
"""

from collections.abc import Callable as CallableValue
from enum import Enum
from typing import Any as AnyValue


class Type(Enum):
    """What a value of a program is."""

    ANY = "Any"
    BOOLEAN = "Boolean"
    INTEGER = "Integer"
    IJ = "IJ"
    NUMERICAL = "Numerical"
    GRID = "Grid"
    CELL = "Cell"
    OBJECT = "Object"
    OBJECTS = "Objects"
    INDICES = "Indices"
    INDICES_SET = "IndicesSet"
    INTEGER_SET = "IntegerSet"
    PATCH = "Patch"
    PIECE = "Piece"
    ELEMENT = "Element"
    TUPLE = "Tuple"
    TUPLE_TUPLE = "TupleTuple"
    FROZENSET = "FrozenSet"
    CONTAINER = "Container"
    CONTAINER_CONTAINER = "ContainerContainer"
    SAMPLES = "Samples"
    CALLABLE = "Callable"


# Annotations for the functions of a vocabulary. Values are duck-typed, since a program may hand anything to them.
Any = AnyValue
Boolean = AnyValue
Integer = AnyValue
IJ = AnyValue
Numerical = AnyValue
Grid = AnyValue
Cell = AnyValue
Object = AnyValue
Objects = AnyValue
Indices = AnyValue
IndicesSet = AnyValue
IntegerSet = AnyValue
Patch = AnyValue
Piece = AnyValue
Element = AnyValue
Tuple = AnyValue
TupleTuple = AnyValue
FrozenSet = AnyValue
Container = AnyValue
ContainerContainer = AnyValue
Samples = AnyValue
Callable = AnyValue

SETS = frozenset(
    {
        Type.OBJECT,
        Type.OBJECTS,
        Type.INDICES,
        Type.INDICES_SET,
        Type.INTEGER_SET,
        Type.PATCH,
        Type.PIECE,
        Type.ELEMENT,
        Type.FROZENSET,
    }
)
"""Types whose safe default is the empty set; a union with a set among its members is one of them."""


def constant_empty(*_args: AnyValue) -> tuple[()]:
    """The safe default of an operation that returns a function: a function that returns ()."""
    return ()


def safe_default(result: Type) -> AnyValue:
    """What an operation yields for a sample on which it fails, by the type it declares."""
    if result in SETS:
        return frozenset()
    match result:
        case Type.INTEGER:
            return 0
        case Type.BOOLEAN:
            return False
        case Type.CALLABLE:
            return constant_empty
        case _:
            return ()


_NUMBERS = {Type.BOOLEAN, Type.INTEGER}
_ANYTHING = {Type.ANY, Type.BOOLEAN, Type.INTEGER, Type.IJ, Type.NUMERICAL}
"""What operations that ask for it may be given: `astuple` makes pairs of whatever there is."""


def may_be(value: Type, expected: Type) -> bool:
    """Whether a value of one type may be what another asks for; False only where it can never be.

    A tuple goes where a set is asked for, and the reverse: operations read their elements alike.
    """
    if value is Type.ANY or expected in _ANYTHING:
        return True
    if expected is Type.CALLABLE or value is Type.CALLABLE:
        return value is expected
    return value not in _NUMBERS


def value_type(value: AnyValue) -> Type:
    """The type of a constant."""
    if isinstance(value, bool):
        return Type.BOOLEAN
    if isinstance(value, int):
        return Type.INTEGER
    if isinstance(value, tuple):
        return Type.IJ if len(value) == 2 and all(isinstance(part, int) for part in value) else Type.TUPLE
    if isinstance(value, frozenset):
        return Type.FROZENSET
    return Type.CALLABLE if isinstance(value, CallableValue) else Type.ANY
