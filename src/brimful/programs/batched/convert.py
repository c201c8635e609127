"""Python values as columns: the column that holds most of them, and those that it cannot hold."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from itertools import accumulate, chain
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..vocabulary.order import ordered
from .columns import (
    CELL,
    NAN,
    NAN_COLOR,
    ORIGIN,
    Cells,
    Column,
    Grids,
    Ints,
    Lists,
    Pairs,
    Patches,
    PatchKind,
    Triples,
    Tuples,
    Values,
    key_of,
    triples,
)
from .forms import EMPTY, fits, form_of, places_of
from .others import Others, Part
from .segments import canonical, sort_unique


def encode(values: Sequence[Any], device: torch.device, form: str | None = None) -> tuple[Column, Others]:
    """A column of values, and those that it does not hold (their rows are blank).

    Args:
        form: of the column; by default the most frequent one.
    """
    forms = list(map(form_of, values))
    if form is None:
        counts = Counter(forms)
        plain = {form: count for form, count in counts.items() if form not in EMPTY}
        form = max(plain or counts or {"int": 0}, key=lambda form: ((plain or counts).get(form, 0), form))
        form = EMPTY.get(form, form)
    if form == "value":
        return Values(tuple(values)), Others()
    unfit: dict[str, list[int]] = {}
    for row, own in enumerate(forms):
        if own != form and not fits(values[row], form):
            unfit.setdefault(EMPTY.get(own, own), []).append(row)
    if not unfit:
        return build(values, form, device), Others()
    blank, held = blank_of(form), list(values)
    parts = []
    for other, rows in unfit.items():
        column = build([values[row] for row in rows], other, device)
        parts.append(Part(torch.tensor(rows, dtype=torch.int64, device=device), column))
        for row in rows:
            held[row] = blank
    return build(held, form, device), Others(parts)


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
        case "triple":
            return (0, 0, 0)
        case "indices" | "object":
            return frozenset()
    if form.startswith("("):
        return tuple(map(blank_of, places_of(form)))
    return () if form == "grid" or form.startswith("tuple") else frozenset()


_SORTED = ("int", "triple", "indices", "object", "set of triple")
"""Elements whose sets are put into order as columns."""


def build(values: Sequence[Any], form: str, device: torch.device) -> Column:
    """A column of values that all have one form, or are empty and go with it."""

    def tensor(numbers: list[int]) -> Tensor:
        return torch.tensor(numbers, dtype=torch.int64, device=device)

    def offsets() -> Tensor:
        starts = np.zeros(len(values) + 1, np.int64)
        np.cumsum(np.fromiter(map(len, values), np.int64, len(values)), out=starts[1:])
        return torch.from_numpy(starts).to(device)

    match form:
        case "value":
            return Values(tuple(values))
        case "int" | "bool":
            return Ints(tensor(list(map(int, _coded(values, NAN)))), form == "bool")
        case "pair":
            return Pairs(tensor([value[0] for value in values]), tensor([value[1] for value in values]))
        case "cell":
            return Cells(_keys(list(values), True).to(device))
        case "triple":
            numbers = _coded(list(chain.from_iterable(values)), NAN_COLOR)
            flat = np.array(numbers, np.int64).reshape(-1, 3)
            return triples(*(torch.from_numpy(flat[:, place].copy()).to(device) for place in range(3)))
        case "grid":
            height = [len(value) for value in values]
            width = [len(value[0]) if value else 0 for value in values]
            colors = _coded(list(chain.from_iterable(chain.from_iterable(values))), NAN_COLOR)
            cells = torch.tensor(colors, dtype=CELL, device=device)
            starts = torch.zeros(len(values) + 1, dtype=torch.int64, device=device)
            torch.cumsum(tensor(height) * tensor(width), 0, out=starts[1:])
            return Grids(cells, starts, tensor(height), tensor(width))
        case "indices" | "object":
            cells, starts = _keys(list(chain.from_iterable(values)), form == "object").to(device), offsets()
            kind = PatchKind.OBJECT if form == "object" else PatchKind.INDICES
            return Patches(*sort_unique(cells, starts), kind)
    if form.startswith("("):
        inside = enumerate(places_of(form))
        return Tuples(tuple(build([value[at] for value in values], place, device) for at, place in inside))
    container, _, of = form.partition(" of ")
    if container == "set" and of not in _SORTED:
        values = [ordered(value) for value in values]
    lists = Lists(build(list(chain.from_iterable(values)), of, device), offsets(), container == "set")
    if container == "set" and of in _SORTED:
        lists = canonical(lists)
        assert lists is not None
    return lists


def _coded(values: Sequence[Any], nan: int) -> Sequence[Any]:
    """Numbers, with one that stands for NaN in its place."""
    if float not in set(map(type, values)):
        return values
    return [nan if value is math.nan else value for value in values]


def _keys(elements: list[Any], cells: bool) -> Tensor:
    """The keys of locations, or of cells."""
    colors: Any = 0
    if cells:
        colors = torch.tensor([color for color, _ in elements], dtype=torch.int64)
        elements = [location for _, location in elements]
    flat = np.fromiter(chain.from_iterable(elements), np.int64, 2 * len(elements))
    return key_of(torch.from_numpy(flat[::2].copy()), torch.from_numpy(flat[1::2].copy()), colors)


def form_of_column(column: Column) -> str:
    """The form that a column holds."""
    match column:
        case Ints(boolean=boolean):
            return "bool" if boolean else "int"
        case Pairs():
            return "pair"
        case Cells():
            return "cell"
        case Triples():
            return "triple"
        case Grids():
            return "grid"
        case Patches(kind=kind):
            return "object" if kind is PatchKind.OBJECT else "indices"
        case Lists(elements=elements, unordered=unordered):
            return f"{'set' if unordered else 'tuple'} of {form_of_column(elements)}"
        case Tuples(places=places):
            return f"({', '.join(map(form_of_column, places))})"
    return "value"


def joined(*all_columns: Column) -> Column:
    """The rows of columns of one form, one after the other."""
    columns = list[Any](all_columns)
    first = all_columns[0]

    def all_of(name: str) -> Tensor:
        return torch.cat([getattr(column, name) for column in columns])

    if any(type(column) is not type(first) for column in columns):
        forms = ", ".join(map(form_of_column, columns))
        raise TypeError(f"columns of several forms ({forms}) cannot be joined")
    match first:
        case Ints():
            return Ints(all_of("values"), first.boolean)
        case Pairs():
            return Pairs(all_of("first"), all_of("second"))
        case Cells() | Triples():
            return type(first)(all_of("keys"))
        case Grids():
            return Grids(all_of("cells"), _one_after_another(columns), all_of("height"), all_of("width"))
        case Patches():
            return Patches(all_of("keys"), _one_after_another(columns), first.kind)
        case Lists():
            elements = joined(*(column.elements for column in columns))
            return Lists(elements, _one_after_another(columns), first.unordered)
        case Tuples():
            places = zip(*(column.places for column in columns), strict=True)
            return Tuples(tuple(joined(*own) for own in places))
        case Values():
            return Values(tuple(chain.from_iterable(column.values for column in columns)))
    raise TypeError(f"columns of {form_of_column(first)} cannot be joined")


def _one_after_another(columns: Sequence[Any]) -> Tensor:
    """The offsets of joined columns."""
    after = list(accumulate(_numbers_in(column) for column in columns[:-1]))
    others = torch._foreach_add([column.offsets[1:] for column in columns[1:]], after) if after else ()
    return torch.cat([columns[0].offsets, *others])


def _numbers_in(column: Grids | Patches | Lists) -> int:
    """How many numbers, or elements, all rows have."""
    match column:
        case Grids():
            return len(column.cells)
        case Patches():
            return len(column.keys)
    return column.elements.rows


def blank_like(column: Column) -> Column:
    """One row of the same form, for where there is no value."""
    zero = torch.zeros(1, dtype=torch.int64, device=column.device)
    match column:
        case Ints():
            return Ints(zero, column.boolean)
        case Pairs():
            return Pairs(zero, zero)
        case Cells():
            return Cells(zero + ORIGIN)
        case Triples():
            return Triples(zero + ORIGIN)
        case Grids():
            return Grids(zero[:0], zero.repeat(2), zero, zero)
        case Patches():
            return Patches(zero[:0], zero.repeat(2), column.kind)
        case Lists():
            return Lists(column.elements.take(zero[:0]), zero.repeat(2), column.unordered)
        case Tuples():
            return Tuples(tuple(map(blank_like, column.places)))
    return Values((None,))


def truth(column: Column) -> Tensor | None:
    """Which rows Python takes for true; None where that cannot be seen."""
    match column:
        case Ints(values=values):
            return values != 0
        case Pairs(first=tensor) | Cells(keys=tensor) | Triples(keys=tensor):
            return torch.ones_like(tensor, dtype=torch.bool)
        case Grids(height=height):
            return height > 0
        case Patches() | Lists():
            return column.sizes > 0
        case Tuples():
            return torch.ones(column.rows, dtype=torch.bool, device=column.device)
    return None


def blank_rows(column: Column) -> Tensor | None:
    """Rows that are () or frozenset(); None for a column that has neither."""
    match column:
        case Grids():
            return column.height == 0
        case Patches() | Lists():
            return column.sizes == 0
    return None


def _is_set(column: Column) -> bool:
    return isinstance(column, Patches) or (isinstance(column, Lists) and column.unordered)


def adapted(column: Column, to: Column) -> Column | None:
    """A column in the form of another; None where that cannot hold it."""
    if form_of_column(column) == form_of_column(to):
        return column
    empty, other = blank_rows(column), blank_rows(to)
    if empty is None or other is None or _is_set(column) != _is_set(to) or not bool(empty.all()):
        return None
    return blank_like(to).take(torch.zeros(column.rows, dtype=torch.int64, device=column.device))


def overwritten(column: Column, rows: Tensor, part: Column) -> Column:
    """A column with other values of the same form in some rows."""
    match column, part:
        case Ints(), Ints():
            return Ints(column.values.index_copy(0, rows, part.values), column.boolean)
        case Pairs(), Pairs():
            return Pairs(column.first.index_copy(0, rows, part.first), column.second.index_copy(0, rows, part.second))
        case Cells(), Cells():
            return Cells(column.keys.index_copy(0, rows, part.keys))
        case Triples(), Triples():
            return Triples(column.keys.index_copy(0, rows, part.keys))
    empty, before = blank_rows(part), blank_rows(column)
    if empty is not None and before is not None and bool(empty.all()) and bool(before[rows].all()):
        return column
    index = torch.arange(column.rows, device=rows.device)
    index[rows] = torch.arange(part.rows, device=rows.device) + column.rows
    return joined(column, part).take(index)


def expanded(column: Column, rows: Tensor, count: int) -> Column:
    """A column of so many rows, blank but for some."""
    if count == column.rows:
        return column
    index = torch.full((count,), column.rows, dtype=torch.int64, device=rows.device)
    index[rows] = torch.arange(column.rows, device=rows.device)
    return joined(column, blank_like(column)).take(index)
