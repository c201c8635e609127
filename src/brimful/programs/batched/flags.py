"""A step for all rows: its column, the rows that failed, and those that the column cannot hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from .columns import Column, Values
from .convert import encode, form_of_column, joined


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
    boxed: dict[int, Any] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        return self.column.rows

    def take(self, index: Tensor) -> Step:
        """The rows of an index."""
        boxed = dict[int, Any]()
        if self.boxed:
            at = index.tolist()
            boxed = {row: self.boxed[old] for row, old in enumerate(at) if old in self.boxed}
        return Step(self.column.take(index), None if self.failed is None else self.failed[index], boxed)

    def decode(self, rows: Sequence[int]) -> list[Any]:
        """Some rows as Python values; none of them failed."""
        plain = [row for row in rows if row not in self.boxed]
        values = iter(self.column.decode(plain))
        return [self.boxed[row] if row in self.boxed else next(values) for row in rows]

    def placed(self, rows: Sequence[int], values: Sequence[Any], device: torch.device) -> Step:
        """The same with other values for some rows: in the column where they have its form, else boxed."""
        boxed = {row: value for row, value in self.boxed.items() if row not in set(rows)}
        form = form_of_column(self.column)
        if form == "value":
            new = list(self.column.decode(range(self.rows)))
            for row, value in zip(rows, values, strict=True):
                new[row] = value
            return Step(Values(tuple(new)), self.failed, boxed)
        part, unfit = encode(values, device, form)
        boxed |= {rows[at]: value for at, value in unfit.items()}
        fitting = [at for at in range(len(rows)) if at not in unfit]
        if not fitting:
            return Step(self.column, self.failed, boxed)
        index = torch.arange(self.rows, device=device)
        where = torch.tensor([rows[at] for at in fitting], device=device)
        index[where] = torch.tensor(fitting, device=device) + self.rows
        return Step(joined(self.column, part).take(index), self.failed, boxed)


def first_failure(steps: Sequence[Step]) -> Tensor | None:
    """The first failure of every row, in the order of the steps."""
    failed: Tensor | None = None
    for step in steps:
        if step.failed is not None:
            failed = step.failed if failed is None else torch.where(failed != 0, failed, step.failed)
    return failed
