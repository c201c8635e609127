"""The vocabulary of arc-dsl is complete, and its types are declared."""

import inspect

import pytest

from brimful.programs.language.types import Type
from brimful.programs.vocabulary import arc
from brimful.programs.vocabulary.arc import ARC

from . import test_containers, test_grids, test_higher_order, test_objects, test_patches, test_scalars

OPERATIONS = """
    add adjacent apply argmax argmin asindices asobject astuple backdrop bordering both bottomhalf box branch
    canvas cellwise center centerofmass chain cmirror color colorcount colorfilter combine compose compress
    connect contained corners cover crement crop decrement dedupe delta difference divide dmirror dneighbors
    double downscale either equality even extract fgpartition fill first flip fork frontiers gravitate greater
    halve hconcat height hfrontier hline hmatching hmirror hperiod hsplit hupscale identity inbox increment
    index ineighbors initset insert intersection interval invert last lbind leastcolor leastcommon lefthalf
    leftmost llcorner lowermost lrcorner manhattan mapply matcher maximum merge mfilter minimum mostcolor
    mostcommon move mpapply multiply neighbors normalize numcolors objects occurrences ofcolor order other
    outbox paint pair palette papply partition portrait position positive power prapply product rapply rbind
    recolor remove repeat replace righthalf rightmost rot180 rot270 rot90 sfilter shape shift shoot sign size
    sizefilter square subgrid subtract switch toindices toivec tojvec toobject tophalf totuple trim ulcorner
    underfill underpaint uppermost upscale urcorner valmax valmin vconcat vfrontier vline vmatching vmirror
    vperiod vsplit vupscale width
"""

CONSTANTS = """
    F T ZERO ONE TWO THREE FOUR FIVE SIX SEVEN EIGHT NINE TEN NEG_ONE NEG_TWO DOWN RIGHT UP LEFT ORIGIN UNITY NEG_UNITY
    UP_RIGHT DOWN_LEFT ZERO_BY_TWO TWO_BY_ZERO TWO_BY_TWO THREE_BY_THREE
"""

CLOSURES = {"compose", "chain", "matcher", "rbind", "lbind", "power", "fork"}  # in test_higher_order.py, by their calls


def test_the_160_operations_are_there():
    assert len(OPERATIONS.split()) == 160
    assert set(ARC.operations) == set(OPERATIONS.split())
    assert ARC.name == "arc-dsl"
    assert not ARC.safe


def test_the_constants_are_there():
    assert set(ARC.constants) == set(CONSTANTS.split())
    assert ARC.constants["UP_RIGHT"] == (-1, 1)
    assert ARC.constants["T"] is True


def test_all_of_it_can_be_imported_by_name():
    assert sorted(arc.__all__) == sorted([*ARC.operations, *ARC.constants])
    for name in ARC:
        assert getattr(arc, name) is ARC[name].function


@pytest.mark.parametrize("name", OPERATIONS.split())
def test_operations_declare_the_types_of_all_their_arguments(name):
    function = ARC[name].function
    assert inspect.getdoc(function)
    assert set(function.__annotations__) == {*inspect.signature(function).parameters, "return"}


@pytest.mark.parametrize(
    ("name", "arguments", "result"),
    [
        ("objects", (Type.GRID, Type.BOOLEAN, Type.BOOLEAN, Type.BOOLEAN), Type.OBJECTS),
        ("fill", (Type.GRID, Type.INTEGER, Type.PATCH), Type.GRID),
        ("compose", (Type.CALLABLE, Type.CALLABLE), Type.CALLABLE),
        ("mapply", (Type.CALLABLE, Type.CONTAINER_CONTAINER), Type.FROZENSET),
        ("ulcorner", (Type.PATCH,), Type.IJ),
    ],
)
def test_declared_types(name, arguments, result):
    assert (ARC[name].arguments, ARC[name].result) == (arguments, result)


@pytest.mark.parametrize("name", OPERATIONS.split())
def test_every_operation_has_its_own_expectation(name):
    tested = {
        function.__name__
        for module in (test_containers, test_grids, test_higher_order, test_objects, test_patches, test_scalars)
        for function, *_ in module.VALUES
    }
    assert name in tested | CLOSURES
