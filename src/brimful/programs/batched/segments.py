"""Rows of a flat tensor: sums, extremes and sets of sorted keys per row, on any device.

On a CPU the compiled loops of `loops.py` do what torch does slowly there.
"""

from __future__ import annotations

import torch
from torch import Tensor

from . import loops
from .columns import Ints, Lists, Pairs, Patches, offsets_of, owners
from .compiled import call, usable

FAR = 1 << 62


def totals(values: Tensor, offsets: Tensor) -> Tensor:
    """The sum of every row."""
    sums = torch.cat([values.new_zeros(1), values.cumsum(0)])
    return sums[offsets[1:]] - sums[offsets[:-1]]


def minima(values: Tensor, offsets: Tensor, empty: int = FAR) -> Tensor:
    """The smallest number of every row; `empty` for a row without any."""
    start = torch.full((len(offsets) - 1,), empty, dtype=values.dtype, device=values.device)
    return start.scatter_reduce(0, owners(offsets), values, "amin", include_self=False)


def maxima(values: Tensor, offsets: Tensor, empty: int = -FAR) -> Tensor:
    """The greatest number of every row; `empty` for a row without any."""
    start = torch.full((len(offsets) - 1,), empty, dtype=values.dtype, device=values.device)
    return start.scatter_reduce(0, owners(offsets), values, "amax", include_self=False)


def any_of(flags: Tensor, offsets: Tensor) -> Tensor:
    """Whether a flag is set in a row."""
    return totals(flags.to(torch.int64), offsets) > 0


def filtered(flat: Tensor, offsets: Tensor, keep: Tensor) -> tuple[Tensor, Tensor]:
    """The numbers that a flag keeps, and where rows then begin."""
    return flat[keep], offsets_of(totals(keep.to(torch.int64), offsets))


def sort_unique(keys: Tensor, offsets: Tensor) -> tuple[Tensor, Tensor]:
    """The keys of every row in ascending order, each once."""
    if usable(keys):
        return call(loops.sort_unique, keys, offsets)
    return sort_unique_plain(keys, offsets)


def sort_unique_plain(keys: Tensor, offsets: Tensor) -> tuple[Tensor, Tensor]:
    """The twin of `loops.sort_unique`."""
    rows = owners(offsets)
    by_key = keys.argsort(stable=True)
    order = by_key[rows[by_key].argsort(stable=True)]
    keys, rows = keys[order], rows[order]
    first = torch.ones_like(keys, dtype=torch.bool)
    first[1:] = (keys[1:] != keys[:-1]) | (rows[1:] != rows[:-1])
    return filtered(keys, offsets, first)


def member(keys: Tensor, offsets: Tensor, others: Tensor, other_offsets: Tensor) -> Tensor:
    """Whether every key is among those of another set of the same row."""
    if usable(keys):
        return call(loops.member, keys, offsets, others, other_offsets)
    return member_plain(keys, offsets, others, other_offsets)


def member_plain(keys: Tensor, offsets: Tensor, others: Tensor, other_offsets: Tensor) -> Tensor:
    """The twin of `loops.member`: keys that are there twice once both sets are sorted together."""
    rows = torch.cat([owners(offsets), owners(other_offsets)])
    both = torch.cat([keys, others])
    by_key = both.argsort(stable=True)
    order = by_key[rows[by_key].argsort(stable=True)]
    both, rows = both[order], rows[order]
    again = torch.zeros(len(both), dtype=torch.bool, device=keys.device)
    again[:-1] = (both[1:] == both[:-1]) & (rows[1:] == rows[:-1])
    inside = torch.zeros_like(again)
    inside[order] = again
    return inside[: len(keys)]


def canonical(lists: Lists) -> Lists | None:
    """A list of anything as sets: in canonical order, each element once; None where its elements have no such form."""
    elements = lists.elements
    if isinstance(elements, Ints):
        values, offsets = sort_unique(elements.values, lists.offsets)
        return Lists(Ints(values, elements.boolean), offsets, True)
    if isinstance(elements, Pairs):
        return None  # a set of pairs is a patch
    if isinstance(elements, Patches):
        chosen, offsets = order_sets(elements.keys, elements.offsets, lists.offsets)
        return Lists(elements.take(chosen), offsets, True)
    return None


def order_sets(keys: Tensor, offsets: Tensor, list_offsets: Tensor) -> tuple[Tensor, Tensor]:
    """The canonical order of the sets of every list, without duplicates: which they are, and where lists begin."""
    if usable(keys):
        return call(loops.order_sets, keys, offsets, list_offsets)
    return order_sets_plain(keys, offsets, list_offsets)


def order_sets_plain(keys: Tensor, offsets: Tensor, list_offsets: Tensor) -> tuple[Tensor, Tensor]:
    """The twin of `loops.order_sets`: sets that agree so far are told apart by their next keys, until none does."""
    lists, sizes = owners(list_offsets), offsets.diff()
    rank = _dense(lists, -sizes)
    longest = int(sizes.max()) if len(sizes) else 0
    for position in range(longest):
        _, counts = rank.unique(return_counts=True)
        if int(counts.max()) == 1:
            break
        inside = sizes > position
        safe = torch.where(inside, offsets[:-1] + position, 0)
        key = torch.where(inside, keys[safe], -FAR)
        rank = _dense(rank, key)
    order = rank.argsort(stable=True)
    first = torch.ones(len(order), dtype=torch.bool, device=keys.device)
    first[1:] = rank[order][1:] != rank[order][:-1]
    chosen = order[first]
    counts = torch.zeros(len(list_offsets) - 1, dtype=torch.int64, device=keys.device)
    return chosen, offsets_of(counts.index_add(0, lists[chosen], torch.ones_like(chosen)))


def _dense(major: Tensor, minor: Tensor) -> Tensor:
    """The rank of pairs of numbers, without gaps."""
    by_minor = minor.argsort(stable=True)
    order = by_minor[major[by_minor].argsort(stable=True)]
    new = torch.zeros(len(order), dtype=torch.int64, device=major.device)
    new[1:] = ((major[order][1:] != major[order][:-1]) | (minor[order][1:] != minor[order][:-1])).to(torch.int64)
    rank = torch.empty_like(new)
    rank[order] = new.cumsum(0)
    return rank
