"""Grids taken apart into objects, and what objects are like: periods, occurrences."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any as AnyValue

from ...language.types import Boolean, Container, Grid, Indices, Integer, Object, Objects, Tuple
from ..bound import reserve
from ..order import ordered
from ..support.components import components
from ..support.rows import rectangular, rows_of
from .cells import bounds, ordered_cells
from .colors import mostcolor_t, palette_t
from .grids import dmirror_t, is_no_grid
from .regions import dneighbors, neighbors
from .safety import safe
from .shared import asindices
from .sizes import height_f, shape_f, width_f
from .transforms import normalize, shift


@safe
def objects(grid: Grid, univalued: Boolean, diagonal: Boolean, without_bg: Boolean) -> Objects:
    """The connected objects of a grid, of one color or of any, with or without the most common color."""
    if grid == ():
        return frozenset()
    background = mostcolor_t(grid) if without_bg else None
    if rectangular(grid) and background == background:  # of a color that equals nothing, every cell is an object
        return frozenset(map(frozenset, components(grid, background, univalued, diagonal, _cells)))
    found = set()
    for loc, reached in _flood(grid, univalued, diagonal, background):
        found.add(frozenset([(loc[0], loc[1], grid[loc[0]][loc[1]]), *reached]))
    return frozenset(found)


@safe
def objects_t(grid: Grid, univalued: Boolean, diagonal: Boolean, without_bg: Boolean) -> Tuple:
    """The objects as tuples of cells: by their first cells in canonical order, each from there outwards."""
    if grid == ():
        return ()
    background = mostcolor_t(grid) if without_bg else None
    if _plain(grid):
        return tuple(map(tuple, components(grid, background, univalued, diagonal, _cells, by_distance=True)))
    return tuple(tuple(reached) for _, reached in _flood(grid, univalued, diagonal, background))


objects_g = objects_t


def _plain(grid: AnyValue) -> bool:
    """Whether a value is a rectangular grid of colors that equal themselves."""
    return rectangular(grid) and all(color == color for color in set().union(*grid))


def _cells(colors: list[AnyValue], rows: tuple[int, ...], columns: tuple[int, ...]) -> Iterable[AnyValue]:
    return zip(rows, columns, colors, strict=True)


def _flood(grid: AnyValue, univalued: AnyValue, diagonal: AnyValue, background: AnyValue) -> AnyValue:
    """The objects of a grid by flood fill: where each starts, and its cells, step by step, a step in canonical order.

    The cell where an object starts is not among its cells, where its color does not equal itself.
    """
    h, w = len(grid), len(grid[0])
    around = neighbors if diagonal else dneighbors
    occupied: set[AnyValue] = set()
    for loc in ordered(asindices(grid)):
        if loc in occupied:
            continue
        value = grid[loc[0]][loc[1]]
        if value == background:
            continue
        reached: list[AnyValue] = []
        candidates = [loc]
        while candidates:
            beyond: set[AnyValue] = set()
            for i, j in candidates:
                color = grid[i][j]
                if (value == color) if univalued else (color != background):
                    reached.append((i, j, color))
                    occupied.add((i, j))
                    beyond |= around((i, j))
            candidates = ordered({(i, j) for i, j in beyond - occupied if 0 <= i < h and 0 <= j < w})
        yield loc, reached


_KINDS = [(bool(kind & 4), bool(kind & 2), bool(kind & 1)) for kind in range(8)]


@safe
def o_g(grid: Grid, type: Integer) -> Container:
    """The objects of a grid by number: 4 for one color, plus 2 for diagonal, plus 1 without background; None beyond."""
    for number, kind in enumerate(_KINDS):
        if type == number:
            return objects(grid, *kind)
    return None


@safe
def o_g_t(grid: Grid, type: Integer) -> Tuple:
    """The objects of a grid by number, as tuples."""
    for number, kind in enumerate(_KINDS):
        if type == number:
            return objects_t(grid, *kind)
    return None


o_g_tuple = o_g_t


@safe
def partition(grid: Grid) -> Objects:
    """One object for every color of a grid."""
    return _by_color(grid, palette_t(grid))


@safe
def fgpartition(grid: Grid) -> Objects:
    """One object for every color of a grid but the most common."""
    return _by_color(grid, palette_t(grid) - {mostcolor_t(grid)})


def _by_color(grid: AnyValue, palette: AnyValue) -> AnyValue:
    """The objects of a grid with the colors of a palette; an empty one for a color that does not equal itself."""
    found: dict[AnyValue, list[AnyValue]] = {color: [] for color in palette}
    if found:
        for i, row in enumerate(rows_of(grid)):
            for j, c in enumerate(row):
                if c in found and c == c:
                    found[c].append((i, j, c))
    return frozenset(map(frozenset, found.values()))


@safe
def asobject(grid: Grid) -> Object:
    """The cells of a grid; none of what is no grid of integers."""
    if is_no_grid(grid):
        return frozenset()
    return frozenset([(i, j, c) for i, row in enumerate(grid) for j, c in enumerate(row)])


@safe
def frontiers(grid: Grid) -> Objects:
    """The rows and columns of one color."""
    h, w = len(grid), len(grid[0])
    lines = [i for i, row in enumerate(ordered(grid)) if len(set(row)) == 1]
    posts = [j for j, column in enumerate(dmirror_t(grid)) if len(set(column)) == 1]
    across = [frozenset([(i, j, grid[i][j]) for j in range(w)]) for i in lines]
    return frozenset(across + [frozenset([(i, j, grid[i][j]) for i in range(h)]) for j in posts])


@safe
def sizefilter(container: Container, n: Integer) -> Object:
    """The elements of a size, as a set."""
    return frozenset([item for item in container if len(item) == n])


@safe
def sizefilter_t(container: Tuple, n: Integer) -> Tuple:
    """The elements of a size, as a tuple."""
    return tuple([item for item in ordered(container) if len(item) == n])


@safe
def hperiod(obj: Object) -> Integer:
    """The smallest shift to the left under which an object agrees with itself; its width where there is none."""
    normalized = normalize(obj)
    w = width_f(normalized)
    for p in range(1, w):
        reserve(len(normalized))
        if frozenset([(i, j, c) for i, j, c in shift(normalized, (0, -p)) if j >= 0]).issubset(normalized):
            return p
    return w


@safe
def vperiod(obj: Object) -> Integer:
    """The smallest shift upwards under which an object agrees with itself; its height where there is none."""
    normalized = normalize(obj)
    h = height_f(normalized)
    for p in range(1, h):
        reserve(len(normalized))
        if frozenset([(i, j, c) for i, j, c in shift(normalized, (-p, 0)) if i >= 0]).issubset(normalized):
            return p
    return h


@safe
def occurrences(grid: Grid, obj: Object) -> Indices:
    """The locations at which an object occurs in a grid."""
    normalized = normalize(obj)
    h, w = len(grid), len(grid[0])
    high, wide = shape_f(obj)
    found = [(i, j) for i in range(h - high + 1) for j in range(w - wide + 1)]
    if rectangular(grid) and bounds(obj, 3) is not None:
        reserve(len(found) + len(found) * len(normalized) // 256)
        for a, b, c in normalized:
            found = [(i, j) for i, j in found if grid[i + a][j + b] == c]
        return frozenset(found)
    inside = [(i, j) for i, j in found if _occurs(grid, h, w, shift(normalized, (i, j)))]
    return frozenset(inside)


def _occurs(grid: AnyValue, h: int, w: int, obj: AnyValue) -> bool:
    """Whether all cells of an object are the grid's."""
    return all(0 <= a < h and 0 <= b < w and grid[a][b] == c for a, b, c in ordered_cells(obj))
