"""How patches lie: to each other, to a grid, along a line."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ...execution.failures import Category
from ..columns import Column, Grids, Ints, Pairs, Patches, column_of, location_of, row_of
from ..compiled import call, usable
from ..extents import extent
from ..kernels import Computed, batched
from ..loops import distances as loops
from ..rows import owners, select
from ..segments import any_of, filtered, flagged, member, sort_unique
from .grids import failures
from .patches import _flag, as_patch, as_set, centers, locations, sides

_STEPS = 42
_MOST_PAIRS = 1 << 22  # of locations of one row, above which the sequential form is quicker


def distances(a: Patches, b: Patches) -> Tensor:
    """The smallest Manhattan distance of two patches; -1 where one is empty, or where there are too many pairs."""
    many = _many(a, b)
    if many is not None:
        a = _without(a, many)
    parts = (*location_of(a.keys), a.offsets, *location_of(b.keys), b.offsets)
    if usable(a.keys):
        return call(loops.distances, *parts)
    return distances_plain(*parts)


def distances_plain(
    rows_a: Tensor, columns_a: Tensor, offsets_a: Tensor, rows_b: Tensor, columns_b: Tensor, offsets_b: Tensor
) -> Tensor:
    """The twin of `loops.distances`: all pairs of locations of every row."""
    row, source, other = _pairs(offsets_a, offsets_b)
    apart = (rows_a[source] - rows_b[other]).abs() + (columns_a[source] - columns_b[other]).abs()
    start = torch.full((len(offsets_a) - 1,), -1, dtype=torch.int64, device=row.device)
    return start.scatter_reduce(0, row, apart, "amin", include_self=False)


def _pairs(offsets_a: Tensor, offsets_b: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """All pairs of numbers of the same row: the row, and where each of the two is."""
    row = owners(offsets_a)
    counts = offsets_b.diff()[row]
    source = torch.repeat_interleave(torch.arange(len(row), device=row.device), counts)
    within = torch.arange(len(source), device=row.device) - (counts.cumsum(0) - counts)[source]
    row = row[source]
    return row, source, offsets_b[row] + within


def approaches_plain(
    rows_a: Tensor,
    columns_a: Tensor,
    offsets_a: Tensor,
    rows_b: Tensor,
    columns_b: Tensor,
    offsets_b: Tensor,
    down: Tensor,
    across: Tensor,
    most: int,
) -> Tensor:
    """The twin of `loops.approaches`: a table of rows and steps, with one more column for what is of no interest."""
    row, source, other = _pairs(offsets_a, offsets_b)
    i, j = rows_b[other] - rows_a[source], columns_b[other] - columns_a[source]
    down, across = down[row], across[row]
    ahead, aside = i * down + j * across, (i * across).abs() + (j * down).abs()
    near, over = (torch.zeros(len(offsets_a) - 1, most + 1, dtype=torch.bool, device=row.device) for _ in range(2))
    for table, steps, there in (
        (over, ahead, aside == 0),
        (near, ahead + 1, aside == 0),
        (near, ahead - 1, aside == 0),
        (near, ahead, aside == 1),
    ):
        table[row, torch.where(there & (steps >= 0), steps, most).clamp(max=most)] = True
    left = torch.arange(most, 0, -1, device=row.device)
    return most - ((near & ~over)[:, :most] * left).amax(1)


def _both(a: Column, b: Column) -> tuple[Patches, Patches] | None:
    first, second = as_set(a), as_set(b)
    return None if first is None or second is None else (locations(first), locations(second))


def _empty(a: Patches, b: Patches) -> Tensor | None:
    """Patches without cells fail."""
    return failures(((a.sizes == 0) | (b.sizes == 0), Category.VALUE))


def _without(patches: Patches, rows: Tensor) -> Patches:
    """Patches that are empty in some rows."""
    return Patches(
        *filtered(patches.keys, patches.offsets, ~rows[owners(patches.offsets, len(patches.keys))]), patches.kind
    )


def _many(a: Patches, b: Patches) -> Tensor | None:
    return flagged(a.sizes * b.sizes > _MOST_PAIRS)


@batched("manhattan")
def manhattan(machine: Any, a: Column, b: Column) -> Computed | None:
    if (both := _both(a, b)) is None:
        return None
    rows = [sort_unique(row_of(patch.keys), patch.offsets)[1].diff() for patch in both]
    return Computed(Ints(distances(*both)), _empty(*both), _many(*both), rows[0] * rows[1])


@batched("adjacent")
def adjacent(machine: Any, a: Column, b: Column) -> Computed | None:
    if (both := _both(a, b)) is None:
        return None
    return _flag(distances(*both) == 1, _empty(*both), _many(*both))


def _shared(a: Patches, b: Patches, upright: bool) -> Tensor:
    """Whether some column, or some row, has locations of both."""
    of = column_of if upright else row_of
    first, second = (sort_unique(of(patch.keys), patch.offsets) for patch in (a, b))
    return any_of(member(*first, *second), first[1])


def _matching(a: Column, b: Column, upright: bool) -> Computed | None:
    first, second = as_patch(a), as_patch(b)
    return None if first is None or second is None else _flag(_shared(locations(first), locations(second), upright))


@batched("hmatching")
def hmatching(machine: Any, a: Column, b: Column) -> Computed | None:
    return _matching(a, b, upright=False)


@batched("vmatching")
def vmatching(machine: Any, a: Column, b: Column) -> Computed | None:
    return _matching(a, b, upright=True)


@batched("bordering")
def bordering(machine: Any, patch: Column, grid: Column) -> Computed | None:
    where = as_patch(patch)
    if where is None or not isinstance(grid, Grids):
        return None
    reach = extent(where)
    on = (reach.top == 0) | (reach.left == 0) | (reach.bottom == grid.height - 1)
    outside = (grid.height == 0) & ~on
    on |= reach.right == grid.width - 1
    return _flag(on, failures((reach.empty, Category.VALUE), (outside, Category.INDEX)))


@batched("position")
def position(machine: Any, a: Column, b: Column) -> Computed | None:
    if (both := _both(a, b)) is None:
        return None
    ia, ja, _ = centers(both[0])
    ib, jb, _ = centers(both[1])
    down, across = select(ia < ib, 1, -1), select(ja < jb, 1, -1)
    i = select(ia == ib, 0, down)
    j = select((ja == jb) & (ia != ib), 0, across)
    return Computed(Pairs(i, j), _empty(*both))


@batched("gravitate")
def gravitate(machine: Any, source: Column, destination: Column) -> Computed | None:
    if (both := _both(source, destination)) is None:
        return None
    moving, fixed = both
    si, sj, _ = centers(moving)
    di, dj, _ = centers(fixed)
    upright = _shared(moving, fixed, upright=True)
    i = select(upright, select(si < di, 1, -1), 0)
    j = select(upright, 0, select(sj < dj, 1, -1))
    failed, many = _empty(moving, fixed), _many(moving, fixed)
    if many is not None:
        moving = _without(moving, many)
    given = (*location_of(moving.keys), moving.offsets)
    given = (*given, *location_of(fixed.keys), fixed.offsets, i, j, _STEPS)
    steps = call(loops.approaches, *given) if usable(fixed.keys) else approaches_plain(*given)
    return Computed(Pairs(steps * i, steps * j), failed, many)


def _is_line(patch: Column, upright: bool) -> Computed | None:
    both = sides(patch)
    if both is None:
        return None
    long, thin = both if upright else both[::-1]
    size = patch.sizes if isinstance(patch, Patches) else both[0]
    return _flag((long == size) & (thin == 1))


@batched("vline")
def vline(machine: Any, patch: Column) -> Computed | None:
    return _is_line(patch, True)


@batched("hline")
def hline(machine: Any, patch: Column) -> Computed | None:
    return _is_line(patch, False)
