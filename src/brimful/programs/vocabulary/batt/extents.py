"""Where a patch lies: its locations, its outermost rows and columns, its corners, its height and width."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any as AnyValue

from ...language.types import IJ, Any, Indices, Integer, Object, Patch
from ..order import least
from .cells import bounds, cells, columns
from .safety import safe


@safe
def toindices(patch: Patch) -> Indices:
    """The locations of a patch: of its cells, or the patch itself where its elements are no cells."""
    if not hasattr(patch, "__len__") or len(patch) == 0:
        return frozenset()
    head = next(iter(patch))
    if isinstance(patch, frozenset) and not _alike(patch):
        head = least(patch)
    if not hasattr(head, "__len__"):
        return frozenset()
    if len(head) == 3:
        return frozenset([(i, j) for i, j, _ in cells(patch)])
    return patch


@safe
def toindices_i(indices: Indices) -> Indices:
    """Indices are their own locations."""
    return indices


@safe
def toindices_o(obj: Object) -> Indices:
    """The locations of the cells of an object."""
    if not hasattr(obj, "__len__") or len(obj) == 0:
        return frozenset()
    return frozenset([(i, j) for i, j, _ in cells(obj)])


def _alike(patch: AnyValue) -> bool:
    """Whether all elements have one length."""
    try:
        return len(set(map(len, patch))) == 1
    except TypeError:
        return False


def _extreme(patch: AnyValue, side: int, indices: Callable[[AnyValue], AnyValue], *sizes: int) -> AnyValue:
    """The outermost row or column of a patch on one of its sides: top, bottom, left, right."""
    box = bounds(patch, *sizes)
    if box is not None:
        return box[side]
    locations = indices(patch)
    for _, _ in cells(locations):
        pass
    both = columns(locations) if locations else ()
    return (max if side % 2 else min)(both[side // 2] if both else ())


@safe
def uppermost(patch: Patch) -> Integer:
    """The first row; NaN of an empty patch."""
    return _extreme(patch, 0, toindices, 2, 3) if patch else math.nan


@safe
def uppermost_i(indices: Indices) -> Integer:
    """The first row of indices; NaN where there are none."""
    return _extreme(indices, 0, toindices_i, 2) if indices else math.nan


@safe
def uppermost_o(obj: Object) -> Integer:
    """The first row of an object; NaN of an empty one."""
    return _extreme(obj, 0, toindices_o, 3) if obj else math.nan


@safe
def lowermost(patch: Patch) -> Integer:
    """The last row; NaN of an empty patch."""
    return _extreme(patch, 1, toindices, 2, 3) if patch else math.nan


@safe
def lowermost_i(indices: Indices) -> Integer:
    """The last row of indices; NaN where there are none."""
    return _extreme(indices, 1, toindices_i, 2) if indices else math.nan


@safe
def lowermost_o(obj: Object) -> Integer:
    """The last row of an object; NaN of an empty one."""
    return _extreme(obj, 1, toindices_o, 3) if obj else math.nan


@safe
def leftmost(patch: Patch) -> Integer:
    """The first column; NaN of an empty patch."""
    return _extreme(patch, 2, toindices, 2, 3) if patch else math.nan


@safe
def leftmost_i(indices: Indices) -> Integer:
    """The first column of indices; NaN where there are none."""
    return _extreme(indices, 2, toindices_i, 2) if indices else math.nan


@safe
def leftmost_o(obj: Object) -> Integer:
    """The first column of an object; NaN of an empty one."""
    return _extreme(obj, 2, toindices_o, 3) if obj else math.nan


@safe
def rightmost(patch: Patch) -> Integer:
    """The last column; NaN of an empty patch."""
    return _extreme(patch, 3, toindices, 2, 3) if patch else math.nan


@safe
def rightmost_i(indices: Indices) -> Integer:
    """The last column of indices, of which there is at least one."""
    return _extreme(indices, 3, toindices_i, 2)


@safe
def rightmost_o(obj: Object) -> Integer:
    """The last column of an object, which is not empty."""
    return _extreme(obj, 3, toindices_o, 3)


def sides(patch: AnyValue) -> tuple[AnyValue, AnyValue, AnyValue, AnyValue]:
    """The first and the last row, the first and the last column, as the safe operations give them."""
    box = bounds(patch, 2, 3)
    if box is not None:
        return box
    if patch and not toindices(patch):
        return (0, 0, 0, 0)
    return (uppermost(patch), lowermost(patch), leftmost(patch), rightmost(patch))


@safe
def col_row(patch: Patch, type: Integer) -> Any:
    """An outermost row or column: 0 the last row, 1 the first row, 2 the first column, 3 the last column."""
    for number, side in enumerate((lowermost, uppermost, leftmost, rightmost)):
        if type == number:
            return side(patch)
    return None


_FIRST, _LAST = {0: min, 1: min}, {0: max, 1: max}
_UPPER_RIGHT, _LOWER_LEFT = {0: min, 1: max}, {0: max, 1: min}


def _corner(
    patch: AnyValue, sides: dict[int, Callable[..., AnyValue]], indices: Callable[[AnyValue], AnyValue], *sizes: int
) -> tuple[AnyValue, ...]:
    """The extreme of every column of the locations of a patch, by the side that a corner is on."""
    box = bounds(patch, *sizes)
    if box is not None:
        return (box[sides[0] is max], box[2 + (sides[1] is max)])
    found = columns(indices(patch))
    if sides is _FIRST or sides is _LAST:
        return tuple(map(sides[0], found))
    return tuple(sides[place](column) for place, column in enumerate(found))


@safe
def ulcorner(patch: Patch) -> IJ:
    """The upper left corner of the bounding box; () of an empty patch."""
    return _corner(patch, _FIRST, toindices, 2, 3)


@safe
def ulcorner_i(indices: Indices) -> IJ:
    """The upper left corner of indices."""
    return _corner(indices, _FIRST, toindices_i, 2)


@safe
def ulcorner_o(obj: Object) -> IJ:
    """The upper left corner of an object."""
    return _corner(obj, _FIRST, toindices_o, 3)


@safe
def urcorner(patch: Patch) -> IJ:
    """The upper right corner of the bounding box; () of an empty patch."""
    return _corner(patch, _UPPER_RIGHT, toindices, 2, 3)


@safe
def urcorner_i(indices: Indices) -> IJ:
    """The upper right corner of indices."""
    return _corner(indices, _UPPER_RIGHT, toindices_i, 2)


@safe
def urcorner_o(obj: Object) -> IJ:
    """The upper right corner of an object."""
    return _corner(obj, _UPPER_RIGHT, toindices_o, 3)


@safe
def llcorner(patch: Patch) -> IJ:
    """The lower left corner of the bounding box; () of an empty patch."""
    return _corner(patch, _LOWER_LEFT, toindices, 2, 3)


@safe
def llcorner_i(indices: Indices) -> IJ:
    """The lower left corner of indices."""
    return _corner(indices, _LOWER_LEFT, toindices_i, 2)


@safe
def llcorner_o(obj: Object) -> IJ:
    """The lower left corner of an object."""
    return _corner(obj, _LOWER_LEFT, toindices_o, 3)


@safe
def lrcorner(patch: Patch) -> IJ:
    """The lower right corner of the bounding box; () of an empty patch."""
    return _corner(patch, _LAST, toindices, 2, 3)


@safe
def lrcorner_i(indices: Indices) -> IJ:
    """The lower right corner of indices."""
    return _corner(indices, _LAST, toindices_i, 2)


@safe
def lrcorner_o(obj: Object) -> IJ:
    """The lower right corner of an object."""
    return _corner(obj, _LAST, toindices_o, 3)


@safe
def corner(patch: Patch, type: Integer) -> IJ:
    """A corner of the bounding box: 0 upper left, 1 upper right, 2 lower left, 3 lower right; upper left otherwise."""
    for number, find in enumerate((ulcorner, urcorner, llcorner, lrcorner)):
        if type == number:
            return find(patch)
    return ulcorner(patch)


@safe
def corners(patch: Patch) -> Indices:
    """The four corners of the bounding box."""
    return frozenset({ulcorner(patch), urcorner(patch), llcorner(patch), lrcorner(patch)})
