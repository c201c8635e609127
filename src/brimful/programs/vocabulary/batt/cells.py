"""What operations read from a patch: its elements, ready to be unpacked, and its bounding box.

Cells are (i, j, color) here. Programs hand anything to anything, so that a patch may hold other values too: plain ones,
tuples of integers all alike, take the short way; for the rest what is read does not depend on the order of a set.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..order import ordered

_TUPLE = {tuple}


def cells(patch: Any) -> Iterable[Any]:
    """The elements of a patch, in any order; sets among them as tuples in canonical order."""
    if isinstance(patch, (frozenset, tuple)) and frozenset in set(map(type, patch)):
        return [tuple(ordered(element)) if isinstance(element, frozenset) else element for element in patch]
    return patch


def ordered_cells(patch: Any) -> list[Any]:
    """The elements of a patch in canonical order, and sets among them as tuples."""
    return [tuple(ordered(element)) if isinstance(element, frozenset) else element for element in ordered(patch)]


def bounds(patch: Any, *sizes: int) -> tuple[int, int, int, int] | None:
    """The first and last row and the first and last column of a plain patch; None for any other value.

    Args:
        patch: any value.
        sizes: how long its elements may be, all the same: 2 for locations, 3 for cells.
    """
    if not isinstance(patch, (frozenset, tuple)) or set(map(type, patch)) != _TUPLE:
        return None
    try:
        i, j, *others = zip(*patch, strict=True)
        plain = len(others) + 2 in sizes and type(sum(i)) is type(sum(j)) is int
    except (TypeError, ValueError):
        return None
    return (min(i), max(i), min(j), max(j)) if plain else None


def columns(indices: Any) -> list[tuple[Any, ...]]:
    """The elements of indices column by column, in canonical order where a minimum depends on it."""
    found = list(zip(*cells(indices), strict=False))
    if all(map(_numbers, found)):
        return found
    return list(zip(*ordered_cells(indices), strict=False))


def _numbers(column: tuple[Any, ...]) -> bool:
    """Whether all are numbers and none is NaN, so that their minimum does not depend on their order."""
    try:
        total = sum(column)
    except TypeError:
        return False
    return total == total
