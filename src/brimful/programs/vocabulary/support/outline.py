"""The outline of a rectangle."""

from __future__ import annotations

from itertools import chain, repeat
from typing import Any

from ..bound import reserve


def outline(ai: Any, aj: Any, bi: Any, bj: Any) -> frozenset[tuple[int, int]]:
    """The locations on the outline of the rectangle between two corners."""
    top, left, bottom, right = min(ai, bi), min(aj, bj), max(ai, bi), max(aj, bj)
    rows, columns = range(top, bottom + 1), range(left, right + 1)
    reserve(2 * (bottom - top + 1) + 2 * (right - left + 1))
    return frozenset(
        chain(
            zip(rows, repeat(left), strict=False),
            zip(rows, repeat(right), strict=False),
            zip(repeat(top), columns, strict=False),
            zip(repeat(bottom), columns, strict=False),
        )
    )
