"""Containers, as a batt calls them: overloads by the type that they are for (_t tuples, _f frozensets).

They take any container all the same: the ending decides the default, and sometimes what an empty container gives.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from typing import Any as AnyValue

from ...language.types import Any, Callable, Container, ContainerContainer, FrozenSet, Tuple
from ..bound import SizeError, bounded, reserve
from ..order import greatest, least, ordered
from .safety import safe
from .shared import apply, merge, papply, remove, sfilter


@safe
def first(container: Container) -> Any:
    """The first element; None where there is none."""
    if isinstance(container, frozenset):
        return least(container) if container else None
    return next(iter(container), None)


@safe
def first_t(container: Tuple) -> Any:
    """The first element of a tuple; () where there is none."""
    return container[0] if container else ()


@safe
def first_f(container: FrozenSet) -> Any:
    """The first element of a set; the empty set where there is none."""
    return _front(container) if container else frozenset()


@safe
def second(container: Container) -> Any:
    """The second element; None where there is only one."""
    elements = iter(ordered(container))
    next(elements)
    return next(elements, None)


@safe
def last(container: Container) -> Any:
    """The last element; () where there is none."""
    return _back(container) if container else ()


@safe
def last_t(container: Tuple) -> Any:
    """The last element of a tuple; () where there is none."""
    return container[-1] if container else ()


@safe
def last_f(container: FrozenSet) -> Any:
    """The last element of a set; the empty set where there is none."""
    return _back(container) if container else frozenset()


@safe
def other(container: Container, value: Any) -> Any:
    """The first element that is not `value`; None where there is none."""
    return first(remove(value, container))


@safe
def other_t(container: Tuple, value: Any) -> Any:
    """The first element of a tuple that is not `value`; () where there is none."""
    return next((element for element in ordered(container) if element != value), ())


@safe
def other_f(container: FrozenSet, value: Any) -> Any:
    """The first element of a set that is not `value`; the empty set where there is none."""
    return first_f(remove_f(value, container))


@safe
def remove_t(value: Any, container: Tuple) -> Tuple:
    """A tuple without the elements that equal `value`."""
    return tuple(element for element in ordered(container) if element != value)


@safe
def remove_f(value: Any, container: FrozenSet) -> FrozenSet:
    """A container without the elements that equal `value`."""
    return type(container)(element for element in container if element != value)


@safe
def extract(container: Container, condition: Callable) -> Any:
    """The first element that satisfies a condition; the empty set where none does."""
    return next((element for element in ordered(container) if condition(element)), frozenset())


@safe
def difference_tuple(a: Tuple, b: Tuple) -> Tuple:
    """The elements of one container that the other has not."""
    return type(a)([element for element in a if element not in b])


difference_t = difference_tuple


@safe
def combine_t(a: Tuple, b: Tuple) -> Tuple:
    """One tuple after the other."""
    if isinstance(a, tuple) and isinstance(b, tuple):
        reserve(len(a) + len(b))
    total = a + b
    return bounded(total) if isinstance(total, int) else total


@safe
def combine_f(a: FrozenSet, b: FrozenSet) -> FrozenSet:
    """The union of two sets."""
    return a | b


@safe
def mostcommon_f(container: FrozenSet) -> Any:
    """The most common element, of any container."""
    return _commonest(list(container), max)


@safe
def leastcommon_f(container: FrozenSet) -> Any:
    """The least common element, of any container."""
    return _commonest(list(container), min)


@safe
def sfilter_t(container: Tuple, condition: Callable) -> Tuple:
    """The elements that satisfy a condition, as a tuple."""
    return tuple(element for element in ordered(container) if condition(element))


@safe
def sfilter_f(container: FrozenSet, condition: Callable) -> FrozenSet:
    """The elements that satisfy a condition, as a set."""
    return frozenset(element for element in container if condition(element))


@safe
def mfilter(container: Container, function: Callable) -> FrozenSet:
    """The elements of those elements that satisfy a condition."""
    return merge(sfilter(container, function))


mfilter_f = mfilter


@safe
def mfilter_t(container: Tuple, function: Callable) -> FrozenSet:
    """The elements that satisfy a condition, as a set; they are not merged."""
    return frozenset(element for element in container if function(element))


@safe
def apply_t(function: Callable, container: Tuple) -> Tuple:
    """A function of every element, as a tuple."""
    return tuple(function(element) for element in ordered(container))


@safe
def apply_f(function: Callable, container: FrozenSet) -> FrozenSet:
    """A function of every element, in a container of the same type."""
    return type(container)(function(element) for element in container)


@safe
def rapply_t(functions: Tuple, value: Any) -> Tuple:
    """Every function of a value, as a tuple."""
    return tuple(function(value) for function in ordered(functions))


@safe
def rapply_f(functions: FrozenSet, value: Any) -> FrozenSet:
    """Every function of a value, in a container of the same type."""
    return type(functions)(function(value) for function in functions)


@safe
def mapply(function: Callable, container: ContainerContainer) -> FrozenSet:
    """A function of every element, merged; () where the function or the merge fails."""
    if type(container) is frozenset:
        return _merged(function, container, ())
    return merge(apply(function, container))


@safe
def mapply_t(function: Callable, container: Tuple) -> Tuple:
    """A function of every element, merged to a tuple."""
    return merge(apply_t(function, container))


@safe
def mapply_f(function: Callable, container: FrozenSet) -> FrozenSet:
    """A function of every element, merged; the empty set where the function fails."""
    return merge(apply_f(function, container))


@safe
def mpapply(function: Callable, a: Tuple, b: Tuple) -> Tuple:
    """A function of the elements of two containers, pair by pair, merged."""
    return merge(papply(function, a, b))


def _front(container: Iterable[AnyValue]) -> AnyValue:
    """The first element of a container that has one."""
    return least(container) if isinstance(container, frozenset) else next(iter(container), None)


def _back(container: Iterable[AnyValue]) -> AnyValue:
    """The last element of a container that has one."""
    return greatest(container) if isinstance(container, frozenset) else max(enumerate(container))[1]


def _merged(function: AnyValue, container: frozenset[AnyValue], otherwise: AnyValue) -> AnyValue:
    """The union of a function's values, without a set of them in between."""
    try:
        values = [function(element) for element in container]
        reserve(sum(map(len, values)))
        return frozenset(chain.from_iterable(values))
    except SizeError:
        raise
    except Exception:
        return otherwise


def _commonest(elements: list[AnyValue], choose: AnyValue) -> AnyValue:
    """The element that occurs most or least often, the first in canonical order of those."""
    return choose(ordered(set(elements)), key=elements.count)
