"""Where the cells of grids lie: the grid, the row and the column of each."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from .columns import Grids
from .compiled import call, usable
from .loops import grids as loops
from .rows import offsets_of, owners


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
    given = (offsets, height.contiguous(), width)
    grid, i, j = call(loops.places, *given) if usable(offsets) else places_plain(*given)
    return Layout(offsets, height, width, grid, i, j)


def places_plain(offsets: Tensor, height: Tensor, width: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The twin of `loops.places`."""
    grid = owners(offsets)
    within = torch.arange(len(grid), device=grid.device) - offsets[grid]
    across = width[grid]
    i = torch.div(within, across, rounding_mode="floor")
    return grid, i, within - i * across


def read(grids: Grids, cells: Layout, i: Tensor, j: Tensor) -> Grids:
    """Grids of a layout, each cell from a cell of the same row's grid; outside of it, from any."""
    source = grids.offsets[cells.grid] + i * grids.width[cells.grid] + j
    flat = grids.cells if len(grids.cells) else grids.cells.new_zeros(1)
    values = flat[source.clamp(0, len(flat) - 1)]
    return Grids(values, cells.offsets, cells.height, cells.width)


def walked(grids: Grids, height: Tensor, width: Tensor, first: Tensor, down: Tensor, across: Tensor) -> Grids:
    """Grids of some sizes, cell by cell from others: from the cell `first`, `down` further for every row and `across`
    further for every column. Outside of the source, from any cell."""
    width = torch.where(height == 0, 0, width)
    if not len(grids.cells):
        cells = layout(height, width)
        return Grids(grids.cells.new_zeros(len(cells.grid)), cells.offsets, height, width)
    if not usable(grids.cells):
        cells = layout(height, width)
        source = (
            grids.offsets[cells.grid] + first[cells.grid] + cells.i * down[cells.grid] + cells.j * across[cells.grid]
        )
        return Grids(grids.cells[source.clamp(0, len(grids.cells) - 1)], cells.offsets, height, width)
    offsets = offsets_of(height * width)
    given = (height, width, first, down, across)
    values = call(loops.walked, grids.cells, grids.offsets, offsets, *(part.contiguous() for part in given))
    return Grids(values, offsets, height, width)


def scaled(grids: Grids, down: Tensor, across: Tensor, keep: Tensor) -> Grids:
    """Every cell as a rectangle of cells; nothing for rows that are not kept."""
    height, width = torch.where(keep, grids.height * down, 0), torch.where(keep, grids.width * across, 0)
    if not usable(grids.cells):
        cells = layout(height, width)
        i = torch.div(cells.i, down[cells.grid], rounding_mode="floor")
        return read(grids, cells, i, torch.div(cells.j, across[cells.grid], rounding_mode="floor"))
    width = torch.where(height == 0, 0, width)
    offsets = offsets_of(height * width)
    given = (grids.cells, grids.offsets, grids.width, offsets, height, width, down.contiguous(), across.contiguous())
    return Grids(call(loops.scaled, *given), offsets, height, width)


def beside(a: Grids, b: Grids, height: Tensor, width: Tensor) -> Grids:
    """Grids of some sizes: the first rows of some to the left of those of others."""
    if not usable(a.cells):
        cells = layout(height, width)
        left = cells.j < a.width[cells.grid]
        first = read(a, cells, cells.i, cells.j).cells
        second = read(b, cells, cells.i, cells.j - a.width[cells.grid]).cells
        return Grids(torch.where(left, first, second), cells.offsets, cells.height, cells.width)
    width = torch.where(height == 0, 0, width)
    offsets = offsets_of(height * width)
    values = call(loops.beside, a.cells, a.offsets, a.width, b.cells, b.offsets, b.width, offsets, height)
    return Grids(values, offsets, height, width)


def above(a: Grids, b: Grids, height: Tensor, width: Tensor) -> Grids:
    """Grids of some sizes: some above others, which have the same width unless one of them is empty."""
    if not usable(a.cells):
        cells = layout(height, width)
        upper = cells.i < a.height[cells.grid]
        first = read(a, cells, cells.i, cells.j).cells
        second = read(b, cells, cells.i - a.height[cells.grid], cells.j).cells
        return Grids(torch.where(upper, first, second), cells.offsets, cells.height, cells.width)
    width = torch.where(height == 0, 0, width)
    offsets = offsets_of(height * width)
    return Grids(call(loops.above, a.cells, a.offsets, b.cells, b.offsets, offsets), offsets, height, width)
