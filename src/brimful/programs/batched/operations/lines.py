"""Sets of locations made of a few numbers: neighbors, lines, frontiers, boxes."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ...execution.failures import Category
from ...vocabulary.bound import ELEMENTS
from ..columns import (
    BITS,
    COORDINATE_LIMIT,
    Column,
    Grids,
    Ints,
    Lists,
    Pairs,
    Patches,
    PatchKind,
    Tuples,
    key_of,
)
from ..compiled import call, usable
from ..extents import extent
from ..gpu import has_kernels
from ..kernels import Computed, batched
from ..layout import layout
from ..loops import lines as loops
from ..rows import offsets_of, owners, picked, select
from ..segments import beyond, filtered, flagged, member, sort_unique
from .grids import failures
from .patches import as_patch, as_set, is_blank, locations

_SIDES = ((-1, 0), (0, -1), (0, 1), (1, 0))
_CORNERS = ((-1, -1), (-1, 1), (1, -1), (1, 1))


def _around(loc: Column, steps: tuple[tuple[int, int], ...]) -> Computed | None:
    """The locations a few steps from a location, in the order of their keys."""
    if not isinstance(loc, Pairs):
        return None
    large = (loc.first.abs() >= COORDINATE_LIMIT - 1) | (loc.second.abs() >= COORDINATE_LIMIT - 1)
    by = torch.tensor(sorted(steps), device=loc.first.device)
    i = select(large, 0, loc.first)[:, None] + by[:, 0]
    j = select(large, 0, loc.second)[:, None] + by[:, 1]
    offsets = torch.arange(loc.rows + 1, device=by.device) * len(steps)
    return Computed(Patches(key_of(i, j).reshape(-1), offsets, PatchKind.INDICES), None, flagged(large))


@batched("dneighbors")
def dneighbors(machine: Any, loc: Column) -> Computed | None:
    return _around(loc, _SIDES)


@batched("ineighbors")
def ineighbors(machine: Any, loc: Column) -> Computed | None:
    return _around(loc, _CORNERS)


@batched("neighbors")
def neighbors(machine: Any, loc: Column) -> Computed | None:
    return _around(loc, _SIDES + _CORNERS)


def _line(ai: Tensor, aj: Tensor, bi: Tensor, bj: Tensor) -> Computed:
    """The straight or diagonal line between two locations."""
    large = beyond(COORDINATE_LIMIT, ai, aj, bi, bj)
    di, dj = bi - ai, bj - aj
    straight = (di == 0) | (dj == 0) | (di.abs() == dj.abs())
    steps = torch.maximum(di.abs(), dj.abs())
    counts = select(straight & ~large, steps + 1, 0)
    offsets = offsets_of(counts)
    keys = _line_keys(ai, aj, bi, bj, counts, offsets)
    return Computed(Patches(keys, offsets, PatchKind.INDICES), None, flagged(large), counts)


def _line_keys(ai: Tensor, aj: Tensor, bi: Tensor, bj: Tensor, counts: Tensor, offsets: Tensor) -> Tensor:
    """The keys of straight or diagonal lines."""
    if usable(counts):
        return call(loops.lines, *(part.contiguous() for part in (ai, aj, bi, bj)), counts, offsets)
    if has_kernels(counts):
        from ..gpu.keys import lines

        return lines(ai, aj, bi, bj, offsets)
    return lines_plain(ai, aj, bi, bj, counts, offsets)


def lines_plain(ai: Tensor, aj: Tensor, bi: Tensor, bj: Tensor, counts: Tensor, offsets: Tensor) -> Tensor:
    """The twin of `loops.lines`."""
    di, dj = bi - ai, bj - aj
    row = owners(offsets)
    within = torch.arange(len(row), device=row.device) - offsets[row]
    falling = (di != 0) & (di * dj < 0)
    start = torch.where(falling, torch.maximum(aj, bj), torch.minimum(aj, bj))
    first = key_of(torch.minimum(ai, bi), start)
    step = (di != 0).to(torch.int64) * (1 << BITS) + select(dj == 0, 0, select(falling, -1, 1))
    return first[row] + within * step[row]


@batched("connect")
def connect(machine: Any, a: Column, b: Column) -> Computed | None:
    if not (isinstance(a, Pairs) and isinstance(b, Pairs)):
        return None
    return _line(a.first, a.second, b.first, b.second)


@batched("shoot")
def shoot(machine: Any, start: Column, direction: Column) -> Computed | None:
    if not (isinstance(start, Pairs) and isinstance(direction, Pairs)):
        return None
    end_i, end_j = start.first + 42 * direction.first, start.second + 42 * direction.second
    return _line(start.first, start.second, end_i, end_j)


def _frontier(location: Column, upright: bool) -> Computed | None:
    if isinstance(location, Tuples) and len(location.places) == 2:
        return _frontier_of(location.places[upright], upright)
    if not isinstance(location, Pairs):
        return None
    fixed = location.second if upright else location.first
    large = fixed.abs() >= COORDINATE_LIMIT
    steps = torch.arange(30, device=fixed.device).expand(location.rows, 30)
    there = select(large, 0, fixed)[:, None].expand(location.rows, 30)
    keys = key_of(steps, there) if upright else key_of(there, steps)
    offsets = torch.arange(location.rows + 1, device=fixed.device) * 30
    return Computed(Patches(keys.reshape(-1), offsets, PatchKind.INDICES), None, flagged(large))


def _frontier_of(fixed: Column, upright: bool) -> Computed | None:
    """The line through a location one of whose coordinates is anything."""
    if isinstance(fixed, Ints) and not fixed.boolean:
        return _frontier(Pairs(fixed.values, fixed.values), upright)
    if upright or not isinstance(fixed, Grids | Patches):
        return None
    rows, device = fixed.rows, fixed.device
    steps = torch.arange(30, device=device).expand(rows, 30).reshape(-1)
    repeated = fixed.take(torch.arange(rows, device=device).repeat_interleave(30))
    offsets = torch.arange(rows + 1, device=device) * 30
    return Computed(Lists(Tuples((repeated, Ints(steps))), offsets, True))


@batched("vfrontier")
def vfrontier(machine: Any, location: Column) -> Computed | None:
    return _frontier(location, True)


@batched("hfrontier")
def hfrontier(machine: Any, location: Column) -> Computed | None:
    return _frontier(location, False)


def backdrops(patch: Patches) -> tuple[Patches, Tensor]:
    """All locations of every bounding box, and the rows where there are too many."""
    reach = extent(patch)
    large = reach.height * reach.width > ELEMENTS
    cells = layout(select(large, 0, reach.height), reach.width)
    keys = key_of(cells.i + picked(reach.top, cells.grid), cells.j + picked(reach.left, cells.grid))
    return Patches(keys, cells.offsets, PatchKind.INDICES), large


@batched("backdrop")
def backdrop(machine: Any, patch: Column) -> Computed | None:
    where = as_patch(patch)
    if where is None:
        return None
    column, large = backdrops(where)
    return Computed(column, failures((large, Category.SIZE)), reserved=column.sizes)


@batched("delta")
def delta(machine: Any, patch: Column) -> Computed | None:
    where = as_set(patch)
    if where is None:
        return None
    whole, large = backdrops(where)
    plain = locations(where)
    outside = ~member(whole.keys, whole.offsets, plain.keys, plain.offsets)
    column = Patches(*filtered(whole.keys, whole.offsets, outside), PatchKind.INDICES)
    return Computed(column, failures((large, Category.SIZE)), reserved=whole.sizes)


def _outline(patch: Column, grow: int) -> Computed | None:
    """The outline of the bounding box, so many steps outside of it."""
    where = as_set(patch)
    if where is None:
        return None
    if grow == 0 and is_blank(patch):
        return Computed(patch)
    reach = extent(where)
    ai, aj, bi, bj = reach.top - grow, reach.left - grow, reach.bottom + grow, reach.right + grow
    top, bottom = torch.minimum(ai, bi), torch.maximum(ai, bi)
    left, right = torch.minimum(aj, bj), torch.maximum(aj, bj)
    height, width = bottom - top + 1, right - left + 1
    empty = reach.empty
    bad = (height > COORDINATE_LIMIT // 4) | (width > COORDINATE_LIMIT // 4)
    skip = empty | bad
    counts = select(skip, 0, 2 * height + 2 * width)
    offsets = offsets_of(counts)
    row = owners(offsets)
    at = torch.arange(len(row), device=row.device) - picked(offsets, row)
    above, below, before, after, tall, wide = (picked(of, row) for of in (top, bottom, left, right, height, width))
    on_left, on_right, on_top = at < tall, (at >= tall) & (at < 2 * tall), (at >= 2 * tall) & (at < 2 * tall + wide)
    i = torch.where(
        on_left,
        above + at,
        torch.where(on_right, above + at - tall, torch.where(on_top, above, below)),
    )
    across = torch.where(on_top, at - 2 * tall, at - 2 * tall - wide)
    j = torch.where(on_left, before, torch.where(on_right, after, before + across))
    column = Patches(*sort_unique(key_of(i, j), offsets), PatchKind.INDICES)
    return Computed(column, failures((empty, Category.VALUE)) if grow else None, flagged(bad & ~empty), counts)


@batched("box")
def box(machine: Any, patch: Column) -> Computed | None:
    return _outline(patch, 0)


@batched("inbox")
def inbox(machine: Any, patch: Column) -> Computed | None:
    return _outline(patch, -1)


@batched("outbox")
def outbox(machine: Any, patch: Column) -> Computed | None:
    return _outline(patch, 1)


@batched("corners")
def corners(machine: Any, patch: Column) -> Computed | None:
    if not isinstance(patch, Patches):
        return None
    reach = extent(patch)
    i = torch.stack([reach.top, reach.top, reach.bottom, reach.bottom], 1)
    j = torch.stack([reach.left, reach.right, reach.left, reach.right], 1)
    offsets = torch.arange(patch.rows + 1, device=i.device) * 4
    column = Patches(*sort_unique(key_of(i, j).reshape(-1), offsets), PatchKind.INDICES)
    return Computed(column, None, flagged(reach.empty))
