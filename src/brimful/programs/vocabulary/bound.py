"""A deterministic bound on the size of one operation of a program: never a timer, so that every machine agrees.

Operations whose value or work can be much larger than their arguments reserve its elements before they make them.
Reservations add up over one operation with everything inside of it, such as the calls of a closure per element:
`begin` starts the count at zero, which the executor does before every operation, and `end` stops counting. Without a
count, in plain calls, each reservation is bounded by itself.

A `SizeError` ends the whole operation: nothing inside of it, such as a safe version of an operation in a closure, may
take it for a failure of one element, since which element goes over the bound depends on the order of the elements.
"""

from __future__ import annotations

import threading
from typing import Any

ELEMENTS = 1 << 22
"""The most elements that one operation may reserve: about 500 times the cells of a grid of 90 x 90."""

POWER = 1_000
"""The highest power of a function, where Python's own recursion ended for the reference."""

_LOWEST, _HIGHEST = -(1 << 63), (1 << 63) - 1


class SizeError(ValueError):
    """A value of a program is larger than the bound."""


class _Count(threading.local):
    """Elements reserved since `begin`; None while there is no count."""

    elements: int | None = None


_count = _Count()


def begin() -> None:
    """Starts the count of one operation."""
    _count.elements = 0


def end() -> None:
    """Stops counting: from here on, plain calls."""
    _count.elements = None


def reserved() -> int | None:
    """The count so far; what `rewind` takes to count a repetition only once."""
    return _count.elements


def rewind(elements: int | None) -> None:
    """Sets the count back."""
    _count.elements = elements


def reserve(elements: int) -> None:
    """Counts elements that an operation is about to make, and raises where they are too many."""
    elements = max(elements, 0)
    total = elements if _count.elements is None else _count.elements + elements
    if total > ELEMENTS:
        raise SizeError(f"the operation makes {total:,} elements or more; at most {ELEMENTS:,} are allowed")
    if _count.elements is not None:
        _count.elements = total


def reserve_range(span: range) -> None:
    """Reserves the elements of a range, of which there may be more than Python can count."""
    try:
        reserve(len(span))
    except OverflowError:
        raise SizeError(f"the operation makes all elements of {span}; at most {ELEMENTS:,} are allowed") from None


def bounded(value: Any) -> Any:
    """An integer that fits 64 bits, or any other value; a larger integer raises."""
    if isinstance(value, int) and not _LOWEST <= value <= _HIGHEST:
        raise SizeError(f"an integer of {value.bit_length()} bits; programs have integers of 64 bits")
    return value


def plus(a: Any, b: Any) -> Any:
    """`a + b`, bounded; the sum of tuples is both of them in one."""
    if isinstance(a, tuple) and isinstance(b, tuple):
        reserve(len(a) + len(b))
    return bounded(a + b)


def times(a: Any, b: Any) -> Any:
    """`a * b`, bounded; an integer times a tuple is the tuple repeated."""
    if isinstance(a, tuple) and isinstance(b, int):
        reserve(len(a) * b)
        return a * b
    if isinstance(b, tuple) and isinstance(a, int):
        reserve(len(b) * a)
        return b * a
    return bounded(a * b)  # pyright: ignore[reportOperatorIssue]
