"""Operations that make sets of locations: neighbors, lines, frontiers, boxes around patches."""

from __future__ import annotations

import itertools
from itertools import repeat

from ..language.types import IJ, Indices, Patch
from .bound import plus as _plus
from .bound import reserve, reserve_range
from .bound import times as _times
from .order import ordered
from .patches import leftmost, lowermost, lrcorner, rightmost, toindices, ulcorner, uppermost
from .support.extents import extent
from .support.outline import outline

_NOWHERE: frozenset[tuple[int, int]] = frozenset()


def dneighbors(loc: IJ) -> Indices:
    """The four locations that share a side with a location."""
    above = loc[0] - 1
    i, j = loc[0], loc[1]
    return frozenset(((above, j), (i + 1, j), (i, j - 1), (i, j + 1)))


def ineighbors(loc: IJ) -> Indices:
    """The four locations that share only a corner with a location."""
    above = loc[0] - 1
    left = loc[1] - 1
    below, right = loc[0] + 1, loc[1] + 1
    return frozenset(((above, left), (above, right), (below, left), (below, right)))


def neighbors(loc: IJ) -> Indices:
    """The eight locations around a location."""
    above = loc[0] - 1
    i, j = loc[0], loc[1]
    below, left, right = i + 1, j - 1, j + 1
    return frozenset(
        ((above, j), (below, j), (i, left), (i, right), (above, left), (above, right), (below, left), (below, right))
    )


def connect(a: IJ, b: IJ) -> Indices:
    """The locations on the straight or diagonal line between two; none where there is no such line."""
    if type(a) is tuple and type(b) is tuple:
        ai, aj = a
        bi, bj = b
        if type(ai) is int and type(aj) is int and type(bi) is int and type(bj) is int:
            return _line(ai, aj, bi - ai, bj - aj)
    ai, aj = ordered(a)
    bi, bj = ordered(b)
    top, bottom, left, right = min(ai, bi), max(ai, bi) + 1, min(aj, bj), max(aj, bj) + 1
    if ai == bi:
        return frozenset(zip(repeat(ai), _range(left, right), strict=False))
    if aj == bj:
        return frozenset(zip(_range(top, bottom), repeat(aj), strict=False))
    if bi - ai == bj - aj:
        return frozenset(zip(_range(top, bottom), _range(left, right), strict=True))
    if bi - ai == aj - bj:
        return frozenset(zip(_range(top, bottom), reversed(_range(left, right)), strict=True))
    return frozenset()


def _line(i: int, j: int, di: int, dj: int) -> frozenset[tuple[int, int]]:
    """The line from a location by a vector; empty where that is neither straight nor diagonal."""
    if di and dj and di != dj and di != -dj:
        return _NOWHERE
    if di < 0 or (di == 0 and dj < 0):
        i, j, di, dj = i + di, j + dj, -di, -dj
    if not di:
        reserve(dj + 1)
        return frozenset([(i, column) for column in range(j, j + dj + 1)])
    reserve(di + 1)
    if not dj:
        return frozenset([(row, j) for row in range(i, i + di + 1)])
    columns = range(j, j + dj + 1) if dj > 0 else range(j, j + dj - 1, -1)
    return frozenset(zip(range(i, i + di + 1), columns, strict=True))


def shoot(start: IJ, direction: IJ) -> Indices:
    """The line from a location in a direction, 42 steps long."""
    return connect(start, (_plus(start[0], _times(42, direction[0])), _plus(start[1], _times(42, direction[1]))))


def vfrontier(location: IJ) -> Indices:
    """The vertical line through a location, 30 rows long."""
    return frozenset(zip(range(30), repeat(location[1]), strict=False))


def hfrontier(location: IJ) -> Indices:
    """The horizontal line through a location, 30 columns long."""
    return frozenset(zip(repeat(location[0]), range(30), strict=False))


def backdrop(patch: Patch) -> Indices:
    """All locations of the bounding box."""
    if len(patch) == 0:
        return frozenset()
    top, left = ulcorner(toindices(patch))
    bottom, right = lrcorner(patch)
    rows = range(top, bottom + 1)
    if not rows:
        return frozenset()
    columns = range(left, right + 1)
    reserve((bottom - top + 1) * max(right - left + 1, 0))
    return frozenset(itertools.product(rows, columns))


def delta(patch: Patch) -> Indices:
    """The locations of the bounding box that are not the patch's."""
    if len(patch) == 0:
        return frozenset()
    return backdrop(patch) - toindices(patch)


def inbox(patch: Patch) -> Indices:
    """The outline one step inside of the bounding box."""
    top, left, bottom, right = extent(patch) or _extent(patch)
    return outline(top + 1, left + 1, bottom - 1, right - 1)


def outbox(patch: Patch) -> Indices:
    """The outline one step outside of the bounding box."""
    top, left, bottom, right = extent(patch) or _extent(patch)
    return outline(top - 1, left - 1, bottom + 1, right + 1)


def box(patch: Patch) -> Indices:
    """The outline of the bounding box."""
    if len(patch) == 0:
        return patch
    top, left = ulcorner(patch)
    bottom, right = lrcorner(patch)
    return outline(top, left, bottom, right)


def _range(start, stop) -> range:
    span = range(start, stop)
    reserve_range(span)
    return span


def _extent(patch):
    return uppermost(patch), leftmost(patch), lowermost(patch), rightmost(patch)
