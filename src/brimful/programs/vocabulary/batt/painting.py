"""Patches on grids: filled, painted, covered, moved, cut out, looked up."""

from __future__ import annotations

from operator import itemgetter
from typing import Any as AnyValue

from ...language.types import IJ, Grid, Indices, Integer, Object, Patch
from ..order import ordered
from ..support.rows import rows_of
from .cells import cells
from .colors import mostcolor_t
from .extents import toindices, ulcorner
from .grids import crop
from .safety import safe
from .sizes import shape_f
from .transforms import shift

_LOCATION = itemgetter(0, 1)
_COLOR = itemgetter(2)


@safe
def fill(grid: Grid, color: Integer, patch: Patch) -> Grid:
    """A grid with the locations of a patch in one color."""
    h, w = len(grid), len(grid[0])
    filled = [list(row) for row in rows_of(grid)]
    for i, j in cells(toindices(patch)):
        if 0 <= i < h and 0 <= j < w:
            filled[i][j] = color
    return tuple([tuple(row) for row in filled])


@safe
def underfill(grid: Grid, color: Integer, patch: Patch) -> Grid:
    """A grid with those locations of a patch in one color that are background."""
    h, w = len(grid), len(grid[0])
    background = mostcolor_t(grid)
    filled = [list(row) for row in rows_of(grid)]
    for i, j in cells(toindices(patch)):
        if 0 <= i < h and 0 <= j < w and filled[i][j] == background:
            filled[i][j] = color
    return tuple([tuple(row) for row in filled])


def _one_by_one(obj: AnyValue) -> AnyValue:
    """The cells of an object; in canonical order, where two colors may be at one location."""
    if isinstance(obj, frozenset):
        try:
            if len(set(map(_COLOR, obj))) > 1 and len(set(map(_LOCATION, obj))) < len(obj):
                return ordered(obj)
        except (IndexError, TypeError):
            pass
    return cells(obj)


@safe
def paint(grid: Grid, obj: Object) -> Grid:
    """A grid with an object on it."""
    h, w = len(grid), len(grid[0])
    painted = [list(row) for row in rows_of(grid)]
    for i, j, c in _one_by_one(obj):
        if 0 <= i < h and 0 <= j < w:
            painted[i][j] = c
    return tuple([tuple(row) for row in painted])


@safe
def underpaint(grid: Grid, obj: Object) -> Grid:
    """A grid with those cells of an object on it that are background."""
    h, w = len(grid), len(grid[0])
    background = mostcolor_t(grid)
    painted = [list(row) for row in rows_of(grid)]
    for i, j, c in _one_by_one(obj):
        if 0 <= i < h and 0 <= j < w and painted[i][j] == background:
            painted[i][j] = c
    return tuple([tuple(row) for row in painted])


@safe
def cover(grid: Grid, patch: Patch) -> Grid:
    """A grid without a patch: in its place, the most common color."""
    return fill(grid, mostcolor_t(grid), toindices(patch))


@safe
def move(grid: Grid, obj: Object, offset: IJ) -> Grid:
    """A grid with an object moved."""
    return paint(cover(grid, obj), shift(obj, offset))


@safe
def subgrid(patch: Patch, grid: Grid) -> Grid:
    """The part of a grid in the bounding box of a patch."""
    if patch in (frozenset(), ()):
        return ()
    return crop(grid, ulcorner(patch), shape_f(patch))


@safe
def toobject(patch: Patch, grid: Grid) -> Object:
    """The cells of a grid at the locations of a patch."""
    h, w = len(grid), len(grid[0])
    return frozenset([(i, j, grid[i][j]) for i, j in cells(toindices(patch)) if 0 <= i < h and 0 <= j < w])


@safe
def f_ofcolor(grid: Grid, color: Integer) -> Indices:
    """The locations of a color in a grid."""
    return frozenset([(i, j) for i, row in enumerate(rows_of(grid)) for j, c in enumerate(row) if c == color])


ofcolor = f_ofcolor
