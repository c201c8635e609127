"""A function of all pairs of elements of two lists: once over all pairs, in groups of a bounded number of them."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ...execution.failures import Category
from ...vocabulary.bound import ELEMENTS
from ..columns import Column, Ints, Lists
from ..functions import FunctionValue
from ..kernels import Computed, batched, meaning
from ..rows import groups, indices_of, offsets_of, owners, select
from ..segments import canonical
from .all_lines import lines_between
from .elements import as_list, concatenated
from .mapping import Mapped, mapped, nothing, wrong

GROUP = 1 << 16
"""Elements that one call of a function takes at most, where rows allow it: more are split into groups of rows."""

GPU_GROUPS = 1 << 5  # times more on a GPU, which small calls do not fill


def group_size(device: torch.device) -> int:
    return GROUP if device.type == "cpu" else GROUP * GPU_GROUPS


def all_pairs_of(machine: Any, a: Column, b: Column) -> tuple[Lists, Lists] | Computed | None:
    """Two columns as lists, for all pairs of elements: a number as the first fails where the second has any."""
    if isinstance(b, Ints):
        return wrong(machine, b.rows)
    left, right = as_list(a), as_list(b)
    if right is None or (left is None and not isinstance(a, Ints)):
        return None
    if left is None:
        failed = (right.sizes > 0).to(torch.int8) * int(Category.TYPE)
        return Computed(nothing(b.rows, True, machine.device), failed)
    return left, right


@batched("prapply")
def prapply(machine: Any, function: Any, a: Column, b: Column) -> Computed | None:
    both = all_pairs_of(machine, a, b)
    if not isinstance(both, tuple):
        return both
    left, right = both
    if isinstance(function, FunctionValue) and meaning(function.operation) == "connect":
        lines = lines_between(left, right, a is b, ELEMENTS, group_size(machine.device))
        if lines is not None:
            return lines
    counts = left.sizes * right.sizes
    calls = function.calls if isinstance(function, FunctionValue) else 1
    over = counts * calls > ELEMENTS
    counts = select(over, 0, counts)
    parts, rows = list[Computed | None](), list[int]()
    for start, stop in groups(counts, group_size(machine.device)):
        if (start, stop) == (0, len(counts)):
            given = (function, left, right, counts)
        else:
            index = torch.arange(start, stop, device=machine.device)
            given = (function.take(index), left.take(index), right.take(index), counts[index])
        parts.append((_all_pairs if stop > start + 1 else _one_row)(machine, *given))
        rows.append(stop - start)
    computed = concatenated(parts, rows, machine.device) if len(parts) > 1 else parts[0]
    if computed is None or not bool(over.any()):
        return computed
    failed = torch.zeros_like(over, dtype=torch.int8) if computed.failed is None else computed.failed
    failed = select(over, int(Category.SIZE), failed)
    return Computed(computed.column, failed, computed.sequential, computed.reserved)


def _pairs(
    machine: Any, function: Any, left: Lists, right: Lists, row: Tensor, within: Tensor, offsets: Tensor, before: Any
) -> Mapped | None:
    """A function of pairs of elements, by their number in the row: all of the first list, then those of the next."""
    width = left.sizes[row]
    second = torch.div(within, width, rounding_mode="floor")
    first = within - second * width
    columns = (left.elements.take(left.offsets[row] + first), right.elements.take(right.offsets[row] + second))
    return mapped(machine, function, offsets, *columns, counted=False, before=before)


def _all_pairs(machine: Any, function: Any, left: Lists, right: Lists, counts: Tensor) -> Computed | None:
    offsets = offsets_of(counts)
    row = owners(offsets)
    within = torch.arange(len(row), device=row.device) - offsets[row]
    calls = function.calls if isinstance(function, FunctionValue) else 1
    result = _pairs(machine, function, left, right, row, within, offsets, counts * calls)
    if result is None:
        return None
    lists = Lists(result.step.column, offsets, True)
    if result.failed is not None:
        lists = _without(lists, result.failed != 0)
    return result.computed(canonical(lists))


def _without(lists: Lists, rows: Tensor) -> Lists:
    """Lists of which some are emptied."""
    keep = ~rows[lists.owner()]
    return Lists(lists.elements.take(indices_of(keep)), offsets_of(lists.sizes.masked_fill(rows, 0)), lists.unordered)


def _one_row(machine: Any, function: Any, left: Lists, right: Lists, counts: Tensor) -> Computed | None:
    """One row, a bounded number of pairs at a time, until one fails or all together are too many."""
    total, before = int(counts[0]) if len(counts) else 0, counts
    most = group_size(machine.device)
    if total <= most:
        return _all_pairs(machine, function, left, right, counts)
    if isinstance(function, FunctionValue):
        before = counts * function.calls
    parts = list[Computed | None]()
    for start in range(0, total, most):
        within = torch.arange(start, min(start + most, total), device=machine.device)
        offsets = torch.tensor([0, len(within)], device=machine.device)
        result = _pairs(machine, function, left, right, torch.zeros_like(within), within, offsets, before)
        if result is None or result.sequential is not None:
            return None
        if result.failed is not None and bool((result.failed != 0).any()):
            return result.computed(nothing(1, True, machine.device))
        column = canonical(Lists(result.step.column, offsets, True))
        parts.append(result.computed(column))
        before = result.reserved
    whole = concatenated(parts, [1] * len(parts), machine.device)
    if whole is None or (whole.sequential is not None and bool(whole.sequential.any())):
        return None
    lists = as_list(whole.column)
    assert lists is not None
    column = canonical(Lists(lists.elements, lists.offsets[[0, -1]], True))
    return None if column is None else Computed(column, None, None, before)
