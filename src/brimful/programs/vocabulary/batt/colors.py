"""The colors of grids (_t) and objects (_f): which, how many, how often."""

from __future__ import annotations

import math
from collections import Counter
from operator import itemgetter
from typing import Any as AnyValue

from ...language.types import Element, FrozenSet, Grid, Integer, IntegerSet, Object, Objects, Tuple
from ..order import least, ordered
from .cells import cells
from .safety import safe

_COLOR = itemgetter(2)


def _ranked(values: list[AnyValue], choose: AnyValue) -> AnyValue:
    """The most or least common value, the first in canonical order of those; NaN where there is none."""
    if not values:
        return math.nan
    counts = Counter(values)
    count = choose(counts.values())
    return least({value for value, times in counts.items() if times == count})


@safe
def mostcolor_t(grid: Grid) -> Integer:
    """The most common color of a grid; NaN of an empty one."""
    return _ranked([value for row in grid for value in row], max)


@safe
def mostcolor_f(obj: Object) -> Integer:
    """The most common color of an object; NaN of an empty one."""
    return _ranked([c for _, _, c in cells(obj)], max)


@safe
def mostcolor(element: Element) -> Integer:
    """The most common color of a grid or an object."""
    return mostcolor_t(element) if isinstance(element, tuple) else mostcolor_f(element)


@safe
def leastcolor_t(grid: Grid) -> Integer:
    """The least common color of a grid; NaN of an empty one."""
    return _ranked([value for row in grid for value in row], min)


@safe
def leastcolor_f(obj: Object) -> Integer:
    """The least common color of an object; NaN of an empty one."""
    return _ranked([c for _, _, c in cells(obj)], min)


@safe
def leastcolor(element: Element) -> Integer:
    """The least common color of a grid or an object."""
    return leastcolor_t(element) if isinstance(element, tuple) else leastcolor_f(element)


@safe
def palette_t(element: Tuple) -> IntegerSet:
    """The colors of a grid."""
    return frozenset([value for row in element for value in row])


@safe
def palette_f(element: FrozenSet) -> IntegerSet:
    """The colors of an object."""
    return frozenset([c for _, _, c in cells(element)])


p_f = palette_f


@safe
def palette(element: Element) -> IntegerSet:
    """The colors of a grid or an object."""
    return palette_t(element) if isinstance(element, tuple) else palette_f(element)


@safe
def p_g(grid: Grid) -> IntegerSet:
    """The colors of a grid as a tuple, in canonical order."""
    return tuple(ordered({value for row in grid for value in row}))


@safe
def p_o(obj: Object) -> IntegerSet:
    """The colors of an object as a tuple, in canonical order."""
    return tuple(ordered({c for _, _, c in cells(obj)}))


@safe
def numcolors_t(grid: Grid) -> Integer:
    """The number of colors of a grid."""
    return len(palette_t(grid))


@safe
def numcolors_f(obj: Object) -> Integer:
    """The number of colors of an object."""
    return len(palette_f(obj))


@safe
def numcolors(element: Element) -> Integer:
    """The number of colors of a grid or an object."""
    return numcolors_t(element) if isinstance(element, tuple) else numcolors_f(element)


@safe
def colorcount_t(grid: Grid, color: Integer) -> Integer:
    """How many cells of a grid have a color."""
    return sum(row.count(color) for row in grid)


@safe
def colorcount_f(obj: Object, color: Integer) -> Integer:
    """How many cells of an object have a color."""
    return sum([c == color for _, _, c in cells(obj)])


@safe
def colorcount(element: Element, value: Integer) -> Integer:
    """How many cells of a grid or an object have a color."""
    return colorcount_t(element, value) if isinstance(element, tuple) else colorcount_f(element, value)


def head(obj: AnyValue) -> AnyValue:
    """The first cell of an object, or any with the same color; StopIteration of an empty object."""
    if isinstance(obj, frozenset):
        try:
            if len(set(map(_COLOR, obj))) > 1:
                return least(obj)
        except (IndexError, TypeError):
            return least(obj)
    return next(iter(obj))


@safe
def color(obj: Object) -> Integer:
    """The color of an object, of its first cell; minus infinity where there is none."""
    if isinstance(obj, (frozenset, tuple)) and not obj:
        return -math.inf
    cell = head(obj)
    return cell[2] if isinstance(cell, tuple) else -math.inf


@safe
def colorfilter(objs: Objects, color: Integer) -> Objects:
    """The objects of a color, by their first cells."""
    return frozenset(obj for obj in objs if head(obj)[2] == color)


@safe
def colorfilter_t(objs: Tuple, color: Integer) -> Tuple:
    """The objects of a color, by their first cells, as a tuple."""
    return tuple(obj for obj in ordered(objs) if obj[0][2] == color)
