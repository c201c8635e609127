"""Operations that map functions over lists: the function runs once, over all elements of all rows.

An operation fails for a row as its function does for the first element that fails. Elements are in canonical order, so
that this is the element at which the sequential executor fails.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ...execution.failures import Category
from ..columns import (
    Cells,
    Column,
    Ints,
    Lists,
    Pairs,
    Patches,
    PatchKind,
    column_of,
    key_of,
    offsets_of,
    row_of,
)
from ..flags import Step
from ..functions import FunctionValue
from ..kernels import Computed, batched
from ..segments import canonical, filtered, maxima, minima, sort_unique, totals


def as_list(column: Column) -> Lists | None:
    """A column as lists of elements: locations and cells of patches one by one; None where it has no elements."""
    match column:
        case Lists():
            return column
        case Patches(kind=PatchKind.INDICES):
            return Lists(Pairs(row_of(column.keys), column_of(column.keys)), column.offsets, True)
        case Patches():
            return Lists(Cells(column.keys), column.offsets, True)
    return None


def as_set(lists: Lists) -> Column | None:
    """Lists of elements in any order, some more than once, as sets."""
    match lists.elements:
        case Pairs(first=first, second=second):
            return Patches(*sort_unique(key_of(first, second), lists.offsets), PatchKind.INDICES)
        case Cells(keys=keys):
            return Patches(*sort_unique(keys, lists.offsets), PatchKind.OBJECT)
    return canonical(lists)


def gathered(lists: Lists) -> Column | None:
    """Lists of elements in their own container."""
    return as_set(lists) if lists.unordered else lists


def mapped(machine: Any, function: Any, lists: Lists) -> tuple[Step, Tensor | None, Tensor | None] | None:
    """A function of all elements, how it fails for every row, and the rows that have to run sequentially."""
    if not isinstance(function, FunctionValue):
        return None
    step = machine.call(function.take(lists.owner()), [Step(lists.elements)])
    failed = None if step.failed is None else first_of_row(step.failed, lists.offsets)
    if failed is not None:  # inside of a generator StopIteration becomes another error
        failed = torch.where(failed == Category.STOP_ITERATION, int(Category.OTHER), failed).to(torch.int8)
    sequential = None
    if step.boxed:
        sequential = torch.zeros(lists.rows, dtype=torch.bool, device=lists.offsets.device)
        sequential[lists.owner()[torch.tensor(sorted(step.boxed), device=lists.offsets.device)]] = True
    return step, failed, sequential


def first_of_row(failed: Tensor, offsets: Tensor) -> Tensor | None:
    """The first failure of the elements of every row; 0 where none failed."""
    if not bool((failed != 0).any()):
        return None
    position = torch.arange(len(failed), device=failed.device)
    first = minima(torch.where(failed != 0, position, len(failed)), offsets, len(failed))
    return torch.cat([failed, failed.new_zeros(1)])[first]


def together(*flags: Tensor | None) -> Tensor | None:
    """Rows that one of some flags names."""
    given = [flag for flag in flags if flag is not None]
    return torch.stack(given).any(0) if given else None


@batched("apply")
def apply(machine: Any, function: Any, container: Column) -> Computed | None:
    lists = as_list(container)
    if lists is None or (result := mapped(machine, function, lists)) is None:
        return None
    step, failed, sequential = result
    column = gathered(Lists(step.column, lists.offsets, lists.unordered))
    return None if column is None else Computed(column, failed, sequential)


def merged(lists: Lists) -> Column | None:
    """The elements of the elements of every row, in a container of the outer kind."""
    inner = as_list(lists.elements)
    if inner is None:
        return None
    return gathered(Lists(inner.elements, inner.offsets[lists.offsets], lists.unordered))


@batched("merge")
def merge(machine: Any, containers: Column) -> Computed | None:
    if not isinstance(containers, Lists) or (column := merged(containers)) is None:
        return None
    return Computed(column)


@batched("mapply")
def mapply(machine: Any, function: Any, container: Column) -> Computed | None:
    lists = as_list(container)
    if lists is None or (result := mapped(machine, function, lists)) is None:
        return None
    step, failed, sequential = result
    values: Column | None = Lists(step.column, lists.offsets, lists.unordered)
    if lists.unordered and not isinstance(step.column, Patches):
        values = as_set(Lists(step.column, lists.offsets, True))
    if not isinstance(values, Lists) or (column := merged(values)) is None:
        return None
    return Computed(column, failed, sequential)


def _condition(step: Step) -> Tensor | None:
    """The elements for which a condition holds, as Python sees truth."""
    return step.column.values != 0 if isinstance(step.column, Ints) else None


def selected(column: Column, lists: Lists, keep: Tensor) -> Column:
    """The elements that a flag keeps, in the container that they come from."""
    if isinstance(column, Patches):
        return Patches(*filtered(column.keys, column.offsets, keep), column.kind)
    offsets = offsets_of(totals(keep.to(torch.int64), lists.offsets))
    return Lists(lists.elements.take(keep.nonzero()[:, 0]), offsets, lists.unordered)


@batched("sfilter")
def sfilter(machine: Any, container: Column, condition: Any) -> Computed | None:
    lists = as_list(container)
    if lists is None or (result := mapped(machine, condition, lists)) is None:
        return None
    step, failed, sequential = result
    keep = _condition(step)
    return None if keep is None else Computed(selected(container, lists, keep), failed, sequential)


@batched("mfilter")
def mfilter(machine: Any, container: Column, function: Any) -> Computed | None:
    found = sfilter(machine, container, function)
    if found is None or not isinstance(found.column, Lists) or (column := merged(found.column)) is None:
        return None
    return Computed(column, found.failed, found.sequential)


@batched("extract")
def extract(machine: Any, container: Column, condition: Any) -> Computed | None:
    lists = as_list(container)
    if lists is None or not isinstance(condition, FunctionValue):
        return None
    step = machine.call(condition.take(lists.owner()), [Step(lists.elements)])
    holds = _condition(step)
    if holds is None or step.boxed:
        return None
    failed = torch.zeros_like(holds, dtype=torch.int8) if step.failed is None else step.failed
    position = torch.arange(len(holds), device=holds.device)
    end = len(holds)
    first = minima(torch.where(holds | (failed != 0), position, end), lists.offsets, end)
    codes = torch.cat([failed, failed.new_full((1,), int(Category.STOP_ITERATION))])[first]
    return _elements(lists, first, codes)


def _elements(lists: Lists, index: Tensor, failed: Tensor | None) -> Computed | None:
    """One element of every row, by its index; rows without one have failed."""
    if not lists.elements.rows:
        if failed is None or not bool((failed != 0).all()):
            return None
        return Computed(Ints(torch.zeros_like(index)), failed)
    return Computed(lists.elements.take(index.clamp(max=lists.elements.rows - 1)), failed)


def _extreme(machine: Any, container: Column, function: Any, greatest: bool) -> Computed | None:
    lists = as_list(container)
    if lists is None or (result := _keys(machine, function, lists)) is None:
        return None
    keys, failed, sequential = result
    pick = maxima if greatest else minima
    best = pick(keys, lists.offsets)
    position = torch.arange(len(keys), device=keys.device)
    first = minima(torch.where(keys == best[lists.owner()], position, len(keys)), lists.offsets, len(keys))
    empty = lists.sizes == 0
    own = torch.where(empty, int(Category.VALUE), 0).to(torch.int8)
    found = _elements(lists, first, own if failed is None else torch.where(own != 0, own, failed))
    return None if found is None else Computed(found.column, found.failed, sequential)


def _keys(machine: Any, function: Any, lists: Lists) -> tuple[Tensor, Tensor | None, Tensor | None] | None:
    """The keys by which elements are compared, how that fails, and which rows have to run sequentially."""
    if not isinstance(function, FunctionValue):
        return None
    step = machine.call(function.take(lists.owner()), [Step(lists.elements)])
    if not isinstance(step.column, Ints):
        return None
    failed = None if step.failed is None else first_of_row(step.failed, lists.offsets)
    sequential = None
    if step.boxed:
        sequential = torch.zeros(lists.rows, dtype=torch.bool, device=lists.offsets.device)
        sequential[lists.owner()[torch.tensor(sorted(step.boxed), device=lists.offsets.device)]] = True
    return step.column.values, failed, sequential


@batched("argmax")
def argmax(machine: Any, container: Column, compfunc: Any) -> Computed | None:
    return _extreme(machine, container, compfunc, True)


@batched("argmin")
def argmin(machine: Any, container: Column, compfunc: Any) -> Computed | None:
    return _extreme(machine, container, compfunc, False)


@batched("order")
def order(machine: Any, container: Column, compfunc: Any) -> Computed | None:
    lists = as_list(container)
    if lists is None or (result := _keys(machine, compfunc, lists)) is None:
        return None
    keys, failed, sequential = result
    by_key = keys.argsort(stable=True)
    index = by_key[lists.owner()[by_key].argsort(stable=True)]
    return Computed(Lists(lists.elements.take(index), lists.offsets, False), failed, sequential)
