"""Grids made of grids: turned, mirrored, enlarged, cut, compared. The ending _t is for grids."""

from __future__ import annotations

import math
from typing import Any as AnyValue

from ...language.types import IJ, Any, Grid, Integer, Tuple
from .. import scaling
from ..bound import reserve
from ..order import ordered
from ..support.rows import rows_of
from .safety import safe
from .shared import bottomhalf, rot90, rot180, rot270, tophalf


@safe
def hmirror_t(grid: Grid) -> Grid:
    """A grid mirrored top to bottom."""
    return grid[::-1]


@safe
def vmirror_t(grid: Grid) -> Grid:
    """A grid mirrored left to right."""
    return tuple(row[::-1] for row in ordered(grid))


@safe
def dmirror_t(grid: Grid) -> Grid:
    """A grid mirrored at the diagonal."""
    return tuple(zip(*rows_of(grid), strict=False))


@safe
def cmirror_t(grid: Grid) -> Grid:
    """A grid mirrored at the other diagonal."""
    return tuple(zip(*(row[::-1] for row in grid[::-1]), strict=False))


@safe
def mir_rot_t(grid: Grid, type: Integer) -> Grid:
    """A grid mirrored or turned.

    0 top to bottom, 1 diagonal, 2 left to right, 3 other diagonal, 4 a quarter clockwise, 5 a half, 6 a quarter
    counterclockwise; as it is otherwise.
    """
    for number, turn in enumerate((hmirror_t, dmirror_t, vmirror_t, cmirror_t, rot90, rot180, rot270)):
        if type == number:
            return turn(grid)
    return grid


@safe
def upscale_t(grid: Grid, factor: Integer) -> Grid:
    """A grid with every cell as a square of cells."""
    return scaling.vupscale(scaling.hupscale(grid, factor), factor)


@safe
def lefthalf(grid: Grid) -> Grid:
    """The left half of a grid, without the middle column."""
    return rot270(tophalf(rot90(grid)))


@safe
def righthalf(grid: Grid) -> Grid:
    """The right half of a grid, without the middle column."""
    return rot270(bottomhalf(rot90(grid)))


@safe
def crop(grid: Grid, start: IJ, dims: IJ) -> Grid:
    """The part of a grid from a location on, of a shape; () where it does not lie inside."""
    if grid == ():
        return ()
    h, w = len(grid), len(grid[0])
    inside = start[0] >= 0 and start[0] < h and start[1] >= 0 and start[1] < w
    if inside and start[0] + dims[0] <= h and start[1] + dims[1] <= w:
        return tuple(row[start[1] : start[1] + dims[1]] for row in grid[start[0] : start[0] + dims[0]])
    return ()


@safe
def hsplit(grid: Grid, n: Integer) -> Tuple:
    """A grid cut into parts side by side; with a column between them, where they would not fill it."""
    h, w = len(grid), len(grid[0]) // n
    offset = len(grid[0]) % n != 0
    parts = range(n)
    reserve(len(parts))
    return tuple(crop(grid, (0, w * i + i * offset), (h, w)) for i in parts)


@safe
def vsplit(grid: Grid, n: Integer) -> Tuple:
    """A grid cut into parts one below the other; with a row between them, where they would not fill it."""
    h, w = len(grid) // n, len(grid[0])
    offset = len(grid) % n != 0
    parts = range(n)
    reserve(len(parts))
    return tuple(crop(grid, (h * i + i * offset, 0), (h, w)) for i in parts)


@safe
def index(grid: Grid, loc: IJ) -> Integer:
    """The color at a location; minus infinity outside of the grid."""
    if loc == ():
        return -math.inf
    i, j = ordered(loc)
    h, w = len(grid), len(grid[0])
    return -math.inf if not 0 <= i < h or not 0 <= j < w else grid[loc[0]][loc[1]]


@safe
def cellwise(a: Grid, b: Grid, fallback: Integer) -> Grid:
    """The colors on which two grids agree; a fallback elsewhere."""
    h, w = len(a), len(a[0])
    return tuple([tuple([_agreed(a[i][j], index(b, (i, j)), fallback) for j in range(w)]) for i in range(h)])


def _agreed(value: AnyValue, other: AnyValue, fallback: AnyValue) -> AnyValue:
    return value if value == other else fallback


@safe
def compress(grid: Grid) -> Grid:
    """A grid without the rows and columns of one color."""
    lines = rows_of(grid)
    drop = {j for j, column in enumerate(dmirror_t(grid)) if len(set(column)) == 1}
    kept = [row for row in lines if len(set(row)) != 1]
    return tuple([tuple([value for j, value in enumerate(row) if j not in drop]) for row in kept])


@safe
def is_no_grid(x: Any) -> Any:
    """Whether a value is no tuple of tuples of integers."""
    if not isinstance(x, tuple):
        return True
    return not all(isinstance(row, tuple) and all(isinstance(value, int) for value in row) for row in x)
