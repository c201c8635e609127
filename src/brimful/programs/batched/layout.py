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
