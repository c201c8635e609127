"""The results of a batch as bytes, as `encode` writes them one by one: all grids of all samples at once, by threads.

What a program returns for a sample is a few fixed bytes with values between them. How long every value is decides where
each is written: once, into the one array of all samples.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ...execution.encoded import Encoded
from ...execution.encoding import encode, tuple_header
from ..columns import Column, Grids, Ints, Lists, Pairs, Triples, Tuples, Values
from ..compiled import on_host
from ..flags import Step
from ..loops import records as loops
from ..sequential.equal_rows import distinct
from .template import Part

_SHARE = 4_000_000  # bytes that a thread writes at a time


class Piece(NamedTuple):
    """Values of one form that a loop writes as bytes.

    Attributes:
        rows: the samples that they are of; None for all.
        loop: writes those that have a length.
        parts: what it reads, in host memory.
        lengths: the bytes of each; 0 for a value that is not wanted, or that the loop cannot write.
    """

    rows: np.ndarray | None
    loop: Callable[..., None]
    parts: tuple[np.ndarray | bool, ...]
    lengths: np.ndarray

    def write(self, out: np.ndarray, at: np.ndarray) -> None:
        """Writes each where `at` says, but for those for which it is negative."""
        on_host(self.loop)(*self.parts, self.lengths, out, at)


class TuplePiece(NamedTuple):
    """Tuples, of which loops write every place.

    Attributes:
        rows, lengths: as for `Piece`.
        places: the values at every place.
    """

    rows: np.ndarray | None
    places: tuple[Piece | TuplePiece, ...]
    lengths: np.ndarray

    def write(self, out: np.ndarray, at: np.ndarray) -> None:
        """Writes each where `at` says, but for those for which it is negative."""
        wanted = (self.lengths > 0) & (at >= 0)
        head = np.frombuffer(tuple_header(len(self.places)), np.uint8)
        out[at[wanted][:, None] + np.arange(len(head))] = head
        start = np.where(wanted, at + len(head), -1)
        for place in self.places:
            place.write(out, start)
            start = np.where(wanted, start + place.lengths, -1)


class ValueBytes(NamedTuple):
    """The values of a step for all samples: encoded already, or yet to be written."""

    flat: np.ndarray
    offsets: np.ndarray
    pieces: tuple[Piece | TuplePiece, ...]

    @property
    def lengths(self) -> np.ndarray:
        """(N,) the bytes of every sample's value."""
        lengths = np.diff(self.offsets)
        for piece in self.pieces:
            lengths[slice(None) if piece.rows is None else piece.rows] += piece.lengths
        return lengths

    def write(self, out: np.ndarray, at: np.ndarray) -> None:
        """Writes every sample's value where `at` says, but for those for which it is negative."""
        if len(self.flat):
            on_host(loops.write_rows)(self.flat, self.offsets, out, at)
        for piece in self.pieces:
            places = at if piece.rows is None else at[piece.rows]
            piece.write(out, places)


def value_bytes(step: Step, samples: int) -> ValueBytes:
    """A step's values; nothing for samples that have none."""
    alive = np.ones(samples, bool) if step.failed is None else step.failed.numpy(force=True) == 0
    boxed = [(part.rows.numpy(force=True), part.column) for part in step.boxed.parts]
    wanted = alive.copy()
    for rows, _ in boxed:
        wanted[rows] = False
    pieces: list[Piece | TuplePiece] = []
    single: list[int] = []  # samples whose values are encoded one by one
    for rows, column in ((None, step.column), *boxed):
        own = wanted if rows is None else alive[rows]
        piece = _piece(column, own)
        written = np.zeros(len(own), bool) if piece is None else piece.lengths > 0
        if piece is not None:
            pieces.append(piece._replace(rows=rows))
        left = np.flatnonzero(own & ~written)
        single += (left if rows is None else rows[left]).tolist()
    single.sort()
    first, equal = distinct([step], single)
    encoded = list(map(encode, step.decode(first)))
    apart = [encoded[number] for number in equal.tolist()]
    lengths = np.zeros(samples, np.int64)
    lengths[single] = list(map(len, apart))
    flat = np.frombuffer(b"".join(apart), np.uint8)
    return ValueBytes(flat, np.concatenate([[0], np.cumsum(lengths)]), tuple(pieces))


def _piece(column: Column, wanted: np.ndarray) -> Piece | TuplePiece | None:
    """The values of a column that are wanted; None where they are encoded one by one."""

    def of(lengths: Callable[..., np.ndarray], write: Callable[..., None], *read: Tensor | bool) -> Piece:
        parts = tuple(part.numpy(force=True) if isinstance(part, Tensor) else part for part in read)
        return Piece(None, write, parts, on_host(lengths)(*parts, wanted))

    match column:
        case Ints():
            return of(loops.number_lengths, loops.write_numbers, column.values, column.boolean)
        case Pairs():
            return of(loops.pair_lengths, loops.write_pairs, column.first, column.second)
        case Grids(cells=cells):
            if cells.device.type != "cpu" and not bool(((cells >> 8) != 0).any()):
                cells = cells.to(torch.uint8)  # so that one byte per cell is copied, and none is looked at again
            return of(loops.grid_lengths, loops.write_grids, cells, column.offsets, column.height, column.width)
        case Lists(elements=Lists(elements=Ints(values=values, boolean=False), unordered=False) as rows):
            if not column.unordered:
                return of(loops.tuple_lengths, loops.write_tuples, values, rows.offsets, column.offsets)
        case Lists(elements=Triples(keys=keys), unordered=True):
            return of(loops.set_lengths, loops.write_sets, keys, column.offsets)
        case Tuples(places=places):
            return _tuples(places, wanted)
        case Values():
            return _constants(column, wanted)
    return None


def _tuples(places: Sequence[Column], wanted: np.ndarray) -> TuplePiece | None:
    """Tuples of which a loop can write every place; the others have no length. Tuples of tuples may be grids."""
    if all(isinstance(of, Pairs | Triples | Tuples) or (isinstance(of, Lists) and not of.unordered) for of in places):
        return None
    made = list[Piece | TuplePiece]()
    for place in places:
        piece = _piece(place, wanted)
        if piece is None:
            return None
        made.append(piece)
    whole = np.logical_and.reduce([piece.lengths > 0 for piece in made])
    head = len(tuple_header(len(places)))
    return TuplePiece(None, tuple(made), np.where(whole, head + sum(piece.lengths for piece in made), 0))


def _constants(column: Values, wanted: np.ndarray) -> Piece:
    """Values of any form, each encoded once: constants are one value for all samples."""
    rows = np.flatnonzero(wanted)
    identities = np.fromiter(map(id, column.values), np.int64, len(column.values))
    _, first, number = np.unique(identities[rows], return_index=True, return_inverse=True)
    table = [encode(column.values[row]) for row in rows[first].tolist()]
    numbers = np.zeros(len(wanted), np.int64)
    numbers[rows] = number
    sizes = np.array([len(data) for data in table], np.int64)
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    lengths = np.where(wanted, sizes[numbers] if table else 0, 0)
    return Piece(None, loops.write_constants, (np.frombuffer(b"".join(table), np.uint8), offsets, numbers), lengths)


def record_bytes(parts: list[Part], values: dict[int, ValueBytes], samples: int) -> Encoded:
    """What all programs return, for every sample.

    Args:
        parts: what is written.
        values: by node.
    """
    lengths_of = {node: of.lengths for node, of in values.items()}
    lengths = np.empty((len(parts), samples), np.int64)  # of what is written, for every sample
    for number, (part, there) in enumerate(parts):
        length = lengths_of[part] if isinstance(part, int) else len(part)
        lengths[number] = length if there is None else np.where(there, length, 0)
    where = np.cumsum(lengths, axis=0)
    offsets = np.concatenate([[0], np.cumsum(where[-1])])
    where += offsets[:-1] - lengths
    where[lengths == 0] = -1
    del lengths
    flat = np.empty(int(offsets[-1]), np.uint8)
    fixed = [number for number, (part, _) in enumerate(parts) if isinstance(part, bytes)]
    texts = [part for part, _ in parts if isinstance(part, bytes)]
    starts = np.concatenate([[0], np.cumsum([len(text) for text in texts])]).astype(np.int64)
    text, fixed_numbers = np.frombuffer(b"".join(texts), np.uint8), np.array(fixed, np.int64)

    def write(part: _Written | range) -> None:
        if isinstance(part, range):
            on_host(loops.write_fixed)(text, starts, fixed_numbers, part.start, part.stop, where, flat)
            return
        at = where[part.line]
        if part.samples is not None:
            at = np.full(samples, -1)
            at[part.samples] = where[part.line, part.samples]
        values[part.node].write(flat, at)

    threads = max(1, torch.get_num_threads())
    size = max(1, len(fixed) // threads)
    work: list[_Written | range] = [range(at, min(at + size, len(fixed))) for at in range(0, len(fixed), size)]
    for number, (part, _) in enumerate(parts):
        if isinstance(part, int):
            work += [_Written(part, number, samples) for samples in _shares(lengths_of[part])]
    with ThreadPoolExecutor(threads, "brimful-writing") as pool:  # loops do not hold the lock
        for _ in pool.map(write, work):
            pass
    return Encoded(flat, offsets)


class _Written(NamedTuple):
    """The values of a node where a line of places says, for some samples; None for all."""

    node: int
    line: int
    samples: slice | None


def _shares(lengths: np.ndarray) -> list[slice | None]:
    """The samples in shares of a bounded number of bytes: some values have a thousand times those of others."""
    ends = np.cumsum(lengths)
    if not len(ends) or ends[-1] <= _SHARE:
        return [None]
    cuts = np.searchsorted(ends, np.arange(_SHARE, ends[-1], _SHARE)) + 1
    bounds = np.unique(np.concatenate([[0], cuts, [len(ends)]])).tolist()
    return [slice(start, stop) for start, stop in pairwise(bounds)]
