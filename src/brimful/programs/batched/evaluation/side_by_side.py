"""The rows of several steps as one step, one after the other, and back: equal operations in one call."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from itertools import pairwise

import torch
from torch import Tensor

from ...language.graph import Level
from ..columns import Cells, Column, Grids, Ints, Lists, Pairs, Patches, Triples, Tuples, Values
from ..convert import form_of_column, joined
from ..flags import Step
from ..functions import FunctionValue
from ..others import Others, Part

Value = Step | FunctionValue


_NUMBERS = (1 << 17, 1 << 24)
"""How many numbers the arguments have of operations that run in one call, on a CPU and on a GPU: with more, what every
call takes by itself counts for nothing."""
NUMBERS_PER_ROW = 2048
"""And per row, so that what is joined is small beside the other columns of a batch."""
_FEWEST = 1 << 15  # that may be joined, however few rows there are


def in_parts(
    arguments: Mapping[int, Sequence[tuple[Value, Level]]],
    rows: int,
    rows_of: Callable[[Level], int],
    device: torch.device,
) -> list[list[int]]:
    """Equal operations in parts, each for one call: their arguments have one form, and are not many numbers.

    Args:
        arguments: by operation its arguments, each with the level that it has rows of.
        rows: of the operations.
        rows_of: a level.
    """
    most = min(_NUMBERS[device.type != "cpu"], max(NUMBERS_PER_ROW * rows, _FEWEST))
    parts, growing = list[list[int]](), dict[Hashable, tuple[list[int], int]]()
    for index, own in arguments.items():
        shapes = tuple((shape_of(value), level) for value, level in own)
        numbers = sum(numbers_in(value) * rows // max(1, rows_of(level)) for value, level in own)
        alone = any(shape is None for shape, _ in shapes) or not any(has_rows(value) for value, _ in own)
        part, before = growing.get(shapes, ([], 0))
        if alone or not part or before + numbers > most:
            part, before = list[int](), 0
            parts.append(part)
        part.append(index)
        if not alone:
            growing[shapes] = part, before + numbers
    return parts


def shape_of(value: Value) -> Hashable | None:
    """Equal for values that can be one; None for one that cannot be joined to any other."""
    if isinstance(value, Step):
        form = form_of_column(value.column)
        return None if form == "value" else (form, bool(value.boxed))
    parts = tuple(map(shape_of, value.parts))
    return None if None in parts else (id(value.operation), value.arity, value.times, *parts)


def numbers_in(value: Value) -> int:
    """How many numbers it takes."""
    if isinstance(value, FunctionValue):
        return sum(map(numbers_in, value.parts))
    return _numbers(value.column) + sum(_numbers(part.column) for part in value.boxed.parts)


def has_rows(value: Value) -> bool:
    """Whether it has a value per row; a function may be the same for all."""
    return isinstance(value, Step) or any(map(has_rows, value.parts))


def united(values: Sequence[Value]) -> Value:
    """The rows of values of one shape, one after the other."""
    first = values[0]
    if isinstance(first, Step):
        steps = [value for value in values if isinstance(value, Step)]
        return Step(joined(*(step.column for step in steps)), _joined_flags(steps), _joined_others(steps))
    if not has_rows(first):
        return first
    functions = [value for value in values if isinstance(value, FunctionValue)]
    parts = zip(*(function.parts for function in functions), strict=True)
    return FunctionValue(first.operation, tuple(map(united, parts)), first.arity, first.times)


def _joined_flags(steps: Sequence[Step]) -> Tensor | None:
    if all(step.failed is None for step in steps):
        return None
    device = steps[0].column.device
    none = {step.rows: torch.zeros(step.rows, dtype=torch.int8, device=device) for step in steps if step.failed is None}
    return torch.cat([none[step.rows] if step.failed is None else step.failed for step in steps])


def _joined_others(steps: Sequence[Step]) -> Others:
    if not any(step.boxed for step in steps):
        return Others()
    parts, before = defaultdict[str, list[Part]](list), 0
    for step in steps:
        for part in step.boxed.parts:
            parts[form_of_column(part.column)].append(Part(part.rows + before, part.column))
        before += step.rows
    together = ((torch.cat([part.rows for part in of]), [part.column for part in of]) for of in parts.values())
    return Others([Part(rows, joined(*columns)) for rows, columns in together])


def apart(step: Step, count: int) -> list[Step]:
    """A step as so many, of as many rows each. They share its memory."""
    rows = step.rows // count
    columns = split(step.column, [rows] * count)
    flags: list[Tensor | None] = [None] * count
    if step.failed is not None:
        failed = step.failed.reshape(count, rows)
        some = (failed != 0).any(1).tolist()
        flags = [own if fails else None for own, fails in zip(failed, some, strict=True)]
    boxed = list[list[Part]]([] for _ in range(count))
    for part in step.boxed.parts:
        starts = torch.arange(0, rows * (count + 1), rows, device=part.rows.device)
        cuts = torch.searchsorted(part.rows, starts).tolist()
        sizes = [end - begin for begin, end in pairwise(cuts)]
        pieces = zip(part.rows.split(sizes), split(part.column, sizes), strict=True)
        for number, (own, column) in enumerate(pieces):
            boxed[number].append(Part(own - number * rows, column))
    parts = zip(columns, flags, boxed, strict=True)
    return [Step(column, failed, Others(others)).promoted() for column, failed, others in parts]


def split(column: Column, sizes: list[int]) -> list[Column]:
    """A column in parts of so many rows each. They share its memory."""
    match column:
        case Ints():
            return [Ints(values, column.boolean) for values in column.values.split(sizes)]
        case Pairs():
            return [Pairs(*both) for both in zip(column.first.split(sizes), column.second.split(sizes), strict=True)]
        case Cells():
            return [Cells(keys) for keys in column.keys.split(sizes)]
        case Triples():
            return [Triples(keys) for keys in column.keys.split(sizes)]
        case Grids():
            offsets, lengths = _split_offsets(column.offsets, sizes)
            parts = (column.cells.split(lengths), offsets, column.height.split(sizes), column.width.split(sizes))
            return [Grids(*own) for own in zip(*parts, strict=True)]
        case Patches():
            offsets, lengths = _split_offsets(column.offsets, sizes)
            return [
                Patches(keys, own, column.kind) for keys, own in zip(column.keys.split(lengths), offsets, strict=True)
            ]
        case Lists():
            offsets, lengths = _split_offsets(column.offsets, sizes)
            elements = split(column.elements, lengths)
            return [Lists(inside, own, column.unordered) for inside, own in zip(elements, offsets, strict=True)]
        case Tuples():
            places = [split(place, sizes) for place in column.places]
            return [Tuples(tuple(own)) for own in zip(*places, strict=True)]
        case Values():
            values = iter(column.values)
            return [Values(tuple(next(values) for _ in range(size))) for size in sizes]
    raise TypeError(f"a column of {form_of_column(column)} cannot be split")


def _split_offsets(offsets: Tensor, sizes: list[int]) -> tuple[list[Tensor], list[int]]:
    """The offsets of parts of so many rows each, and how many numbers each part has."""
    rows = sizes[0]
    if rows and all(size == rows for size in sizes):
        starts = offsets[::rows]
        parts = offsets.unfold(0, rows + 1, rows) - starts[:-1, None]
        return list(parts.unbind()), starts.diff().tolist()
    ends = torch.tensor([0, *sizes]).cumsum(0)
    starts = offsets[ends.to(offsets.device)]
    lengths = starts.diff().tolist()
    at, own = 0, list[Tensor]()
    for number, size in enumerate(sizes):
        own.append(offsets[at : at + size + 1] - starts[number])
        at += size
    return own, lengths


def _numbers(column: Column) -> int:
    match column:
        case Grids():
            return column.cells.numel() + 3 * column.rows
        case Patches():
            return column.keys.numel() + column.rows
        case Lists():
            return _numbers(column.elements) + column.rows
        case Tuples():
            return sum(map(_numbers, column.places))
        case Pairs():
            return 2 * column.rows
    return column.rows
