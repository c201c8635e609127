"""The periods of objects."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ...execution.failures import Category
from ...vocabulary.bound import ELEMENTS
from ..columns import BITS, Column, Ints, PatchKind, column_of, row_of
from ..compiled import call, usable
from ..extents import extent
from ..kernels import Computed, batched
from ..loops import distances
from ..rows import gathered, indices_of, owners, select
from ..segments import any_of, filtered, member, sorted_rows
from .grids import failures
from .patches import as_set

_PLACES = 62  # of a line that are the bits of a number
_BLOCK = 1 << 22  # numbers that are compared at a time


def periods(keys: Tensor, offsets: Tensor, first: Tensor, long: Tensor, upright: bool) -> Tensor:
    """The smallest shift that maps every set onto itself as far as it reaches; its length where none does.

    Args:
        keys, offsets: of the sets.
        first, long: (R,) where every set begins, and how long it is.
        upright: whether it is shifted by rows, and not by columns.
    """
    place = (row_of if upright else column_of)(keys) - first[owners(offsets, len(keys))]
    given = (keys, offsets, place, long, 1 << BITS if upright else 1)
    return call(distances.periods, *given) if usable(keys) else periods_plain(*given)


def periods_plain(keys: Tensor, offsets: Tensor, place: Tensor, long: Tensor, step: int) -> Tensor:
    """The twin of `distances.periods`: the places of every line of a set are the bits of a number, which is compared
    with itself shifted by every period; long sets are searched period by period."""
    fits = long <= _PLACES
    found = _periods_of_lines(keys, offsets, select(fits[owners(offsets, len(keys))], place, 0), long, step)
    return (
        found if bool(fits.all()) else torch.where(fits, found, _periods_one_by_one(keys, offsets, place, long, step))
    )


def _periods_of_lines(keys: Tensor, offsets: Tensor, place: Tensor, long: Tensor, step: int) -> Tensor:
    """The periods of sets of which none is longer than the bits of a number; of others, anything."""
    longest = min(_PLACES, int(long.max())) if len(long) else 0
    if longest < 2:
        return long
    first, rows = keys - place * step, owners(offsets, len(keys))
    order = sorted_rows(first, rows)
    first, rows = first[order], rows[order]
    line = torch.zeros_like(first)
    line[1:] = ((first[1:] != first[:-1]) | (rows[1:] != rows[:-1])).cumsum(0)
    bits = torch.zeros_like(first).index_add_(0, line, torch.ones_like(first) << place[order])
    row_of_line = torch.zeros_like(first).index_copy_(0, line, rows)
    period = torch.arange(1, longest, device=keys.device)
    differs = torch.zeros(len(long), longest - 1, dtype=torch.bool, device=keys.device)
    for part, of in zip(bits.split(_BLOCK // longest), row_of_line.split(_BLOCK // longest), strict=True):
        at, number = (((part[:, None] >> period) & ~part[:, None]) != 0).nonzero(as_tuple=True)
        differs[of[at], number] = True
    sooner = select(differs | (period >= long[:, None]), 0, longest - period).amax(1)
    return torch.where(sooner > 0, longest - sooner, long)


def _periods_one_by_one(keys: Tensor, offsets: Tensor, place: Tensor, long: Tensor, step: int) -> Tensor:
    """One period after the other for the long sets that have none yet."""
    found, period = long.clone(), 1
    waiting = indices_of(long > _PLACES)
    while len(waiting):
        source, starts = gathered(offsets, waiting)
        moved = filtered(keys[source] - period * step, starts, place[source] >= period)
        missing = ~member(*moved, keys[source], starts)
        fits = ~any_of(missing, moved[1])
        found[waiting[fits]] = period
        period += 1
        waiting = waiting[~fits & (long[waiting] > period)]
    return found


def _period(obj: Column, upright: bool) -> Computed | None:
    """The smallest period of every object; locations have none where there are several to look for."""
    where = as_set(obj)
    if where is None:
        return None
    reach = extent(where)
    long, first = (reach.height, reach.top) if upright else (reach.width, reach.left)
    reserved = where.sizes * long // 8
    too_large = reserved > ELEMENTS
    colorless = (long > 1) & (where.kind is PatchKind.INDICES)
    searched = select(too_large | colorless, 0, long)
    found = periods(where.keys, where.offsets, first, searched, upright)
    failed = failures((too_large, Category.SIZE), (colorless, Category.TYPE))
    return Computed(Ints(found), failed, reserved=reserved)


@batched("hperiod")
def hperiod(machine: Any, obj: Column) -> Computed | None:
    return _period(obj, False)


@batched("vperiod")
def vperiod(machine: Any, obj: Column) -> Computed | None:
    return _period(obj, True)
