"""Locations from a patch or from locations: boxes, lines, frontiers, neighbors."""

from __future__ import annotations

from itertools import product

from ...language.types import IJ, Indices, Integer, Patch
from .. import lines
from ..bound import reserve
from ..order import ordered
from .extents import lrcorner, sides, toindices, ulcorner
from .safety import safe

_EMPTY = (frozenset(), ())


@safe
def backdrop(patch: Patch) -> Indices:
    """All locations in the bounding box."""
    if not hasattr(patch, "__len__") or len(patch) == 0:
        return frozenset()
    si, sj = ulcorner(patch)
    ei, ej = lrcorner(patch)
    rows, columns = range(si, ei + 1), range(sj, ej + 1)
    reserve((ei + 1 - si) * (ej + 1 - sj))
    return frozenset(product(rows, columns))


@safe
def delta(patch: Patch) -> Indices:
    """The locations in the bounding box that are not in the patch."""
    if not hasattr(patch, "__len__") or len(patch) == 0:
        return frozenset()
    return backdrop(patch) - toindices(patch)


def _outline(ai: Integer, aj: Integer, bi: Integer, bj: Integer) -> Indices:
    """The edge of the box between two corners."""
    si, sj, ei, ej = min(ai, bi), min(aj, bj), max(ai, bi), max(aj, bj)
    rows, columns = range(si, ei + 1), range(sj, ej + 1)
    reserve(2 * (ei + 1 - si + ej + 1 - sj))
    return frozenset(
        [(i, sj) for i in rows] + [(i, ej) for i in rows] + [(si, j) for j in columns] + [(ei, j) for j in columns]
    )


@safe
def box(patch: Patch) -> Indices:
    """The edge of the bounding box."""
    if patch in _EMPTY:
        return frozenset()
    return _outline(*_two(ulcorner(patch)), *_two(lrcorner(patch)))


def _two(location: IJ) -> IJ:
    i, j = location
    return i, j


@safe
def inbox(patch: Patch) -> Indices:
    """The edge of the box one step inside of the bounding box."""
    if patch in _EMPTY:
        return frozenset()
    top, bottom, left, right = sides(patch)
    return _outline(top + 1, left + 1, bottom - 1, right - 1)


@safe
def outbox(patch: Patch) -> Indices:
    """The edge of the box one step outside of the bounding box."""
    if patch in _EMPTY:
        return frozenset()
    top, bottom, left, right = sides(patch)
    return _outline(top - 1, left - 1, bottom + 1, right + 1)


@safe
def connect(a: IJ, b: IJ) -> Indices:
    """The straight or diagonal line between two locations; no location where there is none."""
    if a == () or b == ():
        return frozenset()
    ai, aj = a if type(a) is tuple else ordered(a)
    bi, bj = b if type(b) is tuple else ordered(b)
    if type(ai) is type(aj) is type(bi) is type(bj) is int and ai != bi and aj != bj and abs(bi - ai) != abs(bj - aj):
        return frozenset()
    si, ei, sj, ej = min(ai, bi), max(ai, bi) + 1, min(aj, bj), max(aj, bj) + 1
    if ai == bi:
        return frozenset([(ai, j) for j in _range(sj, ej)])
    if aj == bj:
        return frozenset([(i, aj) for i in _range(si, ei)])
    if bi - ai == bj - aj:
        return frozenset(zip(_range(si, ei), _range(sj, ej), strict=False))
    if bi - ai == aj - bj:
        return frozenset(zip(_range(si, ei), reversed(_range(sj, ej)), strict=False))
    return frozenset()


def _range(start: Integer, stop: Integer) -> range:
    """The integers from start to stop, of which there are not too many."""
    numbers = range(start, stop)
    reserve(stop - start)
    return numbers


@safe
def shoot(start: IJ, direction: IJ) -> Indices:
    """The line from a location in a direction, 42 steps long."""
    if start in _EMPTY or direction in _EMPTY:
        return frozenset()
    return connect(start, (start[0] + 42 * direction[0], start[1] + 42 * direction[1]))


@safe
def hfrontier(location: IJ) -> Indices:
    """The row of a location, 30 columns long."""
    return frozenset() if location == () else lines.hfrontier(location)


@safe
def dneighbors(loc: IJ) -> Indices:
    """The four locations beside a location; none of what is no location."""
    return lines.dneighbors(loc) if loc and type(loc) is tuple else frozenset()


@safe
def ineighbors(loc: IJ) -> Indices:
    """The four locations diagonal to a location; none of what is no location."""
    return lines.ineighbors(loc) if loc and type(loc) is tuple else frozenset()


_neighbors = safe(lines.neighbors)


@safe
def neighbors(loc: IJ) -> Indices:
    """The eight locations around a location; none of what is no location."""
    return _neighbors(loc) if loc and type(loc) is tuple else frozenset()
