"""Loops over the cells of grids by their places, compiled for the CPU. Their plain twins are in `../layout.py`."""

import numpy as np

from ..compiled import jit


@jit
def places(offsets, height, width):
    """The grid, the row and the column of every cell."""
    grid, i, j = np.empty(offsets[-1], np.int64), np.empty(offsets[-1], np.int64), np.empty(offsets[-1], np.int64)
    at = 0
    for number in range(len(height)):
        for row in range(height[number] if width[number] else 0):
            for column in range(width[number]):
                grid[at], i[at], j[at] = number, row, column
                at += 1
    return grid, i, j


@jit
def scaled(cells, offsets, width, new_offsets, new_height, new_width, down, across):
    """Grids whose cells are rectangles of `down` times `across` cells."""
    out = np.empty(new_offsets[-1], cells.dtype)
    for number in range(len(new_height)):
        at = new_offsets[number]
        if at == new_offsets[number + 1]:
            continue
        for row in range(new_height[number]):
            source = offsets[number] + row // down[number] * width[number]
            for column in range(width[number]):
                out[at : at + across[number]] = cells[source + column]
                at += across[number]
    return out
