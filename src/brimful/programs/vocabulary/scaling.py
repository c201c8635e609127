"""Operations that enlarge grids and objects, or make grids smaller."""

from __future__ import annotations

from ..language.types import Element, Grid, Integer
from .bound import reserve
from .order import ordered
from .patches import shift, ulcorner
from .support.rows import rectangular, rows_of


def hupscale(grid: Grid, factor: Integer) -> Grid:
    """The grid, every cell as several beside each other."""
    rows = rows_of(grid)
    if isinstance(factor, int):
        reserve(sum(map(len, rows)) * factor)
    return tuple([tuple([value for value in row for _ in range(factor)]) for row in rows])


def vupscale(grid: Grid, factor: Integer) -> Grid:
    """The grid, every row several times."""
    rows = ordered(grid)
    if isinstance(factor, int):
        reserve(sum([max(1, len(row)) if isinstance(row, tuple) else 1 for row in rows]) * factor)
    return tuple([row for row in rows for _ in range(factor)])


def upscale(element: Element, factor: Integer) -> Element:
    """The grid or object, every cell as a square of cells; an object keeps its upper left corner."""
    if isinstance(element, tuple):
        return vupscale(hupscale(element, factor), factor)
    if len(element) == 0:
        return frozenset()
    top, left = ulcorner(element)
    normalized = shift(element, (-top, -left))
    if isinstance(factor, int):
        reserve(len(normalized) * max(factor, 0) ** 2)
    return frozenset(
        [
            (value, (i * factor + down + top, j * factor + across + left))
            for value, (i, j) in normalized
            for down in range(factor)
            for across in range(factor)
        ]
    )


def downscale(grid: Grid, factor: Integer) -> Grid:
    """Every so many-th row and column of a grid."""
    if rectangular(grid) and type(factor) is int and factor != 0:
        step = abs(factor)
        return tuple([row[::step] for row in grid[::step]])
    height, width = len(grid), len(grid[0])
    rows = [tuple([grid[i][j] for j in range(width) if j % factor == 0]) for i in range(height)]
    return tuple([rows[i] for i in range(height) if i % factor == 0])
