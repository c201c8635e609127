"""The forms of Python values: which column holds them, as text such as "int", "grid" or "set of triple"."""

from __future__ import annotations

import math
from itertools import chain
from typing import Any

from .columns import COORDINATE_LIMIT, NAN

EMPTY = {"empty set": "indices", "empty tuple": "grid"}
"""The forms in which empty values go, where no others are there."""

_NUMBERS, _TUPLES, _PAIRS, _THREE = {int}, {tuple}, {2}, {3}
_CONTAINERS = frozenset([tuple, frozenset])
_FAR = NAN
_LONGEST = 3  # places of a tuple that each have a column of their own


def _are_small(values: Any) -> bool:
    """Whether values are whole numbers, at least one, that a coordinate or a color may be."""
    if set(map(type, values)) != _NUMBERS:
        return False
    return min(values) >= -COORDINATE_LIMIT and max(values) < COORDINATE_LIMIT


def _are_colors(values: list[Any]) -> bool:
    """Whether values are small whole numbers or NaN, at least one."""
    if float not in set(map(type, values)):
        return _are_small(values)
    others = [value for value in values if value is not math.nan]
    return not others or _are_small(others)


def _are_locations(values: Any) -> bool:
    """Whether values are tuples of two small numbers, at least one."""
    if set(map(type, values)) != _TUPLES or set(map(len, values)) != _PAIRS:
        return False
    return _are_small(list(chain.from_iterable(values)))


def _are_triples(values: Any) -> bool:
    """Whether values are tuples of three small numbers, at least one; the third may be NaN."""
    if set(map(type, values)) != _TUPLES or set(map(len, values)) != _THREE:
        return False
    flat = list(chain.from_iterable(values))
    if float not in set(map(type, flat)):
        return _are_small(flat)
    return _are_small(flat[::3] + flat[1::3]) and _are_colors(flat[2::3])


def _are_cells(values: Any) -> bool:
    """Whether values are tuples of a color and a location, at least one."""
    if set(map(type, values)) != _TUPLES or set(map(len, values)) != _PAIRS:
        return False
    flat = list(chain.from_iterable(values))
    return _are_small(flat[::2]) and _are_locations(flat[1::2])


def _is_grid(value: tuple[Any, ...]) -> bool:
    if set(map(type, value)) != _TUPLES or len(set(map(len, value))) != 1:
        return False
    return not value[0] or _are_colors(list(chain.from_iterable(value)))


def form_of(value: Any) -> str:
    """The form of column that a value suggests; "value" where only Python can hold it."""
    kind = type(value)
    if kind is bool:
        return "bool"
    if kind is int:
        return "int" if -_FAR <= value < _FAR else "value"
    if value is math.nan:
        return "int"
    if kind is frozenset:
        if not value:
            return "empty set"
        if _are_locations(value):
            return "indices"
        if _are_triples(value):
            return "set of triple"
        if _holds_floats(value):
            return "value"
        return "object" if _are_cells(value) else _list_form("set", value)
    if kind is tuple:
        if not value:
            return "empty tuple"
        if type(value[0]) is int:
            if len(value) == 3:
                return "triple" if _are_triples((value,)) else _list_form("tuple", value)
            return (
                "pair" if _are_locations((value,)) else "cell" if _are_cells((value,)) else _list_form("tuple", value)
            )
        return "grid" if _is_grid(value) else "value" if _holds_floats(value) else _list_form("tuple", value)
    return "value"


def _holds_floats(value: Any) -> bool:
    """Whether one of the numbers of tuples or sets of numbers, or of sets of such, is infinite, or another NaN than
    `math.nan`: no other is held as a float."""
    for _ in range(2):
        if not _CONTAINERS.issuperset(map(type, value)):
            break
        value = list(chain.from_iterable(value))
    return float in set(map(type, value)) and any(type(part) is float and part is not math.nan for part in value)


def _list_form(container: str, value: Any) -> str:
    """A list of one form of elements; those of empty lists go with any other list."""
    if set(map(type, value)) == _NUMBERS and min(value) >= -_FAR and max(value) < _FAR:
        return f"{container} of int"
    forms = dict[str, None]()
    for element in value:
        form = form_of(element)
        if form == "value":
            return form
        forms[form] = None
    if len(forms) == 1:
        form = next(iter(forms))
        return f"{container} of {EMPTY.get(form, form)}"
    for form in [*(form for form in forms if form not in EMPTY), *map(EMPTY.__getitem__, forms.keys() & EMPTY)]:
        if all(fits(element, form) for element in value):
            return f"{container} of {form}"
    if container == "tuple" and 2 <= len(value) <= _LONGEST:
        return f"({', '.join(EMPTY.get(form, form) for form in map(form_of, value))})"
    return "value"


def places_of(form: str) -> list[str]:
    """The forms of the places of a tuple, as in "(int, tuple of (int, object))"."""
    places, depth = [""], 0
    for character in form[1:-1].replace(", ", ","):
        depth += (character == "(") - (character == ")")
        if character == "," and not depth:
            places.append("")
        else:
            places[-1] += character if character != "," else ", "
    return places


def fits(value: Any, form: str) -> bool:
    """Whether a column of that form holds a value. Some fit several: (1, 2) is a pair, and a tuple of numbers."""
    kind = type(value)
    match form:
        case "int":
            return value is math.nan or (kind is int and -_FAR <= value < _FAR)
        case "bool":
            return kind is bool
        case "pair":
            return _are_locations((value,))
        case "cell":
            return _are_cells((value,))
        case "triple":
            return _are_triples((value,))
        case "grid":
            return kind is tuple and (not value or _is_grid(value))
        case "indices":
            return kind is frozenset and (not value or _are_locations(value))
        case "object":
            return kind is frozenset and (not value or _are_cells(value))
        case "value":
            return True
    if form.startswith("("):
        inside = places_of(form)
        return kind is tuple and len(value) == len(inside) and all(map(fits, value, inside))
    container, _, of = form.partition(" of ")
    return kind is (frozenset if container == "set" else tuple) and all(fits(element, of) for element in value)
