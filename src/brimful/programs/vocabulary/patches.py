"""Operations on patches: sets of cells (color, (i, j)), or of locations (i, j).

What a patch is, its first element decides; whether a set is mixed shows as an exception, after which the operation
is done again in canonical order.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import repeat
from typing import Any as Value

from ..language.types import IJ, Boolean, Indices, Integer, Object, Patch, Piece
from .bound import bounded, reserve
from .containers import first as _first
from .order import ordered
from .support.evaluate import any_order
from .support.extents import corner, extent

_FAR = 1 << 60
_TUPLES = {tuple}


def toindices(patch: Patch) -> Indices:
    """The locations of the cells."""
    if len(patch) == 0:
        return frozenset()
    if type(patch) is frozenset and set(map(type, patch)) == _TUPLES:
        try:
            seconds = [second for _, second in patch]
        except ValueError:
            seconds = []
        kinds = set(map(type, seconds))
        if kinds == _TUPLES:
            return frozenset(seconds)
        if kinds and tuple not in kinds:
            return patch
    if isinstance(_first(patch)[1], tuple):
        return any_order(_locations, patch)
    return patch


def recolor(value: Integer, patch: Patch) -> Object:
    """The cells of a patch, in one color."""
    return frozenset(zip(repeat(value), toindices(patch), strict=False))


def shift(patch: Patch, directions: IJ) -> Patch:
    """The patch, moved by a vector."""
    if len(patch) == 0:
        return patch
    di, dj = directions if type(directions) is tuple else ordered(directions)
    if type(patch) is frozenset and type(di) is int and type(dj) is int:
        try:
            moved = _shifted(patch, type(next(iter(patch))[1]) is tuple, di, dj)
        except (TypeError, ValueError, IndexError, KeyError):
            pass  # not a patch of one kind
        else:
            if abs(di) > _FAR or abs(dj) > _FAR:
                for reached in extent(moved) or ():
                    bounded(reached)
            return moved
    return any_order(lambda cells: _shifted(cells, isinstance(_first(patch)[1], tuple), di, dj), patch)


def normalize(patch: Patch) -> Patch:
    """The patch, moved so that its bounding box begins at (0, 0)."""
    if len(patch) == 0:
        return patch
    return shift(patch, (-uppermost(patch), -leftmost(patch)))


def uppermost(patch: Patch) -> Integer:
    """The first row with a cell."""
    reached = corner(patch, min, min)
    return min(i for i, _ in ordered(toindices(patch))) if reached is None else reached[0]


def lowermost(patch: Patch) -> Integer:
    """The last row with a cell."""
    reached = corner(patch, max, max)
    return max(i for i, _ in ordered(toindices(patch))) if reached is None else reached[0]


def leftmost(patch: Patch) -> Integer:
    """The first column with a cell."""
    reached = corner(patch, min, min)
    return min(j for _, j in ordered(toindices(patch))) if reached is None else reached[1]


def rightmost(patch: Patch) -> Integer:
    """The last column with a cell."""
    reached = corner(patch, max, max)
    return max(j for _, j in ordered(toindices(patch))) if reached is None else reached[1]


def ulcorner(patch: Patch) -> IJ:
    """The upper left corner of the bounding box."""
    reached = corner(patch, min, min)
    return tuple(map(min, _places(patch))) if reached is None else reached


def urcorner(patch: Patch) -> IJ:
    """The upper right corner of the bounding box."""
    reached = corner(patch, min, max)
    return _corner({0: min, 1: max}, patch) if reached is None else reached


def llcorner(patch: Patch) -> IJ:
    """The lower left corner of the bounding box."""
    reached = corner(patch, max, min)
    return _corner({0: max, 1: min}, patch) if reached is None else reached


def lrcorner(patch: Patch) -> IJ:
    """The lower right corner of the bounding box."""
    reached = corner(patch, max, max)
    return tuple(map(max, _places(patch))) if reached is None else reached


def corners(patch: Patch) -> Indices:
    """The four corners of the bounding box."""
    reach = extent(patch)
    if reach is None:
        return frozenset((ulcorner(patch), urcorner(patch), llcorner(patch), lrcorner(patch)))
    top, left, bottom, right = reach
    return frozenset(((top, left), (top, right), (bottom, left), (bottom, right)))


def height(piece: Piece) -> Integer:
    """The number of rows, of a grid or of a bounding box."""
    if len(piece) == 0:
        return 0
    if isinstance(piece, tuple):
        return len(piece)
    reach = extent(piece)
    return lowermost(piece) - uppermost(piece) + 1 if reach is None else reach[2] - reach[0] + 1


def width(piece: Piece) -> Integer:
    """The number of columns, of a grid or of a bounding box."""
    if len(piece) == 0:
        return 0
    if isinstance(piece, tuple):
        return len(piece[0])
    reach = extent(piece)
    return rightmost(piece) - leftmost(piece) + 1 if reach is None else reach[3] - reach[1] + 1


def shape(piece: Piece) -> IJ:
    """The height and the width."""
    reach = extent(piece)
    if reach is None:
        return (height(piece), width(piece))
    return (reach[2] - reach[0] + 1, reach[3] - reach[1] + 1)


def portrait(piece: Piece) -> Boolean:
    """Whether the height is greater than the width."""
    rows, columns = shape(piece)
    return rows > columns


def square(piece: Piece) -> Boolean:
    """Whether a grid is as high as wide, or a patch a filled square."""
    if isinstance(piece, tuple):
        return len(piece) == len(piece[0])
    rows, columns = shape(piece)
    return rows * columns == len(piece) and rows == columns


def vline(patch: Patch) -> Boolean:
    """Whether the cells form a vertical line."""
    return height(patch) == len(patch) and width(patch) == 1


def hline(patch: Patch) -> Boolean:
    """Whether the cells form a horizontal line."""
    return width(patch) == len(patch) and height(patch) == 1


def center(patch: Patch) -> IJ:
    """The center of the bounding box."""
    reach = extent(patch)
    if reach is None:
        return (uppermost(patch) + height(patch) // 2, leftmost(patch) + width(patch) // 2)
    top, left, bottom, right = reach
    return (top + (bottom - top + 1) // 2, left + (right - left + 1) // 2)


def centerofmass(patch: Patch) -> IJ:
    """The mean row and the mean column of the cells, rounded down."""
    places = zip(*toindices(patch), strict=False)
    return tuple([sum(place) // len(patch) for place in places])


def hperiod(obj: Object) -> Integer:
    """The smallest horizontal shift that maps an object onto itself, as far as it reaches; its width if none does."""
    normalized = normalize(obj)
    columns = width(normalized)
    reserve(len(normalized) * columns // 8)
    for period in range(1, columns):
        if all((c, (i, j - period)) in normalized for c, (i, j) in normalized if j >= period):
            return period
    return columns


def vperiod(obj: Object) -> Integer:
    """The smallest vertical shift that maps an object onto itself, as far as it reaches; its height if none does."""
    normalized = normalize(obj)
    rows = height(normalized)
    reserve(len(normalized) * rows // 8)
    for period in range(1, rows):
        if all((c, (i - period, j)) in normalized for c, (i, j) in normalized if i >= period):
            return period
    return rows


def _locations(cells: Value) -> frozenset[Value]:
    return frozenset([location for _, location in cells])


def _shifted(cells: Value, colored: bool, di: Value, dj: Value) -> frozenset[Value]:
    if colored:
        return frozenset([(value, (i + di, j + dj)) for value, (i, j) in cells])
    return frozenset([(i + di, j + dj) for i, j in cells])


def _places(patch: Value) -> Iterator[tuple[Value, ...]]:
    """All rows, all columns, and whatever else the locations have."""
    return zip(*ordered(toindices(patch)), strict=False)


def _corner(picks: dict[int, Value], patch: Value) -> tuple[Value, ...]:
    return tuple([picks[axis](place) for axis, place in enumerate(_places(patch))])
