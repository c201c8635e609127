"""Operations on tuples and sets of anything.

Whatever depends on the order of a set takes the canonical one (`order.py`).
"""

from __future__ import annotations

import itertools
from collections import Counter
from itertools import chain

from ..language.types import (
    Any,
    Boolean,
    Container,
    ContainerContainer,
    FrozenSet,
    Integer,
    IntegerSet,
    Tuple,
    TupleTuple,
)
from .bound import reserve, reserve_range
from .order import greatest, least, ordered

_NUMBERS = frozenset({int, bool})


def contained(value: Any, container: Container) -> Boolean:
    """Whether a value is an element."""
    return value in container


def combine(a: Container, b: Container) -> Container:
    """The elements of both containers, as the first one is."""
    elements = (*a, *b) if type(a) is frozenset else (*ordered(a), *ordered(b))
    reserve(len(elements))
    return type(a)(elements)


def intersection(a: FrozenSet, b: FrozenSet) -> FrozenSet:
    """The elements that two sets share."""
    return a & b


def difference(a: FrozenSet, b: FrozenSet) -> FrozenSet:
    """The elements of the first container that the second does not have."""
    if type(a) is frozenset and type(b) is frozenset:
        return a - b
    if type(b) is tuple and len(b) > 8:
        try:
            members = frozenset(b)
            return type(a)([element for element in a if element not in members])
        except TypeError:
            pass  # what cannot be hashed is compared
    return type(a)([element for element in a if element not in b])


def dedupe(tup: Tuple) -> Tuple:
    """The elements of a tuple, each where it comes first."""
    if type(tup) is tuple:
        try:
            return tuple(dict.fromkeys(tup))
        except TypeError:
            pass  # what cannot be hashed is compared
    return tuple([element for place, element in enumerate(tup) if tup.index(element) == place])


def repeat(item: Any, num: Integer) -> Tuple:
    """A tuple of one item, several times."""
    count = range(num)
    reserve_range(count)
    return (item,) * len(count)


def size(container: Container) -> Integer:
    """The number of elements."""
    return len(container)


def merge(containers: ContainerContainer) -> Container:
    """The elements of all containers in one."""
    reserve(sum(map(len, containers)))
    if type(containers) is frozenset:
        return frozenset().union(*containers)
    return type(containers)(chain.from_iterable(map(ordered, containers)))


def maximum(container: IntegerSet) -> Integer:
    """The greatest element; 0 where there is none."""
    return max(_comparable(container), default=0)


def minimum(container: IntegerSet) -> Integer:
    """The smallest element; 0 where there is none."""
    return min(_comparable(container), default=0)


def mostcommon(container: Container) -> Any:
    """The most common element of a tuple; of several, the canonically first one."""
    return _by_count(container, max)


def leastcommon(container: Container) -> Any:
    """The least common element of a tuple; of several, the canonically first one."""
    return _by_count(container, min)


def initset(value: Any) -> FrozenSet:
    """The set of one value."""
    return frozenset((value,))


def totuple(container: FrozenSet) -> Tuple:
    """The elements in order."""
    return tuple(ordered(container))


def first(container: Container) -> Any:
    """The first element."""
    return least(container) if type(container) is frozenset else next(iter(ordered(container)))


def last(container: Container) -> Any:
    """The last element."""
    if type(container) is tuple and container:
        return container[-1]
    if isinstance(container, (frozenset, set)) and container:
        return greatest(container)
    return max(enumerate(container))[1]


def insert(value: Any, container: FrozenSet) -> FrozenSet:
    """The set with one more element."""
    return container.union(frozenset((value,)))


def remove(value: Any, container: Container) -> Container:
    """The container without the elements that equal a value."""
    if type(container) is frozenset:
        try:
            return container - {value}
        except TypeError:
            pass  # what cannot be hashed is compared
    return type(container)([element for element in container if element != value])


def other(container: Container, value: Any) -> Any:
    """The first element that does not equal a value."""
    return first(remove(value, container))


def interval(start: Integer, stop: Integer, step: Integer) -> Tuple:
    """The integers from a start to before a stop."""
    span = range(start, stop, step)
    reserve_range(span)
    return tuple(span)


def product(a: Container, b: Container) -> FrozenSet:
    """All pairs of an element of the first and one of the second."""
    columns = tuple(b)
    if not columns:
        return frozenset()
    rows = tuple(a)
    reserve(len(rows) * len(columns))
    return frozenset(itertools.product(rows, columns))


def pair(a: Tuple, b: Tuple) -> TupleTuple:
    """Pairs of the elements at the same place."""
    return tuple(zip(ordered(a), ordered(b), strict=False))


def _comparable(container: Any) -> Any:
    """A container whose greatest element does not depend on its order: numbers are, the rest is put in order."""
    return container if _NUMBERS.issuperset(map(type, container)) else ordered(container)


def _by_count(container: Any, pick: Any) -> Any:
    """The canonically first of the elements whose count is the greatest or the smallest."""
    if type(container) is not tuple:
        return pick(ordered(set(container)), key=container.count)
    counts = Counter(container)
    extreme = pick(counts.values())
    return least([element for element, count in counts.items() if count == extreme])
