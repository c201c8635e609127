"""Elements by rank: by place, by value, by a function, by how common they are. Negative ranks count from the back."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from typing import Any as AnyValue

from ...language.types import Any, Callable, Container, FrozenSet, Grid, Integer, IntegerSet, Object, Tuple
from ..order import least, ordered
from ..support.rows import rows_of
from .cells import ordered_cells
from .safety import safe

_NONE: AnyValue = object()


@safe
def get_nth_t(container: Tuple, rank: Integer) -> Any:
    """The element of a tuple at a rank; NaN where there is none, or where it is no tuple."""
    if type(container) is not tuple or not -len(container) <= rank < len(container):
        return math.nan
    return container[rank]


@safe
def get_nth_f(container: FrozenSet, rank: Integer) -> Any:
    """The element at a rank in the order of a set; the empty set where there is none."""
    if rank == 0 and isinstance(container, frozenset) and isinstance(rank, int):
        return least(container) if container else frozenset()
    count = len(range(-rank - 1)) if rank < 0 else len(range(rank))
    elements = tuple(ordered(container))
    if count >= len(elements):
        return frozenset()
    return elements[-count - 1 if rank < 0 else count]


def _itself(value: AnyValue) -> AnyValue:
    return value


@safe
def get_nth_by_key_t(container: Tuple, rank: Integer, key: Callable = _itself) -> Any:
    """The element at a rank, ordered by a function; None of an empty container."""
    ranked = sorted(ordered(container), key=key)
    return ranked[rank] if ranked else None


@safe
def get_nth_by_key_f(container: FrozenSet, rank: Integer, key: Callable = _itself) -> Any:
    """The element at a rank, ordered by a function; the first for negative ranks, None beyond the last."""
    ranked = sorted(ordered(container), key=key)
    place = len(range(rank))
    return ranked[place] if place < len(ranked) else None


@safe
def get_color_rank_t(grid: Grid, rank: Integer) -> Integer:
    """The color of a grid at a rank, the most common first; () where there is none."""
    return _by_count([value for row in rows_of(grid) for value in row], rank, ())


@safe
def get_color_rank_f(obj: Object, rank: Integer) -> Integer:
    """The color of an object at a rank, the most common first; the empty set where there is none."""
    return _by_count([c for _, _, c in ordered_cells(obj)], rank, frozenset())


@safe
def get_rank(container: IntegerSet, rank: Integer) -> Integer:
    """The element at a rank, the largest first; 0 where there is none."""
    ranked = sorted(ordered(container), reverse=True)
    return ranked[rank] if -len(ranked) <= rank < len(ranked) else 0


@safe
def get_arg_rank(container: Container, compfunc: Callable, rank: Integer) -> Any:
    """The element at a rank by a function, the largest first; an empty container where there is none."""
    found = _by_key(container, compfunc, rank, True)
    return type(container)() if found is _NONE else found


@safe
def get_arg_rank_t(container: Tuple, compfunc: Callable, rank: Integer) -> Any:
    """The element at a rank by a function, the largest first; () where there is none."""
    found = _by_key(container, compfunc, rank, True)
    return () if found is _NONE else found


@safe
def get_arg_rank_f(container: FrozenSet, compfunc: Callable, rank: Integer) -> Any:
    """The element at a rank by a function, the largest first; the empty set where there is none."""
    found = _by_key(container, compfunc, rank, True)
    return frozenset() if found is _NONE else found


@safe
def get_val_rank(container: Container, compfunc: Callable, rank: Integer) -> Any:
    """The value at a rank of a function's values, the smallest first; its value at 0 where there is none."""
    found = _by_key(container, compfunc, rank, False)
    return compfunc(0) if found is _NONE else compfunc(found)


get_val_rank_t = get_val_rank
get_val_rank_f = get_val_rank


@safe
def get_common_rank(container: Container, rank: Integer) -> Any:
    """The element of a tuple at a rank, the least common first; () where there is none."""
    ranked = sorted(ordered(set(container)), key=container.count)
    return ranked[rank] if -len(ranked) <= rank < len(ranked) else ()


get_common_rank_t = get_common_rank


@safe
def get_common_rank_f(container: FrozenSet, rank: Integer) -> Any:
    """The element at a rank, the least common first; the empty set where there is none."""
    elements = list(container)
    ranked = sorted(ordered(set(elements)), key=elements.count)
    return ranked[rank] if -len(ranked) <= rank < len(ranked) else frozenset()


def _by_count(values: list[AnyValue], rank: AnyValue, otherwise: AnyValue) -> AnyValue:
    """The value at a rank, the most common first, ties in the order in which they first occur."""
    ranked = Counter(values).most_common()
    return ranked[rank][0] if -len(ranked) <= rank < len(ranked) else otherwise


def _by_key(container: Iterable[AnyValue], key: AnyValue, rank: AnyValue, reverse: bool) -> AnyValue:
    """The element at a rank by a key, ties in canonical order, of which only those at the rank are put in order."""
    if isinstance(container, frozenset) and key is not None:
        keyed = [(key(element), element) for element in container]
        if all(type(value) is int for value, _ in keyed):
            values = sorted((value for value, _ in keyed), reverse=reverse)
            if not -len(values) <= rank < len(values):
                return _NONE
            value = values[rank]
            ties = ordered(frozenset(element for other, element in keyed if other == value))
            return ties[range(len(values))[rank] - values.index(value)]
    ranked = sorted(ordered(container), key=key, reverse=reverse)
    return ranked[rank] if -len(ranked) <= rank < len(ranked) else _NONE
