"""The rows and columns that the cells of a patch reach: what most operations on patches begin with.

Everything here is for patches as they should be: a set of cells (color, (i, j)) or a set of locations (i, j), not both,
with numbers for i and j. Any other value gives None, and the operation then does what its definition says, element by
element in canonical order.
"""

from __future__ import annotations

from typing import Any

_NUMBERS = (int, bool)

Extent = tuple[int, int, int, int]


def extent(patch: Any) -> Extent | None:
    """The first row, the first column, the last row and the last column of a patch."""
    places = rows_and_columns(patch)
    return None if places is None else (min(places[0]), min(places[1]), max(places[0]), max(places[1]))


def rows_and_columns(patch: Any) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """The rows and the columns of the cells of a patch, one per cell, in the order in which Python reads the set."""
    if type(patch) is not frozenset or not patch:
        return None
    try:
        locations = patch
        if type(next(iter(patch))[1]) is tuple:
            _, locations = zip(*patch, strict=True)
        rows, columns = zip(*locations, strict=True)
        # Python compares a number with nothing but numbers: where the smallest is one, all are
        plain = type(min(rows)) in _NUMBERS and type(min(columns)) in _NUMBERS
    except (TypeError, ValueError, IndexError):
        return None
    return (rows, columns) if plain else None


def plain_locations(patch: Any) -> Any:
    """The locations of the cells of a patch, in the order in which Python reads the set."""
    places = rows_and_columns(patch)
    return None if places is None else zip(*places, strict=True)
