"""Numbers, pairs and cells of a batt. () stands for no number: 0 for sums, 1 for products."""

from __future__ import annotations

from typing import Any

import torch

from ...columns import COORDINATE_LIMIT, Cells, Column, Ints, Pairs, Triples, triples
from ...kernels import KERNELS, Computed, batched
from ...segments import together
from ..patches import is_blank
from ..scalars import astuple
from .views import plain

batched("batt.astuple")(astuple)


def _arithmetic(name: str, neutral: int) -> None:
    known = KERNELS[name]

    def number(column: Any) -> Any:
        """A column with a number in the place of ()."""
        if isinstance(column, Column) and is_blank(column):
            return Ints(torch.full((column.rows,), neutral, dtype=torch.int64, device=column.device))
        return column

    @batched(f"batt.{name}")
    def kernel(machine: Any, a: Any, b: Any) -> Computed | None:
        return plain(known(machine, number(a), number(b)))


_arithmetic("add", 0)
_arithmetic("subtract", 0)
_arithmetic("multiply", 1)
_arithmetic("divide", 1)


@batched("batt.astriple")
def astriple(machine: Any, i: Any, j: Any, c: Any) -> Computed | None:
    if not all(isinstance(column, Ints) and not column.boolean for column in (i, j, c)):
        return None
    large = together(*(column.values.abs() >= COORDINATE_LIMIT for column in (i, j, c)))
    limited = (column.values.clamp(-COORDINATE_LIMIT, COORDINATE_LIMIT - 1) for column in (i, j, c))
    return plain(Computed(triples(*limited)), large)


@batched("batt.ascell")
def ascell(machine: Any, ij: Any, c: Any) -> Computed | None:
    match ij:
        case Pairs(first=i, second=j):
            return astriple(machine, Ints(i), Ints(j), c)
        case Triples(numbers=(i, j, _)):
            return astriple(machine, Ints(i), Ints(j), c)
    return None


@batched("batt.toij")
def toij(machine: Any, c: Any) -> Computed | None:
    match c:
        case Pairs() | Cells():
            return Computed(c)
        case Triples(numbers=(i, j, _)):
            return Computed(Pairs(i, j))
    return None
