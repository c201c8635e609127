"""Connected components of the cells of a grid, whatever a cell is made of."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from itertools import chain
from typing import Any


def components(
    rows: Sequence[Sequence[Any]],
    background: Any,
    univalued: bool,
    diagonal: bool,
    cells: Callable[[list[Any], tuple[int, ...], tuple[int, ...]], Iterable[Any]],
    by_distance: bool = False,
) -> list[list[Any]]:
    """The components of the cells that are not background, by their first cells in reading order.

    The grid becomes one list with a border, in which cells that have been visited turn into background.

    Args:
        rows: of one length.
        background: the color that belongs to no component; None for no color.
        univalued: only cells of equal color are connected.
        diagonal: cells that share only a corner are connected too.
        cells: makes cells of their colors, rows and columns.
        by_distance: the cells of a component are in order, by the number of steps from the first of them, and those
            at one distance in reading order; by default they are in any order.
    """
    height, width = len(rows), len(rows[0])
    if width == 0:
        return []
    stride = width + 1
    border = [background] * stride
    colors = border + list(chain.from_iterable([[*row, background] for row in rows])) + border
    unvisited = colors.copy()
    steps = (1, -1, stride, -stride)
    if diagonal:
        steps += (stride + 1, stride - 1, 1 - stride, -1 - stride)
    made = list(cells(colors, *_places(height, width)))
    found = []
    for start, value in enumerate(unvisited):
        if value == background:
            continue
        unvisited[start] = background
        members = [start]
        if univalued:
            for member in members:
                for step in steps:
                    if unvisited[member + step] == value:
                        unvisited[member + step] = background
                        members.append(member + step)
        else:
            for member in members:
                for step in steps:
                    if unvisited[member + step] != background:
                        unvisited[member + step] = background
                        members.append(member + step)
        if by_distance:
            members = _by_distance(members, steps)
        found.append([made[member] for member in members])
    return found


def _by_distance(members: list[int], steps: tuple[int, ...]) -> list[int]:
    """The places of a component by their distance from the first of them."""
    unvisited = set(members[1:])
    arranged, layer = [], members[:1]
    while layer:
        arranged += layer
        layer = sorted(unvisited.intersection([member + step for member in layer for step in steps]))
        unvisited.difference_update(layer)
    return arranged


@lru_cache(maxsize=256)
def _places(height: int, width: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The rows and the columns of the list with a border; those of the border itself are never used."""
    rows = tuple([i - 1 for i in range(height + 2) for _ in range(width + 1)])
    return rows, tuple(range(width + 1)) * (height + 2)
