"""How patches lie to each other and to a grid: matching rows and columns, distance, position, gravitation."""

from __future__ import annotations

import math
from typing import Any as AnyValue

from ...language.types import IJ, Boolean, Grid, Integer, Patch
from .cells import bounds, cells, columns
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
        return _distance(here, there)
    return min(abs(ai - bi) + abs(aj - bj) for ai, aj in cells(here) for bi, bj in cells(there))


def _distance(here: AnyValue, there: AnyValue) -> int:
    """The smallest distance between two sets of locations, row by row, the nearest rows first."""
    lines, others = _by_row(here), _by_row(there)
    best: int | None = None
    for apart, i, k in sorted([(abs(i - k), i, k) for i in lines for k in others]):
        if best is not None and apart >= best:
            break
        gap = _gap(lines[i], others[k])
        best = apart + gap if best is None else min(best, apart + gap)
    return best or 0


def _by_row(indices: AnyValue) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for i, j in sorted(indices):
        found.setdefault(i, []).append(j)
    return found


def _gap(a: list[int], b: list[int]) -> int:
    """The smallest difference between a number of one ascending list and one of another."""
    best, place = abs(a[0] - b[0]), 0
    for number in a:
        while place + 1 < len(b) and b[place + 1] <= number:
            place += 1
        best = min([best, *(abs(number - other) for other in b[place : place + 2])])
    return best


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
    si, sj = center(source)
    di, dj = center(destination)
    i, j = (1 if si < di else -1, 0) if vmatching(source, destination) else (0, 1 if sj < dj else -1)
    steps = _steps(source, destination, i, j)
    if steps is None:
        steps, moved = 0, source
        while not adjacent(moved, destination) and steps < _STEPS:
            steps += 1
            moved = shift(moved, (i, j))
    return (steps * i, steps * j)


def _steps(source: AnyValue, destination: AnyValue, i: int, j: int) -> int | None:
    """How many steps a plain patch moves until it touches another; None where one is not plain."""
    moving, there = toindices(source), toindices(destination)
    if bounds(moving, 2) is None or bounds(there, 2) is None:
        return None
    there = frozenset(there)
    beside = {place for a, b in there for place in ((a - 1, b), (a + 1, b), (a, b - 1), (a, b + 1))}
    for steps in range(_STEPS):
        moved = {(a + i * steps, b + j * steps) for a, b in moving}
        if not beside.isdisjoint(moved) and there.isdisjoint(moved):
            return steps
    return _STEPS
