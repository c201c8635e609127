"""Operations on the elements of tuples and sets: how many, which, how often."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ...execution.failures import Category
from ..columns import Cells, Column, Grids, Ints, Lists, Pairs, Patches, Triples, Tuples, color_of, location_of
from ..functions import FunctionValue
from ..kernels import Computed, batched
from ..rows import indices_of, offsets_of
from ..segments import as_numbers, flagged, maxima, minima, sort_keys, sort_unique_index, sorted_rows
from .elements import as_list, comparable, selected, taken
from .grids import failures
from .mapping import nothing, wrong
from .scalars import equal


def _count(column: Column) -> Tensor | None:
    match column:
        case Patches() | Lists():
            return column.sizes
        case Grids(height=height):
            return height
        case Pairs(first=tensor) | Cells(keys=tensor):
            return torch.full_like(tensor, 2)
        case Triples(keys=tensor):
            return torch.full_like(tensor, 3)
        case Tuples(places=places):
            return torch.full((column.rows,), len(places), device=column.device)
    return None


@batched("size")
def size(machine: Any, container: Column) -> Computed | None:
    if isinstance(container, Ints):
        return wrong(machine, container.rows)
    count = _count(container)
    return None if count is None else Computed(Ints(count))


def _at(machine: Any, container: Column, last: bool) -> Computed | None:
    match container:
        case Ints():
            return wrong(machine, container.rows)
        case Pairs(first=first, second=second):
            return Computed(Ints(second if last else first))
        case Cells(keys=keys):
            return Computed(Pairs(*location_of(keys)) if last else Ints(color_of(keys)))
        case Triples(numbers=numbers):
            return Computed(Ints(as_numbers(numbers[2]) if last else numbers[0]))
        case Tuples(places=places):
            return Computed(places[-1 if last else 0])
    lists = as_list(container)
    if lists is None:
        return None
    empty = lists.sizes == 0
    error = Category.VALUE if last else Category.STOP_ITERATION
    failed = failures((empty, error))
    index = lists.offsets[1:] - 1 if last else lists.offsets[:-1]
    return taken(lists, index.clamp(min=0), failed)


@batched("first")
def first(machine: Any, container: Column) -> Computed | None:
    return _at(machine, container, False)


@batched("last")
def last(machine: Any, container: Column) -> Computed | None:
    return _at(machine, container, True)


@batched("totuple")
def totuple(machine: Any, container: Column) -> Computed | None:
    match container:
        case Ints():
            return wrong(machine, container.rows)
        case Grids() | Pairs() | Cells() | Triples() | Tuples() | Lists(unordered=False):
            return Computed(container)
    lists = as_list(container)
    return None if lists is None else Computed(Lists(lists.elements, lists.offsets, False))


def _extreme(machine: Any, container: Column, greatest: bool) -> Computed | None:
    """The greatest or smallest element; 0 where there is none, which only a column of numbers can hold."""
    if isinstance(container, Ints | Cells):  # the color of a cell is not compared with its location
        return wrong(machine, container.rows)
    lists = as_list(container)
    if lists is None or (not comparable(lists.elements) and lists.elements.rows):
        return None
    empty = lists.sizes == 0
    if (isinstance(lists.elements, Ints) and not lists.elements.boolean) or not lists.elements.rows:
        values = lists.elements.values if isinstance(lists.elements, Ints) else lists.offsets[:0]
        return Computed(Ints((maxima if greatest else minima)(values, lists.offsets, 0)))
    keys = sort_keys(lists.elements, lists.offsets)
    assert keys is not None
    chosen = lists.elements.take(first_extreme(keys, lists, greatest).clamp(max=len(keys) - 1))
    return Computed(chosen, None, flagged(empty))


def first_extreme(keys: Tensor, lists: Lists, greatest: bool) -> Tensor:
    """Where the first of the elements with the greatest or smallest key of every row is; after all where there is
    none."""
    best = (maxima if greatest else minima)(keys, lists.offsets)
    position = torch.arange(len(keys), device=keys.device)
    return minima(torch.where(keys == best[lists.owner()], position, len(keys)), lists.offsets, len(keys))


@batched("maximum")
def maximum(machine: Any, container: Column) -> Computed | None:
    return _extreme(machine, container, True)


@batched("minimum")
def minimum(machine: Any, container: Column) -> Computed | None:
    return _extreme(machine, container, False)


def _same(value: Any, lists: Lists) -> Tensor | None:
    """The elements that equal a value per row."""
    return None if isinstance(value, FunctionValue) else equal(value.take(lists.owner()), lists.elements)


@batched("contained")
def contained(machine: Any, value: Any, container: Column) -> Computed | None:
    if isinstance(container, Ints):
        return wrong(machine, container.rows)
    if isinstance(container, Cells) and not isinstance(value, FunctionValue):
        either = equal(value, Ints(color_of(container.keys)))
        location = equal(value, Pairs(*location_of(container.keys)))
        return None if either is None or location is None else Computed(Ints((either | location).to(torch.int64), True))
    lists = as_list(container)
    if lists is None or (same := _same(value, lists)) is None:
        return None
    inside = torch.zeros(lists.rows, dtype=torch.int64, device=machine.device)
    return Computed(Ints(inside.index_add(0, lists.owner(), same.to(torch.int64)).clamp(max=1), True))


@batched("remove")
def remove(machine: Any, value: Any, container: Column) -> Computed | None:
    if isinstance(container, Ints):
        return wrong(machine, container.rows)
    lists = as_list(container)
    if lists is None or (same := _same(value, lists)) is None:
        return None
    return Computed(selected(container, lists, ~same))


@batched("other")
def other(machine: Any, container: Column, value: Any) -> Computed | None:
    rest = remove(machine, value, container)
    return rest if rest is None or rest.failed is not None else _at(machine, rest.column, False)


@batched("dedupe")
def dedupe(machine: Any, tup: Column) -> Computed | None:
    if isinstance(tup, Ints):
        return wrong(machine, tup.rows)
    lists = as_list(tup)
    if lists is None:
        return None
    if lists.unordered:  # a set has no places
        failed = (lists.sizes > 0).to(torch.int8) * int(Category.ATTRIBUTE)
        return Computed(nothing(lists.rows, False, machine.device), failed)
    keys = sort_keys(lists.elements, lists.offsets)
    if keys is None:
        return None
    keep = torch.zeros(len(keys), dtype=torch.bool, device=machine.device)
    keep[sort_unique_index(keys, lists.offsets)[0]] = True
    return Computed(selected(tup, lists, keep))


def _by_count(machine: Any, container: Column, greatest: bool) -> Computed | None:
    """The canonically first of the elements whose count is the greatest or the smallest."""
    if isinstance(container, Ints):
        return wrong(machine, container.rows)
    lists = as_list(container)
    if lists is None:
        return None
    if lists.unordered:
        return wrong(machine, lists.rows, Category.ATTRIBUTE)
    keys = sort_keys(lists.elements, lists.offsets)
    if keys is None:
        return None
    owner = lists.owner()
    order = sorted_rows(keys, owner)
    keys, owner = keys[order], owner[order]
    new = torch.ones(len(keys), dtype=torch.bool, device=machine.device)
    new[1:] = (keys[1:] != keys[:-1]) | (owner[1:] != owner[:-1])
    start = indices_of(new)
    counts = torch.diff(start, append=start.new_full((1,), len(keys)))
    distinct = torch.zeros_like(lists.sizes).index_add_(0, owner[start], torch.ones_like(start))
    groups = Lists(Ints(counts), offsets_of(distinct), False)
    place = first_extreme(counts, groups, greatest)
    failed = (lists.sizes == 0).to(torch.int8) * int(Category.VALUE)
    return taken(Lists(lists.elements.take(order[start]), groups.offsets, False), place, failed)


@batched("mostcommon")
def mostcommon(machine: Any, container: Column) -> Computed | None:
    return _by_count(machine, container, True)


@batched("leastcommon")
def leastcommon(machine: Any, container: Column) -> Computed | None:
    return _by_count(machine, container, False)
