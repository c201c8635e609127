"""Every operation of arc-dsl beside its plain function, on random arguments of the types that it asks for and on
others: empty ones, 1 x 1 and 90 x 90, ragged ones, locations far outside, wrong types."""

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brimful.programs.language.types import Type
from brimful.programs.vocabulary.arc import ARC

from .helpers import (
    COLORS,
    GRIDS,
    INTEGERS,
    LOCATIONS,
    NEAR_INDICES,
    NEAR_OBJECTS,
    columns,
    compare,
    function,
    random_grid,
)

NEAR = st.integers(-1, 5)
FAR = st.sampled_from([(131071, 131071), (-131072, 3), (90, -40), (2**40, 2)])
"""Locations far outside; what is as large as one of them is more than the bound on size allows."""
OUTSIDE = st.sampled_from(
    [frozenset({(90, -40)}), frozenset({(3, (300, 2)), (3, (-7, 90))}), frozenset({(1, (2, 2**40))})]
)
PATCHES = st.one_of(NEAR_INDICES, NEAR_OBJECTS, OUTSIDE)
SOME_OBJECTS = st.frozensets(st.one_of(NEAR_OBJECTS, OUTSIDE), max_size=4)
TUPLES = st.one_of(
    st.lists(st.integers(0, 4), max_size=4).map(tuple),
    st.lists(st.tuples(NEAR, NEAR), max_size=4).map(tuple),
    st.lists(NEAR_OBJECTS, max_size=3).map(tuple),
    st.lists(GRIDS, max_size=2).map(tuple),
)
CONTAINERS = st.one_of(SOME_OBJECTS, PATCHES, TUPLES, GRIDS, st.frozensets(st.integers(0, 5), max_size=5))
BY_TYPE = {
    Type.GRID: GRIDS,
    Type.PATCH: PATCHES,
    Type.OBJECT: st.one_of(NEAR_OBJECTS, OUTSIDE),
    Type.INDICES: st.one_of(NEAR_INDICES, OUTSIDE),
    Type.PIECE: st.one_of(GRIDS, PATCHES),
    Type.ELEMENT: st.one_of(GRIDS, NEAR_OBJECTS),
    Type.OBJECTS: SOME_OBJECTS,
    Type.INTEGER: st.one_of(st.integers(-2, 4), st.integers(0, 9), INTEGERS),
    Type.NUMERICAL: st.one_of(INTEGERS, LOCATIONS),
    Type.IJ: st.one_of(st.tuples(NEAR, NEAR), st.tuples(st.integers(-3, 31), NEAR), FAR),
    Type.CELL: st.tuples(COLORS, LOCATIONS),
    Type.BOOLEAN: st.booleans(),
}
"""Arguments by the type that an operation declares; any container for all other types."""

OF_ONE = ["size", "first", "toindices", "identity", "increment", "color", "ulcorner", "positive", "normalize", "height"]
OF_TWO = ["connect", "shift", "add", "astuple", "combine", "difference", "manhattan", "pair"]
MAKERS = frozenset({"compose", "chain", "fork", "matcher", "rbind", "lbind", "power"})
"""Operations that make functions: they are held to Python's in test_mapping and test_machine."""


FEW = settings(max_examples=max(5, settings().max_examples // 3))
"""There are many operations."""


@st.composite
def calls(draw: Any, name: str) -> list[Any]:
    kinds = ARC[name].arguments
    arguments: list[Any] = draw(columns(*(BY_TYPE.get(kind, CONTAINERS) for kind in kinds)))
    names = OF_TWO if name in ("papply", "mpapply", "prapply") else OF_ONE
    for number, kind in enumerate(kinds):
        if kind is Type.CALLABLE:
            arguments[number] = function(draw(st.sampled_from(names)))
    return arguments


@pytest.mark.parametrize("name", sorted(set(ARC) - MAKERS))
@FEW
@given(data=st.data())
def test_random_arguments(name, data):
    compare(name, *data.draw(calls(name)))


@pytest.mark.parametrize("name", ["objects", "fgpartition", "fill", "trim", "rot90", "crop", "ofcolor", "upscale"])
def test_large_grids(name):
    rng = random.Random(0)
    grids = [random_grid(rng, 90, 90), random_grid(rng, 1, 1), random_grid(rng, 90, 1)]
    patches = [frozenset({(0, 0), (89, 89), (90, 90), (-5, 200)})] * 3
    others = {
        "objects": [[True] * 3, [False] * 3, [True] * 3],
        "fill": [[7] * 3, patches],
        "crop": [[(80, 0), (0, 0), (3, 3)], [(20, 5), (1, 1), (200, 200)]],
        "ofcolor": [[1] * 3],
        "upscale": [[2] * 3],
    }
    compare(name, grids, *others.get(name, []))
