"""Columns: the values of one step for all rows, flat in a few tensors.

    Ints       whole numbers, or booleans                      Pairs    two whole numbers, a location or a vector
    Triples    three whole numbers, a cell as batts have it    Cells    a color and a location
    Grids      rectangles of colors, of any sizes              Patches  sets of locations, or of cells: objects
    Lists      tuples or sets of anything that is a column     Tuples   tuples of several columns, one per place
    Values     anything, as Python holds it

A row is a sample, or an element of a list when an operation is mapped over it. What varies in length lies one after the
other, with offsets: row r has `flat[offsets[r]:offsets[r + 1]]`. Sets are in canonical order and without duplicates,
always: two equal sets are the same numbers.

A location or a cell is one 64-bit key, (color, i, j) in 24, 20 and 20 bits, each biased to be positive: the order of
keys is the canonical order, moving is adding, and set operations are those of sorted numbers. Locations have color 0.
The cells of a batt, (i, j, color), are triples: their keys hold the three numbers in that order.
The cells of grids, of which there are most, are numbers of 32 bits; all others have 64, and columns see to it.

NaN is `math.nan`, the one object: the operations of a batt give it where there is no color or no element. Numbers that
no value has stand for it, as a whole number, as a color of a grid or of a triple (a, b, color); they are larger than
all others, as NaN is in canonical order. In tuples and sets it equals itself, since Python looks at identity first.

Legend: R rows, M numbers of all rows together.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Self

import torch
from torch import Tensor

from .gpu import has_kernels
from .key_bits import BIAS, BITS, COLOR_BIAS, FIELD
from .key_bits import COORDINATE_LIMIT as COORDINATE_LIMIT
from .key_bits import NAN as NAN
from .key_bits import NAN_COLOR as NAN_COLOR
from .keys import ORIGIN as ORIGIN
from .keys import color_of as color_of
from .keys import column_of as column_of
from .keys import key_of as key_of
from .keys import location_of as location_of
from .keys import row_of as row_of
from .rows import gathered, owners, picked, taken

CELL = torch.int32
"""The type of the cells of grids."""


class Column(ABC):
    """The values of some rows."""

    @property
    @abstractmethod
    def rows(self) -> int: ...

    @property
    @abstractmethod
    def device(self) -> torch.device:
        """Where its tensors are."""

    @abstractmethod
    def take(self, index: Tensor) -> Self:
        """The rows of an index, as often as it names them."""

    @abstractmethod
    def decode(self, rows: Sequence[int]) -> list[Any]:
        """Some rows as Python values."""


@dataclass(frozen=True, slots=True, eq=False)
class Ints(Column):
    """Whole numbers; booleans where `boolean` says so."""

    values: Tensor
    boolean: bool = False

    def __post_init__(self) -> None:
        if self.values.dtype != torch.int64:  # cells of grids
            object.__setattr__(self, "values", self.values.to(torch.int64))

    @property
    def rows(self) -> int:
        return len(self.values)

    @property
    def device(self) -> torch.device:
        return self.values.device

    def take(self, index: Tensor) -> Ints:
        return Ints(picked(self.values, index), self.boolean)

    def decode(self, rows: Sequence[int]) -> list[Any]:
        chosen = _pick(self.values, rows)
        return list(map(bool, chosen)) if self.boolean else _numbers(chosen, NAN)


@dataclass(frozen=True, slots=True, eq=False)
class Pairs(Column):
    """Tuples of two whole numbers."""

    first: Tensor
    second: Tensor

    @property
    def rows(self) -> int:
        return len(self.first)

    @property
    def device(self) -> torch.device:
        return self.first.device

    def take(self, index: Tensor) -> Pairs:
        return Pairs(picked(self.first, index), picked(self.second, index))

    def decode(self, rows: Sequence[int]) -> list[Any]:
        return list(zip(_pick(self.first, rows), _pick(self.second, rows), strict=True))


@dataclass(frozen=True, slots=True, eq=False)
class Cells(Column):
    """Single cells, (color, (i, j))."""

    keys: Tensor

    @property
    def rows(self) -> int:
        return len(self.keys)

    @property
    def device(self) -> torch.device:
        return self.keys.device

    def take(self, index: Tensor) -> Cells:
        return Cells(picked(self.keys, index))

    def decode(self, rows: Sequence[int]) -> list[Any]:
        return _cells(_host(self.keys)[list(rows)]) if len(rows) else []


@dataclass(frozen=True, slots=True, eq=False)
class Triples(Column):
    """Tuples of three whole numbers (a, b, c), such as the cells (i, j, color) of a batt. Sets of them are `Lists`.

    Attributes:
        keys: (R,) int64: that of the cell (a, (b, c)), so that the order of keys is that of triples.
    """

    keys: Tensor

    @property
    def rows(self) -> int:
        return len(self.keys)

    @property
    def device(self) -> torch.device:
        return self.keys.device

    @property
    def numbers(self) -> tuple[Tensor, Tensor, Tensor]:
        """The first numbers, the second, and the third."""
        return color_of(self.keys), row_of(self.keys), column_of(self.keys)

    def take(self, index: Tensor) -> Triples:
        return Triples(picked(self.keys, index))

    def decode(self, rows: Sequence[int]) -> list[Any]:
        return _triples(_host(self.keys)[list(rows)]) if len(rows) else []


def triples(first: Tensor, second: Tensor, third: Tensor) -> Triples:
    """Triples of numbers."""
    return Triples(key_of(second, third, first))


@dataclass(frozen=True, slots=True, eq=False)
class Grids(Column):
    """Rectangles of numbers, row by row. A grid without rows is (), and has width 0.

    Attributes:
        cells: (M,) int32.
        offsets: (R + 1,).
        height, width: (R,).
    """

    cells: Tensor
    offsets: Tensor
    height: Tensor
    width: Tensor

    def __post_init__(self) -> None:
        if self.cells.dtype != CELL:  # numbers too large for it were flagged before
            object.__setattr__(self, "cells", self.cells.to(CELL))

    @property
    def rows(self) -> int:
        return len(self.height)

    @property
    def device(self) -> torch.device:
        return self.height.device

    def take(self, index: Tensor) -> Grids:
        if has_kernels(self.cells) and index.dtype == torch.int64:
            from .gpu.rows import grids_taken

            return Grids(*grids_taken(self.cells, self.offsets, self.height, self.width, index))
        cells, offsets = taken(self.cells, self.offsets, index)
        return Grids(cells, offsets, picked(self.height, index), picked(self.width, index))

    def decode(self, rows: Sequence[int]) -> list[Any]:
        cells, offsets, height, width = map(_host, (self.cells, self.offsets, self.height, self.width))
        grids = []
        for row in rows:
            flat, start, across = cells, int(offsets[row]), int(width[row])
            part = _numbers(flat[start : start + int(height[row]) * across].tolist(), NAN_COLOR)
            grids.append(tuple(tuple(part[at * across : (at + 1) * across]) for at in range(int(height[row]))))
        return grids


class PatchKind(Enum):
    """What the keys of a patch are."""

    INDICES = "locations"
    OBJECT = "cells"


@dataclass(frozen=True, slots=True, eq=False)
class Patches(Column):
    """Sets of locations or of cells, each in ascending order of its keys.

    Attributes:
        keys: (M,) int64.
        offsets: (R + 1,).
        kind: whether they are locations or cells. An empty set is both.
    """

    keys: Tensor
    offsets: Tensor
    kind: PatchKind
    _sizes: Tensor | None = field(default=None, init=False)

    @property
    def rows(self) -> int:
        return len(self.offsets) - 1

    @property
    def sizes(self) -> Tensor:
        if self._sizes is None:
            object.__setattr__(self, "_sizes", self.offsets.diff())
        assert self._sizes is not None
        return self._sizes

    @property
    def device(self) -> torch.device:
        return self.offsets.device

    def take(self, index: Tensor) -> Patches:
        keys, offsets = taken(self.keys, self.offsets, index)
        return Patches(keys, offsets, self.kind)

    def decode(self, rows: Sequence[int]) -> list[Any]:
        keys, offsets = _host(self.keys), _host(self.offsets).tolist()
        read = _cells if self.kind is PatchKind.OBJECT else _locations
        return [frozenset(read(keys[offsets[row] : offsets[row + 1]])) for row in rows]


@dataclass(frozen=True, slots=True, eq=False)
class Lists(Column):
    """Tuples, or sets in canonical order, of what another column holds.

    Attributes:
        elements: of all rows, one after the other.
        offsets: (R + 1,).
        unordered: whether they are sets.
    """

    elements: Column
    offsets: Tensor
    unordered: bool
    _sizes: Tensor | None = field(default=None, init=False)

    @property
    def rows(self) -> int:
        return len(self.offsets) - 1

    @property
    def sizes(self) -> Tensor:
        if self._sizes is None:
            object.__setattr__(self, "_sizes", self.offsets.diff())
        assert self._sizes is not None
        return self._sizes

    def owner(self) -> Tensor:
        """The row that every element belongs to."""
        return owners(self.offsets, self.elements.rows)

    @property
    def device(self) -> torch.device:
        return self.offsets.device

    def take(self, index: Tensor) -> Lists:
        source, offsets = gathered(self.offsets, index)
        return Lists(self.elements.take(source), offsets, self.unordered)

    def decode(self, rows: Sequence[int]) -> list[Any]:
        offsets = _host(self.offsets).tolist()
        wanted = [at for row in rows for at in range(offsets[row], offsets[row + 1])]
        values = iter(self.elements.decode(wanted))
        kind = frozenset if self.unordered else tuple
        return [kind([next(values) for _ in range(offsets[row], offsets[row + 1])]) for row in rows]


@dataclass(frozen=True, slots=True, eq=False)
class Tuples(Column):
    """Tuples of one length, with a column for every place: (number, object), for example."""

    places: tuple[Column, ...]

    @property
    def rows(self) -> int:
        return self.places[0].rows

    @property
    def device(self) -> torch.device:
        return self.places[0].device

    def take(self, index: Tensor) -> Tuples:
        return Tuples(tuple(place.take(index) for place in self.places))

    def decode(self, rows: Sequence[int]) -> list[Any]:
        return list(zip(*(place.decode(rows) for place in self.places), strict=True))


@dataclass(frozen=True, slots=True, eq=False)
class Values(Column):
    """Anything, as Python holds it: for steps that no other column can hold."""

    values: tuple[Any, ...]

    @property
    def rows(self) -> int:
        return len(self.values)

    @property
    def device(self) -> torch.device:
        return torch.device("cpu")

    def take(self, index: Tensor) -> Values:
        return Values(tuple(map(self.values.__getitem__, index.tolist())))

    def decode(self, rows: Sequence[int]) -> list[Any]:
        return [self.values[row] for row in rows]


def _pick(values: Tensor, rows: Sequence[int]) -> list[Any]:
    return _host(values)[list(rows)].tolist() if len(rows) else []


def _host(values: Tensor) -> Any:
    return values.numpy(force=True)


def _locations(keys: Any) -> list[tuple[int, int]]:
    return list(zip(((keys >> BITS & FIELD) - BIAS).tolist(), ((keys & FIELD) - BIAS).tolist(), strict=True))


def _cells(keys: Any) -> list[tuple[int, tuple[int, int]]]:
    return list(zip(((keys >> 2 * BITS) - COLOR_BIAS).tolist(), _locations(keys), strict=True))


def _triples(keys: Any) -> list[tuple[Any, ...]]:
    first, second = ((keys >> 2 * BITS) - COLOR_BIAS).tolist(), ((keys >> BITS & FIELD) - BIAS).tolist()
    return list(zip(first, second, _numbers(((keys & FIELD) - BIAS).tolist(), NAN_COLOR), strict=True))


def _numbers(values: list[Any], nan: int) -> list[Any]:
    """Numbers, with NaN where one stands for it."""
    return [math.nan if value == nan else value for value in values] if nan in values else values
