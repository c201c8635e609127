"""Cells of grids changed: patches filled, objects painted, covered and moved."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..columns import (
    BITS,
    COORDINATE_LIMIT,
    Column,
    Grids,
    Ints,
    Pairs,
    Patches,
    PatchKind,
    color_of,
    column_of,
    row_of,
)
from ..kernels import Computed, batched
from ..rows import owners
from .grids import colors, flagged, odd

_COLORS = 64  # a grid whose colors are outside of 0 to 63 is left to the sequential executor


class Targets(NamedTuple):
    """The cells of patches that lie on their grids: which of the keys, and which cell of all grids."""

    kept: Tensor
    cell: Tensor


def targets(grid: Grids, patch: Patches) -> Targets:
    row = owners(patch.offsets)
    i, j = row_of(patch.keys), column_of(patch.keys)
    on = (i >= 0) & (j >= 0) & (i < grid.height[row]) & (j < grid.width[row])
    kept = on.nonzero()[:, 0]
    row = row[kept]
    return Targets(kept, grid.offsets[row] + i[kept] * grid.width[row] + j[kept])


def most_common(grid: Grids) -> tuple[Tensor, Tensor]:
    """The most common color of every grid, of several the smallest; and the rows where that is not known."""
    row = owners(grid.offsets)
    far = (grid.cells < 0) | (grid.cells >= _COLORS)
    unknown = torch.zeros(grid.rows, dtype=torch.int64, device=row.device).index_add(0, row, far.to(torch.int64)) > 0
    counts = torch.bincount(row * _COLORS + grid.cells.clamp(0, _COLORS - 1), minlength=grid.rows * _COLORS)
    counts = counts.reshape(grid.rows, _COLORS)
    rank = counts * _COLORS + (_COLORS - 1 - torch.arange(_COLORS, device=row.device))
    return rank.argmax(1), unknown | odd(grid)


def _with(grid: Grids, cells: Tensor) -> Grids:
    return Grids(cells, grid.offsets, grid.height, grid.width)


@batched("fill")
def fill(machine: Any, grid: Column, value: Column, patch: Column) -> Computed | None:
    large = colors(value)
    if large is None or not (isinstance(grid, Grids) and isinstance(value, Ints) and isinstance(patch, Patches)):
        return None
    at = targets(grid, patch)
    cells = grid.cells.clone()
    cells[at.cell] = value.values[owners(patch.offsets)[at.kept]]
    return Computed(_with(grid, cells), None, flagged(large | odd(grid)))


@batched("underfill")
def underfill(machine: Any, grid: Column, value: Column, patch: Column) -> Computed | None:
    large = colors(value)
    if large is None or not (isinstance(grid, Grids) and isinstance(value, Ints) and isinstance(patch, Patches)):
        return None
    background, unknown = most_common(grid)
    at = targets(grid, patch)
    row = owners(patch.offsets)[at.kept]
    cells = grid.cells.clone()
    cells[at.cell] = torch.where(grid.cells[at.cell] == background[row], value.values[row], grid.cells[at.cell])
    return Computed(_with(grid, cells), None, flagged(large | unknown))


def painted(grid: Grids, obj: Patches) -> Grids:
    """Grids with objects on them. Of several cells at one location, the one of the greatest color is on top."""
    at = targets(grid, obj)
    color = color_of(obj.keys[at.kept])
    top = torch.full_like(grid.cells, -COORDINATE_LIMIT * 2).scatter_reduce(0, at.cell, color, "amax")
    return _with(grid, torch.where(top > -COORDINATE_LIMIT * 2, top, grid.cells))


@batched("paint")
def paint(machine: Any, grid: Column, obj: Column) -> Computed | None:
    if not (isinstance(grid, Grids) and _is_object(obj)):
        return None
    assert isinstance(obj, Patches)
    return Computed(painted(grid, obj), None, flagged(odd(grid)))


def _is_object(column: Column) -> bool:
    return isinstance(column, Patches) and (column.kind is PatchKind.OBJECT or not len(column.keys))


@batched("underpaint")
def underpaint(machine: Any, grid: Column, obj: Column) -> Computed | None:
    if not (isinstance(grid, Grids) and _is_object(obj)):
        return None
    assert isinstance(obj, Patches)
    background, unknown = most_common(grid)
    at = targets(grid, obj)
    color, row = color_of(obj.keys[at.kept]), owners(obj.offsets)[at.kept]
    on_background = (grid.cells[at.cell] == background[row]) & (color != background[row])
    nothing = COORDINATE_LIMIT * 2
    offered = torch.where(on_background, color, nothing)
    lowest = torch.full_like(grid.cells, nothing).scatter_reduce(0, at.cell, offered, "amin")
    return Computed(_with(grid, torch.where(lowest < nothing, lowest, grid.cells)), None, flagged(unknown))


def covered(grid: Grids, patch: Patches) -> tuple[Grids, Tensor]:
    """Grids with background at the locations of patches, and the rows where that is not known."""
    background, unknown = most_common(grid)
    at = targets(grid, patch)
    cells = grid.cells.clone()
    cells[at.cell] = background[owners(patch.offsets)[at.kept]]
    return _with(grid, cells), unknown


@batched("cover")
def cover(machine: Any, grid: Column, patch: Column) -> Computed | None:
    if not (isinstance(grid, Grids) and isinstance(patch, Patches)):
        return None
    column, unknown = covered(grid, patch)
    return Computed(column, None, flagged(unknown))


@batched("move")
def move(machine: Any, grid: Column, obj: Column, offset: Column) -> Computed | None:
    if not (isinstance(grid, Grids) and _is_object(obj) and isinstance(offset, Pairs)):
        return None
    assert isinstance(obj, Patches)
    column, unknown = covered(grid, obj)
    row = owners(obj.offsets)
    far = (offset.first.abs() >= COORDINATE_LIMIT) | (offset.second.abs() >= COORDINATE_LIMIT)
    by = ((torch.where(far, 0, offset.first)) << BITS) + torch.where(far, 0, offset.second)
    moved = Patches(obj.keys + by[row], obj.offsets, obj.kind)
    return Computed(painted(column, moved), None, flagged(unknown | far))
