"""Python values as columns: the column that holds most of them, and those that it cannot hold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ..vocabulary.order import ordered
from .columns import (
    BIAS,
    BITS,
    COLOR_BIAS,
    COORDINATE_LIMIT,
    Cells,
    Column,
    Grids,
    Ints,
    Lists,
    Pairs,
    Patches,
    PatchKind,
    Values,
)


def _is_small(value: Any) -> bool:
    return type(value) is int and -COORDINATE_LIMIT <= value < COORDINATE_LIMIT


def _is_location(value: Any) -> bool:
    return type(value) is tuple and len(value) == 2 and _is_small(value[0]) and _is_small(value[1])


def _is_cell(value: Any) -> bool:
    return type(value) is tuple and len(value) == 2 and _is_small(value[0]) and _is_location(value[1])


def form_of(value: Any) -> str:
    """The form of column that a value suggests; "value" where only Python can hold it."""
    kind = type(value)
    if kind is bool:
        return "bool"
    if kind is int:
        return "int" if -(1 << 62) <= value < 1 << 62 else "value"
    if kind is frozenset:
        if not value:
            return "empty set"
        if all(map(_is_location, value)):
            return "indices"
        if all(map(_is_cell, value)):
            return "object"
        return _list_form("set", value)
    if kind is tuple:
        if not value:
            return "empty tuple"
        if _is_grid(value):
            return "grid"
        if _is_location(value):
            return "pair"
        if _is_cell(value):
            return "cell"
        return _list_form("tuple", value)
    return "value"


def _is_grid(value: tuple[Any, ...]) -> bool:
    first = value[0]
    if type(first) is not tuple:
        return False
    width = len(first)
    return all(type(row) is tuple and len(row) == width and all(map(_is_small, row)) for row in value)


def _list_form(container: str, value: Any) -> str:
    """A list of one form of elements; those of empty lists go with any other list."""
    forms = Counter(map(form_of, value))
    for form in [*(form for form in forms if form not in _EMPTY), *map(_EMPTY.__getitem__, forms.keys() & _EMPTY)]:
        if form != "value" and all(fits(element, form) for element in value):
            return f"{container} of {form}"
    return "value"


def fits(value: Any, form: str) -> bool:
    """Whether a column of that form holds a value. Some fit several: (1, 2) is a pair, and a tuple of numbers."""
    kind = type(value)
    match form:
        case "int":
            return kind is int and -(1 << 62) <= value < 1 << 62
        case "bool":
            return kind is bool
        case "pair":
            return _is_location(value)
        case "cell":
            return _is_cell(value)
        case "grid":
            return kind is tuple and (not value or _is_grid(value))
        case "indices":
            return kind is frozenset and all(map(_is_location, value))
        case "object":
            return kind is frozenset and all(map(_is_cell, value))
        case "value":
            return True
    container, _, of = form.partition(" of ")
    return kind is (frozenset if container == "set" else tuple) and all(fits(element, of) for element in value)


def encode(values: Sequence[Any], device: torch.device, form: str | None = None) -> tuple[Column, dict[int, Any]]:
    """A column of values, and by row those that it does not hold (their rows are blank).

    Args:
        form: of the column; by default the most frequent one.
    """
    if form is None:
        counts = Counter(map(form_of, values))
        plain = {form: count for form, count in counts.items() if form not in _EMPTY}
        form = max(plain or counts or {"int": 0}, key=lambda form: ((plain or counts).get(form, 0), form))
        form = _EMPTY.get(form, form)
    if form == "value":
        return Values(tuple(values)), {}
    boxed = {row: value for row, value in enumerate(values) if not fits(value, form)}
    blank = blank_of(form)
    return build([blank if row in boxed else value for row, value in enumerate(values)], form, device), boxed


_EMPTY = {"empty set": "indices", "empty tuple": "grid"}


def blank_of(form: str) -> Any:
    """A value that stands where a column has none."""
    match form:
        case "int":
            return 0
        case "bool":
            return False
        case "pair":
            return (0, 0)
        case "cell":
            return (0, (0, 0))
        case "indices" | "object":
            return frozenset()
    return () if form == "grid" or form.startswith("tuple") else frozenset()


def build(values: Sequence[Any], form: str, device: torch.device) -> Column:
    """A column of values that all have one form, or are empty and go with it."""

    def tensor(numbers: list[int]) -> Tensor:
        return torch.tensor(numbers, dtype=torch.int64, device=device)

    def offsets(sizes: list[int]) -> Tensor:
        starts = [0]
        for size in sizes:
            starts.append(starts[-1] + size)
        return tensor(starts)

    match form:
        case "int" | "bool":
            return Ints(tensor([int(value) for value in values]), form == "bool")
        case "pair":
            return Pairs(tensor([value[0] for value in values]), tensor([value[1] for value in values]))
        case "cell":
            return Cells(tensor([_key(*value[1], value[0]) for value in values]))
        case "grid":
            height = [len(value) for value in values]
            width = [len(value[0]) if value else 0 for value in values]
            cells = tensor([cell for value in values for row in value for cell in row])
            sizes = [tall * wide for tall, wide in zip(height, width, strict=True)]
            return Grids(cells, offsets(sizes), tensor(height), tensor(width))
        case "indices":
            keys = [key for value in values for key in sorted(_key(i, j) for i, j in value)]
            return Patches(tensor(keys), offsets([len(value) for value in values]), PatchKind.INDICES)
        case "object":
            keys = [key for value in values for key in sorted(_key(i, j, color) for color, (i, j) in value)]
            return Patches(tensor(keys), offsets([len(value) for value in values]), PatchKind.OBJECT)
    container, _, of = form.partition(" of ")
    elements = [element for value in values for element in (ordered(value) if container == "set" else value)]
    column = build(elements, of, device)
    return Lists(column, offsets([len(value) for value in values]), container == "set")


def _key(i: int, j: int, color: int = 0) -> int:
    return (color + COLOR_BIAS << 2 * BITS) | (i + BIAS << BITS) | (j + BIAS)


def form_of_column(column: Column) -> str:
    """The form that a column holds."""
    match column:
        case Ints(boolean=boolean):
            return "bool" if boolean else "int"
        case Pairs():
            return "pair"
        case Cells():
            return "cell"
        case Grids():
            return "grid"
        case Patches(kind=kind):
            return "object" if kind is PatchKind.OBJECT else "indices"
        case Lists(elements=elements, unordered=unordered):
            return f"{'set' if unordered else 'tuple'} of {form_of_column(elements)}"
    return "value"


def joined(first: Column, second: Column) -> Column:
    """The rows of one column, then those of another of the same form."""
    match first, second:
        case Ints(), Ints():
            return Ints(torch.cat([first.values, second.values]), first.boolean)
        case Pairs(), Pairs():
            return Pairs(torch.cat([first.first, second.first]), torch.cat([first.second, second.second]))
        case Cells(), Cells():
            return Cells(torch.cat([first.keys, second.keys]))
        case Grids(), Grids():
            cells, height = torch.cat([first.cells, second.cells]), torch.cat([first.height, second.height])
            return Grids(cells, _after(first, second), height, torch.cat([first.width, second.width]))
        case Patches(), Patches():
            return Patches(torch.cat([first.keys, second.keys]), _after(first, second), first.kind)
        case Lists(), Lists():
            return Lists(joined(first.elements, second.elements), _after(first, second), first.unordered)
        case Values(), Values():
            return Values(first.values + second.values)
    raise TypeError(f"a column of {form_of_column(first)} and one of {form_of_column(second)} cannot be joined")


def _after(first: Any, second: Any) -> Tensor:
    return torch.cat([first.offsets, second.offsets[1:] + first.offsets[-1]])
