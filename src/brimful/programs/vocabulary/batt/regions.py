"""Locations from a patch or from locations: boxes, lines, frontiers, neighbors."""

from __future__ import annotations

from itertools import product

from ...language.types import IJ, Indices, Patch
from .. import lines
from ..bound import plus, reserve, times
from ..support.outline import outline
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


@safe
def box(patch: Patch) -> Indices:
    """The edge of the bounding box."""
    if patch in _EMPTY:
        return frozenset()
    return outline(*_two(ulcorner(patch)), *_two(lrcorner(patch)))


def _two(location: IJ) -> IJ:
    i, j = location
    return i, j


@safe
def inbox(patch: Patch) -> Indices:
    """The edge of the box one step inside of the bounding box."""
    if patch in _EMPTY:
        return frozenset()
    top, bottom, left, right = sides(patch)
    return outline(top + 1, left + 1, bottom - 1, right - 1)


@safe
def outbox(patch: Patch) -> Indices:
    """The edge of the box one step outside of the bounding box."""
    if patch in _EMPTY:
        return frozenset()
    top, bottom, left, right = sides(patch)
    return outline(top - 1, left - 1, bottom + 1, right + 1)


@safe
def connect(a: IJ, b: IJ) -> Indices:
    """The straight or diagonal line between two locations; no location where there is none, or for ()."""
    return frozenset() if a == () or b == () else lines.connect(a, b)


@safe
def shoot(start: IJ, direction: IJ) -> Indices:
    """The line from a location in a direction, 42 steps long."""
    if start in _EMPTY or direction in _EMPTY:
        return frozenset()
    return connect(start, (plus(start[0], times(42, direction[0])), plus(start[1], times(42, direction[1]))))


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
