"""Values of a step that its column cannot hold: columns of other forms, each for some of the rows.

A default among other values, such as () among pairs, is there with its own form, and whatever runs over the step runs
over every form by itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from .columns import Column
from .rows import indices_of


class Part(NamedTuple):
    """Some rows, ascending, and a column that has a value for each of them."""

    rows: Tensor
    column: Column


class Others(Mapping[int, Any]):
    """Parts of different forms and without a row in common; as a mapping, the values by row."""

    __slots__ = ("parts",)

    def __init__(self, parts: Sequence[Part] = ()) -> None:
        self.parts = tuple(part for part in parts if len(part.rows))

    def __len__(self) -> int:
        return sum(len(part.rows) for part in self.parts)

    def __iter__(self) -> Iterator[int]:
        for part in self.parts:
            yield from part.rows.tolist()

    def __getitem__(self, row: int) -> Any:
        for part in self.parts:
            at = (part.rows == row).nonzero()
            if len(at):
                return part.column.decode([int(at[0, 0])])[0]
        raise KeyError(row)

    def codes(self, count: int, device: torch.device) -> Tensor:
        """For each of so many rows the number of its part, from 1; 0 where it is in none."""
        codes = torch.zeros(count, dtype=torch.int64, device=device)
        for number, part in enumerate(self.parts, 1):
            codes[part.rows] = number
        return codes

    def take(self, index: Tensor, count: int) -> Others:
        """The same for the rows of an index, of so many."""
        parts = []
        for part in self.parts:
            place = torch.full((count,), -1, dtype=torch.int64, device=index.device)
            place[part.rows] = torch.arange(len(part.rows), device=index.device)
            place = place[index]
            rows = indices_of(place >= 0)
            parts.append(Part(rows, part.column.take(place[rows])))
        return Others(parts)

    def kept(self, keep: Tensor) -> Others:
        """Those in rows that a flag keeps."""
        parts = []
        for part in self.parts:
            flags = keep[part.rows]
            if bool(flags.all()):
                parts.append(part)
            else:
                parts.append(Part(part.rows[flags], part.column.take(indices_of(flags))))
        return Others(parts)

    def decode(self, column: Column, rows: Sequence[int]) -> list[Any]:
        """Some rows as Python values, those of no part from a column."""
        part_of, place = np.zeros(column.rows, np.int64), np.arange(column.rows)
        for number, part in enumerate(self.parts, 1):
            at = part.rows.numpy(force=True)
            part_of[at], place[at] = number, np.arange(len(at))
        wanted = np.asarray(rows, np.int64)
        values: list[Any] = [None] * len(wanted)
        for number, source in enumerate([column, *(part.column for part in self.parts)]):
            here = (part_of[wanted] == number).nonzero()[0].tolist()
            for at, value in zip(here, source.decode(place[wanted[here]].tolist()), strict=True):
                values[at] = value
        return values
