"""Operations on grids and patches alike: their colors, and their mirror images."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable as Function
from itertools import chain
from typing import Any as Value

from ..language.types import Element, Integer, IntegerSet, Piece
from .containers import first as _first
from .order import least, ordered
from .patches import lrcorner, ulcorner
from .support.evaluate import any_order
from .support.extents import extent
from .support.rows import rows_of

_FEW_COLORS = 12

Mapped = Function[[Value], list[Value]]


def mostcolor(element: Element) -> Integer:
    """The most common color; of several, the smallest."""
    return _by_count(element, max)


def leastcolor(element: Element) -> Integer:
    """The least common color; of several, the smallest."""
    return _by_count(element, min)


def palette(element: Element) -> IntegerSet:
    """The colors."""
    if isinstance(element, tuple):
        return frozenset().union(*element)
    return frozenset(any_order(_colors, element))


def numcolors(element: Element) -> Integer:
    """The number of colors."""
    return len(palette(element))


def colorcount(element: Element, value: Integer) -> Integer:
    """The number of cells of a color."""
    if isinstance(element, tuple):
        return sum([row.count(value) for row in element])
    return any_order(_colors, element).count(value)


def hmirror(piece: Piece) -> Piece:
    """The piece with its first row last."""
    if isinstance(piece, tuple):
        return piece[::-1]
    reach = extent(piece)
    ends = ulcorner(piece)[0] + lrcorner(piece)[0] if reach is None else reach[0] + reach[2]
    return _moved(
        piece,
        lambda cells: [(color, (ends - i, j)) for color, (i, j) in cells],
        lambda cells: [(ends - i, j) for i, j in cells],
    )


def vmirror(piece: Piece) -> Piece:
    """The piece with its first column last."""
    if isinstance(piece, tuple):
        return tuple([row[::-1] for row in piece])
    reach = extent(piece)
    ends = ulcorner(piece)[1] + lrcorner(piece)[1] if reach is None else reach[1] + reach[3]
    return _moved(
        piece,
        lambda cells: [(color, (i, ends - j)) for color, (i, j) in cells],
        lambda cells: [(i, ends - j) for i, j in cells],
    )


def dmirror(piece: Piece) -> Piece:
    """The piece with its rows as columns; a patch keeps its upper left corner."""
    if isinstance(piece, tuple):
        return tuple(zip(*rows_of(piece), strict=False))
    a, b = ulcorner(piece)
    return _moved(
        piece,
        lambda cells: [(color, (j - b + a, i - a + b)) for color, (i, j) in cells],
        lambda cells: [(j - b + a, i - a + b) for i, j in cells],
    )


def cmirror(piece: Piece) -> Piece:
    """The piece mirrored at its other diagonal."""
    if isinstance(piece, tuple):
        return tuple(zip(*[row[::-1] for row in piece[::-1]], strict=False))
    return vmirror(dmirror(vmirror(piece)))


def _moved(
    patch: Value, cells: Function[[Value], list[Value]], locations: Function[[Value], list[Value]]
) -> frozenset[Value]:
    """A patch with other locations, for what its first element says it is."""
    if type(patch) is frozenset:
        try:
            colored = type(next(iter(patch))[1]) is tuple
            return frozenset((cells if colored else locations)(patch))
        except (TypeError, ValueError, IndexError):
            pass  # not a patch of one kind
    return frozenset(any_order(cells if isinstance(_first(patch)[1], tuple) else locations, patch))


def _colors(cells: Value) -> list[Value]:
    if frozenset in set(map(type, cells)):
        cells = [ordered(cell) for cell in cells]
    return [color for color, _ in cells]


def _by_count(element: Value, pick: Function[..., Value]) -> Value:
    """The canonically first of the colors whose count is the greatest or the smallest."""
    colors = list(chain.from_iterable(element)) if isinstance(element, tuple) else any_order(_colors, element)
    kinds = set(colors)
    if len(kinds) < 2:
        return pick(kinds)
    counts = Counter(colors) if len(kinds) > _FEW_COLORS else {color: colors.count(color) for color in kinds}
    extreme = pick(counts.values())
    return least([color for color, count in counts.items() if count == extreme])
