"""The results of a batch as bytes, made where the columns are: a GPU writes them all, and they are copied once.

The bytes are those of `on_host`, its twin. Numbers, pairs and grids of cells of one byte are written here; whatever
else there is, is encoded on the host and copied into its place.

The array has one byte more, the first: what is not wanted is written to it. `at`, the places of values, is 0 for those.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ...execution.encoded import Encoded
from ..columns import Column, Grids, Ints, Pairs
from ..flags import Step
from ..loops.records import LARGE
from ..rows import offsets_of
from . import on_host
from .copied_rows import copy_rows
from .template import Part

_GRID, _TUPLE, _NUMBER, _TRUE, _FALSE = map(ord, "G(iTF")
_DIGITS = 9  # bytes of the longest number
_AT_ONCE = 1 << 24  # fixed bytes that are written at once
_PAGES = 1 << 25  # bytes of host memory that a thread makes present at a time


class _Piece(NamedTuple):
    """Values of one form.

    Attributes:
        rows: the samples that they are of; None for all.
        lengths: the bytes of each; 0 for a value that is not wanted, or that is encoded on the host.
        write: writes them to an array, where the places say.
    """

    rows: Tensor | None
    lengths: Tensor
    write: Callable[[Tensor, Tensor], None]


class ValueBytes(NamedTuple):
    """The values of a step for all samples, yet to be written.

    Attributes:
        lengths: (N,) the bytes of every sample's value.
    """

    lengths: Tensor
    pieces: tuple[_Piece, ...]

    def write(self, out: Tensor, at: Tensor) -> None:
        """Writes every sample's value where `at` says."""
        for piece in self.pieces:
            places = at if piece.rows is None else at[piece.rows]
            piece.write(out, torch.where(piece.lengths != 0, places, 0))


def value_bytes(step: Step, samples: int, device: torch.device) -> ValueBytes:
    """A step's values; nothing for samples that have none."""
    alive = torch.ones(samples, dtype=torch.bool, device=device) if step.failed is None else step.failed == 0
    wanted, lengths = alive.clone(), torch.zeros(samples, dtype=torch.int64, device=device)
    for part in step.boxed.parts:
        wanted[part.rows] = False
    pieces = list[_Piece]()
    for rows, column in ((None, step.column), *((part.rows, part.column) for part in step.boxed.parts)):
        piece = _piece(column, wanted if rows is None else alive[rows])
        if piece is not None:
            pieces.append(piece._replace(rows=rows))
            lengths[slice(None) if rows is None else rows] += piece.lengths
    left = (alive & (lengths == 0)).nonzero()[:, 0]
    if len(left):
        pieces.append(_encoded(step, left))
        lengths[left] = pieces[-1].lengths
    return ValueBytes(lengths, tuple(pieces))


def record_bytes(parts: list[Part], values: dict[int, ValueBytes], samples: int, device: torch.device) -> Encoded:
    """What all programs return, for every sample.

    Args:
        parts: what is written.
        values: by node.
    """
    where = torch.empty(len(parts), samples, dtype=torch.int64, device=device)
    for number, (part, there) in enumerate(parts):
        where[number] = values[part].lengths if isinstance(part, int) else len(part)
        if there is not None:
            where[number] *= torch.from_numpy(there).to(device)
    written = where != 0
    ends = where.cumsum(0)
    offsets = offsets_of(ends[-1])
    where = torch.where(written, ends.sub_(where).add_(offsets[:-1] + 1), 0)
    del ends, written
    out = torch.empty(int(offsets[-1]) + 1, dtype=torch.uint8, device=device)
    _write_fixed(out, [(part, where[at]) for at, (part, _) in enumerate(parts) if isinstance(part, bytes)])
    for number, (part, _) in enumerate(parts):
        if isinstance(part, int):
            values[part].write(out, where[number])
    return Encoded(_host_copy(out[1:]), offsets.numpy(force=True))


def _piece(column: Column, wanted: Tensor) -> _Piece | None:
    """The values of a column that are wanted; None where the host encodes them."""
    match column:
        case Ints(boolean=True):
            return _Piece(None, wanted.to(torch.int64), lambda out, at: _write_flags(out, at, column.values))
        case Ints():
            return _numbers([column.values], wanted, b"")
        case Pairs():
            return _numbers([column.first, column.second], wanted, b"(\x02")
        case Grids() if not bool((column.cells >> 8).any()):
            return _grids(column, wanted)
    return None


def _write_flags(out: Tensor, at: Tensor, values: Tensor) -> None:
    out[at] = torch.where(values != 0, _TRUE, _FALSE).to(torch.uint8)


def _numbers(values: list[Tensor], wanted: Tensor, head: bytes) -> _Piece:
    """Whole numbers, one after the other behind some fixed bytes."""
    small = wanted
    for numbers in values:
        small = small & (numbers > -LARGE) & (numbers < LARGE)
    unsigned = [torch.where(numbers >= 0, numbers << 1, (-numbers << 1) - 1) for numbers in values]
    digits = [_digits(numbers) for numbers in unsigned]
    length = sum(digits, torch.full_like(values[0], len(head) + len(values)))

    def write(out: Tensor, at: Tensor) -> None:
        for byte in head:
            out[at] = byte
            at = _moved(at, 1)
        for numbers, count in zip(unsigned, digits, strict=True):
            out[at] = _NUMBER
            at = _moved(at, 1)
            _write_number(out, at, numbers, count)
            at = _moved(at, count)

    return _Piece(None, torch.where(small, length, 0), write)


def _grids(column: Grids, wanted: Tensor) -> _Piece:
    """Grids of cells of one byte, and those without rows."""
    height, width, offsets, sizes = column.height, column.width, column.offsets, column.offsets.diff()
    cells = column.cells.to(torch.uint8)  # a fourth of the memory, and the column itself is not needed any more
    of_height, of_width = _digits(height), _digits(width)
    length = torch.where(sizes > 0, 1 + of_height + of_width + sizes, torch.where(height == 0, 2, 0))

    def write(out: Tensor, at: Tensor) -> None:
        out[at] = torch.where(sizes > 0, _GRID, _TUPLE).to(torch.uint8)
        at = _moved(at, 1)
        _write_number(out, at, height, of_height)
        at = torch.where(sizes > 0, _moved(at, of_height), 0)
        _write_number(out, at, width, of_width)
        copy_rows(out, _moved(at, of_width), cells, offsets)

    return _Piece(None, torch.where(wanted, length, 0), write)


def _encoded(step: Step, rows: Tensor) -> _Piece:
    """Values that are encoded on the host."""
    values = on_host.value_bytes(step.take(rows), len(rows))
    lengths = values.lengths
    starts = np.concatenate([[0], np.cumsum(lengths)])
    flat = np.empty(starts[-1], np.uint8)
    values.write(flat, starts[:-1])
    source, offsets = torch.from_numpy(flat).to(rows.device), torch.from_numpy(starts).to(rows.device)
    return _Piece(rows, offsets.diff(), lambda out, at: copy_rows(out, at, source, offsets))


def _digits(numbers: Tensor) -> Tensor:
    """The bytes of whole numbers, of seven bits each."""
    bounds = torch.arange(1, _DIGITS, device=numbers.device)
    return torch.bucketize(numbers, torch.ones_like(bounds) << 7 * bounds, right=True) + 1


def _moved(at: Tensor, by: Tensor | int) -> Tensor:
    """Places further on; those that are not wanted stay so."""
    return torch.where(at > 0, at + by, 0)


def _write_number(out: Tensor, at: Tensor, numbers: Tensor, digits: Tensor) -> None:
    """Writes whole numbers, their lowest seven bits first."""
    digit = torch.arange(_DIGITS, device=at.device)
    there = (digit < digits[:, None]) & (at > 0)[:, None]
    value = (numbers[:, None] >> 7 * digit) & 127 | torch.where(digit < digits[:, None] - 1, 128, 0)
    out[torch.where(there, at[:, None] + digit, 0)] = value.to(torch.uint8)


def _write_fixed(out: Tensor, parts: list[tuple[bytes, Tensor]]) -> None:
    """Writes bytes that are the same for all samples, many of them at once."""
    some, count = list[tuple[bytes, Tensor]](), 0
    for text, at in parts:
        some.append((text, at))
        count += len(text) * len(at)
        if count >= _AT_ONCE:
            _write_texts(out, some)
            some, count = [], 0
    if some:
        _write_texts(out, some)


def _write_texts(out: Tensor, parts: list[tuple[bytes, Tensor]]) -> None:
    sizes = [len(text) for text, _ in parts]
    part = torch.from_numpy(np.repeat(np.arange(len(parts)), sizes)).to(out.device)
    byte = torch.from_numpy(np.concatenate([np.arange(size) for size in sizes])).to(out.device)
    text = torch.frombuffer(bytearray(b"".join(text for text, _ in parts)), dtype=torch.uint8).to(out.device)
    at = torch.stack([at for _, at in parts])[part]
    out[torch.where(at > 0, at + byte[:, None], 0)] = text[:, None].expand(at.shape)


def _host_copy(values: Tensor) -> np.ndarray:
    """The same in host memory that several threads have made present: the copy would wait for every page of it."""
    if values.device.type == "cpu":
        return values.numpy()
    host = np.empty(len(values), np.uint8)
    with ThreadPoolExecutor(max(1, torch.get_num_threads()), "brimful-pages") as pool:
        for _ in pool.map(lambda start: host[start : start + _PAGES : 4096].fill(0), range(0, len(host), _PAGES)):
            pass
    torch.from_numpy(host).copy_(values)
    return host
