"""Grids from other grids: turned, cut, joined, split, scaled and recolored.

Every cell of a result is read from one cell of an argument: a kernel says how large results are and where each cell
comes from. Grids without cells are left to the sequential executor.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ...execution.failures import Category
from ..columns import COORDINATE_LIMIT, Column, Grids, Ints, Lists, Pairs
from ..kernels import Computed, batched
from ..rows import offsets_of, owners

MOST = 100_000  # cells of one grid; more are left to the bound on size


class Layout(NamedTuple):
    """The cells of grids of some sizes: where rows begin, and the grid, the row and the column of each cell."""

    offsets: Tensor
    height: Tensor
    width: Tensor
    grid: Tensor
    i: Tensor
    j: Tensor


def layout(height: Tensor, width: Tensor) -> Layout:
    """The cells of grids of some sizes."""
    width = torch.where(height == 0, 0, width)
    offsets = offsets_of(height * width)
    grid = owners(offsets)
    within = torch.arange(len(grid), device=grid.device) - offsets[grid]
    across = width[grid]
    i = torch.div(within, across, rounding_mode="floor")
    return Layout(offsets, height, width, grid, i, within - i * across)


def odd(*grids: Grids) -> Tensor:
    """Rows with a grid that has no cells."""
    return torch.stack([(grid.height == 0) | (grid.width == 0) for grid in grids]).any(0)


def flagged(flags: Tensor) -> Tensor | None:
    return flags if bool(flags.any()) else None


def read(grids: Grids, cells: Layout, i: Tensor, j: Tensor) -> Grids:
    """Grids of a layout, each cell from a cell of the same row's grid; outside of it, from any."""
    source = grids.offsets[cells.grid] + i * grids.width[cells.grid] + j
    flat = grids.cells if len(grids.cells) else grids.cells.new_zeros(1)
    values = flat[source.clamp(0, len(flat) - 1)]
    return Grids(values, cells.offsets, cells.height, cells.width)


def _turned(
    grids: Column, swap: bool, where: Callable[[Tensor, Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]
) -> Computed | None:
    """A grid with its cells elsewhere: `where` gives the source by row, column, height and width of the source."""
    if not isinstance(grids, Grids):
        return None
    cells = layout(grids.width, grids.height) if swap else layout(grids.height, grids.width)
    i, j = where(cells.i, cells.j, grids.height[cells.grid], grids.width[cells.grid])
    return Computed(read(grids, cells, i, j), None, flagged(odd(grids)))


@batched("rot90")
def rot90(machine: Any, grid: Column) -> Computed | None:
    return _turned(grid, True, lambda i, j, height, width: (height - 1 - j, i))


@batched("rot180")
def rot180(machine: Any, grid: Column) -> Computed | None:
    return _turned(grid, False, lambda i, j, height, width: (height - 1 - i, width - 1 - j))


@batched("rot270")
def rot270(machine: Any, grid: Column) -> Computed | None:
    return _turned(grid, True, lambda i, j, height, width: (j, width - 1 - i))


def hmirror(grid: Column) -> Computed | None:
    return _turned(grid, False, lambda i, j, height, width: (height - 1 - i, j))


def vmirror(grid: Column) -> Computed | None:
    return _turned(grid, False, lambda i, j, height, width: (i, width - 1 - j))


def dmirror(grid: Column) -> Computed | None:
    return _turned(grid, True, lambda i, j, height, width: (j, i))


def cmirror(grid: Column) -> Computed | None:
    return _turned(grid, True, lambda i, j, height, width: (height - 1 - j, width - 1 - i))


def _part(grids: Grids, top: Tensor, left: Tensor, height: Tensor, width: Tensor, not_here: Tensor) -> Computed:
    """The part of every grid that begins at a cell and has a size; it lies within the grid where `not_here` is not."""
    not_here = not_here | odd(grids) | ((height > 0) & (width <= 0))
    height = torch.where(not_here, 0, height.clamp(min=0))
    cells = layout(height, width.clamp(min=0))
    column = read(grids, cells, cells.i + top[cells.grid], cells.j + left[cells.grid])
    return Computed(column, None, flagged(not_here))


def _zeros(grids: Grids) -> Tensor:
    return torch.zeros_like(grids.height)


def _nowhere(grids: Grids) -> Tensor:
    return torch.zeros_like(grids.height, dtype=torch.bool)


@batched("tophalf")
def tophalf(machine: Any, grid: Column) -> Computed | None:
    if not isinstance(grid, Grids):
        return None
    return _part(grid, _zeros(grid), _zeros(grid), grid.height // 2, grid.width, _nowhere(grid))


@batched("bottomhalf")
def bottomhalf(machine: Any, grid: Column) -> Computed | None:
    if not isinstance(grid, Grids):
        return None
    half = grid.height // 2
    return _part(grid, grid.height - half, _zeros(grid), half, grid.width, _nowhere(grid))


@batched("lefthalf")
def lefthalf(machine: Any, grid: Column) -> Computed | None:
    if not isinstance(grid, Grids):
        return None
    half = grid.width // 2
    return _part(grid, _zeros(grid), _zeros(grid), torch.where(half > 0, grid.height, 0), half, _nowhere(grid))


@batched("righthalf")
def righthalf(machine: Any, grid: Column) -> Computed | None:
    if not isinstance(grid, Grids):
        return None
    half = grid.width // 2
    return _part(grid, _zeros(grid), grid.width - half, torch.where(half > 0, grid.height, 0), half, _nowhere(grid))


@batched("trim")
def trim(machine: Any, grid: Column) -> Computed | None:
    if not isinstance(grid, Grids):
        return None
    one = torch.ones_like(grid.height)
    return _part(grid, one, one, (grid.height - 2).clamp(min=0), (grid.width - 2).clamp(min=0), _nowhere(grid))


def cropped(grid: Grids, start: Pairs, dims: Pairs) -> Computed:
    """The part of every grid that begins at a location and has a size, as far as there is one."""
    negative = (start.first < 0) | (start.second < 0) | (dims.first < 0) | (dims.second < 0)
    height = torch.minimum(grid.height, start.first + dims.first) - start.first
    width = torch.minimum(grid.width, start.second + dims.second) - start.second
    return _part(grid, start.first, start.second, height.clamp(min=0), width.clamp(min=0), negative)


@batched("crop")
def crop(machine: Any, grid: Column, start: Column, dims: Column) -> Computed | None:
    if not (isinstance(grid, Grids) and isinstance(start, Pairs) and isinstance(dims, Pairs)):
        return None
    return cropped(grid, start, dims)


@batched("hconcat")
def hconcat(machine: Any, a: Column, b: Column) -> Computed | None:
    if not (isinstance(a, Grids) and isinstance(b, Grids)):
        return None
    bad = odd(a, b)
    cells = layout(torch.where(bad, 0, torch.minimum(a.height, b.height)), a.width + b.width)
    left = cells.j < a.width[cells.grid]
    first = read(a, cells, cells.i, cells.j).cells
    second = read(b, cells, cells.i, cells.j - a.width[cells.grid]).cells
    column = Grids(torch.where(left, first, second), cells.offsets, cells.height, cells.width)
    return Computed(column, None, flagged(bad))


@batched("vconcat")
def vconcat(machine: Any, a: Column, b: Column) -> Computed | None:
    if not (isinstance(a, Grids) and isinstance(b, Grids)):
        return None
    bad = odd(a, b) | (a.width != b.width)
    cells = layout(torch.where(bad, 0, a.height + b.height), a.width)
    above = cells.i < a.height[cells.grid]
    first = read(a, cells, cells.i, cells.j).cells
    second = read(b, cells, cells.i - a.height[cells.grid], cells.j).cells
    column = Grids(torch.where(above, first, second), cells.offsets, cells.height, cells.width)
    return Computed(column, None, flagged(bad))


def _split(grid: Column, n: Column, across: bool) -> Computed | None:
    if not isinstance(grid, Grids) or not isinstance(n, Ints):
        return None
    whole = grid.width if across else grid.height
    bad = odd(grid) | (n.values < 1) | (n.values > whole)
    parts = torch.where(bad, 1, n.values)
    size, skip = whole // parts, (whole % parts != 0).to(torch.int64)
    offsets = offsets_of(torch.where(bad, 0, parts))
    row = owners(offsets)
    number = torch.arange(len(row), device=row.device) - offsets[row]
    start = (size + skip)[row] * number
    source, zero = grid.take(row), torch.zeros_like(start)
    begin = Pairs(zero, start) if across else Pairs(start, zero)
    dims = Pairs(source.height, size[row]) if across else Pairs(size[row], source.width)
    part = cropped(source, begin, dims)
    if part.sequential is not None:
        bad = bad | (torch.zeros_like(bad, dtype=torch.int64).index_add(0, row, part.sequential.to(torch.int64)) > 0)
    return Computed(Lists(part.column, offsets, False), None, flagged(bad))


@batched("hsplit")
def hsplit(machine: Any, grid: Column, n: Column) -> Computed | None:
    return _split(grid, n, True)


@batched("vsplit")
def vsplit(machine: Any, grid: Column, n: Column) -> Computed | None:
    return _split(grid, n, False)


def colors(*columns: Column) -> Tensor | None:
    """Rows in which a number is too large to be a color; None where a column has no numbers."""
    flags = []
    for column in columns:
        if not isinstance(column, Ints) or column.boolean:
            return None
        flags.append(column.values.abs() >= COORDINATE_LIMIT)
    return torch.stack(flags).any(0)


@batched("cellwise")
def cellwise(machine: Any, a: Column, b: Column, fallback: Column) -> Computed | None:
    large = colors(fallback)
    if large is None or not (isinstance(a, Grids) and isinstance(b, Grids) and isinstance(fallback, Ints)):
        return None
    bad = odd(a, b) | large
    smaller = ((b.height < a.height) | (b.width < a.width)) & ~bad
    cells = layout(torch.where(bad | smaller, 0, a.height), a.width)
    first, second = read(a, cells, cells.i, cells.j).cells, read(b, cells, cells.i, cells.j).cells
    values = torch.where(first == second, first, fallback.values[cells.grid])
    failed = (smaller * int(Category.INDEX)).to(torch.int8)
    return Computed(Grids(values, cells.offsets, cells.height, cells.width), failed, flagged(bad))


@batched("replace")
def replace(machine: Any, grid: Column, replacee: Column, replacer: Column) -> Computed | None:
    large = colors(replacee, replacer)
    if large is None or not (isinstance(grid, Grids) and isinstance(replacee, Ints) and isinstance(replacer, Ints)):
        return None
    row = owners(grid.offsets)
    values = torch.where(grid.cells == replacee.values[row], replacer.values[row], grid.cells)
    return Computed(Grids(values, grid.offsets, grid.height, grid.width), None, flagged(large))


@batched("switch")
def switch(machine: Any, grid: Column, a: Column, b: Column) -> Computed | None:
    large = colors(a, b)
    if large is None or not (isinstance(grid, Grids) and isinstance(a, Ints) and isinstance(b, Ints)):
        return None
    row = owners(grid.offsets)
    first, second = a.values[row], b.values[row]
    values = torch.where(grid.cells == first, second, torch.where(grid.cells == second, first, grid.cells))
    return Computed(Grids(values, grid.offsets, grid.height, grid.width), None, flagged(large))


@batched("canvas")
def canvas(machine: Any, value: Column, dimensions: Column) -> Computed | None:
    large = colors(value)
    if large is None or not (isinstance(value, Ints) and isinstance(dimensions, Pairs)):
        return None
    height, width = dimensions.first.clamp(min=0), dimensions.second
    bad = large | ((height > 0) & ((width <= 0) | (height * width > MOST)))
    cells = layout(torch.where(bad, 0, height), width.clamp(min=0))
    return Computed(Grids(value.values[cells.grid], cells.offsets, cells.height, cells.width), None, flagged(bad))


@batched("index")
def index(machine: Any, grid: Column, loc: Column) -> Computed | None:
    if not (isinstance(grid, Grids) and isinstance(loc, Pairs)):
        return None
    i, j = loc.first, loc.second
    outside = odd(grid) | (i < 0) | (j < 0) | (i >= grid.height) | (j >= grid.width)
    flat = grid.cells if len(grid.cells) else grid.cells.new_zeros(1)
    at = (grid.offsets[:-1] + i * grid.width + j).clamp(0, len(flat) - 1)
    return Computed(Ints(flat[at]), None, flagged(outside))


def _scaled(grid: Grids, down: Tensor, across: Tensor) -> Computed:
    """Every cell as a rectangle of cells."""
    bad = odd(grid) | (down < 1) | (across < 1)
    area = grid.height.double() * grid.width.double() * down.double() * across.double()
    bad |= area > MOST
    down, across = torch.where(bad, 1, down), torch.where(bad, 1, across)
    cells = layout(torch.where(bad, 0, grid.height * down), grid.width * across)
    i = torch.div(cells.i, down[cells.grid], rounding_mode="floor")
    j = torch.div(cells.j, across[cells.grid], rounding_mode="floor")
    return Computed(read(grid, cells, i, j), None, flagged(bad))


@batched("hupscale")
def hupscale(machine: Any, grid: Column, factor: Column) -> Computed | None:
    if not (isinstance(grid, Grids) and isinstance(factor, Ints)):
        return None
    return _scaled(grid, torch.ones_like(factor.values), factor.values)


@batched("vupscale")
def vupscale(machine: Any, grid: Column, factor: Column) -> Computed | None:
    if not (isinstance(grid, Grids) and isinstance(factor, Ints)):
        return None
    return _scaled(grid, factor.values, torch.ones_like(factor.values))


def upscaled(grid: Grids, factor: Ints) -> Computed:
    return _scaled(grid, factor.values, factor.values)


@batched("downscale")
def downscale(machine: Any, grid: Column, factor: Column) -> Computed | None:
    if not (isinstance(grid, Grids) and isinstance(factor, Ints)) or factor.boolean:
        return None
    bad = odd(grid) | (factor.values == 0)
    step = torch.where(bad, 1, factor.values).abs()
    cells = layout(torch.where(bad, 0, (grid.height + step - 1) // step), (grid.width + step - 1) // step)
    return Computed(read(grid, cells, cells.i * step[cells.grid], cells.j * step[cells.grid]), None, flagged(bad))
