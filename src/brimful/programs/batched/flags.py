"""A step for all rows: its column, the rows that failed, and those that the column cannot hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import torch
from torch import Tensor

from .columns import Column
from .convert import adapted, encode, expanded, form_of_column, joined, overwritten
from .others import Others, Part
from .rows import indices_of, picked


@dataclass(slots=True, eq=False)
class Step:
    """The values of a step.

    Attributes:
        column: of all rows; what it has for rows that failed, or are boxed, means nothing.
        failed: (R,) int8: the `Category` of what the row raised; None where no row did.
        boxed: by row the values that the column cannot hold.
    """

    column: Column
    failed: Tensor | None = None
    boxed: Others = field(default_factory=Others)

    @property
    def rows(self) -> int:
        return self.column.rows

    def take(self, index: Tensor) -> Step:
        """The rows of an index."""
        failed = None if self.failed is None else self.failed[index]
        if not self.boxed:
            return Step(self.column.take(index), failed)
        boxed = self.boxed.take(index, self.rows)
        for part in boxed.parts:
            if len(part.rows) == len(index):
                return Step(part.column, failed)
        return Step(self.column.take(index), failed, boxed)

    def later(self, index: Tensor) -> Step:
        """The rows of an index, which are copied once their column is needed."""
        return _Later(self, index)

    def decode(self, rows: Sequence[int]) -> list[Any]:
        """Some rows as Python values; none of them failed. From a GPU those rows are copied, and no others."""
        if not len(rows):
            return []
        if self.column.device.type != "cpu" and len(rows) < self.rows:
            some = self.take(torch.tensor(rows, dtype=torch.int64, device=self.column.device))
            return some.decode(range(len(rows)))
        return self.boxed.decode(self.column, rows) if self.boxed else self.column.decode(rows)

    def placed(self, rows: Sequence[int], values: Sequence[Any], device: torch.device) -> Step:
        """The same with other values for some rows: in the column where they have its form, else boxed."""
        form = form_of_column(self.column)
        part = Step(*encoded(values, device, None if form == "value" else form))
        return self.replaced(torch.tensor(rows, dtype=torch.int64, device=device), part)

    def with_constant(self, rows: Tensor, value: Any) -> Step:
        """The same with one value for some rows."""
        column = _constant(value, rows.device)
        return self.replaced(rows, Step(column.take(torch.zeros_like(rows)))).promoted()

    def replaced(self, rows: Tensor, part: Step) -> Step:
        """The same with another step, and how it failed, in some rows."""
        column, failed = self.column, self.failed
        boxed = self.boxed
        if boxed.parts:
            untouched = torch.ones(self.rows, dtype=torch.bool, device=rows.device)
            untouched[rows] = False
            boxed = boxed.kept(untouched)
        others, pieces = part.boxed, [Part(rows, part.column)]
        if part.failed is not None or others.parts:
            alive = torch.ones_like(rows, dtype=torch.bool)
            if part.failed is not None:
                alive = part.failed == 0
                failed = torch.zeros(self.rows, dtype=torch.int8, device=rows.device) if failed is None else failed
                failed = failed.index_copy(0, rows, part.failed)
                others = others.kept(alive)
            for other in others.parts:
                alive[other.rows] = False
            main = indices_of(alive)
            pieces = [Part(rows[main], _some(part.column, main))]
        pieces = [piece for piece in pieces if len(piece.rows)]
        parts = {form_of_column(own.column): own for own in boxed.parts}
        for own, values in (*pieces, *(Part(rows[other.rows], other.column) for other in others.parts)):
            fitting = adapted(values, column)
            if fitting is not None:
                column = overwritten(column, own, fitting)
                continue
            form = form_of_column(values)
            parts[form] = _united(parts[form], Part(own, values)) if form in parts else Part(own, values)
        return Step(column, failed, Others(list(parts.values())))

    def promoted(self) -> Step:
        """The same, with the largest part as the column where that has no row of its own."""
        if not self.boxed:
            return self
        if self.failed is None and len(self.boxed) < self.rows:
            return self
        held = self.boxed.codes(self.rows, self.boxed.parts[0].rows.device) == 0
        if bool((held if self.failed is None else held & (self.failed == 0)).any()):
            return self
        largest = max(self.boxed.parts, key=lambda part: len(part.rows))
        rest = Others([part for part in self.boxed.parts if part is not largest])
        return Step(expanded(largest.column, largest.rows, self.rows), self.failed, rest)


class _Later(Step):
    """Rows of another step, not copied yet."""

    __slots__ = ("_copy", "_index", "_source")

    def __init__(self, source: Step, index: Tensor) -> None:
        self._source, self._index, self._copy = source, index, None

    def _copied(self) -> Step:
        if self._copy is None:
            self._copy = self._source.take(self._index)
        return self._copy

    @property
    def column(self) -> Column:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self._copied().column

    @property
    def failed(self) -> Tensor | None:  # pyright: ignore[reportIncompatibleVariableOverride]
        of = self._source.failed
        return None if of is None else of[self._index]

    @property
    def boxed(self) -> Others:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self._copied().boxed if self._source.boxed else self._source.boxed

    @property
    def rows(self) -> int:
        return len(self._index)

    def take(self, index: Tensor) -> Step:
        return self._source.take(picked(self._index, index))

    def later(self, index: Tensor) -> Step:
        return _Later(self._source, picked(self._index, index))

    def decode(self, rows: Sequence[int]) -> list[Any]:
        at = self._index[torch.tensor(rows, dtype=torch.int64, device=self._index.device)]
        return self._source.decode(at.tolist())


def _constant(value: Any, device: torch.device) -> Column:
    """One row with a value. Defaults are needed often, and copied to a GPU once."""
    return _default(type(value), device) if value in ((), frozenset(), 0) else encode([value], device)[0]


@cache
def _default(kind: type, device: torch.device) -> Column:
    return encode([kind()], device)[0]


def encoded(values: Sequence[Any], device: torch.device, form: str | None) -> tuple[Column, None, Others]:
    """The parts of a step that has some values; of the most frequent form by default."""
    column, boxed = encode(values, device, form)
    return column, None, boxed


def _some(column: Column, index: Tensor) -> Column:
    return column if len(index) == column.rows else column.take(index)


def _united(first: Part, second: Part) -> Part:
    """Two parts of one form as one."""
    rows, order = torch.cat([first.rows, second.rows]).sort()
    return Part(rows, joined(first.column, second.column).take(order))


def first_failure(steps: Sequence[Step]) -> Tensor | None:
    """The first failure of every row, in the order of the steps."""
    failed: Tensor | None = None
    for step in steps:
        failed = combined(failed, step.failed)
    return failed


def combined(first: Tensor | None, second: Tensor | None) -> Tensor | None:
    """One failure of every row, and another where there is none."""
    if first is None or second is None:
        return second if first is None else first
    return torch.where(first != 0, first, second)
