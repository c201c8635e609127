"""Arithmetic on whole numbers, booleans and pairs of them, and comparisons of anything."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import torch
from torch import Tensor

from ...execution.failures import Category
from ..columns import (
    COORDINATE_LIMIT,
    NAN,
    Cells,
    Column,
    Grids,
    Ints,
    Lists,
    Pairs,
    Patches,
    Triples,
    Tuples,
    Values,
    key_of,
)
from ..convert import form_of_column, joined, truth
from ..functions import FunctionValue
from ..kernels import Computed, batched
from ..others import Others, Part
from ..rows import indices_of, same_rows, select
from ..segments import beyond, flagged, together, totals
from .elements import as_grids, as_list

_LARGE = 1 << 31  # products of smaller numbers fit 64 bits


def _large(*numbers: Tensor) -> Tensor | None:
    """Rows with a number that may leave 64 bits."""
    return flagged(beyond(_LARGE, *numbers))


def _numbers(column: Column) -> tuple[Tensor, ...] | None:
    match column:
        case Ints(values=values):
            return (values,)
        case Pairs(first=first, second=second):
            return first, second
    return None


def _column(values: list[Tensor], boolean: bool = False) -> Column:
    return Ints(values[0], boolean) if len(values) == 1 else Pairs(values[0], values[1])


def _outside(column: Column) -> Tensor | None:
    """Rows of pairs whose numbers are too large for a column of pairs."""
    if not isinstance(column, Pairs):
        return None
    return flagged(beyond(COORDINATE_LIMIT, column.first, column.second))


def _binary(a: Column, b: Column, compute: Callable[[Tensor, Tensor], Tensor]) -> Computed | None:
    """A number with a number, place by place where one of them is a pair."""
    left, right = _numbers(a), _numbers(b)
    if left is None or right is None:
        return None
    places = max(len(left), len(right))
    left, right = left * (places // len(left)), right * (places // len(right))
    column = _column([compute(x, y) for x, y in zip(left, right, strict=True)])
    return Computed(column, None, together(_large(*left, *right), _outside(column)))


@batched("add")
def add(machine: Any, a: Column, b: Column) -> Computed | None:
    return _binary(a, b, torch.add)


@batched("subtract")
def subtract(machine: Any, a: Column, b: Column) -> Computed | None:
    return _binary(a, b, torch.sub)


@batched("multiply")
def multiply(machine: Any, a: Column, b: Column) -> Computed | None:
    return _binary(a, b, torch.mul)


@batched("divide")
def divide(machine: Any, a: Column, b: Column) -> Computed | None:
    right = _numbers(b)
    if right is None:
        return None
    zero = reduce(torch.bitwise_or, [number == 0 for number in right])
    computed = _binary(a, b, lambda x, y: torch.div(x, select(y == 0, 1, y), rounding_mode="floor"))
    if computed is None:
        return None
    failed = (zero * int(Category.ZERO_DIVISION)).to(torch.int8)
    return Computed(computed.column, failed, computed.sequential)


def _unary(column: Column, compute: Callable[[Tensor], Tensor]) -> Computed | None:
    numbers = _numbers(column)
    if numbers is None:
        return None
    result = _column([compute(number) for number in numbers])
    return Computed(result, None, together(_large(*numbers), _outside(result)))


@batched("invert")
def invert(machine: Any, n: Column) -> Computed | None:
    return _unary(n, torch.neg)


@batched("double")
def double(machine: Any, n: Column) -> Computed | None:
    return _unary(n, lambda x: x * 2)


@batched("halve")
def halve(machine: Any, n: Column) -> Computed | None:
    return _unary(n, lambda x: torch.div(x, 2, rounding_mode="floor"))


@batched("increment")
def increment(machine: Any, x: Column) -> Computed | None:
    return _unary(x, lambda number: number + 1)


@batched("decrement")
def decrement(machine: Any, x: Column) -> Computed | None:
    return _unary(x, lambda number: number - 1)


@batched("crement")
def crement(machine: Any, x: Column) -> Computed | None:
    return _unary(x, lambda number: number + number.sign())


@batched("sign")
def sign(machine: Any, x: Column) -> Computed | None:
    return _unary(x, torch.sign)


@batched("even")
def even(machine: Any, n: Column) -> Computed | None:
    return Computed(Ints((n.values % 2 == 0).to(torch.int64), True)) if isinstance(n, Ints) else None


@batched("positive")
def positive(machine: Any, x: Column) -> Computed | None:
    return Computed(Ints((x.values > 0).to(torch.int64), True)) if isinstance(x, Ints) else None


@batched("greater")
def greater(machine: Any, a: Column, b: Column) -> Computed | None:
    match a, b:
        case Ints(), Ints():
            return Computed(Ints((a.values > b.values).to(torch.int64), True))
        case Pairs(), Pairs():
            above = (a.first > b.first) | ((a.first == b.first) & (a.second > b.second))
            return Computed(Ints(above.to(torch.int64), True))
    return None


@batched("toivec")
def toivec(machine: Any, i: Column) -> Computed | None:
    if isinstance(i, FunctionValue):
        return None
    return _pair(i, Ints(torch.zeros(i.rows, dtype=torch.int64, device=machine.device)))


@batched("tojvec")
def tojvec(machine: Any, j: Column) -> Computed | None:
    if isinstance(j, FunctionValue):
        return None
    return _pair(Ints(torch.zeros(j.rows, dtype=torch.int64, device=machine.device)), j)


@batched("astuple")
def astuple(machine: Any, a: Column, b: Column) -> Computed | None:
    return _pair(a, b)


def _pair(a: Column, b: Column) -> Computed | None:
    """Two whole numbers as a pair; a color and a location as a cell; two values of unlike forms as a tuple."""
    if isinstance(a, FunctionValue | Values) or isinstance(b, FunctionValue | Values):
        return None
    if type(a) is not type(b) and not (isinstance(a, Ints) and isinstance(b, Pairs)):
        return Computed(Tuples((a, b)))
    if isinstance(a, Grids | Lists | Patches) and form_of_column(a) == form_of_column(b):
        index = torch.arange(2 * a.rows, device=a.device)
        elements = joined(a, b).take(index // 2 + index % 2 * a.rows)
        return Computed(as_grids(Lists(elements, 2 * torch.arange(a.rows + 1, device=a.device), False)))
    if not isinstance(a, Ints) or a.boolean:
        return None
    match b:
        case Ints(boolean=False):
            column: Column = Pairs(a.values, b.values)
            return Computed(column, None, _outside(column))  # among those outside is what stands for NaN
        case Pairs():
            outside = flagged(beyond(COORDINATE_LIMIT, a.values, b.first, b.second))
            color = a.values.clamp(-COORDINATE_LIMIT, COORDINATE_LIMIT)
            return Computed(Cells(key_of(b.first, b.second, color)), None, outside)
    return None


@batched("flip")
def flip(machine: Any, b: Column) -> Computed | None:
    true = truth(b)
    return None if true is None else Computed(Ints((~true).to(torch.int64), True))


def _choice(condition: Tensor, a: Column, b: Column) -> Computed | None:
    """The first column where a condition holds, the second elsewhere."""
    if isinstance(a, FunctionValue) or isinstance(b, FunctionValue):
        return None
    if form_of_column(a) != form_of_column(b):
        rows = indices_of(~condition)
        return Computed(a, boxed=Others([Part(rows, b.take(rows))]))
    position = torch.arange(a.rows, device=condition.device)
    return Computed(joined(a, b).take(torch.where(condition, position, position + a.rows)))


@batched("branch")
def branch(machine: Any, condition: Column, a: Column, b: Column) -> Computed | None:
    true = None if isinstance(condition, FunctionValue) else truth(condition)
    return None if true is None else _choice(true, a, b)


@batched("both")
def both(machine: Any, a: Column, b: Column) -> Computed | None:
    true = truth(a)
    return None if true is None else _choice(true, b, a)


@batched("either")
def either(machine: Any, a: Column, b: Column) -> Computed | None:
    true = truth(a)
    return None if true is None else _choice(true, a, b)


@batched("identity")
def identity(machine: Any, x: Column) -> Computed | None:
    return None if isinstance(x, FunctionValue) else Computed(x)


def equal(a: Column, b: Column) -> Tensor | None:
    """Which rows of two columns are equal; None where that cannot be seen from the columns."""
    match a, b:
        case Ints(), Ints():
            return a.values == b.values
        case Pairs(), Pairs():
            return (a.first == b.first) & (a.second == b.second)
        case (Cells(), Cells()) | (Triples(), Triples()):
            return a.keys == b.keys
        case Grids(), Grids():
            same = (a.height == b.height) & (a.width == b.width)
            return same & same_rows(a.cells, a.offsets, b.cells, b.offsets)
        case Patches(), Patches():
            if a.kind is not b.kind:
                return (a.sizes == 0) & (b.sizes == 0)
            return same_rows(a.keys, a.offsets, b.keys, b.offsets)
        case Lists(), Lists() if a.unordered == b.unordered:
            same = a.sizes == b.sizes
            index = _aligned(a.offsets, b.offsets, same)
            elements = equal(a.elements.take(index[0]), b.elements.take(index[1]))
            if elements is None:
                return None
            right = torch.ones(a.elements.rows, dtype=torch.bool, device=elements.device)
            right[index[0]] = elements
            return same & (totals((~right).to(torch.int64), a.offsets) == 0)
        case Tuples(), Tuples() if len(a.places) == len(b.places):
            same = [equal(left, right) for left, right in zip(a.places, b.places, strict=True)]
            return None if any(of is None for of in same) else torch.stack(same).all(0)  # pyright: ignore
        case _ if Values in (type(a), type(b)) or Tuples in (type(a), type(b)):
            return None
        case (Lists(), _) | (_, Lists()) if _container(a) is _container(b) is not None and Cells not in (
            type(a),
            type(b),
        ):
            left, right = as_list(a), as_list(b)
            return None if left is None or right is None else equal(left, right)
    return torch.zeros(a.rows, dtype=torch.bool, device=a.device)  # numbers, tuples and sets; pairs, cells and grids


def _container(column: Column) -> type | None:
    match column:
        case Patches() | Lists(unordered=True):
            return frozenset
        case Pairs() | Cells() | Triples() | Grids() | Lists():
            return tuple
    return None


def _aligned(a: Tensor, b: Tensor, same: Tensor) -> tuple[Tensor, Tensor]:
    """Where the numbers of rows of equal size are, in one flat tensor and in another."""
    sizes = select(same, a.diff(), 0)
    first = torch.repeat_interleave(a[:-1], sizes)
    second = torch.repeat_interleave(b[:-1], sizes)
    starts = torch.repeat_interleave(sizes.cumsum(0) - sizes, sizes)
    within = torch.arange(len(starts), device=a.device) - starts
    return first + within, second + within


@batched("equality")
def equality(machine: Any, a: Column, b: Column) -> Computed | None:
    if isinstance(a, FunctionValue) or isinstance(b, FunctionValue):
        return None
    same = equal(a, b)
    if same is not None and isinstance(a, Ints) and isinstance(b, Ints):  # by itself, NaN does not equal itself
        same = same & (a.values != NAN)
    return None if same is None else Computed(Ints(same.to(torch.int64), True))
