"""NaN in columns: every operation of a batt beside its plain function, where colors and elements may be NaN."""

import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from brimful import programs
from brimful.programs.batched import cells
from brimful.programs.batched.columns import NAN_COLOR, Grids
from brimful.programs.batched.convert import encode, form_of_column
from brimful.programs.batched.kernels import KNOWS_NAN, known_nan, meaning
from brimful.programs.batched.nan import nan_rows
from brimful.programs.language.types import Type
from brimful.programs.vocabulary.batt import BATT

from ..helpers.small import arc_samples
from ..helpers.words import batt, guarded
from ..test_executors_agree import compare_steps
from .helpers import DEVICE, GRIDS, _step, columns, compare, in_plain_torch
from .test_batt import BY_TYPE, CALLED, CONTAINERS, FEW, NEAR, functions
from .test_random_arguments import MAKERS

NAN = st.just(math.nan)
COLORS = st.one_of(NAN, st.integers(0, 3), st.sampled_from([999, 1_000, 1_100, -30, 131_070, 131_071]))
NUMBERS = st.one_of(NAN, st.integers(-2, 9), st.sampled_from([131_071, 2**62 - 1, float("nan")]))


@st.composite
def _painted(draw: Any) -> Any:
    """A grid in which one color has become NaN, and perhaps another one a large one."""
    grid, color, other = draw(GRIDS), draw(st.integers(0, 3)), draw(COLORS)
    return tuple(tuple(math.nan if cell == color else other if cell == 2 else cell for cell in row) for row in grid)


WITH_NAN = st.one_of(_painted(), _painted(), GRIDS)
OBJECTS = st.frozensets(st.tuples(NEAR, NEAR, COLORS), max_size=8)
MANY = st.one_of(
    st.frozensets(OBJECTS, max_size=4),
    st.lists(OBJECTS.map(tuple), max_size=3).map(tuple),
    st.lists(WITH_NAN, max_size=3).map(tuple),
)
SOME = st.one_of(MANY, OBJECTS, WITH_NAN, st.frozensets(NUMBERS, max_size=5), st.lists(NUMBERS, max_size=5).map(tuple))
KINDS = {
    Type.GRID: WITH_NAN,
    Type.PATCH: st.one_of(OBJECTS, OBJECTS.map(tuple), BY_TYPE[Type.PATCH]),
    Type.OBJECT: st.one_of(OBJECTS, OBJECTS.map(tuple)),
    Type.PIECE: st.one_of(WITH_NAN, OBJECTS),
    Type.ELEMENT: st.one_of(WITH_NAN, OBJECTS),
    Type.OBJECTS: MANY,
    Type.INTEGER: st.one_of(NUMBERS, BY_TYPE[Type.INTEGER]),
    Type.NUMERICAL: st.one_of(NUMBERS, BY_TYPE[Type.NUMERICAL]),
}
"""Arguments by the type that an operation declares, of which some hold NaN."""


@st.composite
def calls(draw: Any, name: str) -> list[Any]:
    kinds = [KINDS.get(kind, BY_TYPE.get(kind, SOME)) for kind in BATT[name].arguments]
    arguments: list[Any] = draw(columns(*(st.one_of(kind, kind, kind, SOME, NUMBERS) for kind in kinds)))
    for number in functions(BATT[name]):
        arguments[number] = BATT[draw(st.sampled_from(CALLED))]
    return arguments


OPERATIONS = sorted(set(BATT) - MAKERS)
KNOW_IT = [name for name in OPERATIONS if known_nan(BATT[name])]


@settings(FEW, max_examples=12 * FEW.max_examples)
@given(st.sampled_from(KNOW_IT), st.data())
def test_random_arguments(name, data):
    compare(BATT[name], *data.draw(calls(name)), safe=True)


@pytest.mark.soak
@pytest.mark.parametrize("name", OPERATIONS)
@FEW
@given(data=st.data())
def test_random_arguments_of_every_operation(name, data):
    compare(BATT[name], *data.draw(calls(name)), safe=True)


@given(st.lists(st.one_of(SOME, NUMBERS, CONTAINERS), min_size=1, max_size=6))
def test_values_come_back_as_the_same_objects(values):
    step = _step(values)
    for value, back in zip(values, step.decode(range(len(values))), strict=True):
        assert value == back or value is back or value != value
        assert repr(value) == repr(back) or isinstance(value, frozenset)
    assert all(form_of_column(part.column) for part in step.boxed.parts)


@given(columns(_painted(), st.integers(0, 7), odd=False))
def test_objects_without_compiled_loops(arguments):
    grids, kinds = arguments
    column, _ = encode(grids, DEVICE, "grid")
    assert isinstance(column, Grids)
    kind = torch.tensor(kinds)
    given = (cells.COMPONENTS, cells.extreme_color(column.cells, column.offsets, True))
    given = (*given, kind & 1 != 0, kind & 4 != 0, kind & 2 != 0, 1)  # as if 1 did not equal itself
    small = Grids(torch.where(column.cells == NAN_COLOR, 1, column.cells), *_sides(column))
    expected, left_out = cells.grouped(small, *given)
    found, _ = in_plain_torch(cells, cells.grouped, small, *given)
    kept = (~left_out).nonzero()[:, 0].tolist()
    assert expected.decode(kept) == found.decode(kept)


def _sides(grids: Grids) -> tuple[Any, Any, Any]:
    return grids.offsets, grids.height, grids.width


def test_rows_with_nan():
    grids = [((1, 2),), ((math.nan, 2),), ()]
    for values in ([1, math.nan, 3], grids, [(grid, 1) for grid in grids], [(grid, grid) for grid in grids]):
        flags = nan_rows(_step(values).column)
        assert flags is not None
        assert flags.tolist() == [False, True, False]
    assert nan_rows(_step([1, 2, NAN_COLOR]).column) is None


FILLED = batt(
    *guarded("t1", "get_nth_t(I, HUNDRED)", "get_nth_t", "TypeError"),
    *guarded("t2", "f_ofcolor(I, ZERO)", "f_ofcolor", "TypeError"),
    *guarded("t3", "fill(I, t1, t2)", "fill", "TypeError"),
    *guarded("t4", "o_g(t3, R5)", "o_g", "TypeError"),
    *guarded("t5", "o_g(t3, R1)", "o_g", "TypeError"),
    *guarded("t6", "difference(t4, t5)", "difference", "TypeError"),
    *guarded("t7", "sizefilter(t6, ONE)", "sizefilter", "TypeError"),
    *guarded("t8", "get_nth_f(t7, F0)", "get_nth_f", "TypeError"),
    *guarded("t9", "color(t8)", "color", "TypeError"),
    *guarded("t10", "equality(t9, t9)", "equality", "TypeError"),
    *guarded("t11", "p_g(t3)", "p_g", "TypeError"),
    *guarded("t12", "get_nth_t(t11, L1)", "get_nth_t", "TypeError"),
    *guarded("t13", "replace(I, ONE, t12)", "replace", "TypeError"),
    *guarded("t14", "mapply(color, t4)", "mapply", "TypeError"),
    *guarded("t15", "get_arg_rank(t4, color, F0)", "get_arg_rank", "TypeError"),
    *guarded("t16", "mostcolor_t(t3)", "mostcolor_t", "TypeError"),
    *guarded("t17", "increment(t16)", "increment", "TypeError"),
    *guarded("t18", "recolor(t9, t8)", "recolor", "TypeError"),
    *guarded("t19", "paint(t13, t18)", "paint", "TypeError"),
    *guarded("t20", "hconcat(t19, t3)", "hconcat", "TypeError"),
    *(f"o.append(({number}, False, 'x', t{number}))" for number in range(1, 21)),
)
"""Grids with NaN for every cell of one color, and what is made of them."""


def test_a_batt_that_fills_with_nan():
    compare_steps(programs.loads(FILLED), arc_samples(24, "all", cells=150))


def test_those_that_know_nan_are_operations_of_a_batt():
    known = {meaning(operation) for operation in BATT.values()}
    assert known >= {name for name in KNOWS_NAN if name.startswith("batt.")}
