"""NaN among the values of a column: which rows hold it, and how operations that do not know it are kept from it."""

from __future__ import annotations

import torch
from torch import Tensor

from .columns import BIAS, FIELD, NAN, NAN_COLOR, Column, Grids, Ints, Lists, Triples, Tuples
from .segments import any_of, together


def nan_rows(column: Column) -> Tensor | None:
    """Which rows hold NaN, anywhere in their values; None where none does."""
    match column:
        case Ints(values=values, boolean=False):
            return _any(values == NAN)
        case Triples(keys=keys):
            return _any(keys & FIELD == NAN_COLOR + BIAS)
        case Grids(cells=cells):
            return _of(_any(cells == NAN_COLOR), column.offsets)
        case Lists(elements=elements):
            return _of(nan_rows(elements), column.offsets)
        case Tuples(places=places):
            return together(*map(nan_rows, places))
    return None


def elsewhere(flags: Tensor) -> Tensor:
    """An index that puts another row in the place of those that a flag names; some have none."""
    index = torch.arange(len(flags), device=flags.device)
    return torch.where(flags, (~flags).to(torch.int8).argmax(), index)


def _any(flags: Tensor) -> Tensor | None:
    return flags if bool(flags.any()) else None


def _of(flags: Tensor | None, offsets: Tensor) -> Tensor | None:
    return None if flags is None else any_of(flags, offsets)
