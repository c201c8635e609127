"""Evaluation over the elements of a set: in any order as long as nothing fails, since that is cheapest.

What fails is evaluated again in canonical order, so that the exception is that of the first element that fails.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from ..bound import ELEMENTS, SizeError, reserve, reserved, rewind
from ..order import ordered

Value = TypeVar("Value")
_Function = TypeVar("_Function", bound=Callable[..., Any])


def weighed(function: _Function, *parts: Any) -> _Function:
    """A function that calls others, with the number of operations that one call of it runs. That doubles with every
    `compose(f, f)`: too many raise before anything is called."""
    calls = sum([getattr(part, "calls", 1) for part in parts])
    if calls > ELEMENTS:
        raise SizeError(f"a function that calls {calls:,} operations; at most {ELEMENTS:,} are allowed")
    function.calls = calls  # pyright: ignore[reportFunctionMemberAccess]
    return function


def reserve_calls(function: Any, times: int) -> None:
    """Counts the operations that so many calls of a function run."""
    reserve(times * getattr(function, "calls", 1))


def any_order(build: Callable[[Any], Value], container: Any) -> Value:
    """`build(container)`, whose value must not depend on the order of a set."""
    count = reserved()
    try:
        return build(container)
    except Exception:
        if not isinstance(container, (frozenset, set)):
            raise
    rewind(count)
    return build(ordered(container))


def values_of(function: Callable[[Any], Any], container: Any) -> list[Any]:
    """The values of a function for all elements, in the order in which Python reads the container."""
    if type(container) is tuple:
        reserve_calls(function, len(container))
        return [function(element) for element in container]
    count = reserved()
    try:
        if type(container) is frozenset:
            reserve_calls(function, len(container))
        return [function(element) for element in container]
    except Exception:
        if not isinstance(container, (frozenset, set)):
            raise
    rewind(count)
    reserve_calls(function, len(container))
    return [function(element) for element in ordered(container)]


def generated(function: Callable[[Any], Any], container: Any) -> list[Any]:
    """As `values_of`, for operations that stand for a generator: a StopIteration inside of one is a RuntimeError."""
    try:
        return values_of(function, container)
    except StopIteration as error:
        raise RuntimeError("a function raised StopIteration for an element") from error
