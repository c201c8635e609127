"""Operations that map functions over lists: the function runs once, over all elements of all rows.

An operation fails for a row as its function does for the first element that fails. Elements are in canonical order, so
that this is the element at which the sequential executor fails. What the calls for a row reserve adds up, and a row
that reserves more than the bound fails at the element that goes over it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ...execution.failures import Category
from ...vocabulary.bound import ELEMENTS
from ..columns import Column, Grids, Ints, Lists, Patches, PatchKind, Values
from ..convert import form_of_column, joined, truth
from ..flags import Step, first_failure
from ..functions import FunctionValue, members
from ..kernels import Computed, batched
from ..nan import nan_rows
from ..rows import offsets_of, owners, picked, select
from ..segments import any_of, canonical, flagged, minima, together, totals
from .elements import as_container, as_grids, as_list, selected
from .grids import as_failures, failures


@dataclass(frozen=True, slots=True, eq=False)
class Mapped:
    """A function of all elements of all rows.

    Attributes:
        step: its values.
        failed: by row how it fails; None where it does not.
        sequential: rows that have to run sequentially; None where there are none.
        reserved: by row the elements that it reserves, up to where it fails.
        used: those that its operations reserve, by element; None where they reserve none.
    """

    step: Step
    failed: Tensor | None
    sequential: Tensor | None
    reserved: Tensor
    used: Tensor | None

    def computed(self, column: Column | None) -> Computed | None:
        """The same with the column of the rows."""
        return None if column is None else Computed(column, self.failed, self.sequential, self.reserved)


def wrong(machine: Any, rows: int, category: Category = Category.TYPE) -> Computed:
    """An operation that fails for all rows."""
    failed = torch.full((rows,), int(category), dtype=torch.int8, device=machine.device)
    return Computed(Ints(torch.zeros(rows, dtype=torch.int64, device=machine.device)), failed)


def mapped(
    machine: Any,
    function: Any,
    offsets: Tensor,
    *columns: Column,
    generator: bool = True,
    counted: bool = True,
    before: Tensor | int = 0,
    compared: bool = True,
) -> Mapped | None:
    """A function of the elements of all rows; None where it is not known before anything is computed.

    Args:
        machine: runs it.
        function: a function value. What is no function fails for every element.
        offsets: (R + 1,) of the elements.
        columns: one per argument of the function.
        generator: whether a StopIteration of the function becomes another error, as inside of a generator.
        counted: whether the calls are reserved before they are made.
        before: what rows have reserved already.
        compared: whether its values are compared with each other, which is left to Python where one of them is NaN.
    """
    elements, sizes = columns[0].rows, offsets.diff()
    used: Tensor | None = None
    calls: int | Tensor = 1
    if isinstance(function, FunctionValue):
        step, used = machine.metered(function.spread(offsets, elements), [Step(column) for column in columns])
        if isinstance(step, FunctionValue):
            return None
        calls = function.calls
    elif isinstance(function, Values):
        return None
    else:
        nothing = wrong(machine, elements)
        step = Step(nothing.column, nothing.failed)
    once = isinstance(calls, int) and calls == 1
    reserved = (sizes if once else sizes * calls) if counted else torch.zeros_like(sizes)
    reserved = reserved if isinstance(before, int) and before == 0 else reserved + before
    failed = None if step.failed is None else first_of_row(step.failed, offsets)
    if generator and failed is not None:
        failed = select(failed == Category.STOP_ITERATION, int(Category.OTHER), failed).to(torch.int8)
    if used is not None and step.failed is None:
        reserved = reserved + totals(used, offsets)
    elif used is not None:
        reserved = reserved + totals_until(first_where(step.failed != 0, offsets), used, offsets)
    if isinstance(calls, Tensor) or isinstance(before, Tensor) or used is not None or elements * calls > ELEMENTS:
        failed = or_beyond(failed, reserved)
    sequential = None
    if step.boxed:
        sequential = torch.zeros(len(sizes), dtype=torch.bool, device=offsets.device)
        sequential[owners(offsets, elements)[torch.tensor(sorted(step.boxed), device=offsets.device)]] = True
    nan = nan_rows(step.column) if compared and machine.nan else None
    if nan is not None:
        sequential = together(sequential, any_of(nan, offsets))
    return Mapped(step, failed, sequential, reserved, used)


def or_beyond(failed: Tensor | None, reserved: Tensor) -> Tensor | None:
    """How rows fail, where some of them reserve too much."""
    over = flagged(reserved > ELEMENTS)
    if over is None:
        return failed
    return as_failures(over, Category.SIZE) if failed is None else failed.masked_fill(over, int(Category.SIZE))


def first_where(flags: Tensor, offsets: Tensor) -> Tensor:
    """The first element of every row that has a flag; one beyond all elements where none has."""
    position = torch.arange(len(flags), device=flags.device)
    return minima(torch.where(flags, position, len(flags)), offsets, len(flags))


def totals_until(last: Tensor, values: Tensor, offsets: Tensor) -> Tensor:
    """The sum of every row up to one of its elements, and with it; of the whole row where that is beyond all."""
    sums = torch.cat([values.new_zeros(1), values.cumsum(0)])
    return sums[torch.where(last < len(values), last + 1, offsets[1:])] - sums[offsets[:-1]]


def first_of_row(failed: Tensor, offsets: Tensor) -> Tensor | None:
    """The first failure of the elements of every row; 0 where none failed."""
    if not bool((failed != 0).any()):
        return None
    return torch.cat([failed, failed.new_zeros(1)])[first_where(failed != 0, offsets)]


@batched("apply")
def apply(machine: Any, function: Any, container: Column) -> Computed | None:
    if isinstance(container, Ints):
        return wrong(machine, container.rows)
    lists = as_list(container)
    if lists is None or (result := mapped(machine, function, lists.offsets, lists.elements, compared=False)) is None:
        return None
    return result.computed(as_container(Lists(result.step.column, lists.offsets, lists.unordered)))


def merged(machine: Any, lists: Lists) -> Computed | None:
    """The elements of the elements of every row, in a container of the outer kind."""
    rows, elements = lists.rows, lists.elements
    inner = as_list(elements)
    if inner is None and (isinstance(elements, Ints) or not elements.rows):  # numbers have no elements
        failed = (lists.sizes > 0).to(torch.int8) * int(Category.TYPE)
        return Computed(nothing(rows, lists.unordered, machine.device), failed)
    if inner is None:
        return None
    offsets = picked(inner.offsets, lists.offsets)
    reserved = offsets.diff()
    failed = failures((reserved > ELEMENTS, Category.SIZE)) if inner.elements.rows > ELEMENTS else None
    column = as_container(Lists(inner.elements, offsets, lists.unordered))
    return None if column is None else Computed(column, failed, None, reserved)


def nothing(rows: int, unordered: bool, device: torch.device) -> Column:
    """Empty sets, or empty tuples."""
    none = torch.zeros(0, dtype=torch.int64, device=device)
    offsets = torch.zeros(rows + 1, dtype=torch.int64, device=device)
    return Patches(none, offsets, PatchKind.INDICES) if unordered else Grids(none, offsets, offsets[1:], offsets[1:])


@batched("merge")
def merge(machine: Any, containers: Column) -> Computed | None:
    if isinstance(containers, Ints):
        return wrong(machine, containers.rows)
    lists = as_list(containers)
    return None if lists is None else merged(machine, lists)


def _merged_after(machine: Any, before: Mapped | Computed, lists: Lists) -> Computed | None:
    """The lists that something gave for every row, each in one container."""
    united = merged(machine, lists)
    if united is None:
        return None
    own, reserved = united.failed, before.reserved
    if reserved is not None and united.reserved is not None:
        more = united.reserved if before.failed is None else united.reserved.masked_fill(before.failed != 0, 0)
        reserved = reserved + more
        own = or_beyond(own, reserved)
    if before.failed is not None:
        own = before.failed if own is None else torch.where(before.failed != 0, before.failed, own)
    return Computed(united.column, own, before.sequential, reserved)


@batched("mapply")
def mapply(machine: Any, function: Any, container: Column) -> Computed | None:
    if isinstance(container, Ints):
        return wrong(machine, container.rows)
    lists = as_list(container)
    if lists is None or (result := mapped(machine, function, lists.offsets, lists.elements, compared=False)) is None:
        return None
    return _merged_after(machine, result, Lists(result.step.column, lists.offsets, lists.unordered))


@batched("sfilter")
def sfilter(machine: Any, container: Column, condition: Any) -> Computed | None:
    if isinstance(container, Ints):
        return wrong(machine, container.rows)
    lists = as_list(container)
    if lists is None or (result := mapped(machine, condition, lists.offsets, lists.elements, compared=False)) is None:
        return None
    keep = truth(result.step.column)
    return None if keep is None else result.computed(selected(container, lists, keep))


@batched("mfilter")
def mfilter(machine: Any, container: Column, function: Any) -> Computed | None:
    kept = sfilter(machine, container, function)
    if kept is None or isinstance(container, Ints):
        return kept
    lists = as_list(kept.column)
    return None if lists is None else _merged_after(machine, kept, lists)


@batched("rapply")
def rapply(machine: Any, functions: Any, value: Any) -> Computed | None:
    inside = members(functions) if isinstance(functions, FunctionValue) else None
    if inside is None or isinstance(value, FunctionValue):
        return None
    steps, reserved = list[Step](), torch.full((value.rows,), len(inside), device=machine.device)
    for function in inside:
        step, used = machine.metered(function, [Step(value)])
        if isinstance(step, FunctionValue) or step.boxed:
            return None
        steps.append(step)
        reserved = reserved if used is None else reserved + used
    forms = {form_of_column(step.column) for step in steps}
    if len(forms) > 1 or "value" in forms or bool((reserved > ELEMENTS).any()):
        return None
    count, rows = len(steps), value.rows
    index = torch.arange(count * rows, device=machine.device).reshape(count, rows).T.reshape(-1)
    elements = joined(*(step.column for step in steps)).take(index)
    column = canonical(Lists(elements, count * torch.arange(rows + 1, device=machine.device), True))
    failed = first_failure(steps)
    if failed is not None:
        failed = select(failed == Category.STOP_ITERATION, int(Category.OTHER), failed).to(torch.int8)
    return None if column is None else Computed(column, failed, None, reserved)


def _zipped(machine: Any, function: Any, a: Column, b: Column) -> tuple[Mapped, Tensor] | Computed | None:
    """A function of the elements at the same place of two lists, and where rows begin."""
    if isinstance(a, Ints) or isinstance(b, Ints):
        return wrong(machine, (a if isinstance(a, Ints) else b).rows)
    left, right = as_list(a), as_list(b)
    if left is None or right is None:
        return None
    offsets = offsets_of(torch.minimum(left.sizes, right.sizes))
    row = owners(offsets)
    within = torch.arange(len(row), device=row.device) - offsets[row]
    columns = (left.elements.take(left.offsets[row] + within), right.elements.take(right.offsets[row] + within))
    result = mapped(machine, function, offsets, *columns, compared=False)
    return None if result is None else (result, offsets)


@batched("papply")
def papply(machine: Any, function: Any, a: Column, b: Column) -> Computed | None:
    match _zipped(machine, function, a, b):
        case (result, offsets):
            return result.computed(as_grids(Lists(result.step.column, offsets, False)))
        case computed:
            return computed


@batched("mpapply")
def mpapply(machine: Any, function: Any, a: Column, b: Column) -> Computed | None:
    match _zipped(machine, function, a, b):
        case (result, offsets):
            return _merged_after(machine, result, Lists(result.step.column, offsets, False))
        case computed:
            return computed
