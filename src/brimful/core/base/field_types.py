"""Whether values that were read from a file have the types of a dataclass's fields."""

import functools
from collections.abc import Mapping
from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints


def fits(kind: type, values: Mapping[str, Any]) -> bool:
    """Whether the values of a dataclass's fields, by name, have their types, as far as JSON tells them apart: a list is
    a tuple, and a whole number is a number.

    Example:
        >>> from dataclasses import make_dataclass
        >>> kind = make_dataclass("Kind", [("count", int), ("share", float), ("name", str | None)])
        >>> fits(kind, {"count": 1, "share": 1, "name": None}), fits(kind, {"count": 1.5, "share": 1, "name": None})
        (True, False)
    """
    types = _types(kind)
    return all(
        isinstance(value, types[name]) and (type(value) is not bool or bool in types[name])
        for name, value in values.items()
        if name in types
    )


@functools.cache
def _types(kind: type) -> dict[str, tuple[type, ...]]:
    """The types that each field may have; those of fields that say `Any` are left out."""
    types_by_field = {}
    for name, hint in get_type_hints(kind).items():
        kinds = [get_origin(part) or part for part in (get_args(hint) if isinstance(hint, UnionType) else (hint,))]
        more = [other for wanted, other in ((float, int), (tuple, list)) if wanted in kinds]
        if Any not in kinds:
            types_by_field[name] = (*kinds, *more)
    return types_by_field
