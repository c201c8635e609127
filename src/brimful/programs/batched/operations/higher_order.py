"""Operations that choose elements by a function of them: it runs once, over all elements of all rows."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ...execution.failures import Category
from ..columns import Column, Ints, Lists
from ..convert import truth
from ..flags import Step
from ..functions import FunctionValue
from ..kernels import Computed, batched
from ..rows import indices_of, select
from ..segments import sort_keys, sorted_rows
from .containers import first_extreme
from .elements import as_list, comparable, concatenated, taken
from .mapping import Mapped, first_where, mapped, or_beyond, totals_until, wrong


@batched("extract")
def extract(machine: Any, container: Column, condition: Any) -> Computed | None:
    if isinstance(container, Ints):
        return wrong(machine, container.rows)
    lists = as_list(container)
    if lists is None or not isinstance(condition, FunctionValue):
        return None
    step, used = machine.metered(condition.spread(lists.offsets, lists.elements.rows), [Step(lists.elements)])
    holds = truth(step.column) if isinstance(step, Step) else None
    if holds is None or step.boxed:
        return None
    failed = torch.zeros_like(holds, dtype=torch.int8) if step.failed is None else step.failed
    failed = select(failed == Category.STOP_ITERATION, int(Category.OTHER), failed).to(torch.int8)
    first = first_where(holds | (failed != 0), lists.offsets)
    codes: Tensor | None = torch.cat([failed, failed.new_full((1,), int(Category.STOP_ITERATION))])[first]
    reserved = None if used is None else totals_until(first, used, lists.offsets)
    chosen = taken(lists, first, codes if reserved is None else or_beyond(codes, reserved))
    return None if chosen is None else Computed(chosen.column, chosen.failed, None, reserved)


def _keys(machine: Any, function: Any, lists: Lists) -> tuple[Tensor, Mapped] | None:
    """The keys by which elements are compared."""
    result = mapped(machine, function, lists.offsets, lists.elements, generator=False, counted=lists.unordered)
    if result is None:
        return None
    keys = sort_keys(result.step.column, lists.offsets) if comparable(result.step.column) else None
    return None if keys is None else (keys, result)


def _extreme(machine: Any, container: Column, function: Any, greatest: bool) -> Computed | None:
    if isinstance(container, Ints):
        return wrong(machine, container.rows)
    lists = as_list(container)
    if lists is None or (by := _keys(machine, function, lists)) is None:
        return None
    keys, result = by
    first = first_extreme(keys, lists, greatest)
    failed = select(lists.sizes == 0, int(Category.VALUE), 0).to(torch.int8)
    if result.failed is not None:
        failed = torch.where(failed != 0, failed, result.failed)
    chosen = taken(lists, first, failed)
    return None if chosen is None else Computed(chosen.column, chosen.failed, result.sequential, result.reserved)


@batched("argmax")
def argmax(machine: Any, container: Column, compfunc: Any) -> Computed | None:
    return _extreme(machine, container, compfunc, True)


@batched("argmin")
def argmin(machine: Any, container: Column, compfunc: Any) -> Computed | None:
    return _extreme(machine, container, compfunc, False)


def _extreme_key(machine: Any, container: Column, function: Any, greatest: bool) -> Computed | None:
    """The greatest or smallest value of a function; its value for 0 where there is no element."""
    if isinstance(container, Ints):
        return wrong(machine, container.rows)
    lists = as_list(container)
    if lists is None or (by := _keys(machine, function, lists)) is None:
        return None
    keys, result = by
    values = Lists(result.step.column, lists.offsets, False)
    empty = lists.sizes == 0
    blank = empty.to(torch.int8) * int(Category.VALUE)
    first = first_extreme(keys, lists, greatest)
    chosen, failed, reserved = taken(values, first, blank), result.failed, result.reserved
    if result.used is not None:  # the function is called once more, for the element that is chosen
        again = torch.cat([result.used, result.used.new_zeros(1)])[first]
        reserved = reserved + (again if failed is None else again.masked_fill(failed != 0, 0))
        failed = or_beyond(failed, reserved)
    own = None if chosen is None else Computed(chosen.column, failed, result.sequential, reserved)
    if not bool(empty.any()):
        return own
    rows, index = indices_of(empty), indices_of(~empty)
    zero = Lists(Ints(torch.zeros_like(rows)), torch.arange(len(rows) + 1, device=machine.device), False)
    called = function.take(rows)
    of_zero = mapped(machine, called, zero.offsets, zero.elements, generator=False, counted=False)
    parts = [None if own is None else own.take(index)]
    parts.append(None if of_zero is None else of_zero.computed(of_zero.step.column))
    both = concatenated(parts, [len(index), len(rows)], machine.device)
    order = torch.empty_like(lists.sizes)
    order[torch.cat([index, rows])] = torch.arange(len(order), device=machine.device)
    return None if both is None else both.take(order)


@batched("valmax")
def valmax(machine: Any, container: Column, compfunc: Any) -> Computed | None:
    return _extreme_key(machine, container, compfunc, True)


@batched("valmin")
def valmin(machine: Any, container: Column, compfunc: Any) -> Computed | None:
    return _extreme_key(machine, container, compfunc, False)


@batched("order")
def order(machine: Any, container: Column, compfunc: Any) -> Computed | None:
    if isinstance(container, Ints):
        return wrong(machine, container.rows)
    lists = as_list(container)
    if lists is None or (by := _keys(machine, compfunc, lists)) is None:
        return None
    keys, result = by
    index = sorted_rows(keys, lists.owner())
    return result.computed(Lists(lists.elements.take(index), lists.offsets, False))
