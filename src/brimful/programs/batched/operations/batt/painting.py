"""Patches of a batt on grids: filled, painted, covered, moved, cut out, looked up."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ...cells import located, looked_up
from ...columns import COORDINATE_LIMIT, Column, Grids, Ints, Lists, Pairs, Patches, PatchKind, Values, key_of
from ...kernels import Computed, batched
from ...layout import walked
from ...rows import offsets_of, owners, select
from ...segments import flagged
from ..grids import paint_of
from ..painting import Painted, background_of, covered, filled, painted, underfilled, underpainted
from .views import Patch, cells_of_arc, colors_of, equal_to_itself, objects_of, patch_of, places, plain, reach

_PARTS = 1 << 12
"""The most parts of a grid here; more run sequentially, where the bound on size decides."""


def _no_rows(grid: Grids) -> Tensor:
    return grid.height == 0


def _no_cells(grid: Grids) -> Tensor:
    return grid.offsets.diff() == 0


@batched("batt.fill")
def fill(machine: Any, grid: Column, color: Column, column: Column) -> Computed | None:
    paint, patch = paint_of(color), patch_of(column)
    if paint is None or patch is None or not isinstance(grid, Grids):
        return None
    cells = filled(grid, places(patch), paint.values)
    return plain(Computed(Grids(cells, grid.offsets, grid.height, grid.width)), _no_rows(grid), paint.large)


@batched("batt.underfill")
def underfill(machine: Any, grid: Column, color: Column, column: Column) -> Computed | None:
    paint, patch = paint_of(color), patch_of(column)
    if paint is None or patch is None or not isinstance(grid, Grids):
        return None
    cells = underfilled(grid, places(patch), paint.values, equal_to_itself(background_of(grid)))
    return plain(Computed(Grids(cells, grid.offsets, grid.height, grid.width)), _no_cells(grid), paint.large)


def _offered(patch: Patch) -> Painted:
    """Cells to be painted, in their order: of a set, the largest color of a location comes last."""
    keys = key_of(patch.i, patch.j, colors_of(patch))
    return Painted(keys, patch.offsets, torch.zeros_like(patch.empty))


@batched("batt.paint")
def paint(machine: Any, grid: Column, obj: Column) -> Computed | None:
    patch = objects_of(obj)
    if patch is None or not isinstance(grid, Grids):
        return None
    return plain(Computed(painted(grid, _offered(patch))), _no_rows(grid))


@batched("batt.underpaint")
def underpaint(machine: Any, grid: Column, obj: Column) -> Computed | None:
    patch = objects_of(obj)
    if patch is None or not isinstance(grid, Grids):
        return None
    return plain(Computed(underpainted(grid, _offered(patch), background_of(grid))), _no_cells(grid))


@batched("batt.cover")
def cover(machine: Any, grid: Column, column: Column) -> Computed | None:
    patch = patch_of(column)
    if patch is None or not isinstance(grid, Grids):
        return None
    return plain(Computed(covered(grid, places(patch))), _no_cells(grid))


@batched("batt.move")
def move(machine: Any, grid: Column, obj: Column, offset: Column) -> Computed | None:
    patch = objects_of(obj)
    if patch is None or not (isinstance(grid, Grids) and isinstance(offset, Pairs)):
        return None
    far = (offset.first.abs() >= COORDINATE_LIMIT) | (offset.second.abs() >= COORDINATE_LIMIT)
    row = torch.repeat_interleave(select(far, 0, offset.first), patch.sizes)
    across = torch.repeat_interleave(select(far, 0, offset.second), patch.sizes)
    moved = patch._replace(i=patch.i + row, j=patch.j + across)
    column = painted(covered(grid, places(patch)), _offered(moved))
    return plain(Computed(column), _no_cells(grid), flagged(far))


def _cropped(grid: Grids, top: Tensor, left: Tensor, height: Tensor, width: Tensor) -> Grids:
    """The part of every grid from a cell on; () where it does not lie inside, or has no rows."""
    inside = (top >= 0) & (top < grid.height) & (left >= 0) & (left < grid.width)
    inside &= (top + height <= grid.height) & (left + width <= grid.width)
    height = select(inside, height, 0)
    first = select(inside, top * grid.width + left, 0)
    return walked(grid, height, width, first, grid.width, torch.ones_like(grid.width))


@batched("batt.crop")
def crop(machine: Any, grid: Column, start: Column, dims: Column) -> Computed | None:
    if not (isinstance(grid, Grids) and isinstance(start, Pairs) and isinstance(dims, Pairs)):
        return None
    backwards = (dims.first < 0) | (dims.second < 0)  # a slice that counts from the end
    height, width = select(backwards, 0, dims.first), select(backwards, 0, dims.second)
    return plain(Computed(_cropped(grid, start.first, start.second, height, width)), backwards)


@batched("batt.subgrid")
def subgrid(machine: Any, column: Column, grid: Column) -> Computed | None:
    patch = patch_of(column)
    if patch is None or not isinstance(grid, Grids):
        return None
    box = reach(patch)
    height = select(box.empty, 0, box.height)
    return Computed(_cropped(grid, box.top, box.left, height, box.width))


@batched("batt.toobject")
def toobject(machine: Any, column: Column, grid: Column) -> Computed | None:
    patch = patch_of(column)
    if patch is None or not isinstance(grid, Grids):
        return None
    return plain(Computed(cells_of_arc(looked_up(places(patch), grid))), _no_rows(grid))


@batched("batt.f_ofcolor")
def f_ofcolor(machine: Any, grid: Column, color: Column) -> Computed | None:
    if not isinstance(grid, Grids) or not isinstance(color, Column) or isinstance(color, Values):
        return None
    if not isinstance(color, Ints):  # no cell of a grid equals a tuple or a set
        none = torch.zeros(grid.rows + 1, dtype=torch.int64, device=machine.device)
        return Computed(Patches(none[:0], none, PatchKind.INDICES))
    return Computed(located(grid, equal_to_itself(color.values)))


def _split(grid: Column, n: Column, across: bool) -> Computed | None:
    """Grids cut into so many parts; a part that would reach beyond its grid is ()."""
    if not (isinstance(grid, Grids) and isinstance(n, Ints)):
        return None
    odd = (n.values == 0) | (n.values > _PARTS) | (grid.height == 0)
    count = select(odd, 0, n.values.clamp(min=0))
    whole, divisor = grid.width if across else grid.height, count.clamp(min=1)
    size, skip = whole // divisor, (whole % divisor != 0).to(torch.int64)
    offsets = offsets_of(count)
    row = owners(offsets)
    number = torch.arange(len(row), device=row.device) - offsets[row]
    start, source, none = (size + skip)[row] * number, grid.take(row), torch.zeros_like(row)
    if across:
        parts = _cropped(source, none, start, source.height, size[row])
    else:
        parts = _cropped(source, start, none, size[row], source.width)
    return plain(Computed(Lists(parts, offsets, False), reserved=count), odd)


@batched("batt.hsplit")
def hsplit(machine: Any, grid: Column, n: Column) -> Computed | None:
    return _split(grid, n, True)


@batched("batt.vsplit")
def vsplit(machine: Any, grid: Column, n: Column) -> Computed | None:
    return _split(grid, n, False)
