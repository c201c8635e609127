"""Grids as they should be, told from what else a program may pass for a grid; and the locations of their cells."""

from __future__ import annotations

from functools import lru_cache
from itertools import product
from typing import Any

from ..order import ordered

_TUPLES = {tuple}


def rectangular(grid: Any) -> bool:
    """Whether a value is a tuple of rows, all tuples of one length, at least one."""
    return type(grid) is tuple and set(map(type, grid)) == _TUPLES and len(set(map(len, grid))) == 1


def rows_of(grid: Any) -> Any:
    """The rows of a grid, also where it is a set, or where its rows are."""
    if type(grid) is tuple and set(map(type, grid)) == _TUPLES:
        return grid
    return [ordered(row) for row in ordered(grid)]


def locations(height: int, width: int) -> tuple[tuple[int, int], ...]:
    """All locations of a grid, row by row."""
    if height * width <= 1024:
        return _small(height, width)
    return _large(height, width) if height * width <= 16384 else tuple(product(range(height), range(width)))


@lru_cache(maxsize=1024)
def _small(height: int, width: int) -> tuple[tuple[int, int], ...]:
    return tuple(product(range(height), range(width)))


@lru_cache(maxsize=16)
def _large(height: int, width: int) -> tuple[tuple[int, int], ...]:
    return tuple(product(range(height), range(width)))
