"""Operations over columns, compared with the same operations row by row; and values to compare them on."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from hypothesis import strategies as st

from brimful.programs.batched import operations as _operations  # noqa: F401  # registers the kernels
from brimful.programs.batched.columns import Cells, Column, Grids, Ints, Lists, Pairs, Patches, Triples, Tuples, Values
from brimful.programs.batched.convert import build, encode, form_of_column
from brimful.programs.batched.flags import Step
from brimful.programs.batched.functions import FunctionValue, closure, named_function
from brimful.programs.batched.machine import Machine
from brimful.programs.execution.failures import Category, category_of
from brimful.programs.language.operation import Operation
from brimful.programs.vocabulary import bound
from brimful.programs.vocabulary.arc import ARC

DEVICE = torch.device("cpu")

COLORS = st.one_of(st.integers(0, 3), st.integers(0, 9), st.sampled_from([-1, 10, 131071, -131072]))
PLACES = st.one_of(st.integers(0, 5), st.integers(-3, 31), st.sampled_from([-131072, 131071, 90]))
LOCATIONS = st.tuples(PLACES, PLACES)
INDICES = st.frozensets(LOCATIONS, max_size=8)
OBJECTS = st.frozensets(st.tuples(COLORS, LOCATIONS), max_size=8)
NEAR_INDICES = st.frozensets(st.tuples(st.integers(-1, 5), st.integers(-1, 5)), max_size=12)
NEAR_OBJECTS = st.frozensets(
    st.tuples(st.integers(0, 3), st.tuples(st.integers(-1, 5), st.integers(-1, 5))), max_size=12
)
PATCHES = st.one_of(INDICES, OBJECTS, NEAR_INDICES, NEAR_OBJECTS)
INTEGERS = st.one_of(st.integers(-3, 12), st.sampled_from([2**31, -(2**40), 2**61, 2**63]))
ODD = st.sampled_from(
    [
        (),
        ((),),
        ((), ()),
        ((1, 2), (3,)),
        ((1, True), (False, 0)),
        (1, 2),
        (1, (2, 3)),
        frozenset(),
        frozenset({1, 2}),
        frozenset({(1, 2), (3, (4, 5))}),
        frozenset({frozenset()}),
        (frozenset(), frozenset({(1, 1)})),
        ((frozenset(),), (frozenset(),)),
        2**70,
        -(2**62) - 1,
        True,
        False,
        7,
        None,
    ]
)
"""What is wrong for most operations."""


@st.composite
def _grids(draw: Any, side: int, colors: int) -> tuple[tuple[int, ...], ...]:
    height, width = draw(st.integers(1, side)), draw(st.integers(1, side))
    cells = draw(st.lists(st.integers(0, colors), min_size=height * width, max_size=height * width))
    return tuple(tuple(cells[i * width : (i + 1) * width]) for i in range(height))


def random_grid(rng: Any, height: int, width: int, colors: int = 3) -> tuple[tuple[int, ...], ...]:
    """A grid of random cells, by a `random.Random`."""
    return tuple(tuple(rng.randrange(colors) for _ in range(width)) for _ in range(height))


@st.composite
def _large_grids(draw: Any) -> tuple[tuple[int, ...], ...]:
    rng, side = draw(st.randoms(use_true_random=False)), draw(st.sampled_from([1, 2, 10, 30, 31, 33]))
    return random_grid(rng, side, draw(st.sampled_from([1, 7, side])), draw(st.integers(2, 5)))


GRIDS = st.one_of(_grids(4, 1), _grids(6, 3), _grids(3, 9), _large_grids())


def columns(*strategies: st.SearchStrategy[Any], rows: int = 6, odd: bool = True) -> st.SearchStrategy[list[list[Any]]]:
    """Lists of arguments, one list per argument; in some rows something else for one of them."""
    mixed = [st.one_of(*[strategy] * 8, ODD) if odd else strategy for strategy in strategies]
    several = st.lists(st.tuples(*mixed), min_size=1, max_size=rows)
    return several.map(lambda given: [list(values) for values in zip(*given, strict=True)])


def compare(
    name: str | Operation,
    *arguments: Sequence[Any] | Operation | FunctionValue,
    forms: Sequence[str | None] | None = None,
    safe: bool = False,
) -> int:
    """Runs an operation of arc-dsl over columns and row by row, and asserts that they agree in value, type and category
    of failure, and that the columns are as columns have to be.

    Args:
        name: of the operation; or one of another vocabulary.
        arguments: per argument a list with a value per row, or a function (see `function`).
        forms: of the columns, where the most frequent one of the values is not the one to test.
        safe: whether operations inside of functions yield defaults, as those of a batt do.

    Returns:
        The number of rows that ran sequentially: 0 where a kernel did them all.
    """
    operation = ARC[name] if isinstance(name, str) else name
    machine = Machine(DEVICE, ARC["equality"], safe, nan=True)
    given, python = list[Step | FunctionValue](), list[Callable[[int], Any]]()
    for number, argument in enumerate(arguments):
        if isinstance(argument, FunctionValue | Operation):
            called = named_function(argument) if isinstance(argument, Operation) else argument
            given.append(called)
            python.append(called.python)
        else:
            given.append(_step(argument, forms[number] if forms else None))
            python.append(argument.__getitem__)
    step, counted = machine.counted(lambda: machine.operation(operation, given))
    outcomes = [_outcome(operation, [argument(row) for argument in python]) for row in range(step.rows)]
    expected = [outcome[:2] for outcome in outcomes]
    check(step, expected, operation.name)
    reserved = [0] * step.rows if counted is None else counted.tolist()
    for row, (category, _, elements) in enumerate(outcomes):
        assert category is not Category.NONE or reserved[row] == elements, (operation.name, row, "elements reserved")
    return machine.usage[operation.name].sequential


def function(name: str, *parts: Any, rows: int = 1) -> FunctionValue:
    """A function value: an operation, or what one such as `rbind` makes of functions and of one value per row."""
    operation = ARC[name]
    if not parts:
        return named_function(operation)
    steps = [
        part if isinstance(part, FunctionValue) else _step(part * rows if len(part) == 1 else part) for part in parts
    ]
    made = closure(operation, steps)
    assert made is not None
    return made


def _step(values: Sequence[Any], form: str | None = None) -> Step:
    column, boxed = encode(values, DEVICE, form)
    return Step(column, None, boxed)


def _outcome(operation: Operation, args: list[Any]) -> tuple[Category, Any, int]:
    """How an operation fails, what it gives, and the elements that it reserves."""
    bound.begin()
    try:
        return Category.NONE, operation.function(*args), bound.reserved() or 0
    except Exception as error:
        return category_of(error), None, 0
    finally:
        bound.end()


def check(step: Step, expected: Sequence[tuple[Category, Any]], name: str = "") -> None:
    """Asserts that a step has the categories and values of every row."""
    assert step.rows == len(expected)
    failed = [0] * step.rows if step.failed is None else step.failed.tolist()
    assert [Category(code).name for code in failed] == [category.name for category, _ in expected], name
    good = [row for row, code in enumerate(failed) if not code]
    values = step.decode(good)
    for row, value in zip(good, values, strict=True):
        assert exact(value) == exact(expected[row][1]), (name, row)
    well_formed(step.column)
    held = [(row, value) for row, value in zip(good, values, strict=True) if row not in step.boxed]
    if not isinstance(step.column, Values):  # sets are in canonical order, which decoding them hides
        part = step.column.take(torch.tensor([row for row, _ in held], dtype=torch.int64))
        same(part, build([value for _, value in held], form_of_column(step.column), DEVICE))


def exact(value: Any) -> Any:
    """A value in which True and 1 differ, and of which NaN is that of `math`, or another one."""
    if isinstance(value, tuple):
        return ("tuple", *map(exact, value))
    if isinstance(value, frozenset):
        return ("set", frozenset(map(exact, value)))
    return (type(value), value if value == value else f"NaN {value is math.nan}")


def well_formed(column: Column) -> None:
    """Asserts that the tensors of a column belong together, for all rows."""
    match column:
        case Grids():
            assert torch.equal(column.offsets.diff(), column.height * column.width)
            assert bool((column.width[column.height == 0] == 0).all())
            assert int(column.offsets[0]) == 0 and int(column.offsets[-1]) == len(column.cells)
        case Patches():
            assert int(column.offsets[0]) == 0 and int(column.offsets[-1]) == len(column.keys)
            assert bool((column.sizes >= 0).all())
        case Lists():
            assert int(column.offsets[0]) == 0 and int(column.offsets[-1]) == column.elements.rows
            assert bool((column.sizes >= 0).all())
            well_formed(column.elements)
        case Tuples():
            assert {place.rows for place in column.places} == {column.rows}
            for place in column.places:
                well_formed(place)
    cells = _cells(column)
    for tensor in _tensors(column):
        small = any(tensor is own for own in cells)
        assert tensor.dtype == (torch.int32 if small else torch.int64)


def same(a: Column, b: Column) -> None:
    """Asserts that two columns are the same numbers."""
    assert form_of_column(a) == form_of_column(b)
    for left, right in zip(_tensors(a), _tensors(b), strict=True):
        assert left.tolist() == right.tolist()


def _cells(column: Column) -> list[torch.Tensor]:
    """The cells of the grids that a column holds."""
    match column:
        case Grids():
            return [column.cells]
        case Lists():
            return _cells(column.elements)
        case Tuples():
            return [cells for place in column.places for cells in _cells(place)]
    return []


def _tensors(column: Column) -> list[torch.Tensor]:
    match column:
        case Ints():
            return [column.values]
        case Pairs():
            return [column.first, column.second]
        case Cells() | Triples():
            return [column.keys]
        case Grids():
            return [column.cells, column.offsets, column.height, column.width]
        case Patches():
            return [column.keys, column.offsets]
        case Lists():
            return [column.offsets, *_tensors(column.elements)]
        case Tuples():
            return [tensor for place in column.places for tensor in _tensors(place)]
    return []


def in_plain_torch(module: Any, function: Callable[..., Any], *args: Any) -> Any:
    """What a function of a module gives where nothing can be compiled."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "usable", lambda tensor: False)
        return function(*args)
