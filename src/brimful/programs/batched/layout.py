"""Where the cells of grids lie: the grid, the row and the column of each."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from .columns import Grids
from .compiled import call, usable
from .gpu import has_kernels
from .loops import grids as loops
from .rows import offsets_of, owners, picked, select


class Layout(NamedTuple):
    """The cells of grids of some sizes: where rows begin, and the grid, the row and the column of each cell."""

    offsets: Tensor
    height: Tensor
    width: Tensor
    grid: Tensor
    i: Tensor
    j: Tensor


def areas(height: Tensor, width: Tensor) -> tuple[Tensor, Tensor]:
    """Where the cells of grids of some sizes begin, and how wide they are: those without rows not at all."""
    if has_kernels(height):
        from .gpu import offsets

        return offsets.areas(height, width)
    return areas_plain(height, width)


def areas_plain(height: Tensor, width: Tensor) -> tuple[Tensor, Tensor]:
    width = select(height == 0, 0, width)
    return offsets_of(height * width), width


def _kernels() -> Any:
    """Those for a GPU."""
    from .gpu import layout

    return layout


def layout(height: Tensor, width: Tensor) -> Layout:
    """The cells of grids of some sizes."""
    offsets, width = areas(height, width)
    if usable(offsets):
        grid, i, j = call(loops.places, offsets, height.contiguous(), width)
    elif has_kernels(offsets):
        grid, i, j = _kernels().places(offsets, width)
    else:
        grid, i, j = places_plain(offsets, height, width)
    return Layout(offsets, height, width, grid, i, j)


def places_plain(offsets: Tensor, height: Tensor, width: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The twin of `loops.places`."""
    grid = owners(offsets)
    within = torch.arange(len(grid), device=grid.device) - offsets[grid]
    across = width[grid]
    i = torch.div(within, across, rounding_mode="floor")
    return grid, i, within - i * across


def _read(grids: Grids, cells: Layout, i: Tensor, j: Tensor) -> Tensor:
    """The cells of a layout, each from a cell of the same row's grid; outside of it, from any."""
    source = picked(grids.offsets, cells.grid) + i * picked(grids.width, cells.grid) + j
    flat = grids.cells if len(grids.cells) else grids.cells.new_zeros(1)
    return picked(flat, source.clamp(0, len(flat) - 1))


def read(grids: Grids, cells: Layout, i: Tensor, j: Tensor) -> Grids:
    """Grids of a layout, each cell from a cell of the same row's grid; outside of it, from any."""
    return Grids(_read(grids, cells, i, j), cells.offsets, cells.height, cells.width)


def walked(grids: Grids, height: Tensor, width: Tensor, first: Tensor, down: Tensor, across: Tensor) -> Grids:
    """Grids of some sizes, cell by cell from others: from the cell `first`, `down` further for every row and `across`
    further for every column. Outside of the source, from any cell."""
    offsets, width = areas(height, width)
    if not len(grids.cells):
        return Grids(grids.cells.new_zeros(int(offsets[-1])), offsets, height, width)
    given = (first.contiguous(), down.contiguous(), across.contiguous())
    if usable(grids.cells):
        cells = call(loops.walked, grids.cells, grids.offsets, offsets, height.contiguous(), width, *given)
    elif has_kernels(grids.cells):
        cells = _kernels().walked(grids.cells, grids.offsets, offsets, width, *given)
    else:
        cells = walked_plain(grids, height, width, *given)
    return Grids(cells, offsets, height, width)


def walked_plain(grids: Grids, height: Tensor, width: Tensor, first: Tensor, down: Tensor, across: Tensor) -> Tensor:
    """The twin of `loops.walked`, but for cells outside of the source."""
    cells = layout(height, width)
    source = grids.offsets[cells.grid] + first[cells.grid] + cells.i * down[cells.grid] + cells.j * across[cells.grid]
    return grids.cells[source.clamp(0, len(grids.cells) - 1)]


def scaled(grids: Grids, down: Tensor, across: Tensor, keep: Tensor) -> Grids:
    """Every cell as a rectangle of cells; nothing for rows that are not kept."""
    height, width = select(keep, grids.height * down, 0), select(keep, grids.width * across, 0)
    offsets, width = areas(height, width)
    down, across = down.contiguous(), across.contiguous()
    given = (grids.cells, grids.offsets, grids.width, offsets)
    if usable(grids.cells):
        cells = call(loops.scaled, *given, height, width, down, across)
    elif has_kernels(grids.cells):
        cells = _kernels().scaled(*given, width, down, across)
    else:
        cells = scaled_plain(grids, height, width, down, across)
    return Grids(cells, offsets, height, width)


def scaled_plain(grids: Grids, height: Tensor, width: Tensor, down: Tensor, across: Tensor) -> Tensor:
    """The twin of `loops.scaled`."""
    cells = layout(height, width)
    i = torch.div(cells.i, down[cells.grid], rounding_mode="floor")
    return _read(grids, cells, i, torch.div(cells.j, across[cells.grid], rounding_mode="floor"))


def beside(a: Grids, b: Grids, height: Tensor, width: Tensor) -> Grids:
    """Grids of some sizes: the first rows of some to the left of those of others."""
    offsets, width = areas(height, width)
    given = (a.cells, a.offsets, a.width, b.cells, b.offsets, b.width, offsets)
    if usable(a.cells):
        cells = call(loops.beside, *given, height)
    else:
        cells = _kernels().beside(*given) if has_kernels(a.cells) else beside_plain(a, b, height, width)
    return Grids(cells, offsets, height, width)


def beside_plain(a: Grids, b: Grids, height: Tensor, width: Tensor) -> Tensor:
    """The twin of `loops.beside`."""
    cells = layout(height, width)
    left = cells.j < a.width[cells.grid]
    first, second = _read(a, cells, cells.i, cells.j), _read(b, cells, cells.i, cells.j - a.width[cells.grid])
    return torch.where(left, first, second)


def above(a: Grids, b: Grids, height: Tensor, width: Tensor) -> Grids:
    """Grids of some sizes: some above others, which have the same width unless one of them is empty."""
    offsets, width = areas(height, width)
    given = (a.cells, a.offsets, b.cells, b.offsets, offsets)
    if usable(a.cells):
        cells = call(loops.above, *given)
    else:
        cells = _kernels().above(*given) if has_kernels(a.cells) else above_plain(a, b, height, width)
    return Grids(cells, offsets, height, width)


def above_plain(a: Grids, b: Grids, height: Tensor, width: Tensor) -> Tensor:
    """The twin of `loops.above`."""
    cells = layout(height, width)
    upper = cells.i < a.height[cells.grid]
    first, second = _read(a, cells, cells.i, cells.j), _read(b, cells, cells.i - a.height[cells.grid], cells.j)
    return torch.where(upper, first, second)
