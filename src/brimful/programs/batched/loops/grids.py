"""Loops over the cells of grids by their places, compiled for the CPU. Their plain twins are in `../layout.py`."""

import numpy as np

from ..compiled import assign, jit


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


@jit
def walked(cells, offsets, new_offsets, height, width, first, down, across):
    """Grids of some sizes, whose cells are `first` of the source, `down` further for every row and `across` for every
    column."""
    out, last = np.empty(new_offsets[-1], cells.dtype), len(cells) - 1
    for number in range(len(height)):
        at = new_offsets[number]
        if at == new_offsets[number + 1]:
            continue
        for row in range(height[number]):
            source, step = offsets[number] + first[number] + row * down[number], across[number]
            end = source + step * (width[number] - 1)
            if min(source, end) < 0 or max(source, end) > last:
                source, step = 0, 0
            for _ in range(width[number]):
                out[at] = cells[source]
                source += step
                at += 1
    return out


@jit
def beside(a, a_offsets, a_width, b, b_offsets, b_width, offsets, height):
    """Grids to the left of others; of both the first rows, as many as `height` says."""
    out = np.empty(offsets[-1], a.dtype)
    for number in range(len(height)):
        at, left, right = offsets[number], a_width[number], b_width[number]
        if at == offsets[number + 1]:
            continue
        first, second = a_offsets[number], b_offsets[number]
        for _ in range(height[number]):
            assign(out[at : at + left], a[first : first + left])
            assign(out[at + left : at + left + right], b[second : second + right])
            at, first, second = at + left + right, first + left, second + right
    return out


@jit
def above(a, a_offsets, b, b_offsets, offsets):
    """Grids above others, of the same width; nothing where `offsets` has no room."""
    out = np.empty(offsets[-1], a.dtype)
    for number in range(len(offsets) - 1):
        at, end = offsets[number], offsets[number + 1]
        if at == end:
            continue
        middle = at + a_offsets[number + 1] - a_offsets[number]
        assign(out[at:middle], a[a_offsets[number] : a_offsets[number + 1]])
        assign(out[middle:end], b[b_offsets[number] : b_offsets[number + 1]])
    return out
