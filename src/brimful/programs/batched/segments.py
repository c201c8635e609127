"""Rows of a flat tensor: sums, extremes and sets of sorted keys per row, on any device.

On a CPU the compiled loops of `loops/sets.py` do what torch does slowly there.
"""

from __future__ import annotations

from functools import reduce
from typing import Any

import torch
from torch import Tensor

from .columns import (
    NAN,
    NAN_COLOR,
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
    key_of,
)
from .compiled import call, usable
from .gpu import has_kernels
from .loops import sets as loops
from .rows import indices_of, offsets_of, owners, picked, select

FAR = 1 << 62


def _kernels() -> Any:
    """Those for a GPU."""
    from .gpu import segments

    return segments


def _set_kernels() -> Any:
    from .gpu import sets

    return sets


def totals(values: Tensor, offsets: Tensor) -> Tensor:
    """The sum of every row."""
    return _kernels().totals(values, offsets) if has_kernels(values) else totals_plain(values, offsets)


def totals_plain(values: Tensor, offsets: Tensor) -> Tensor:
    return picked(offsets_of(values), offsets).diff()


def minima(values: Tensor, offsets: Tensor, empty: int = FAR) -> Tensor:
    """The smallest number of every row; `empty` for a row without any."""
    if has_kernels(values):
        return _kernels().minima(values, offsets, empty)
    return minima_plain(values, offsets, empty)


def minima_plain(values: Tensor, offsets: Tensor, empty: int) -> Tensor:
    start = torch.full((len(offsets) - 1,), empty, dtype=values.dtype, device=values.device)
    return start.scatter_reduce(0, owners(offsets, len(values)), values, "amin", include_self=False)


def maxima(values: Tensor, offsets: Tensor, empty: int = -FAR) -> Tensor:
    """The greatest number of every row; `empty` for a row without any."""
    if has_kernels(values):
        return _kernels().maxima(values, offsets, empty)
    return maxima_plain(values, offsets, empty)


def maxima_plain(values: Tensor, offsets: Tensor, empty: int) -> Tensor:
    start = torch.full((len(offsets) - 1,), empty, dtype=values.dtype, device=values.device)
    return start.scatter_reduce(0, owners(offsets, len(values)), values, "amax", include_self=False)


def any_of(flags: Tensor, offsets: Tensor) -> Tensor:
    """Whether a flag is set in a row."""
    return totals(flags.to(torch.int64), offsets) > 0


def together(*flags: Tensor | None) -> Tensor | None:
    """Rows that one of some flags names."""
    given = [flag for flag in flags if flag is not None]
    return reduce(torch.bitwise_or, given) if given else None


def flagged(*flags: Tensor | None) -> Tensor | None:
    """Rows that one of some flags names; None where none does. A GPU is not asked: the machine asks once for all flags
    of an operation."""
    rows = together(*flags)
    return rows if rows is None or rows.device.type != "cpu" or bool(rows.any()) else None


def beyond(limit: int, *numbers: Tensor) -> Tensor:
    """Rows in which one of some numbers, at most four, is as large as a limit, or as far below zero."""
    if len(numbers) > 1 and has_kernels(numbers[0]):
        return _kernels().beyond(limit, *numbers)
    return beyond_plain(limit, *numbers)


def beyond_plain(limit: int, *numbers: Tensor) -> Tensor:
    return reduce(torch.bitwise_or, [number.abs() >= limit for number in numbers])


def filtered(flat: Tensor, offsets: Tensor, keep: Tensor) -> tuple[Tensor, Tensor]:
    """The numbers that a flag keeps, and where rows then begin."""
    if has_kernels(flat):
        return _set_kernels().filtered(flat, offsets, keep)
    return filtered_plain(flat, offsets, keep)


def filtered_plain(flat: Tensor, offsets: Tensor, keep: Tensor) -> tuple[Tensor, Tensor]:
    return picked(flat, indices_of(keep)), offsets_of(totals(keep.to(torch.int64), offsets))


def filtered_index(offsets: Tensor, keep: Tensor) -> tuple[Tensor, Tensor]:
    """Which numbers a flag keeps, and where rows then begin."""
    if has_kernels(keep):
        return _set_kernels().filtered(None, offsets, keep)
    return indices_of(keep), offsets_of(totals(keep.to(torch.int64), offsets))


def sort_unique(keys: Tensor, offsets: Tensor) -> tuple[Tensor, Tensor]:
    """The keys of every row in ascending order, each once."""
    if usable(keys):
        return call(loops.sort_unique, keys, offsets)
    found = _set_kernels().sort_unique(keys, offsets) if has_kernels(keys) else None
    return found if found is not None else sort_unique_plain(keys, offsets)


def sort_unique_plain(keys: Tensor, offsets: Tensor) -> tuple[Tensor, Tensor]:
    """The twin of `loops.sort_unique`."""
    chosen, starts = sort_unique_index_plain(keys, offsets)
    return keys[chosen], starts


def member(keys: Tensor, offsets: Tensor, others: Tensor, other_offsets: Tensor) -> Tensor:
    """Whether every key is among those of another set of the same row."""
    if usable(keys):
        return call(loops.member, keys, offsets, others, other_offsets)
    found = _set_kernels().member(keys, offsets, others, other_offsets) if has_kernels(keys) else None
    return found if found is not None else member_plain(keys, offsets, others, other_offsets)


def member_plain(keys: Tensor, offsets: Tensor, others: Tensor, other_offsets: Tensor) -> Tensor:
    """The twin of `loops.member`: keys that are there twice once both sets are sorted together."""
    rows = torch.cat([owners(offsets, len(keys)), owners(other_offsets, len(others))])
    both = torch.cat([keys, others])
    order = sorted_rows(both, rows)
    both, rows = both[order], rows[order]
    again = torch.zeros(len(both), dtype=torch.bool, device=keys.device)
    again[:-1] = (both[1:] == both[:-1]) & (rows[1:] == rows[:-1])
    inside = torch.zeros_like(again)
    inside[order] = again
    return inside[: len(keys)]


def sort_unique_index(keys: Tensor, offsets: Tensor) -> tuple[Tensor, Tensor]:
    """Which keys of every row are its keys in ascending order, each once (the first of equal ones); and where rows then
    begin."""
    if usable(keys):
        return call(loops.sort_unique_index, keys, offsets)
    found = _set_kernels().sort_unique(keys, offsets, True) if has_kernels(keys) else None
    return found if found is not None else sort_unique_index_plain(keys, offsets)


def sort_unique_index_plain(keys: Tensor, offsets: Tensor) -> tuple[Tensor, Tensor]:
    """The twin of `loops.sort_unique_index`."""
    rows = owners(offsets, len(keys))
    order = sorted_rows(keys, rows)
    keys, rows = keys[order], rows[order]
    first = torch.ones_like(keys, dtype=torch.bool)
    first[1:] = (keys[1:] != keys[:-1]) | (rows[1:] != rows[:-1])
    return filtered(order, offsets, first)


def sorted_rows(keys: Tensor, rows: Tensor) -> Tensor:
    """The stable order of numbers by row, then by key."""
    by_key = keys.argsort(stable=True)
    return picked(by_key, picked(rows, by_key).argsort(stable=True))


def rows_of(grids: Grids) -> Lists:
    """Grids as what they are in Python: tuples of tuples of numbers."""
    height = grids.height
    lengths = torch.repeat_interleave(grids.width, height)
    return Lists(Lists(Ints(as_numbers(grids.cells)), offsets_of(lengths), False), offsets_of(height), False)


def as_numbers(colors: Tensor) -> Tensor:
    """Colors as whole numbers, which have another one that stands for NaN."""
    return select(colors == NAN_COLOR, NAN, colors.to(torch.int64))


def as_colors(numbers: Tensor) -> Tensor:
    """Whole numbers as colors."""
    return select(numbers == NAN, NAN_COLOR, numbers)


def sort_keys(column: Column, offsets: Tensor) -> Tensor | None:
    """A number per row: those of one list are in canonical order, and equal where the rows are; None where there are no
    such numbers.

    Args:
        column: the rows.
        offsets: (L + 1,) of lists of them.
    """
    match column:
        case Ints(values=values):
            return values
        case Pairs(first=first, second=second):
            return key_of(first, second)
        case Cells(keys=keys) | Triples(keys=keys):
            return keys
        case Patches():
            return ranks(column.keys, column.offsets, offsets, True)
        case Grids():
            return sort_keys(rows_of(column), offsets)
        case Lists():
            keys = sort_keys(column.elements, column.offsets[offsets])
            return None if keys is None else ranks(keys, column.offsets, offsets, column.unordered)
        case Tuples(places=places):
            columns = [sort_keys(place, offsets) for place in places]
            if any(of is None for of in columns):
                return None
            starts = len(places) * torch.arange(column.rows + 1, device=offsets.device)
            keys = torch.stack(columns, 1).reshape(-1)  # pyright: ignore[reportArgumentType]
            return ranks(keys, starts, offsets, False)
    return None


def canonical(lists: Lists) -> Column | None:
    """A list of anything as sets: in canonical order, each element once; None where its elements have no such form."""
    match lists.elements:
        case Ints(values=values, boolean=boolean):
            values, offsets = sort_unique(values, lists.offsets)
            return Lists(Ints(values, boolean), offsets, True)
        case Pairs(first=first, second=second):
            return Patches(*sort_unique(key_of(first, second), lists.offsets), PatchKind.INDICES)
        case Cells(keys=keys):
            return Patches(*sort_unique(keys, lists.offsets), PatchKind.OBJECT)
        case Triples(keys=keys):
            keys, offsets = sort_unique(keys, lists.offsets)
            return Lists(Triples(keys), offsets, True)
    keys = sort_keys(lists.elements, lists.offsets)
    if keys is None:
        return None
    chosen, offsets = sort_unique_index(keys, lists.offsets)
    return Lists(lists.elements.take(chosen), offsets, True)


def ranks(keys: Tensor, offsets: Tensor, list_offsets: Tensor, larger_first: bool) -> Tensor:
    """The place of every sequence of keys among the distinct ones of its list.

    Args:
        keys: of all sequences.
        offsets: (S + 1,) of the sequences.
        list_offsets: (L + 1,) of lists of sequences.
        larger_first: longer sequences come first, as sets do; otherwise they are compared as tuples are.
    """
    if usable(keys):
        return call(loops.ranks, keys, offsets, list_offsets, larger_first)
    found = _set_kernels().ranks(keys, offsets, list_offsets, larger_first) if has_kernels(keys) else None
    return found if found is not None else ranks_plain(keys, offsets, list_offsets, larger_first)


def ranks_plain(keys: Tensor, offsets: Tensor, list_offsets: Tensor, larger_first: bool) -> Tensor:
    """The twin of `loops.ranks`: sequences that agree so far are ranked by the first keys in which some of them differ,
    until none does."""
    lists, sizes = owners(list_offsets, len(offsets) - 1), offsets.diff()
    rank = _dense(lists, -sizes if larger_first else torch.zeros_like(sizes))
    open_ = torch.arange(len(lists), device=keys.device)
    while len(open_):
        group, size = rank[open_], sizes[open_]
        first = torch.full_like(rank, len(rank)).scatter_reduce(0, group, open_, "amin")[group]
        shorter = torch.minimum(size, sizes[first])
        within, starts = _ascending(shorter)
        differs = keys[torch.repeat_interleave(offsets[open_], shorter) + within]
        differs = differs != keys[torch.repeat_interleave(offsets[first], shorter) + within]
        unlike = minima(select(differs, within, FAR), starts)
        unlike = torch.where((unlike == FAR) & (size != sizes[first]), shorter, unlike)
        at = torch.full_like(rank, FAR).scatter_reduce(0, group, unlike, "amin")[group]
        differing = indices_of(at != FAR)
        open_, at = open_[differing], at[differing]
        exists = at < sizes[open_]
        key = torch.zeros_like(rank)
        key[open_] = torch.where(exists, keys[select(exists, offsets[open_] + at, 0)], torch.iinfo(keys.dtype).min)
        rank = _dense(rank, key)
    return rank - minima(rank, list_offsets, 0)[lists]


def _ascending(sizes: Tensor) -> tuple[Tensor, Tensor]:
    """0, 1, 2, ... for every row of some sizes, and where rows begin."""
    starts = offsets_of(sizes)
    return torch.arange(int(starts[-1]), device=sizes.device) - torch.repeat_interleave(starts[:-1], sizes), starts


def _dense(major: Tensor, minor: Tensor) -> Tensor:
    """The rank of pairs of numbers, without gaps."""
    order = sorted_rows(minor, major)
    new = torch.zeros(len(order), dtype=torch.int64, device=major.device)
    new[1:] = ((major[order][1:] != major[order][:-1]) | (minor[order][1:] != minor[order][:-1])).to(torch.int64)
    rank = torch.empty_like(new)
    rank[order] = new.cumsum(0)
    return rank
