"""Operations that change cells of a grid: fill patches, paint and move objects.

Of several cells of an object at one location, the canonically last is on top.
"""

from __future__ import annotations

from typing import Any as Value

from ..language.types import IJ, Grid, Integer, Object, Patch
from .bound import reserve
from .order import ordered
from .patches import shift, toindices
from .pieces import mostcolor
from .support.evaluate import any_order
from .support.extents import probable_locations
from .support.rows import rows_of


def fill(grid: Grid, value: Integer, patch: Patch) -> Grid:
    """The grid with one color at the locations of a patch."""
    height, width = len(grid), len(grid[0])
    rows = _lists(grid)
    try:
        for i, j in probable_locations(patch):
            inside = 0 <= j < width  # compared for every location, so that no mixed patch goes unseen
            if 0 <= i < height and inside:
                rows[i][j] = value
    except (TypeError, ValueError, IndexError):
        rows = _lists(grid)
        for i, j in ordered(toindices(patch)):
            if 0 <= i < height and 0 <= j < width:
                rows[i][j] = value
    return tuple(map(tuple, rows))


def underfill(grid: Grid, value: Integer, patch: Patch) -> Grid:
    """The grid with one color at the locations of a patch that are background."""
    height, width = len(grid), len(grid[0])
    background = mostcolor(grid)
    rows = _lists(grid)
    try:
        for i, j in probable_locations(patch):
            inside = 0 <= j < width
            if 0 <= i < height and inside and rows[i][j] == background:
                rows[i][j] = value
    except (TypeError, ValueError, IndexError):
        rows = _lists(grid)
        for i, j in ordered(toindices(patch)):
            if 0 <= i < height and 0 <= j < width and rows[i][j] == background:
                rows[i][j] = value
    return tuple(map(tuple, rows))


def paint(grid: Grid, obj: Object) -> Grid:
    """The grid with an object on it."""
    height, width = len(grid), len(grid[0])

    def painted(cells: Value) -> Value:
        rows = _lists(grid)
        for value, (i, j) in cells:
            if 0 <= i < height and 0 <= j < width:
                rows[i][j] = value
        return tuple(map(tuple, rows))

    return any_order(painted, _paintable(obj))


def underpaint(grid: Grid, obj: Object) -> Grid:
    """The grid with an object on it where there is background."""
    height, width = len(grid), len(grid[0])
    background = mostcolor(grid)

    def painted(cells: Value) -> Value:
        rows = _lists(grid)
        for value, (i, j) in cells:
            if 0 <= i < height and 0 <= j < width and rows[i][j] == background:
                rows[i][j] = value
        return tuple(map(tuple, rows))

    return any_order(painted, _paintable(obj))


def cover(grid: Grid, patch: Patch) -> Grid:
    """The grid with background at the locations of a patch."""
    return fill(grid, mostcolor(grid), toindices(patch))


def move(grid: Grid, obj: Object, offset: IJ) -> Grid:
    """The grid with an object moved by a vector."""
    return paint(cover(grid, obj), shift(obj, offset))


def _lists(grid: Value) -> list[list[Value]]:
    """The rows of a grid as lists."""
    rows = list(map(list, rows_of(grid)))
    reserve(sum(map(len, rows)))
    return rows


def _paintable(obj: Value) -> Value:
    """The cells of an object in an order in which the last one at a location is the one on top: any, where no two are
    at one location."""
    if type(obj) is not frozenset:
        return ordered(obj)
    try:
        return obj if len({location for _, location in obj}) == len(obj) else ordered(obj)
    except (TypeError, ValueError):
        return ordered(obj)
