"""Operations that make grids: of nothing, or of other grids."""

from __future__ import annotations

from ..language.types import IJ, Grid, Integer, Patch, Tuple
from .bound import plus as _plus
from .bound import reserve, reserve_range
from .order import ordered
from .patches import shape, ulcorner
from .pieces import dmirror
from .support.rows import rectangular, rows_of


def rot90(grid: Grid) -> Grid:
    """The grid, a quarter turn clockwise."""
    return tuple(zip(*rows_of(grid[::-1]), strict=False))


def rot180(grid: Grid) -> Grid:
    """The grid, half a turn."""
    return tuple([tuple(row[::-1]) for row in grid[::-1]])


def rot270(grid: Grid) -> Grid:
    """The grid, a quarter turn anticlockwise."""
    return tuple(zip(*rows_of(grid[::-1])[::-1], strict=False))[::-1]


def crop(grid: Grid, start: IJ, dims: IJ) -> Grid:
    """The part of a grid that begins at a location and has a height and a width."""
    return tuple([row[start[1] : start[1] + dims[1]] for row in grid[start[0] : start[0] + dims[0]]])


def subgrid(patch: Patch, grid: Grid) -> Grid:
    """The part of a grid that is the bounding box of a patch."""
    return crop(grid, ulcorner(patch), shape(patch))


def trim(grid: Grid) -> Grid:
    """The grid without its border."""
    return tuple([row[1:-1] for row in grid[1:-1]])


def tophalf(grid: Grid) -> Grid:
    """The upper half, without the middle row."""
    return grid[: len(grid) // 2]


def bottomhalf(grid: Grid) -> Grid:
    """The lower half, without the middle row."""
    return grid[len(grid) // 2 + len(grid) % 2 :]


def lefthalf(grid: Grid) -> Grid:
    """The left half, without the middle column."""
    if rectangular(grid):
        columns = len(grid[0]) // 2
        return tuple([row[:columns] for row in grid]) if columns else ()
    return rot270(tophalf(rot90(grid)))


def righthalf(grid: Grid) -> Grid:
    """The right half, without the middle column."""
    if rectangular(grid):
        columns = len(grid[0]) // 2
        return tuple([row[-columns:] for row in grid]) if columns else ()
    return rot270(bottomhalf(rot90(grid)))


def hconcat(a: Grid, b: Grid) -> Grid:
    """Two grids side by side."""
    return tuple([_plus(left, right) for left, right in zip(ordered(a), ordered(b), strict=False)])


def vconcat(a: Grid, b: Grid) -> Grid:
    """One grid above another."""
    return _plus(a, b)


def hsplit(grid: Grid, n: Integer) -> Tuple:
    """Parts of a grid, side by side; columns between them are left out where its width is no multiple."""
    height, width = len(grid), len(grid[0]) // n
    skip = len(grid[0]) % n != 0
    parts = range(n)
    reserve(height * n)
    return tuple([crop(grid, (0, width * part + part * skip), (height, width)) for part in parts])


def vsplit(grid: Grid, n: Integer) -> Tuple:
    """Parts of a grid, below each other; rows between them are left out where its height is no multiple."""
    height, width = len(grid) // n, len(grid[0])
    skip = len(grid) % n != 0
    parts = range(n)
    reserve_range(parts)
    return tuple([crop(grid, (height * part + part * skip, 0), (height, width)) for part in parts])


def cellwise(a: Grid, b: Grid, fallback: Integer) -> Grid:
    """The cells in which two grids agree, and a fallback elsewhere."""
    if rectangular(a) and rectangular(b) and len(b) >= len(a) and len(b[0]) >= len(a[0]):
        pairs = zip(a, b, strict=False)
        return tuple([tuple([v if v == w else fallback for v, w in zip(r, s, strict=False)]) for r, s in pairs])
    height, width = len(a), len(a[0])
    return tuple([tuple([a[i][j] if a[i][j] == b[i][j] else fallback for j in range(width)]) for i in range(height)])


def replace(grid: Grid, replacee: Integer, replacer: Integer) -> Grid:
    """The grid with one color replaced."""
    return tuple(
        [
            row
            if type(row) is tuple and replacee not in row
            else tuple([replacer if v == replacee else v for v in row])
            for row in rows_of(grid)
        ]
    )


def switch(grid: Grid, a: Integer, b: Integer) -> Grid:
    """The grid with two colors exchanged."""
    colors = {a: b, b: a}
    return tuple([tuple([colors.get(v, v) for v in row]) for row in rows_of(grid)])


def compress(grid: Grid) -> Grid:
    """The grid without the rows and columns of one color."""
    rows = [len(set(row)) == 1 for row in ordered(grid)]
    columns = [len(set(column)) == 1 for column in ordered(dmirror(grid))]
    drop = {j for j, single in enumerate(columns) if single}
    return tuple(
        [
            tuple([v for j, v in enumerate(ordered(row)) if j not in drop])
            for row, single in zip(ordered(grid), rows, strict=True)
            if not single
        ]
    )


def canvas(value: Integer, dimensions: IJ) -> Grid:
    """A grid of one color."""
    rows = range(dimensions[0])
    if not rows:
        return ()
    columns = range(dimensions[1])
    reserve_range(rows)
    reserve(dimensions[0] * dimensions[1])
    return ((value,) * len(columns),) * len(rows)


def index(grid: Grid, loc: IJ) -> Integer:
    """The color at a location; None outside of the grid."""
    i, j = ordered(loc)
    height, width = len(grid), len(grid[0])
    if not (0 <= i < height and 0 <= j < width):
        return None
    return grid[loc[0]][loc[1]]
