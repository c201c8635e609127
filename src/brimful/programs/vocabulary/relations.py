"""Operations on two patches, or on a patch and the grid it is in: how they lie to each other."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from typing import Any as Value

from ..language.types import IJ, Boolean, Grid, Integer, Patch
from .bound import reserve
from .order import ordered
from .patches import center, leftmost, lowermost, rightmost, shift, toindices, uppermost
from .support.evaluate import any_order
from .support.extents import rows_and_columns


def hmatching(a: Patch, b: Patch) -> Boolean:
    """Whether some row has cells of both patches."""
    rows = any_order(_rows, toindices(a))
    return not rows.isdisjoint(any_order(_rows, toindices(b)))


def vmatching(a: Patch, b: Patch) -> Boolean:
    """Whether some column has cells of both patches."""
    columns = any_order(_columns, toindices(a))
    return not columns.isdisjoint(any_order(_columns, toindices(b)))


def manhattan(a: Patch, b: Patch) -> Integer:
    """The smallest Manhattan distance between a cell of one patch and a cell of the other."""
    ours, theirs = rows_and_columns(a), rows_and_columns(b)
    if ours is not None and theirs is not None:
        return _distance(ours, theirs)
    return min(
        abs(ai - bi) + abs(aj - bj) for ai, aj in ordered(toindices(a)) for bi, bj in _counted(ordered(toindices(b)))
    )


def adjacent(a: Patch, b: Patch) -> Boolean:
    """Whether the Manhattan distance of two patches is 1."""
    ours, theirs = rows_and_columns(a), rows_and_columns(b)
    if ours is None or theirs is None:
        return manhattan(a, b) == 1
    if len(theirs[0]) < len(ours[0]):
        ours, theirs = theirs, ours
    cells = set(zip(*theirs, strict=True))
    own = list(zip(*ours, strict=True))
    if not cells.isdisjoint(own):
        return False
    return any((i, j + 1) in cells or (i, j - 1) in cells or (i + 1, j) in cells or (i - 1, j) in cells for i, j in own)


def bordering(patch: Patch, grid: Grid) -> Boolean:
    """Whether a patch reaches the border of a grid."""
    return (
        uppermost(patch) == 0
        or leftmost(patch) == 0
        or lowermost(patch) == len(grid) - 1
        or rightmost(patch) == len(grid[0]) - 1
    )


def position(a: Patch, b: Patch) -> IJ:
    """The direction from the center of one patch to that of the other."""
    ia, ja = center(toindices(a))
    ib, jb = center(toindices(b))
    if ia == ib:
        return (0, 1 if ja < jb else -1)
    if ja == jb:
        return (1 if ia < ib else -1, 0)
    return (1 if ia < ib else -1, 1 if ja < jb else -1)


def gravitate(source: Patch, destination: Patch) -> IJ:
    """The vector that moves one patch until it is adjacent to the other; at most 42 steps."""
    si, sj = center(source)
    di, dj = center(destination)
    i = j = 0
    if vmatching(source, destination):
        i = 1 if si < di else -1
    else:
        j = 1 if sj < dj else -1
    steps = 0
    while not adjacent(source, destination) and steps < 42:
        steps += 1
        source = shift(source, (i, j))
    return (steps * i, steps * j)


def _rows(indices: Value) -> set[Value]:
    return {i for i, _ in indices}


def _columns(indices: Value) -> set[Value]:
    return {j for _, j in indices}


def _counted(indices: Value) -> Value:
    reserve(len(indices))
    return indices


def _distance(a: tuple[Value, Value], b: tuple[Value, Value]) -> int:
    """The smallest distance of two sets of locations: rows against rows, the nearest first."""
    ours, theirs = _by_row(*a), _by_row(*b)
    reserve(len(ours) * len(theirs))
    pairs = sorted((abs(ai - bi), ai, bi) for ai in ours for bi in theirs)
    best = pairs[-1][0] + max(max(a[1]) - min(b[1]), max(b[1]) - min(a[1]))
    for rows_apart, ai, bi in pairs:
        if rows_apart >= best:
            break
        best = min(best, rows_apart + _gap(ours[ai], theirs[bi]))
    return best


def _by_row(rows: Value, columns: Value) -> dict[int, list[int]]:
    """The columns of the cells of every row, ascending."""
    found = defaultdict(list)
    for i, j in sorted(zip(rows, columns, strict=True)):
        found[i].append(j)
    return found


def _gap(a: list[int], b: list[int]) -> int:
    """The smallest difference of two ascending lists."""
    if len(a) > len(b):
        a, b = b, a
    gaps = []
    for value in a:
        place = bisect_left(b, value)
        gaps += [abs(value - near) for near in b[max(place - 1, 0) : place + 1]]
    return min(gaps)
