"""Operations that make tuples and sets of others: unions, differences, pairs, repetitions, products."""

from __future__ import annotations

from functools import reduce
from typing import Any

import torch
from torch import Tensor

from ...execution.failures import Category
from ...vocabulary.bound import ELEMENTS
from ..columns import (
    COORDINATE_LIMIT,
    Cells,
    Column,
    Grids,
    Ints,
    Lists,
    Pairs,
    Patches,
    PatchKind,
    Triples,
    Tuples,
    Values,
    key_of,
)
from ..convert import form_of_column, joined
from ..functions import FunctionValue
from ..kernels import Computed, batched
from ..rows import offsets_of, owners, repeated, select
from ..segments import any_of, flagged, member, sort_keys, sort_unique, sorted_rows
from .all_pairs import all_pairs_of
from .elements import as_container, as_grids, as_list, selected
from .grids import failures
from .mapping import nothing, wrong

_COPIES = 1 << 20  # elements of what `repeat` copies, per row; more are left to Python, which copies nothing


def beyond(reserved: Tensor) -> Tensor | None:
    """Rows that reserve too many elements, as failures."""
    return failures((reserved > ELEMENTS, Category.SIZE))


def _interleaved(a: Column, b: Column, a_offsets: Tensor, b_offsets: Tensor) -> tuple[Column, Tensor]:
    """The elements of every row of one list, followed by those of the same row of another."""
    sizes = a_offsets.diff() + b_offsets.diff()
    offsets = offsets_of(sizes)
    index = torch.empty(a.rows + b.rows, dtype=torch.int64, device=offsets.device)
    for flat_offsets, start, base, count in (
        (a_offsets, offsets[:-1], 0, a.rows),
        (b_offsets, offsets[:-1] + a_offsets.diff(), a.rows, b.rows),
    ):
        shift = repeated(start - flat_offsets[:-1], flat_offsets, count)
        position = torch.arange(count, device=offsets.device)
        index[position + shift] = position + base
    return joined(a, b).take(index), offsets


def _alike(a: Lists, b: Lists) -> bool:
    """Whether two lists have elements of one form."""
    return form_of_column(a.elements) == form_of_column(b.elements) != "value"


def _union(a: Lists, b: Lists) -> Column | None:
    """The elements of both lists, in the container of the first; None where they have several forms."""
    if not a.elements.rows or not b.elements.rows:
        given = a if a.elements.rows else b
        return as_container(Lists(given.elements, given.offsets, a.unordered))
    if not _alike(a, b):
        return None
    elements, offsets = _interleaved(a.elements, b.elements, a.offsets, b.offsets)
    return as_container(Lists(elements, offsets, a.unordered))


@batched("combine")
def combine(machine: Any, a: Column, b: Column) -> Computed | None:
    if isinstance(a, Ints) or isinstance(b, Ints):
        return wrong(machine, (a if isinstance(a, Ints) else b).rows)
    left, right = as_list(a), as_list(b)
    if left is None or right is None or (column := _union(left, right)) is None:
        return None
    reserved = left.sizes + right.sizes
    return Computed(column, beyond(reserved), None, reserved)


def _is_set(column: Column) -> bool:
    return isinstance(column, Patches) or (isinstance(column, Lists) and column.unordered)


@batched("insert")
def insert(machine: Any, value: Any, container: Column) -> Computed | None:
    if isinstance(value, FunctionValue) or isinstance(container, FunctionValue):
        return None
    if isinstance(container, Ints | Pairs | Cells | Triples | Grids | Lists) and not _is_set(container):
        return wrong(machine, container.rows, Category.ATTRIBUTE)
    single, lists = initset(machine, value), as_list(container)
    one = None if single is None else as_list(single.column)
    if lists is None or one is None or (column := _union(lists, one)) is None:
        return None
    return Computed(column)


@batched("initset")
def initset(machine: Any, value: Any) -> Computed | None:
    if isinstance(value, FunctionValue):
        return None
    offsets = torch.arange(value.rows + 1, device=machine.device)
    match value:
        case Pairs(first=first, second=second):
            return Computed(Patches(key_of(first, second), offsets, PatchKind.INDICES))
        case Cells(keys=keys):
            return Computed(Patches(keys, offsets, PatchKind.OBJECT))
    return None if "value" in form_of_column(value) else Computed(Lists(value, offsets, True))


def _inside(a: Lists, b: Lists) -> Tensor | None:
    """Which elements of a list are in another of the same row; None where that cannot be seen."""
    if not a.elements.rows or not b.elements.rows:
        return torch.zeros(a.elements.rows, dtype=torch.bool, device=a.offsets.device)
    if not _alike(a, b):
        return None
    flat = isinstance(a.elements, Ints | Pairs | Cells | Triples)
    if flat and a.unordered and b.unordered:
        ours, theirs = sort_keys(a.elements, a.offsets), sort_keys(b.elements, b.offsets)
        assert ours is not None and theirs is not None
        return member(ours, a.offsets, theirs, b.offsets)
    elements, offsets = _interleaved(a.elements, b.elements, a.offsets, b.offsets)
    keys = sort_keys(elements, offsets)
    if keys is None:
        return None
    row = owners(offsets)
    theirs = torch.arange(len(row), device=row.device) - offsets[row] >= a.sizes[row]
    order = sorted_rows(keys, row)
    new = torch.ones(len(order), dtype=torch.int64, device=row.device)
    new[1:] = ((keys[order][1:] != keys[order][:-1]) | (row[order][1:] != row[order][:-1])).to(torch.int64)
    group = torch.empty_like(order)
    group[order] = new.cumsum(0) - 1
    common = torch.zeros(len(order), dtype=torch.bool, device=row.device)
    common[group[theirs]] = True
    return common[group[~theirs]]


@batched("intersection")
def intersection(machine: Any, a: Column, b: Column) -> Computed | None:
    if isinstance(a, Ints) and isinstance(b, Ints):
        return Computed(Ints(a.values & b.values, a.boolean and b.boolean))
    if any(isinstance(column, FunctionValue | Values) for column in (a, b)):
        return None
    if not (_is_set(a) and _is_set(b)):
        return wrong(machine, a.rows)
    left, right = as_list(a), as_list(b)
    if left is None or right is None or (inside := _inside(left, right)) is None:
        return None
    return Computed(selected(a, left, inside))


@batched("difference")
def difference(machine: Any, a: Column, b: Column) -> Computed | None:
    if isinstance(a, Ints):
        return wrong(machine, a.rows)
    left, right = as_list(a), as_list(b)
    if left is None:
        return None
    if isinstance(b, Ints):  # nothing is in a number
        failed = (left.sizes > 0).to(torch.int8) * int(Category.TYPE)
        return Computed(a, failed)
    if right is None or (inside := _inside(left, right)) is None:
        return None
    return Computed(selected(a, left, ~inside))


@batched("rbind", "lbind")
def bind(machine: Any, function: Any, fixed: Any) -> Computed | None:
    """What is no function has no arguments to fix."""
    if isinstance(function, FunctionValue | Values):
        return None
    return wrong(machine, function.rows, Category.ATTRIBUTE)


@batched("repeat")
def repeat(machine: Any, item: Any, num: Column) -> Computed | None:
    if isinstance(num, FunctionValue) or isinstance(item, FunctionValue):
        return None
    if not isinstance(num, Ints):
        return None if form_of_column(num) == "value" else wrong(machine, num.rows)
    if form_of_column(item) == "value":
        return None
    counts = num.values.clamp(min=0)
    many = counts * _sizes(item) > _COPIES
    over = counts > ELEMENTS
    kept = select(many | over, 0, counts)
    index = torch.repeat_interleave(torch.arange(item.rows, device=machine.device), kept)
    column = as_grids(Lists(item.take(index), offsets_of(kept), False))
    many &= ~over
    return Computed(column, beyond(counts), flagged(many), counts)


def _sizes(column: Column) -> Tensor | int:
    """How many numbers a row has, at most so many as matter here."""
    match column:
        case Grids() | Patches():
            return column.offsets.diff().clamp(min=1)
        case Lists():
            inner = _sizes(column.elements)
            if isinstance(inner, int):
                return column.sizes.clamp(min=1)
            return torch.ones_like(column.sizes).index_add(0, column.owner(), inner)
    return 1


@batched("interval")
def interval(machine: Any, start: Column, stop: Column, step: Column) -> Computed | None:
    given = (start, stop, step)
    if any(isinstance(column, FunctionValue) or form_of_column(column) == "value" for column in given):
        return None
    if not (isinstance(start, Ints) and isinstance(stop, Ints) and isinstance(step, Ints)):
        return wrong(machine, start.rows)
    zero = step.values == 0
    by = select(zero, 1, step.values)
    large = reduce(torch.bitwise_or, [column.values.abs() >= 1 << 60 for column in (start, stop, step)])
    counts = torch.div(stop.values - start.values + by - by.sign(), by, rounding_mode="floor").clamp(min=0)
    counts = select(large | zero, 0, counts)
    failed = (zero * int(Category.VALUE) + (counts > ELEMENTS) * int(Category.SIZE)).to(torch.int8)
    kept = select(counts > ELEMENTS, 0, counts)
    offsets = offsets_of(kept)
    within = torch.arange(int(offsets[-1]), device=machine.device) - torch.repeat_interleave(offsets[:-1], kept)
    values = torch.repeat_interleave(start.values, kept) + within * torch.repeat_interleave(by, kept)
    return Computed(Lists(Ints(values), offsets, False), failed, flagged(large), counts)


@batched("product")
def product(machine: Any, a: Column, b: Column) -> Computed | None:
    both = all_pairs_of(machine, a, b)
    if not isinstance(both, tuple):
        return both
    left, right = both
    first, second = left.elements, right.elements
    if not first.rows or not second.rows:
        return Computed(nothing(b.rows, True, machine.device))
    if not (isinstance(first, Ints) and isinstance(second, Ints)) or first.boolean or second.boolean:
        return None
    counts = left.sizes * right.sizes
    far = any_of(first.values.abs() >= COORDINATE_LIMIT, left.offsets)
    far |= any_of(second.values.abs() >= COORDINATE_LIMIT, right.offsets)
    far &= counts <= ELEMENTS
    kept = select(far | (counts > ELEMENTS), 0, counts)
    offsets = offsets_of(kept)
    row = owners(offsets)
    within = torch.arange(len(row), device=machine.device) - offsets[row]
    width = right.sizes[row]
    place = torch.div(within, width, rounding_mode="floor")
    keys = key_of(first.values[left.offsets[row] + place], second.values[right.offsets[row] + within - place * width])
    column = Patches(*sort_unique(keys, offsets), PatchKind.INDICES)
    return Computed(column, beyond(counts), flagged(far), counts)


@batched("pair")
def pair(machine: Any, a: Column, b: Column) -> Computed | None:
    if isinstance(a, Ints) or isinstance(b, Ints):
        return wrong(machine, (a if isinstance(a, Ints) else b).rows)
    left, right = as_list(a), as_list(b)
    if left is None or right is None:
        return None
    offsets = offsets_of(torch.minimum(left.sizes, right.sizes))
    row = owners(offsets)
    if not len(row):
        return Computed(nothing(a.rows, False, machine.device))
    within = torch.arange(len(row), device=row.device) - offsets[row]
    first = left.elements.take(left.offsets[row] + within)
    second = right.elements.take(right.offsets[row] + within)
    match first, second:
        case Ints(boolean=False), Ints(boolean=False):
            far = any_of((first.values.abs() >= COORDINATE_LIMIT) | (second.values.abs() >= COORDINATE_LIMIT), offsets)
            column: Column = Pairs(first.values, second.values)
            return Computed(Lists(column, offsets, False), None, flagged(far))
        case Ints(boolean=False), Pairs():
            far = any_of(first.values.abs() >= COORDINATE_LIMIT, offsets)
            color = first.values.clamp(-COORDINATE_LIMIT, COORDINATE_LIMIT - 1)
            column = Cells(key_of(second.first, second.second, color))
            return Computed(Lists(column, offsets, False), None, flagged(far))
    forms = form_of_column(first), form_of_column(second)
    if "value" in forms:
        return None
    if forms[0] != forms[1]:
        return Computed(Lists(Tuples((first, second)), offsets, False))
    two = torch.arange(2 * len(row), device=row.device).reshape(2, -1).T.reshape(-1)
    inner = as_grids(Lists(joined(first, second).take(two), 2 * torch.arange(len(row) + 1, device=row.device), False))
    return Computed(Lists(inner, offsets, False))
