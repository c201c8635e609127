"""How patches lie to each other and to a grid: matching rows and columns, distance, position, gravitation."""

from __future__ import annotations

import math

from ...language.types import IJ, Boolean, Grid, Integer, Patch
from .. import relations
from ..bound import reserve
from .cells import bounds, cells, columns, ordered_cells
from .extents import leftmost, lowermost, rightmost, toindices, uppermost
from .safety import safe
from .sizes import center
from .transforms import shift

_STEPS = 42


@safe
def hmatching(a: Patch, b: Patch) -> Boolean:
    """Whether two patches share a row."""
    return len({i for i, _ in cells(toindices(a))} & {i for i, _ in cells(toindices(b))}) > 0


@safe
def vmatching(a: Patch, b: Patch) -> Boolean:
    """Whether two patches share a column."""
    return len({j for _, j in cells(toindices(a))} & {j for _, j in cells(toindices(b))}) > 0


@safe
def manhattan(a: Patch, b: Patch) -> Integer:
    """The smallest distance between a cell of one patch and a cell of another; infinity where one is empty."""
    if not hasattr(a, "__len__") or not hasattr(b, "__len__"):
        return math.inf
    if len(a) == 0 or len(b) == 0:
        return math.inf
    here, there = toindices(a), toindices(b)
    if bounds(here, 2) is not None and bounds(there, 2) is not None:
        return relations.manhattan(frozenset(here), frozenset(there))
    reserve(len(here) * len(there))
    others = ordered_cells(there)
    return min(abs(ai - bi) + abs(aj - bj) for ai, aj in ordered_cells(here) for bi, bj in others)


@safe
def adjacent(a: Patch, b: Patch) -> Boolean:
    """Whether two patches touch without overlapping."""
    return manhattan(a, b) == 1


@safe
def bordering(patch: Patch, grid: Grid) -> Boolean:
    """Whether a patch reaches an edge of a grid."""
    if uppermost(patch) == 0 or leftmost(patch) == 0:
        return True
    return lowermost(patch) == len(grid) - 1 or rightmost(patch) == len(grid[0]) - 1


@safe
def centerofmass(patch: Patch) -> IJ:
    """The mean location of a patch, rounded down."""
    return tuple([sum(column) // len(patch) for column in columns(toindices(patch))])


@safe
def position(a: Patch, b: Patch) -> IJ:
    """The direction from one patch to another: -1, 0 or 1 for rows and for columns."""
    ia, ja = center(toindices(a))
    ib, jb = center(toindices(b))
    if ia == ib:
        return (0, 1 if ja < jb else -1)
    if ja == jb:
        return (1 if ia < ib else -1, 0)
    if ia < ib:
        return (1, 1 if ja < jb else -1)
    if ia > ib:
        return (-1, 1 if ja < jb else -1)
    return None


@safe
def gravitate(source: Patch, destination: Patch) -> IJ:
    """The vector by which a patch moves in a straight line until it touches another, at most 42 steps."""
    if not destination:
        return source
    here, there = toindices(source), toindices(destination)
    if bounds(here, 2) is not None and bounds(there, 2) is not None:
        return relations.gravitate(frozenset(here), frozenset(there))
    si, sj = center(source)
    di, dj = center(destination)
    i, j = (1 if si < di else -1, 0) if vmatching(source, destination) else (0, 1 if sj < dj else -1)
    steps = 0
    while not adjacent(source, destination) and steps < _STEPS:
        steps += 1
        source = shift(source, (i, j))
    return (steps * i, steps * j)
