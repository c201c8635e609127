"""Operations on tuples and sets: sizes, first and last elements, unions and differences, repetitions and products."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ...execution.failures import Category
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
    key_of,
    offsets_of,
    owners,
)
from ..convert import form_of_column, joined
from ..functions import FunctionValue
from ..kernels import Computed, batched
from ..segments import filtered, maxima, member, minima, sort_unique
from .higher_order import _elements, as_list, as_set, selected
from .scalars import equal

MOST = 100_000  # elements of one row; more are left to the bound on size


def _count(column: Column) -> Tensor | None:
    match column:
        case Patches() | Lists():
            return column.sizes
        case Grids(height=height):
            return height
        case Pairs() | Cells():
            return torch.full((column.rows,), 2, dtype=torch.int64)
    return None


@batched("size")
def size(machine: Any, container: Column) -> Computed | None:
    count = _count(container)
    return None if count is None else Computed(Ints(count.to(machine.device)))


def _at(container: Column, last: bool) -> Computed | None:
    match container:
        case Pairs(first=first, second=second):
            return Computed(Ints(second if last else first))
    lists = as_list(container)
    if lists is None:
        return None
    empty = lists.sizes == 0
    error = Category.VALUE if last else Category.STOP_ITERATION
    failed = (empty * int(error)).to(torch.int8) if bool(empty.any()) else None
    index = lists.offsets[1:] - 1 if last else lists.offsets[:-1]
    return _elements(lists, index.clamp(min=0), failed)


@batched("first")
def first(machine: Any, container: Column) -> Computed | None:
    return _at(container, False)


@batched("last")
def last(machine: Any, container: Column) -> Computed | None:
    return _at(container, True)


@batched("totuple")
def totuple(machine: Any, container: Column) -> Computed | None:
    lists = as_list(container)
    return None if lists is None else Computed(Lists(lists.elements, lists.offsets, False))


def _extreme(container: Column, greatest: bool) -> Computed | None:
    if not isinstance(container, Lists) or not isinstance(container.elements, Ints):
        return None
    values, pick = container.elements.values, maxima if greatest else minima
    result = pick(values, container.offsets, 0)
    return Computed(Ints(result)) if not container.elements.boolean else None


@batched("maximum")
def maximum(machine: Any, container: Column) -> Computed | None:
    return _extreme(container, True)


@batched("minimum")
def minimum(machine: Any, container: Column) -> Computed | None:
    return _extreme(container, False)


def _interleaved(a: Column, b: Column, a_offsets: Tensor, b_offsets: Tensor) -> tuple[Column, Tensor]:
    """The elements of every row of one list, followed by those of the same row of another."""
    sizes = a_offsets.diff() + b_offsets.diff()
    offsets = offsets_of(sizes)
    index = torch.empty(int(offsets[-1]), dtype=torch.int64, device=offsets.device)
    for flat_offsets, start, base in (
        (a_offsets, offsets[:-1], 0),
        (b_offsets, offsets[:-1] + a_offsets.diff(), int(a_offsets[-1])),
    ):
        counts = flat_offsets.diff()
        shift = torch.repeat_interleave(start - flat_offsets[:-1], counts)
        position = torch.arange(int(flat_offsets[-1]), device=offsets.device)
        index[position + shift] = position + base
    return joined(a, b).take(index), offsets


@batched("combine")
def combine(machine: Any, a: Column, b: Column) -> Computed | None:
    match a, b:
        case Patches(), Patches() if a.kind is b.kind:
            keys, offsets = _interleaved(Ints(a.keys), Ints(b.keys), a.offsets, b.offsets)
            assert isinstance(keys, Ints)
            return Computed(Patches(*sort_unique(keys.values, offsets), a.kind))
        case Patches(), Patches() if not len(a.keys) or not len(b.keys):
            return Computed(b if not len(a.keys) else a)
        case Lists(), Lists() if form_of_column(a.elements) == form_of_column(b.elements) != "value":
            elements, offsets = _interleaved(a.elements, b.elements, a.offsets, b.offsets)
            whole = Lists(elements, offsets, a.unordered)
            column = as_set(whole) if a.unordered else whole
            return None if column is None else Computed(column)
    return None


def _inside(a: Patches, b: Patches) -> Tensor:
    """Which keys of a set are in another; keys of cells are never those of locations."""
    if a.kind is not b.kind:
        return torch.zeros(len(a.keys), dtype=torch.bool, device=a.keys.device)
    return member(a.keys, a.offsets, b.keys, b.offsets)


@batched("intersection")
def intersection(machine: Any, a: Column, b: Column) -> Computed | None:
    if not isinstance(a, Patches) or not isinstance(b, Patches):
        return None
    return Computed(Patches(*filtered(a.keys, a.offsets, _inside(a, b)), a.kind))


@batched("difference")
def difference(machine: Any, a: Column, b: Column) -> Computed | None:
    if not isinstance(a, Patches) or not isinstance(b, Patches):
        return None
    return Computed(Patches(*filtered(a.keys, a.offsets, ~_inside(a, b)), a.kind))


@batched("contained")
def contained(machine: Any, value: Column, container: Column) -> Computed | None:
    lists = None if isinstance(value, FunctionValue) else as_list(container)
    if lists is None:
        return None
    same = equal(value.take(lists.owner()), lists.elements)
    if same is None:
        return None
    found = torch.zeros(lists.rows, dtype=torch.int64, device=machine.device)
    return Computed(Ints(found.index_add(0, lists.owner(), same.to(torch.int64)).clamp(max=1), True))


@batched("remove")
def remove(machine: Any, value: Column, container: Column) -> Computed | None:
    lists = None if isinstance(value, FunctionValue) else as_list(container)
    if lists is None:
        return None
    same = equal(value.take(lists.owner()), lists.elements)
    return None if same is None else Computed(selected(container, lists, ~same))


@batched("other")
def other(machine: Any, container: Column, value: Column) -> Computed | None:
    rest = remove(machine, value, container)
    return None if rest is None else _at(rest.column, False)


@batched("initset")
def initset(machine: Any, value: Column) -> Computed | None:
    offsets = None if isinstance(value, FunctionValue) else torch.arange(value.rows + 1, device=machine.device)
    if offsets is None or form_of_column(value) in ("value", "grid") or _nested(value):
        return None
    column = as_set(Lists(value, offsets, True))
    return None if column is None else Computed(column)


def _nested(column: Column) -> bool:
    return isinstance(column, Lists)


@batched("insert")
def insert(machine: Any, value: Column, container: Column) -> Computed | None:
    single = initset(machine, value)
    return None if single is None else combine(machine, container, single.column)


@batched("repeat")
def repeat(machine: Any, item: Column, num: Column) -> Computed | None:
    if isinstance(item, FunctionValue) or not isinstance(num, Ints) or form_of_column(item) == "value":
        return None
    many = num.values > 1_000
    counts = torch.where(many, 0, num.values).clamp(min=0)
    index = torch.repeat_interleave(torch.arange(item.rows, device=machine.device), counts)
    column = Lists(item.take(index), offsets_of(counts), False)
    return Computed(column, None, many if bool(many.any()) else None)


@batched("interval")
def interval(machine: Any, start: Column, stop: Column, step: Column) -> Computed | None:
    if not (isinstance(start, Ints) and isinstance(stop, Ints) and isinstance(step, Ints)):
        return None
    zero = step.values == 0
    by = torch.where(zero, 1, step.values)
    large = (start.values.abs() >= COORDINATE_LIMIT) | (stop.values.abs() >= COORDINATE_LIMIT)
    large |= by.abs() >= COORDINATE_LIMIT
    counts = torch.div(stop.values - start.values + by - by.sign(), by, rounding_mode="floor").clamp(min=0)
    large |= counts > MOST
    counts = torch.where(large | zero, 0, counts)
    offsets = offsets_of(counts)
    within = torch.arange(int(offsets[-1]), device=machine.device) - torch.repeat_interleave(offsets[:-1], counts)
    values = torch.repeat_interleave(start.values, counts) + within * torch.repeat_interleave(by, counts)
    failed = (zero * int(Category.VALUE)).to(torch.int8) if bool(zero.any()) else None
    return Computed(Lists(Ints(values), offsets, False), failed, large if bool(large.any()) else None)


@batched("product")
def product(machine: Any, a: Column, b: Column) -> Computed | None:
    if not (isinstance(a, Lists) and isinstance(b, Lists)):
        return None
    left, right = a.elements, b.elements
    if not (isinstance(left, Ints) and isinstance(right, Ints)) or left.boolean or right.boolean:
        return None
    counts = a.sizes * b.sizes
    large = counts > MOST
    for values, offsets in ((left.values, a.offsets), (right.values, b.offsets)):
        far = (values.abs() >= COORDINATE_LIMIT).to(torch.int64)
        large |= torch.zeros_like(large, dtype=torch.int64).index_add(0, owners(offsets), far) > 0
    counts = torch.where(large, 0, counts)
    offsets = offsets_of(counts)
    rows = owners(offsets)
    within = torch.arange(int(offsets[-1]), device=machine.device) - offsets[rows]
    width = b.sizes[rows]
    first = left.values[a.offsets[rows] + torch.div(within, width, rounding_mode="floor")]
    second = right.values[b.offsets[rows] + within % width]
    column = Patches(*sort_unique(key_of(first, second), offsets), PatchKind.INDICES)
    return Computed(column, None, large if bool(large.any()) else None)
