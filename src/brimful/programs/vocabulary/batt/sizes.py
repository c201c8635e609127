"""How large a grid or a patch is: height, width, shape, and what follows from them. Endings: _t grids, _f patches."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any as AnyValue

from ...language.types import IJ, Boolean, Grid, Indices, Integer, Object, Patch, Piece, Tuple
from .cells import bounds
from .extents import (
    leftmost,
    leftmost_i,
    leftmost_o,
    lowermost,
    lowermost_i,
    lowermost_o,
    rightmost,
    rightmost_i,
    rightmost_o,
    uppermost,
    uppermost_i,
    uppermost_o,
)
from .safety import safe


@safe
def height_t(piece: Tuple) -> Integer:
    """The number of rows of a grid."""
    return len(piece)


def _between(patch: AnyValue, first: Callable[..., AnyValue], last: Callable[..., AnyValue]) -> AnyValue:
    """How many rows or columns there are from the first to the last; 0 of an empty patch."""
    return 0 if len(patch) == 0 else last(patch) - first(patch) + 1


@safe
def height_f(piece: Indices) -> Integer:
    """The height of a patch; 0 of an empty one."""
    box = bounds(piece, 2, 3)
    return _between(piece, uppermost, lowermost) if box is None else box[1] - box[0] + 1


@safe
def height_i(piece: Indices) -> Integer:
    """The height of indices; 0 where there are none."""
    return _between(piece, uppermost_i, lowermost_i)


@safe
def height_o(piece: Object) -> Integer:
    """The height of an object; 0 of an empty one."""
    return _between(piece, uppermost_o, lowermost_o)


@safe
def height(piece: Piece) -> Integer:
    """The height of a grid or a patch."""
    return height_t(piece) if isinstance(piece, tuple) else height_f(piece)


@safe
def width_t(piece: Tuple) -> Integer:
    """The number of columns of a grid."""
    return len(piece[0]) if piece else 0


@safe
def width_f(piece: Indices) -> Integer:
    """The width of a patch; 0 of an empty one."""
    box = bounds(piece, 2, 3)
    return _between(piece, leftmost, rightmost) if box is None else box[3] - box[2] + 1


@safe
def width_i(piece: Indices) -> Integer:
    """The width of indices; 0 where there are none."""
    return _between(piece, leftmost_i, rightmost_i)


@safe
def width_o(piece: Object) -> Integer:
    """The width of an object; 0 of an empty one."""
    return _between(piece, leftmost_o, rightmost_o)


@safe
def width(piece: Piece) -> Integer:
    """The width of a grid or a patch."""
    return width_t(piece) if isinstance(piece, tuple) else width_f(piece)


@safe
def shape_t(grid: Grid) -> IJ:
    """The height and width of a grid."""
    return (height_t(grid), width_t(grid))


@safe
def shape_f(patch: Patch) -> IJ:
    """The height and width of a patch."""
    box = bounds(patch, 2, 3)
    return (height_f(patch), width_f(patch)) if box is None else (box[1] - box[0] + 1, box[3] - box[2] + 1)


@safe
def shape(piece: Piece) -> IJ:
    """The height and width of a grid or a patch."""
    return shape_t(piece) if isinstance(piece, tuple) else shape_f(piece)


@safe
def portrait_t(grid: Grid) -> Boolean:
    """Whether a grid is higher than wide."""
    return height_t(grid) > width_t(grid)


@safe
def portrait_f(patch: Patch) -> Boolean:
    """Whether a patch is higher than wide."""
    return height_f(patch) > width_f(patch)


@safe
def portrait(piece: Piece) -> Boolean:
    """Whether a grid or a patch is higher than wide."""
    return portrait_t(piece) if isinstance(piece, tuple) else portrait_f(piece)


@safe
def square_t(grid: Grid) -> Boolean:
    """Whether a grid is as high as wide."""
    return len(grid) == len(grid[0])


@safe
def square_f(patch: Patch) -> Boolean:
    """Whether a patch fills a square."""
    high, wide = shape_f(patch)
    return high * wide == len(patch) and high == wide


@safe
def square(piece: Piece) -> Boolean:
    """Whether a grid is, or a patch fills, a square."""
    return square_t(piece) if isinstance(piece, tuple) else square_f(piece)


@safe
def vline_i(patch: Indices) -> Boolean:
    """Whether indices are an unbroken vertical line."""
    return height_i(patch) == len(patch) and width_i(patch) == 1


@safe
def vline_o(patch: Object) -> Boolean:
    """Whether an object is an unbroken vertical line."""
    return height_o(patch) == len(patch) and width_o(patch) == 1


@safe
def vline(patch: Patch) -> Boolean:
    """Whether a patch is an unbroken vertical line."""
    return height_f(patch) == len(patch) and width_f(patch) == 1


@safe
def hline_i(patch: Indices) -> Boolean:
    """Whether indices are an unbroken horizontal line."""
    return width_i(patch) == len(patch) and height_i(patch) == 1


@safe
def hline_o(patch: Object) -> Boolean:
    """Whether an object is an unbroken horizontal line."""
    return width_o(patch) == len(patch) and height_o(patch) == 1


@safe
def hline(patch: Patch) -> Boolean:
    """Whether a patch is an unbroken horizontal line."""
    return width_f(patch) == len(patch) and height_f(patch) == 1


@safe
def center(patch: Patch) -> IJ:
    """The center of the bounding box; () of an empty patch."""
    box = bounds(patch, 2, 3)
    if box is not None:
        return (box[0] + (box[1] - box[0] + 1) // 2, box[2] + (box[3] - box[2] + 1) // 2)
    top, left = uppermost(patch), leftmost(patch)
    if top is math.nan or left is math.nan:
        return ()
    return (top + height_f(patch) // 2, left + width_f(patch) // 2)
