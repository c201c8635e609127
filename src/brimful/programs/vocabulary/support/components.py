"""Connected components of the cells of a grid."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import chain
from typing import Any

Cell = tuple[Any, tuple[int, int]]


def components(
    rows: Sequence[Sequence[Any]], background: Any, univalued: bool, diagonal: bool
) -> list[frozenset[Cell]]:
    """The components of the cells that are not background.

    The grid becomes one list with a border, in which cells that have been visited turn into background.

    Args:
        rows: of one length.
        background: the color that belongs to no component; None for no color.
        univalued: only cells of equal color are connected.
        diagonal: cells that share only a corner are connected too.
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
    places = _places(height, width)
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
        found.append(frozenset([(colors[member], places[member]) for member in members]))
    return found


@lru_cache(maxsize=1024)
def _places(height: int, width: int) -> tuple[tuple[int, int], ...]:
    """The locations of the list with a border; those of the border itself are never used."""
    return tuple([(i - 1, j) for i in range(height + 2) for j in range(width + 1)])
