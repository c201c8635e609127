"""Whether two values are the same, as `encode` has it, without writing both down in canonical order."""

from __future__ import annotations

import marshal
from typing import Any

from .encoding import encode

_VERSION = 2  # of marshal's format: the last one in which bytes do not depend on how often an object is referred to
_SET, _TUPLE = b">", b"("


def same_value(one: Any, other: Any) -> bool:
    """Whether two values have the same bytes in `encoding`: 1 is not True, NaN is NaN, a function is its name.

    Example:
        >>> same_value((1, frozenset({2, 3})), (1, frozenset({3, 2}))), same_value((1,), (True,))
        (True, False)
    """
    if one is other:
        return True
    try:
        plain, again = marshal.dumps(one, _VERSION), marshal.dumps(other, _VERSION)
    except ValueError:  # a function is in it
        return encode(one) == encode(other)
    if plain == again:
        return True
    if len(plain) == len(again) and _sorted(one, plain) == _sorted(other, again):
        return True
    return encode(one) == encode(other)


def _sorted(value: Any, plain: bytes) -> bytes:
    """What marshal writes of a value if the elements of sets come in the order of their bytes."""
    if _SET not in plain:
        return plain
    if isinstance(value, frozenset):
        return plain[:5] + b"".join(sorted([_sorted(part, marshal.dumps(part, _VERSION)) for part in value]))
    if isinstance(value, tuple) and plain[:1] == _TUPLE:
        return plain[:5] + b"".join([_sorted(part, marshal.dumps(part, _VERSION)) for part in value])
    return plain
