"""Cells of grids changed: patches filled, objects painted, covered and moved."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from ...execution.failures import Category
from ...vocabulary.bound import ELEMENTS
from ..cells import extreme_color
from ..columns import (
    BITS,
    COORDINATE_LIMIT,
    Cells,
    Column,
    Grids,
    Ints,
    Lists,
    Pairs,
    Patches,
    PatchKind,
    color_of,
    location_of,
)
from ..compiled import call, usable
from ..gpu import has_kernels
from ..kernels import Computed, batched
from ..loops import patches as loops
from ..rows import indices_of, owners, picked, select
from ..segments import beyond, flagged
from .grids import colors, failures
from .patches import as_patch


class Targets(NamedTuple):
    """The cells of patches that lie on their grids: which of the keys, which row, and which cell of all grids."""

    kept: Tensor
    row: Tensor
    cell: Tensor


def targets(grid: Grids, keys: Tensor, offsets: Tensor) -> Targets:
    row = owners(offsets, len(keys))
    i, j = location_of(keys)
    on = (i >= 0) & (j >= 0) & (i < picked(grid.height, row)) & (j < picked(grid.width, row))
    kept = indices_of(on)
    row = picked(row, kept)
    cell = picked(grid.offsets, row) + picked(i, kept) * picked(grid.width, row) + picked(j, kept)
    return Targets(kept, row, cell)


def _with(grid: Grids, cells: Tensor) -> Grids:
    return Grids(cells, grid.offsets, grid.height, grid.width)


def _reserved(grid: Grids, column: Column, patch: Patches) -> Tensor:
    """The cells of a grid, which are reserved once for a set that is not empty, and twice for all else."""
    again = torch.ones_like(grid.height, dtype=torch.bool) if column is not patch else patch.sizes == 0
    return grid.offsets.diff() * (1 + again.to(torch.int64))


def filled(grid: Grids, patch: Patches, value: Tensor) -> Tensor:
    """The cells of grids, with a value at the locations of patches."""
    parts = (grid.cells, grid.offsets, grid.height, grid.width, patch.keys, patch.offsets, value)
    if usable(grid.cells):
        return call(loops.filled, *(part.contiguous() for part in parts))
    if has_kernels(grid.cells):
        from ..gpu import patches

        return patches.filled(*(part.contiguous() for part in parts))
    return filled_plain(grid, patch, value)


def filled_plain(grid: Grids, patch: Patches, value: Tensor) -> Tensor:
    """The twin of `loops.filled`."""
    at = targets(grid, patch.keys, patch.offsets)
    cells = grid.cells.clone()
    cells[at.cell] = value[at.row].to(cells.dtype)
    return cells


@batched("fill")
def fill(machine: Any, grid: Column, value: Column, patch: Column) -> Computed | None:
    large, where = colors(value), as_patch(patch)
    if large is None or where is None or not (isinstance(grid, Grids) and isinstance(value, Ints)):
        return None
    cells = filled(grid, where, value.values)
    reserved = _reserved(grid, patch, where)
    failed = failures((grid.height == 0, Category.INDEX), (reserved > ELEMENTS, Category.SIZE))
    return Computed(_with(grid, cells), failed, flagged(large & (where.sizes > 0)), reserved)


def _no_color(grid: Grids) -> tuple[Tensor, Category]:
    return grid.offsets.diff() == 0, Category.VALUE


def background_of(grid: Grids) -> Tensor:
    """The most common color of every grid."""
    return extreme_color(grid.cells, grid.offsets, True)


def underfilled(grid: Grids, patch: Patches, value: Tensor, background: Tensor) -> Tensor:
    """The cells of grids, with a value at those locations of patches that are background."""
    at = targets(grid, patch.keys, patch.offsets)
    there = picked(grid.cells, at.cell)
    cells = grid.cells.clone()
    new = torch.where(there == picked(background, at.row), picked(value, at.row), there)
    cells[at.cell] = new.to(cells.dtype)
    return cells


@batched("underfill")
def underfill(machine: Any, grid: Column, value: Column, patch: Column) -> Computed | None:
    large, where = colors(value), as_patch(patch)
    if large is None or where is None or not (isinstance(grid, Grids) and isinstance(value, Ints)):
        return None
    cells = underfilled(grid, where, value.values, background_of(grid))
    reserved = _reserved(grid, patch, where)
    failed = failures((grid.height == 0, Category.INDEX), _no_color(grid), (reserved > ELEMENTS, Category.SIZE))
    return Computed(_with(grid, cells), failed, flagged(large & (where.sizes > 0)), reserved)


class Painted(NamedTuple):
    """Cells to be painted, those of every row from the bottom to the top; and the rows where there are others."""

    keys: Tensor
    offsets: Tensor
    others: Tensor


def paintable(column: Column) -> Painted | None:
    """The cells of objects, or of tuples of cells; locations have no color to paint."""
    patch = column if isinstance(column, Lists) and isinstance(column.elements, Cells) else as_patch(column)
    match patch:
        case Lists(elements=Cells(keys=keys)):
            return Painted(keys, patch.offsets, torch.zeros_like(patch.sizes, dtype=torch.bool))
        case Patches(kind=PatchKind.OBJECT):
            return Painted(patch.keys, patch.offsets, torch.zeros_like(patch.sizes, dtype=torch.bool))
        case Patches():
            return Painted(patch.keys[:0], torch.zeros_like(patch.offsets), patch.sizes > 0)
    return None


def painted(grid: Grids, obj: Painted) -> Grids:
    """Grids with cells on them. Of several at one location, the last one is on top."""
    if usable(grid.cells):
        parts = (grid.cells, grid.offsets, grid.height, grid.width, obj.keys, obj.offsets)
        return _with(grid, call(loops.painted, *(part.contiguous() for part in parts)))
    if has_kernels(grid.cells):
        from ..gpu import keys

        return _with(grid, keys.painted(grid.cells, grid.offsets, grid.height, grid.width, obj.keys, obj.offsets))
    return painted_plain(grid, obj)


def painted_plain(grid: Grids, obj: Painted) -> Grids:
    """The twin of `loops.painted`."""
    at = targets(grid, obj.keys, obj.offsets)
    cells = grid.cells.clone()
    _put(cells, at.cell, color_of(obj.keys[at.kept]), last=True)
    return _with(grid, cells)


def _put(cells: Tensor, where: Tensor, values: Tensor, last: bool) -> None:
    """Puts values into cells: of several for one cell the last, or the first."""
    if cells.device.type == "cpu":  # numpy assigns in order
        step = 1 if last else -1
        cells.numpy()[where.numpy()[::step]] = values.numpy()[::step]
    else:
        put_plain(cells, where, values, last)


def put_plain(cells: Tensor, where: Tensor, values: Tensor, last: bool) -> None:
    """The twin of what numpy does on a CPU."""
    order = where.argsort(stable=True)
    where, values = where[order], values[order]
    chosen = torch.ones_like(where, dtype=torch.bool)
    if last:
        chosen[:-1] = where[1:] != where[:-1]
    else:
        chosen[1:] = where[1:] != where[:-1]
    cells[where[chosen]] = values[chosen].to(cells.dtype)


@batched("paint")
def paint(machine: Any, grid: Column, obj: Column) -> Computed | None:
    if not isinstance(grid, Grids) or (cells := paintable(obj)) is None:
        return None
    size = grid.offsets.diff() > ELEMENTS, Category.SIZE
    failed = failures((grid.height == 0, Category.INDEX), size, (cells.others, Category.TYPE))
    return Computed(painted(grid, cells), failed, reserved=grid.offsets.diff())


def underpainted(grid: Grids, obj: Painted, background: Tensor) -> Grids:
    """Grids with those cells on them that are background there. Of several at one location, the first one is seen that
    is no background itself."""
    at = targets(grid, obj.keys, obj.offsets)
    color, behind = color_of(picked(obj.keys, at.kept)), picked(background, at.row)
    seen = (picked(grid.cells, at.cell) == behind) & (color != behind)
    cells = grid.cells.clone()
    _put(cells, at.cell[seen], color[seen], last=False)
    return _with(grid, cells)


@batched("underpaint")
def underpaint(machine: Any, grid: Column, obj: Column) -> Computed | None:
    if not isinstance(grid, Grids) or (offered := paintable(obj)) is None:
        return None
    column = underpainted(grid, offered, background_of(grid))
    size = grid.offsets.diff() > ELEMENTS, Category.SIZE
    failed = failures((grid.height == 0, Category.INDEX), _no_color(grid), size, (offered.others, Category.TYPE))
    return Computed(column, failed, reserved=grid.offsets.diff())


def covered(grid: Grids, patch: Patches) -> Grids:
    """Grids with background at the locations of patches."""
    return _with(grid, filled(grid, patch, background_of(grid)))


@batched("cover")
def cover(machine: Any, grid: Column, patch: Column) -> Computed | None:
    where = as_patch(patch)
    if not isinstance(grid, Grids) or where is None:
        return None
    sets = where if not isinstance(patch, Lists) or where.kind is PatchKind.OBJECT else patch  # of cells a set is made
    reserved = _reserved(grid, sets, where)
    failed = failures(_no_color(grid), (reserved > ELEMENTS, Category.SIZE))
    return Computed(covered(grid, where), failed, reserved=reserved)


@batched("move")
def move(machine: Any, grid: Column, obj: Column, offset: Column) -> Computed | None:
    if not (isinstance(grid, Grids) and isinstance(obj, Patches)):
        return None
    if not isinstance(offset, Pairs):  # what it is does not matter to an object without cells
        reserved = 3 * grid.offsets.diff()
        failed = failures(_no_color(grid), (reserved > ELEMENTS, Category.SIZE))
        return Computed(grid, failed, flagged(obj.sizes > 0), reserved)
    far = beyond(COORDINATE_LIMIT, offset.first, offset.second)
    by = (select(far, 0, offset.first) << BITS) + select(far, 0, offset.second)
    cells = paintable(Patches(obj.keys + by[owners(obj.offsets, len(obj.keys))], obj.offsets, obj.kind))
    assert cells is not None
    reserved = grid.offsets.diff() * (2 + (obj.sizes == 0).to(torch.int64))
    failed = failures(_no_color(grid), (reserved > ELEMENTS, Category.SIZE), (cells.others, Category.TYPE))
    return Computed(painted(covered(grid, obj), cells), failed, flagged(far & (obj.sizes > 0)), reserved)
