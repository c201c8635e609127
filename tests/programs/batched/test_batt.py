"""The operations that only a batt has, each beside its plain function: on arguments of every form, right or wrong, and
on random patches, grids and ranks."""

import itertools
import math
import random
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from brimful.programs.batched import cells
from brimful.programs.batched.columns import Grids
from brimful.programs.batched.convert import encode
from brimful.programs.batched.kernels import kernel_of, meaning
from brimful.programs.language.operation import Operation
from brimful.programs.language.types import Type
from brimful.programs.vocabulary.batt import BATT

from .helpers import COLORS, DEVICE, GRIDS, INTEGERS, LOCATIONS, columns, compare, in_plain_torch

OWN = {name: of for name, of in BATT.items() if (meaning(of) or "").startswith("batt.")}
"""Operations with a meaning of their own."""

OBJECT, CELL, GRID = frozenset({(0, 0, 1), (1, 1, 2)}), (4, 5, 3), ((1, 2), (3, 4))
FORMS: list[Any] = [
    *(3, 0, -1, True, (1, 2), CELL, GRID, OBJECT, frozenset({(0, 0), (2, 3)}), frozenset(), ()),
    *(((1, 2), (3, 4), (5, 6)), (CELL, (1, 0, 0)), frozenset({OBJECT}), frozenset({frozenset({(1, 1)})})),
    *((GRID, GRID), ((0, 1, 2), (0, 2, 2), (5, 5, 5)), (tuple(OBJECT), (CELL,)), (1, (2, 3), 4), (GRID, 1), ((), ())),
    *(frozenset({1, 2}), (7, (1, 2)), frozenset({(1, (0, 0))}), (OBJECT, OBJECT), None, float("nan")),
    *(math.nan, ((math.nan, 1), (2, math.nan)), frozenset({frozenset({(0, 0, math.nan), (1, 1, 2)})}), (1, math.nan)),
]
CALLED = ["size", "height_f", "color", "first_f", "normalize", "p_g", "mostcolor_t", "toindices", "identity", "width_t"]


def functions(operation: Operation) -> list[int]:
    """The arguments that are functions."""
    return [number for number, of in enumerate(operation.arguments) if of is Type.CALLABLE]


def check(cases: list[tuple[str, tuple[Any, ...]]]) -> None:
    """Runs operations on arguments twice, those that are functions by name."""
    for name, arguments in cases:
        given = [BATT[of] if isinstance(of, str) else [of, of] for of in arguments]
        compare(BATT[name], *given, safe=True)


def combinations(name: str) -> list[tuple[str, tuple[Any, ...]]]:
    of = OWN[name]
    forms = [CALLED if number in functions(of) else FORMS for number in range(len(of.arguments))]
    return [(name, arguments) for arguments in itertools.product(*forms)]


@pytest.mark.parametrize("count", [1, 2, 3])
def test_arguments_of_every_form(count):
    cases = [case for name in OWN if len(OWN[name].arguments) == count for case in combinations(name)]
    check(cases if count == 1 else random.Random(count).sample(cases, 1_500))


@pytest.mark.soak
@pytest.mark.parametrize("name", sorted(OWN))
def test_all_arguments_of_every_form(name):
    cases = combinations(name)
    check(cases if len(cases) < 8_000 else random.Random(name).sample(cases, 8_000))


def test_forms_that_differ_from_row_to_row():
    rng = random.Random(1)
    for name, of in OWN.items():
        given = [
            BATT[rng.choice(CALLED)] if number in functions(of) else rng.choices(FORMS, k=12)
            for number in range(len(of.arguments))
        ]
        compare(BATT[name], *given, safe=True)


NEAR = st.integers(-1, 5)
CELLS = st.one_of(st.tuples(NEAR, NEAR, st.integers(0, 3)), st.tuples(NEAR, NEAR, COLORS))
OBJECTS = st.frozensets(CELLS, max_size=12)
PATCHES = st.one_of(OBJECTS, OBJECTS, st.frozensets(st.tuples(NEAR, NEAR), max_size=12))
TUPLES = st.one_of(
    st.lists(CELLS, min_size=1, max_size=6).map(tuple), st.lists(st.tuples(NEAR, NEAR), max_size=6).map(tuple)
)
ANY_PATCH = st.one_of(PATCHES, PATCHES, TUPLES)
MANY = st.one_of(st.frozensets(OBJECTS, max_size=4), st.lists(TUPLES, max_size=4).map(tuple))
RANKS = st.one_of(st.integers(-4, 4), st.integers(0, 8))
CONTAINERS = st.one_of(
    MANY, PATCHES, TUPLES, GRIDS, st.frozensets(st.integers(0, 5)), st.lists(st.integers(0, 4)).map(tuple)
)
BY_TYPE = {
    Type.GRID: GRIDS,
    Type.PATCH: ANY_PATCH,
    Type.OBJECT: st.one_of(OBJECTS, OBJECTS, TUPLES),
    Type.INDICES: ANY_PATCH,
    Type.PIECE: st.one_of(GRIDS, PATCHES),
    Type.ELEMENT: st.one_of(GRIDS, OBJECTS),
    Type.OBJECTS: MANY,
    Type.INTEGER: st.one_of(RANKS, RANKS, INTEGERS),
    Type.NUMERICAL: st.one_of(INTEGERS, LOCATIONS, st.just(())),
    Type.IJ: st.one_of(st.tuples(NEAR, NEAR), LOCATIONS, st.just(())),
    Type.CELL: CELLS,
    Type.BOOLEAN: st.booleans(),
}
"""Arguments by the type that an operation declares; any container for all other types."""


FEW = settings(max_examples=max(5, settings().max_examples // 3))
"""There are many operations."""


@st.composite
def calls(draw: Any, name: str) -> list[Any]:
    of = OWN[name]
    kinds = [BY_TYPE.get(kind, CONTAINERS) for kind in of.arguments]
    arguments: list[Any] = draw(columns(*kinds))
    for number in functions(of):
        arguments[number] = BATT[draw(st.sampled_from(CALLED))]
    return arguments


@pytest.mark.parametrize("name", sorted(OWN))
@FEW
@given(data=st.data())
def test_random_arguments(name, data):
    compare(BATT[name], *data.draw(calls(name)), safe=True)


@given(columns(GRIDS, st.integers(0, 7), odd=False))
def test_objects_by_distance_without_compiled_loops(arguments):
    grids, kinds = arguments
    column, _ = encode(grids, DEVICE, "grid")
    assert isinstance(column, Grids)
    kind = torch.tensor(kinds)
    given = (cells.extreme_color(column.cells, column.offsets, True), kind & 1 != 0, kind & 4 != 0, kind & 2 != 0)
    expected = cells.by_distance(column, *given)
    found = in_plain_torch(cells, cells.by_distance, column, *given)
    for one, other in zip(expected, found, strict=True):
        assert one.tolist() == other.tolist()


def test_most_operations_of_a_batt_have_a_batched_form():
    without = {name for name, of in OWN.items() if kernel_of(of) is None}
    assert len(without) <= 21
    plain = [((0, 1, 1), (2, 0, 1), (2, 2, 0))] * 2
    shapes = {"o_g": [plain, [5, 5]], "o_g_t": [plain, [7, 7]], "get_color_rank_t": [plain, [0, -1]], "p_g": [plain]}
    for name, arguments in shapes.items():
        assert compare(BATT[name], *arguments) == 0


@pytest.mark.parametrize("name", ["normalize", "normalize_i", "toindices", "shift"])
def test_a_tuple_without_elements_is_no_set(name):
    others = {"shift": [[(1, 1), (2, 2)]]}
    compare(BATT[name], [(), ()], *others.get(name, []), forms=["tuple of pair", *[None] * len(others.get(name, []))])
