"""The results of a batch as bytes, as `encode` writes them one by one: all grids of all samples at once.

What a program returns for a sample is a few fixed bytes with values between them. How long every value is decides where
each is written: once, into the one array of all samples.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

from ..execution.encoded import Encoded
from ..execution.encoding import encode, tuple_header
from ..language.graph import GraphProgram
from .columns import Column, Grids, Ints, Lists, Pairs, Values
from .compiled import on_host
from .flags import Step
from .loops import records as loops
from .rows import taken
from .segments import any_of

Bytes = tuple[np.ndarray, np.ndarray]
"""The bytes of all samples, one after the other, and where each begins."""

Places = tuple[Sequence[int], int]
"""The numbers of some programs, and how many there are of all."""


class Unwritten(NamedTuple):
    """Values that a loop writes as bytes, those that have a length.

    Attributes:
        loop: writes them.
        parts: what it reads, in host memory.
        lengths: (N,) the bytes of each.
    """

    loop: Callable[..., None]
    parts: tuple[np.ndarray, ...]
    lengths: np.ndarray


class ValueBytes(NamedTuple):
    """The values of a step for all samples: encoded already, or yet to be written."""

    flat: np.ndarray
    offsets: np.ndarray
    unwritten: Unwritten | None = None

    @property
    def lengths(self) -> np.ndarray:
        """(N,) the bytes of every sample's value."""
        return np.diff(self.offsets) + (0 if self.unwritten is None else self.unwritten.lengths)

    def write(self, out: np.ndarray, at: np.ndarray) -> None:
        """Writes every sample's value where `at` says, but for those for which it is negative."""
        on_host(loops.write_rows)(self.flat, self.offsets, out, at)
        if self.unwritten is not None:
            on_host(self.unwritten.loop)(*self.unwritten.parts, self.unwritten.lengths, out, at)


def value_bytes(step: Step, samples: int) -> ValueBytes:
    """A step's values; nothing for samples that have none."""
    dead = np.zeros(samples, bool) if step.failed is None else step.failed.numpy(force=True) != 0
    apart = dict.fromkeys(step.boxed, b"")
    apart |= {row: encode(value) for row, value in zip(apart, step.decode(list(apart)), strict=True) if not dead[row]}
    column = step.column
    wanted = ~dead
    wanted[list(apart)] = False
    unwritten = _grids(column, wanted) if isinstance(column, Grids) else _tuples(column, wanted)
    if unwritten is not None:
        others = np.flatnonzero(wanted & (unwritten.lengths == 0)).tolist()
        apart |= {row: encode(value) for row, value in _decoded(step, others)}
        return ValueBytes(*_placed(*_nothing(samples), apart), unwritten)
    rows = np.flatnonzero(~dead)
    if isinstance(column, Ints | Pairs) and len(rows):
        return ValueBytes(*_of_few(column, rows, samples, apart))
    bytes_of: dict[int, bytes] = {}  # by identity: constants are one value for all samples
    for row, value in _decoded(step, [row for row in rows.tolist() if row not in apart]):
        if not isinstance(column, Values):
            apart[row] = encode(value)
            continue
        if id(value) not in bytes_of:
            bytes_of[id(value)] = encode(value)
        apart[row] = bytes_of[id(value)]
    return ValueBytes(*_placed(*_nothing(samples), apart))


def _nothing(samples: int) -> Bytes:
    return np.zeros(0, np.uint8), np.zeros(samples + 1, np.int64)


def _decoded(step: Step, rows: list[int]) -> list[tuple[int, Any]]:
    return list(zip(rows, step.decode(rows), strict=True))


def _of_few(column: Ints | Pairs, rows: np.ndarray, samples: int, apart: dict[int, bytes]) -> Bytes:
    """Numbers, of which there are few different ones: each is encoded once."""
    parts = (column.values,) if isinstance(column, Ints) else (column.first, column.second)
    numbers = np.stack([part.numpy(force=True)[rows] for part in parts])
    _, first, inverse = np.unique(numbers, axis=1, return_index=True, return_inverse=True)
    table = [*map(encode, column.decode(rows[first].tolist())), b""]
    number = np.full(samples, len(first))  # where there is no value, the last entry: nothing
    number[rows] = inverse.reshape(-1)
    number[list(apart)] = len(first)
    lengths = np.array([len(data) for data in table])
    flat, offsets = taken(
        torch.from_numpy(np.frombuffer(b"".join(table), np.uint8).copy()),
        torch.from_numpy(np.concatenate([[0], np.cumsum(lengths)])),
        torch.from_numpy(number),
    )
    return _placed(flat.numpy(), offsets.numpy(), apart)


def _placed(flat: np.ndarray, offsets: np.ndarray, apart: dict[int, bytes]) -> Bytes:
    """The bytes of some rows put where there are none so far."""
    if not apart:
        return flat, offsets
    lengths = np.diff(offsets)
    mine = lengths > 0
    for row, data in apart.items():
        lengths[row] = len(data)
    new = np.concatenate([[0], np.cumsum(lengths)])
    out = np.empty(int(new[-1]), np.uint8)
    out[np.repeat(mine, lengths)] = flat
    for row, data in apart.items():
        out[new[row] : new[row + 1]] = np.frombuffer(data, np.uint8)
    return out, new


def _grids(column: Grids, wanted: np.ndarray) -> Unwritten:
    """Grids with cells of one byte, those that are wanted. From a GPU one byte per cell is copied."""
    cells = column.cells
    if cells.device.type != "cpu":
        wanted = wanted & ~any_of((cells >> 8) != 0, column.offsets).numpy(force=True)
        cells = cells.to(torch.uint8)
    parts = tuple(part.numpy(force=True) for part in (cells, column.offsets, column.height, column.width))
    return Unwritten(loops.write_grids, parts, on_host(loops.grid_lengths)(*parts, wanted))


def _tuples(column: Column, wanted: np.ndarray) -> Unwritten | None:
    """Tuples of tuples of numbers, as grids with rows of unequal lengths are; None for any other column."""
    match column:
        case Lists(elements=Lists(elements=Ints(values=values, boolean=False), unordered=False) as rows):
            if column.unordered:
                return None
            parts = tuple(part.numpy(force=True) for part in (values, rows.offsets, column.offsets))
            return Unwritten(loops.write_tuples, parts, on_host(loops.tuple_lengths)(*parts, wanted))
    return None


def record_bytes(
    programs: tuple[GraphProgram, ...], values: dict[int, ValueBytes], ended: np.ndarray, places: Places | None = None
) -> Encoded:
    """What all programs return, for every sample.

    Args:
        values: by node.
        ended: (programs, samples): which programs ended, and return None.
        places: where they are among more programs, the others of which return None.
    """
    samples = ended.shape[1]
    lengths_of = {node: of.lengths for node, of in values.items()}
    parts: list[tuple[bytes | int, np.ndarray]] = []  # what is written, and its length for every sample
    numbers, total = (range(len(programs)), len(programs)) if places is None else places
    at = {number: position for position, number in enumerate(numbers)}
    everywhere = np.ones(samples, bool)
    for part, there in _parts(programs, ended, everywhere, at, total):
        length = lengths_of[part] if isinstance(part, int) else len(part)
        parts.append((part, np.where(there, length, 0)))
    ends = np.cumsum(np.stack([length for _, length in parts]), axis=0)
    offsets = np.concatenate([[0], np.cumsum(ends[-1])])
    flat = np.empty(int(offsets[-1]), np.uint8)
    for (part, length), end in zip(parts, ends, strict=True):
        where = np.where(length > 0, offsets[:-1] + end - length, -1)
        if isinstance(part, int):
            values[part].write(flat, where)
        else:
            on_host(loops.write_everywhere)(np.frombuffer(part, np.uint8), flat, where)
    return Encoded(flat, offsets)


def _parts(
    programs: tuple[GraphProgram, ...], ended: np.ndarray, everywhere: np.ndarray, at: dict[int, int], total: int
) -> Iterator[tuple[bytes | int, np.ndarray]]:
    """What is written, bytes or the value of a node, in order; and for which samples."""
    yield tuple_header(total), everywhere
    for number in range(total):
        if number not in at:
            yield b"N", everywhere
            continue
        for part in _template(programs[at[number]]):
            yield part, ~ended[at[number]]
        yield b"N", ended[at[number]]


def _template(program: GraphProgram) -> list[bytes | int]:
    """The fixed bytes of what a program returns, and between them nodes."""
    parts: list[bytes | int] = [tuple_header(2)]
    for records in (program.outputs, program.scores):
        parts.append(tuple_header(len(records)))
        for record in records:
            parts += [tuple_header(len(record)), *record]
    joined: list[bytes | int] = []
    for part in parts:
        if joined and isinstance(part, bytes) and isinstance(joined[-1], bytes):
            joined[-1] += part
        else:
            joined.append(part)
    return joined
