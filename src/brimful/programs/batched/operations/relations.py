"""How two patches, or a patch and its grid, lie to each other."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from .. import loops_distance
from ..columns import Column, Grids, Ints, Pairs, Patches, column_of, row_of
from ..compiled import call, usable
from ..kernels import Computed, batched
from ..rows import owners
from ..segments import any_of, member, sort_unique
from .grids import flagged, odd
from .patches import _flag, centers, extent, locations, shifted

_STEPS = 42
_MOST_PAIRS = 1_000_000  # of locations of one row, above which the sequential form is quicker


def distances(a: Patches, b: Patches) -> Tensor:
    """The smallest Manhattan distance of two patches; -1 where one is empty."""
    parts = (row_of(a.keys), column_of(a.keys), a.offsets, row_of(b.keys), column_of(b.keys), b.offsets)
    if usable(a.keys):
        return call(loops_distance.distances, *parts)
    return distances_plain(*parts)


def distances_plain(
    rows_a: Tensor, columns_a: Tensor, offsets_a: Tensor, rows_b: Tensor, columns_b: Tensor, offsets_b: Tensor
) -> Tensor:
    """The twin of `loops_distance.distances`: all pairs of locations of every row."""
    row = owners(offsets_a)
    counts = offsets_b.diff()[row]
    source = torch.repeat_interleave(torch.arange(len(row), device=row.device), counts)
    within = torch.arange(len(source), device=row.device) - (counts.cumsum(0) - counts)[source]
    other = offsets_b[row[source]] + within
    apart = (rows_a[source] - rows_b[other]).abs() + (columns_a[source] - columns_b[other]).abs()
    start = torch.full((len(offsets_a) - 1,), -1, dtype=torch.int64, device=row.device)
    return start.scatter_reduce(0, row[source], apart, "amin", include_self=False)


def _both(a: Column, b: Column) -> tuple[Patches, Patches] | None:
    return (locations(a), locations(b)) if isinstance(a, Patches) and isinstance(b, Patches) else None


def _unfit(a: Patches, b: Patches) -> Tensor:
    return (a.sizes == 0) | (b.sizes == 0) | (a.sizes * b.sizes > _MOST_PAIRS)


@batched("manhattan")
def manhattan(machine: Any, a: Column, b: Column) -> Computed | None:
    if (both := _both(a, b)) is None:
        return None
    return Computed(Ints(distances(*both)), None, flagged(_unfit(*both)))


@batched("adjacent")
def adjacent(machine: Any, a: Column, b: Column) -> Computed | None:
    if (both := _both(a, b)) is None:
        return None
    return _flag(distances(*both) == 1, flagged(_unfit(*both)))


def _shared(a: Patches, b: Patches, upright: bool) -> Tensor:
    """Whether some column, or some row, has locations of both."""
    of = column_of if upright else row_of
    first, second = (sort_unique(of(patch.keys), patch.offsets) for patch in (a, b))
    return any_of(member(*first, *second), first[1])


@batched("hmatching")
def hmatching(machine: Any, a: Column, b: Column) -> Computed | None:
    return None if (both := _both(a, b)) is None else _flag(_shared(*both, upright=False))


@batched("vmatching")
def vmatching(machine: Any, a: Column, b: Column) -> Computed | None:
    return None if (both := _both(a, b)) is None else _flag(_shared(*both, upright=True))


@batched("bordering")
def bordering(machine: Any, patch: Column, grid: Column) -> Computed | None:
    if not (isinstance(patch, Patches) and isinstance(grid, Grids)):
        return None
    reach = extent(patch)
    on = (reach.top == 0) | (reach.left == 0)
    on |= (reach.bottom == grid.height - 1) | (reach.right == grid.width - 1)
    return _flag(on, flagged(reach.empty | odd(grid)))


@batched("position")
def position(machine: Any, a: Column, b: Column) -> Computed | None:
    if (both := _both(a, b)) is None:
        return None
    ia, ja, empty_a = centers(both[0])
    ib, jb, empty_b = centers(both[1])
    down, across = torch.where(ia < ib, 1, -1), torch.where(ja < jb, 1, -1)
    i = torch.where(ia == ib, 0, down)
    j = torch.where((ja == jb) & (ia != ib), 0, across)
    return Computed(Pairs(i, j), None, flagged(empty_a | empty_b))


@batched("gravitate")
def gravitate(machine: Any, source: Column, destination: Column) -> Computed | None:
    if (both := _both(source, destination)) is None:
        return None
    moving, fixed = both
    si, sj, _ = centers(moving)
    di, dj, _ = centers(fixed)
    upright = _shared(moving, fixed, upright=True)
    i = torch.where(upright, torch.where(si < di, 1, -1), 0)
    j = torch.where(upright, 0, torch.where(sj < dj, 1, -1))
    unfit = _unfit(moving, fixed)
    steps = torch.zeros_like(i)
    waiting = (distances(moving, fixed) != 1) & ~unfit
    for _ in range(_STEPS):
        index = waiting.nonzero()[:, 0]
        if not len(index):
            break
        steps[index] += 1
        moved = shifted(moving.take(index), (steps * i)[index], (steps * j)[index])[0]
        waiting[index] = distances(moved, fixed.take(index)) != 1
    return Computed(Pairs(steps * i, steps * j), None, flagged(unfit))
