"""Columns as lists of elements, and lists of elements as columns."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

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
    PatchKind,
    Triples,
    Tuples,
    location_of,
)
from ..convert import blank_of, build, form_of_column, joined
from ..kernels import Computed
from ..segments import as_colors, as_numbers, canonical, filtered, filtered_index, maxima, minima, rows_of


def as_list(column: Column) -> Lists | None:
    """A column as lists of elements: patches of locations or cells, grids of rows, pairs of numbers; None where it has
    no elements, or elements of several forms."""
    match column:
        case Lists():
            return column
        case Patches(kind=PatchKind.INDICES):
            return Lists(Pairs(*location_of(column.keys)), column.offsets, True)
        case Patches():
            return Lists(Cells(column.keys), column.offsets, True)
        case Grids():
            return rows_of(column)
        case Pairs(first=first, second=second):
            offsets = 2 * torch.arange(column.rows + 1, device=first.device)
            return Lists(Ints(torch.stack([first, second], 1).reshape(-1)), offsets, False)
        case Triples(numbers=numbers):
            offsets = 3 * torch.arange(column.rows + 1, device=column.device)
            first, second, color = numbers
            flat = torch.stack([first, second, as_numbers(color)], 1).reshape(-1)
            return Lists(Ints(flat), offsets, False)
    return None


def as_container(lists: Lists) -> Column | None:
    """Lists of elements in the container that they are in: sets get their order, rows of one width are grids."""
    return canonical(lists) if lists.unordered else as_grids(lists)


def as_grids(lists: Lists) -> Column:
    """Tuples of tuples of numbers as grids, where all of them are."""
    rows = lists.elements
    if lists.unordered or not isinstance(rows, Lists) or rows.unordered:
        return lists
    cells = rows.elements
    if not isinstance(cells, Ints) or cells.boolean:
        return lists
    narrow, width = minima(rows.sizes, lists.offsets, 0), maxima(rows.sizes, lists.offsets, 0)
    fits, numbers = (narrow == width).all(), as_colors(cells.values)
    if len(numbers):
        small = (cells.values < COORDINATE_LIMIT) | (cells.values == NAN)
        fits &= (numbers.min() >= -COORDINATE_LIMIT) & small.all()
    if not bool(fits):
        return lists
    return Grids(numbers, rows.offsets[lists.offsets], lists.sizes, width)


def selected(column: Column, lists: Lists, keep: Tensor) -> Column:
    """The elements that a flag keeps, in the container that they come from."""
    if isinstance(column, Patches):
        return Patches(*filtered(column.keys, column.offsets, keep), column.kind)
    places, offsets = filtered_index(lists.offsets, keep)
    kept = Lists(lists.elements.take(places), offsets, lists.unordered)
    return as_grids(kept) if isinstance(column, Grids) else kept


def taken(lists: Lists, index: Tensor, failed: Tensor | None) -> Computed | None:
    """One element of every row, by its index; rows without one have failed."""
    if not lists.elements.rows and lists.rows:
        if failed is None or not bool((failed != 0).all()):
            return None
        return Computed(Ints(torch.zeros_like(index)), failed)
    return Computed(lists.elements.take(index.clamp(max=lists.elements.rows - 1)), failed)


def comparable(column: Column) -> bool:
    """Whether Python compares values as the canonical order does: sets it compares by inclusion."""
    match column:
        case Ints() | Pairs() | Cells() | Triples() | Grids():
            return True
        case Lists(unordered=False):
            return comparable(column.elements)
        case Tuples(places=places):
            return all(map(comparable, places))
    return False


def concatenated(parts: Sequence[Computed | None], rows: Sequence[int], device: torch.device) -> Computed | None:
    """The rows of several parts, one after the other. Parts of another form than most, or of none, run sequentially.

    Args:
        parts: what a kernel returned for them.
        rows: of every part.
    """
    weights = dict[str, int]()
    for part, count in zip(parts, rows, strict=True):
        if part is not None:
            good = count if part.failed is None else int((part.failed == 0).sum())
            form = form_of_column(part.column)
            weights[form] = weights.get(form, 0) + good
    if not weights:
        return None
    form = max(weights, key=weights.__getitem__)
    columns, failed, sequential = list[Column](), list[Tensor](), list[Tensor]()
    reserved = list[Tensor]()
    for part, count in zip(parts, rows, strict=True):
        nothing = torch.zeros(count, dtype=torch.int8, device=device)
        reserved.append(nothing.to(torch.int64) if part is None or part.reserved is None else part.reserved)
        own = nothing if part is None or part.failed is None else part.failed
        flags = nothing != 0 if part is None or part.sequential is None else part.sequential
        if part is None or form_of_column(part.column) != form:
            if form == "value":
                return None
            columns.append(build([blank_of(form)] * count, form, device))
            flags = own == 0
        else:
            columns.append(part.column)
        failed.append(own)
        sequential.append(flags)
    return Computed(joined(*columns), torch.cat(failed), torch.cat(sequential), torch.cat(reserved))
