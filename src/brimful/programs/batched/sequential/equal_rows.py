"""Which rows of columns are equal, as a number per row: an operation that runs row by row runs once for all of those.

Two rows have one number where Python could not tell their values apart: a whole number and a boolean have two, though
they are equal. Values that only Python holds are one where they are one object. For operations that read patches,
numbers are no cells whatever they are, so that only their count tells tuples and sets of numbers apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..columns import BITS, Cells, Column, Grids, Ints, Lists, Pairs, Patches, Triples, Tuples, Values
from ..flags import Step
from ..functions import FunctionValue

_PATCHES = (
    "center box backdrop inbox outbox delta corners uppermost lowermost leftmost rightmost ulcorner urcorner llcorner "
    "lrcorner height_f width_f shape_f portrait_f toindices"
)
OF_PATCHES = frozenset(f"batt.{name}" for name in _PATCHES.split())
"""Operations of one patch that unpack its elements as locations or cells, and do nothing else with them."""


def distinct(
    args: Sequence[Step | FunctionValue], rows: Sequence[int], of_patches: bool = False
) -> tuple[list[int], np.ndarray]:
    """The first of some rows for every combination of values, and for each of the rows which of them it is.

    Args:
        of_patches: whether tuples and sets of so many numbers are all alike.
    """
    wanted = np.asarray(rows, np.int64)
    if of_patches:
        args = [_without_numbers(arg) for arg in args]
    numbers = _together([_of_argument(arg, wanted) for arg in args], len(wanted))
    _, first, inverse = np.unique(numbers, return_index=True, return_inverse=True)
    order = np.argsort(first, kind="stable")
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    return wanted[first[order]].tolist(), place[inverse]


def _without_numbers(arg: Step | FunctionValue) -> Step | FunctionValue:
    """Tuples and sets of numbers with one and the same number in them."""
    match arg:
        case Step(column=Lists(elements=Ints(values=values), offsets=offsets, unordered=unordered), boxed=boxed):
            if not boxed:
                return Step(Lists(Ints(values.new_zeros(len(values))), offsets, unordered), arg.failed)
    return arg


def _of_argument(arg: Step | FunctionValue, rows: np.ndarray) -> np.ndarray:
    if isinstance(arg, FunctionValue):
        return _together([_of_argument(part, rows) for part in arg.parts], len(rows))
    if arg.column.device.type != "cpu":  # of a GPU only those rows are copied
        arg, rows = arg.take(torch.from_numpy(rows).to(arg.column.device)), np.arange(len(rows))
    if not arg.boxed:
        return _numbers(arg.column, rows)
    numbers, part_of = np.zeros(len(rows), np.int64), np.zeros(len(rows), np.int64)
    place = np.full(arg.rows, -1, np.int64)
    for number, part in enumerate(arg.boxed.parts, 1):
        place[:] = -1
        place[_host(part.rows)] = np.arange(len(part.rows))
        here = np.flatnonzero(place[rows] >= 0)
        part_of[here] = number
        numbers[here] = _numbers(part.column, place[rows[here]])
    plain = np.flatnonzero(part_of == 0)
    numbers[plain] = _numbers(arg.column, rows[plain])
    return _together([part_of, numbers], len(rows))


def _numbers(column: Column, rows: np.ndarray) -> np.ndarray:
    """A number for each of some rows of a column."""
    match column:
        case Ints(values=values) | Cells(keys=values) | Triples(keys=values):
            return _host(values)[rows]
        case Pairs(first=first, second=second):
            return (_host(first)[rows] << BITS) + _host(second)[rows]
        case Grids():
            height, width = _host(column.height)[rows], _host(column.width)[rows]
            starts = _host(column.offsets)
            return _together([height, width, _of_parts(_host(column.cells), starts[rows], starts[rows + 1])], len(rows))
        case Patches(keys=keys):
            starts = _host(column.offsets)
            return _of_parts(_host(keys), starts[rows], starts[rows + 1])
        case Lists(elements=elements):
            offsets = _host(column.offsets)
            sizes = offsets[rows + 1] - offsets[rows]
            starts = np.concatenate([[0], np.cumsum(sizes)])
            inside = np.arange(starts[-1]) + np.repeat(offsets[rows] - starts[:-1], sizes)
            return _of_parts(_numbers(elements, inside), starts[:-1], starts[1:])
        case Tuples(places=places):
            return _together([_numbers(place, rows) for place in places], len(rows))
        case Values(values=values):
            return np.fromiter((id(values[row]) for row in rows.tolist()), np.int64, len(rows))
    raise TypeError(f"rows of {type(column).__name__} cannot be compared")


def _of_parts(flat: np.ndarray, starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """A number for each of some parts of a flat array."""
    known: dict[bytes, int] = {}
    texts = (flat[start:end].tobytes() for start, end in zip(starts.tolist(), ends.tolist(), strict=True))
    return np.fromiter((known.setdefault(text, len(known)) for text in texts), np.int64, len(starts))


def _together(parts: Sequence[np.ndarray], count: int) -> np.ndarray:
    """One number for several per row."""
    if not parts:
        return np.zeros(count, np.int64)
    numbers = parts[0]
    for part in parts[1:]:
        (_, left), (_, right) = (np.unique(of, return_inverse=True) for of in (numbers, part))
        numbers = left * (int(right.max(initial=0)) + 1) + right
    return numbers


def _host(values: Tensor) -> Any:
    return values.numpy(force=True)
