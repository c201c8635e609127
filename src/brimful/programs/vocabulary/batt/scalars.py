"""Numbers and pairs, where () stands for no number, and cells (i, j, color)."""

from __future__ import annotations

from ...language.types import IJ, Any, Cell, Integer, Numerical, Tuple, TupleTuple
from .. import scalars
from ..order import ordered
from .cells import ordered_cells
from .safety import safe


@safe
def add(a: Numerical, b: Numerical) -> Numerical:
    """The sum of numbers or pairs; () is 0."""
    return scalars.add(0 if a == () else a, 0 if b == () else b)


@safe
def subtract(a: Numerical, b: Numerical) -> Numerical:
    """The difference of numbers or pairs; () is 0."""
    return scalars.subtract(0 if a == () else a, 0 if b == () else b)


@safe
def multiply(a: Numerical, b: Numerical) -> Numerical:
    """The product of numbers or pairs; () is 1."""
    return scalars.multiply(1 if a == () else a, 1 if b == () else b)


@safe
def divide(a: Numerical, b: Numerical) -> Numerical:
    """The quotient of numbers or pairs, rounded down; () is 1."""
    return scalars.divide(1 if a == () else a, 1 if b == () else b)


@safe
def astuple(a: Any, b: Any) -> Tuple:
    """Two values as a pair."""
    return (a, b)


@safe
def astriple(i: Integer, j: Integer, c: Integer) -> Tuple:
    """Three values as a cell."""
    return (i, j, c)


@safe
def ascell(ij: IJ, c: Integer) -> Tuple:
    """A location and a color as a cell."""
    return (ij[0], ij[1], c)


@safe
def toij(c: Cell) -> IJ:
    """The location of a cell."""
    return (c[0], c[1])


@safe
def celltuple(a: Tuple, b: Tuple) -> TupleTuple:
    """Cells from locations and colors, pair by pair."""
    return tuple((i, j, c) for (i, j), c in zip(ordered_cells(a), ordered(b), strict=False))
