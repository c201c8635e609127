"""Evaluation over the elements of a set: in any order as long as nothing fails, since that is cheapest.

What fails is evaluated again in canonical order, so that the exception is that of the first element that fails.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from ..bound import reserve, reserved, rewind
from ..order import ordered

Value = TypeVar("Value")


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
        reserve(len(container))
        return [function(element) for element in container]
    count = reserved()
    try:
        if type(container) is frozenset:
            reserve(len(container))
        return [function(element) for element in container]
    except Exception:
        if not isinstance(container, (frozenset, set)):
            raise
    rewind(count)
    reserve(len(container))
    return [function(element) for element in ordered(container)]


def generated(function: Callable[[Any], Any], container: Any) -> list[Any]:
    """As `values_of`, for operations that stand for a generator: a StopIteration inside of one is a RuntimeError."""
    try:
        return values_of(function, container)
    except StopIteration as error:
        raise RuntimeError("a function raised StopIteration for an element") from error
