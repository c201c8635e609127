"""The periods of objects."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ...execution.failures import Category
from ...vocabulary.bound import ELEMENTS
from ..columns import BITS, Column, Ints, PatchKind, column_of, row_of
from ..compiled import call, usable
from ..kernels import Computed, batched
from ..loops import distances
from ..rows import gathered, owners
from ..segments import any_of, filtered, member
from .grids import failures
from .patches import as_set, extent


def periods(keys: Tensor, offsets: Tensor, first: Tensor, long: Tensor, upright: bool) -> Tensor:
    """The smallest shift that maps every set onto itself as far as it reaches; its length where none does.

    Args:
        keys, offsets: of the sets.
        first, long: (R,) where every set begins, and how long it is.
        upright: whether it is shifted by rows, and not by columns.
    """
    place = (row_of if upright else column_of)(keys) - first[owners(offsets)]
    given = (keys, offsets, place, long, 1 << BITS if upright else 1)
    return call(distances.periods, *given) if usable(keys) else periods_plain(*given)


def periods_plain(keys: Tensor, offsets: Tensor, place: Tensor, long: Tensor, step: int) -> Tensor:
    """The twin of `distances.periods`: one period after the other for the sets that have none yet."""
    found, period = long.clone(), 1
    waiting = (long > 1).nonzero()[:, 0]
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
    searched = torch.where(too_large | colorless, 0, long)
    found = periods(where.keys, where.offsets, first, searched, upright)
    failed = failures((too_large, Category.SIZE), (colorless, Category.TYPE))
    return Computed(Ints(found), failed, reserved=reserved)


@batched("hperiod")
def hperiod(machine: Any, obj: Column) -> Computed | None:
    return _period(obj, False)


@batched("vperiod")
def vperiod(machine: Any, obj: Column) -> Computed | None:
    return _period(obj, True)
