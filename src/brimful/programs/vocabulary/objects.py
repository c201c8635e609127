"""Operations that find objects in grids, and that tell objects apart."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from operator import itemgetter
from typing import Any as Value

from ..language.types import Boolean, Container, FrozenSet, Grid, Indices, Integer, Object, Objects, Patch
from .bound import reserve
from .containers import first as _first
from .order import ordered
from .patches import normalize, shape, toindices
from .pieces import dmirror, mostcolor, palette
from .support.components import components
from .support.evaluate import any_order
from .support.rows import locations, rectangular, rows_of

_NUMBERS = frozenset({int, bool})
_COLOR = itemgetter(0)


def asindices(grid: Grid) -> Indices:
    """All locations of a grid."""
    height = len(grid)
    if height == 0:
        return frozenset()
    width = len(grid[0])
    reserve(height * width)
    return frozenset(locations(height, width))


def asobject(grid: Grid) -> Object:
    """All cells of a grid."""
    rows = rows_of(grid)
    reserve(sum(map(len, rows)))
    if rectangular(rows):
        return frozenset(zip(chain.from_iterable(rows), locations(len(rows), len(rows[0])), strict=True))
    return frozenset([(value, (i, j)) for i, row in enumerate(rows) for j, value in enumerate(row)])


def ofcolor(grid: Grid, value: Integer) -> Indices:
    """The locations of one color."""
    found: list[tuple[int, int]] = []
    for i, row in enumerate(rows_of(grid)):
        if value in row:
            found += [(i, j) for j, color in enumerate(row) if color == value]
    return frozenset(found)


def toobject(patch: Patch, grid: Grid) -> Object:
    """The cells of a grid at the locations of a patch."""
    height, width = len(grid), len(grid[0])

    def cells(indices: Value) -> list[Value]:
        return [(grid[i][j], (i, j)) for i, j in indices if 0 <= i < height and 0 <= j < width]

    return frozenset(any_order(cells, toindices(patch)))


def color(obj: Object) -> Integer:
    """The color of an object; of several, the smallest."""
    if type(obj) is frozenset and obj:
        try:
            colors: set[Value] = set(map(_COLOR, obj))
        except (TypeError, IndexError):
            colors = {None}
        if _NUMBERS.issuperset(map(type, colors)):
            return min(colors)
    return _first(obj)[0]


def colorfilter(objs: Objects, value: Integer) -> Objects:
    """The objects of a color."""
    try:
        return frozenset(any_order(lambda objects: [obj for obj in objects if color(obj) == value], objs))
    except StopIteration as error:
        raise RuntimeError("an object without cells has no color") from error


def sizefilter(container: Container, n: Integer) -> FrozenSet:
    """The elements of a size."""
    return frozenset([element for element in container if len(element) == n])


def objects(grid: Grid, univalued: Boolean, diagonal: Boolean, without_bg: Boolean) -> Objects:
    """The connected components of a grid.

    Args:
        grid: the grid.
        univalued: cells of different colors are never in one object.
        diagonal: cells that share a corner are connected too.
        without_bg: cells of the most common color are in no object.
    """
    background = mostcolor(grid) if without_bg else None
    height, width = len(grid), len(grid[0])
    rows = grid if rectangular(grid) else [[grid[i][j] for j in range(width)] for i in range(height)]
    reserve(height * width)
    return frozenset(map(frozenset, components(rows, background, univalued, diagonal, _cells)))


def partition(grid: Grid) -> Objects:
    """One object per color."""
    if rectangular(grid):
        return frozenset(map(frozenset, _by_color(grid).values()))
    return _of_colors(grid, palette(grid))


def fgpartition(grid: Grid) -> Objects:
    """One object per color but the background's."""
    if rectangular(grid):
        cells = _by_color(grid)
        del cells[mostcolor(grid)]
        return frozenset(map(frozenset, cells.values()))
    return _of_colors(grid, palette(grid) - {mostcolor(grid)})


def frontiers(grid: Grid) -> Objects:
    """The rows and the columns that have one color, as objects."""
    height, width = len(grid), len(grid[0])
    rows = [i for i, row in enumerate(grid) if len(set(row)) == 1]
    columns = [j for j, column in enumerate(dmirror(grid)) if len(set(column)) == 1]
    horizontal = [frozenset([(grid[i][j], (i, j)) for j in range(width)]) for i in rows]
    vertical = [frozenset([(grid[i][j], (i, j)) for i in range(height)]) for j in columns]
    return frozenset(horizontal + vertical)


def occurrences(grid: Grid, obj: Object) -> Indices:
    """The locations at which the upper left corner of an object can be so that all of its cells are the grid's."""
    normalized = normalize(obj)
    height, width = len(grid), len(grid[0])
    rows, columns = shape(obj)
    reserve(max(height - rows + 1, 0) * max(width - columns + 1, 0))
    found = locations(max(height - rows + 1, 0), max(width - columns + 1, 0))
    if not found:
        return frozenset()
    reserve(len(found) * len(normalized) // 256)
    if type(obj) is not frozenset or not rectangular(grid):
        cells = ordered(normalized)
        return frozenset([(i, j) for i, j in found if _occurs(grid, height, width, i, j, cells)])
    for value, (a, b) in ordered(normalized):
        found = [(i, j) for i, j in found if grid[i + a][j + b] == value]
    return frozenset(found)


def _cells(colors: list[Value], rows: tuple[int, ...], columns: tuple[int, ...]) -> Iterable[Value]:
    return zip(colors, zip(rows, columns, strict=True), strict=True)


def _occurs(grid: Value, height: int, width: int, i: int, j: int, cells: Value) -> bool:
    """Whether cells, moved to a location, are all the grid's."""
    return all(0 <= i + a < height and 0 <= j + b < width and grid[i + a][j + b] == value for value, (a, b) in cells)


def _by_color(grid: Value) -> dict[Value, list[Value]]:
    cells: dict[Value, list[Value]] = {}
    for value, location in zip(chain.from_iterable(grid), locations(len(grid), len(grid[0])), strict=True):
        cells.setdefault(value, []).append((value, location))
    return cells


def _of_colors(grid: Value, colors: Value) -> frozenset[frozenset[Value]]:
    rows = rows_of(grid)
    return frozenset(
        [
            frozenset([(v, (i, j)) for i, row in enumerate(rows) for j, v in enumerate(row) if v == value])
            for value in colors
        ]
    )
