"""Operations that take or return functions.

Functions that operations return are closures whose number of arguments is that of their signature: `rbind` and `lbind`
read it. Whatever depends on the order of a set takes the canonical one, ties included; and a function that fails for
several elements of a set fails as it does for the canonically first of them.
"""

from __future__ import annotations

from ..language.types import Any, Callable, Container, ContainerContainer, FrozenSet, Integer, Tuple
from .bound import POWER, reserve, reserved, rewind
from .containers import merge
from .order import least, ordered
from .support.evaluate import generated, reserve_calls, values_of, weighed

_NUMBERS = frozenset({int, bool})


def order(container: Container, compfunc: Callable) -> Tuple:
    """The elements, ascending by the values of a function."""
    if type(container) is not frozenset or compfunc is None:
        return tuple(sorted(ordered(container), key=compfunc))
    keys = values_of(compfunc, container)
    by_element = dict(zip(container, keys, strict=True))
    distinct = _NUMBERS.issuperset(map(type, keys)) and len(set(keys)) == len(keys)
    return tuple(sorted(container if distinct else ordered(container), key=by_element.__getitem__))


def valmax(container: Container, compfunc: Callable) -> Integer:
    """The greatest value of a function; its value for 0 where there is no element."""
    return compfunc(_extreme(max, container, compfunc, default=0))


def valmin(container: Container, compfunc: Callable) -> Integer:
    """The smallest value of a function; its value for 0 where there is no element."""
    return compfunc(_extreme(min, container, compfunc, default=0))


def argmax(container: Container, compfunc: Callable) -> Any:
    """The element with the greatest value of a function."""
    return _extreme(max, container, compfunc)


def argmin(container: Container, compfunc: Callable) -> Any:
    """The element with the smallest value of a function."""
    return _extreme(min, container, compfunc)


def sfilter(container: Container, condition: Callable) -> Container:
    """The elements for which a condition holds."""
    flags = generated(condition, container)
    return type(container)([element for element, flag in zip(container, flags, strict=True) if flag])


def mfilter(container: Container, function: Callable) -> FrozenSet:
    """The elements of the containers for which a condition holds, in one container."""
    return merge(sfilter(container, function))


def extract(container: Container, condition: Callable) -> Any:
    """The first element for which a condition holds. Only what the condition reserves up to there counts."""
    matches = _matches(container, condition) if type(container) is frozenset else None
    if matches is None:
        return next(element for element in ordered(container) if condition(element))
    return least(matches)


def _matches(container: frozenset, condition: Callable) -> list[Any] | None:
    """The elements of a set for which a condition holds; None where it fails for one of them, or reserves anything:
    which elements come before the first then matters."""
    count = reserved()
    try:
        reserve_calls(condition, len(container))
        called = reserved()
        matches = [element for element in container if condition(element)]
        return matches if reserved() == called else None
    except Exception:
        return None
    finally:
        rewind(count)


def compose(outer: Callable, inner: Callable) -> Callable:
    """One function after another."""
    return weighed(lambda x: outer(inner(x)), outer, inner)


def chain(h: Callable, g: Callable, f: Callable) -> Callable:
    """One function after two others."""
    return weighed(lambda x: h(g(f(x))), h, g, f)


def matcher(function: Callable, target: Any) -> Callable:
    """Whether the value of a function equals a target."""
    return weighed(lambda x: function(x) == target, function)


def rbind(function: Callable, fixed: Any) -> Callable:
    """The function with its last argument fixed."""
    match function.__code__.co_argcount:
        case 2:
            return weighed(lambda x: function(x, fixed), function, fixed)
        case 3:
            return weighed(lambda x, y: function(x, y, fixed), function, fixed)
        case _:
            return weighed(lambda x, y, z: function(x, y, z, fixed), function, fixed)


def lbind(function: Callable, fixed: Any) -> Callable:
    """The function with its first argument fixed."""
    match function.__code__.co_argcount:
        case 2:
            return weighed(lambda x: function(fixed, x), function, fixed)
        case 3:
            return weighed(lambda x, y: function(fixed, x, y), function, fixed)
        case _:
            return weighed(lambda x, y, z: function(fixed, x, y, z), function, fixed)


def power(function: Callable, n: Integer) -> Callable:
    """The function applied n times."""
    if n == 1:
        return function
    others = n - 1
    if not 0 < others < POWER:
        raise RecursionError(f"power {n} of a function; it is from 1 to {POWER:,}")

    def repeated(x):
        reserve(n)
        for _ in range(n):
            x = function(x)
        return x

    return weighed(repeated, *[function] * n)


def fork(outer: Callable, a: Callable, b: Callable) -> Callable:
    """A function of the values of two others."""
    return weighed(lambda x: outer(a(x), b(x)), outer, a, b)


def apply(function: Callable, container: Container) -> Container:
    """The values of a function for all elements."""
    return type(container)(generated(function, container))


def rapply(functions: Container, value: Any) -> Container:
    """The values of all functions for one value."""
    return type(functions)(generated(lambda function: function(value), functions))


def mapply(function: Callable, container: ContainerContainer) -> FrozenSet:
    """The elements of the values of a function for all elements, in one container."""
    if type(container) is not frozenset:
        return merge(apply(function, container))
    values = generated(function, container)
    reserve(sum(map(len, values)))
    return frozenset().union(*values)


def papply(function: Callable, a: Tuple, b: Tuple) -> Tuple:
    """The values of a function of two arguments, for the elements of two tuples at the same place."""
    pairs = tuple(zip(ordered(a), ordered(b), strict=False))
    reserve_calls(function, len(pairs))
    try:
        return tuple([function(i, j) for i, j in pairs])
    except StopIteration as error:
        raise RuntimeError("a function raised StopIteration for a pair") from error


def mpapply(function: Callable, a: Tuple, b: Tuple) -> Tuple:
    """The elements of the values of `papply`, in one tuple."""
    return merge(papply(function, a, b))


def prapply(function: Callable, a: Container, b: Container) -> FrozenSet:
    """The values of a function of two arguments for all pairs of elements."""
    columns = tuple(b)
    if not columns:
        return frozenset()
    reserve_calls(function, len(tuple(a)) * len(columns))
    count = reserved()
    try:
        return frozenset([function(i, j) for j in b for i in a])
    except Exception:
        rewind(count)
    try:
        return frozenset([function(i, j) for j in ordered(b) for i in ordered(a)])
    except StopIteration as error:
        raise RuntimeError("a function raised StopIteration for a pair") from error


def _extreme(pick, container, compfunc, **default):
    """The element with the greatest or smallest value of a function."""
    if type(container) is not frozenset or not container or compfunc is None:
        return pick(ordered(container), key=compfunc, **default)
    keys = values_of(compfunc, container)
    if not _NUMBERS.issuperset(map(type, keys)):
        return pick(ordered(container), key=dict(zip(container, keys, strict=True)).__getitem__, **default)
    extreme = pick(keys)
    return least([element for element, key in zip(container, keys, strict=True) if key == extreme])
