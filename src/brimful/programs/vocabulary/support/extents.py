"""The rows and columns that the cells of a patch reach: what most operations on patches begin with.

Everything here is for patches as they should be: a set of cells (color, (i, j)) or a set of locations (i, j), not both,
with numbers for i and j. Any other value gives None, and the operation then does what its definition says, element by
element in canonical order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_NUMBERS = (int, bool)
_TUPLES = {tuple}

Extent = tuple[int, int, int, int]
Pick = Callable[[list[Any]], Any]


def extent(patch: Any) -> Extent | None:
    """The first row, the first column, the last row and the last column of a patch."""
    places = _places(patch)
    first = None if places is None else _ends(places, min, min)
    return None if places is None or first is None else (*first, max(places[0]), max(places[1]))


def corner(patch: Any, row: Pick, column: Pick) -> tuple[int, int] | None:
    """The first or last row of a patch, and the first or last column."""
    places = _places(patch)
    return None if places is None else _ends(places, row, column)


def rows_and_columns(patch: Any) -> tuple[list[int], list[int]] | None:
    """The rows and the columns of the cells of a patch, one per cell, in the order in which Python reads the set."""
    places = _places(patch)
    return None if places is None or _ends(places, min, min) is None else places


def _ends(places: tuple[list[Any], list[Any]], row: Pick, column: Pick) -> tuple[int, int] | None:
    try:
        reached = (row(places[0]), column(places[1]))
    except TypeError:
        return None
    # Python compares a number with nothing but numbers: where the smallest or the largest is one, all are
    return reached if type(reached[0]) in _NUMBERS and type(reached[1]) in _NUMBERS else None


def _places(patch: Any) -> tuple[list[Any], list[Any]] | None:
    """As `rows_and_columns`, of whatever type."""
    if type(patch) is not frozenset or set(map(type, patch)) != _TUPLES:
        return None
    try:
        locations = patch
        if type(next(iter(patch))[1]) is tuple:
            locations = [location for _, location in patch]
            if set(map(type, locations)) != _TUPLES:
                return None
        return [i for i, _ in locations], [j for _, j in locations]
    except (ValueError, IndexError):
        return None


def probable_locations(patch: Any) -> Any:
    """The locations of the cells of a patch, if all of its elements are as the one that Python reads first.

    It may raise a TypeError, ValueError or IndexError where they are not; what it returns may still be mixed.
    """
    if type(patch) is not frozenset or set(map(type, patch)) != _TUPLES:
        raise TypeError("not a set of cells or locations")
    return [location for _, location in patch] if type(next(iter(patch))[1]) is tuple else patch
