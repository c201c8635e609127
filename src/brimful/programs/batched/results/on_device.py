"""The results of a batch as bytes, made where the columns are: a GPU writes them all, and they are copied once.

The bytes are those of `on_host`, its twin. Numbers, pairs and grids of cells of one byte are written here; whatever
else there is, is encoded on the host and copied into its place.

The array has one byte more, the first: what is not wanted is written to it. `at`, the places of values, is 0 for those.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ...execution.encoded import Encoded
from ..columns import Column, Grids, Ints, Pairs
from ..flags import Step
from ..gpu import has_kernels
from ..loops.records import LARGE
from ..rows import indices_of, offsets_of, select
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
        """Writes every sample's value where `at` says: at 0, where nothing is read, for one without a byte."""
        if len(self.pieces) == 1 and self.pieces[0].rows is None:
            self.pieces[0].write(out, at)
            return
        for piece in self.pieces:
            places = at if piece.rows is None else at[piece.rows]
            piece.write(out, places * (piece.lengths != 0))


def value_bytes(step: Step, samples: int, device: torch.device) -> ValueBytes:
    """A step's values; nothing for samples that have none."""
    alive = torch.ones(samples, dtype=torch.bool, device=device) if step.failed is None else step.failed == 0
    wanted = alive.clone() if step.boxed.parts else alive
    for part in step.boxed.parts:
        wanted[part.rows] = False
    main = _piece(step.column, wanted)
    pieces = [] if main is None else [main]
    lengths = torch.zeros(samples, dtype=torch.int64, device=device) if main is None else main.lengths
    for part in step.boxed.parts:
        piece = _piece(part.column, alive[part.rows])
        if piece is not None:
            pieces.append(piece._replace(rows=part.rows))
            lengths = lengths.index_add(0, part.rows, piece.lengths)
    left = indices_of(alive & (lengths == 0))
    if len(left):
        pieces.append(_encoded(step, left))
        lengths = lengths.index_copy(0, left, pieces[-1].lengths)
    return ValueBytes(lengths, tuple(pieces))


def record_bytes(
    parts: list[Part], values: dict[tuple[int, ...], ValueBytes], samples: int, device: torch.device
) -> Encoded:
    """What all programs return, for every sample.

    Args:
        parts: what is written.
        values: by node, or by nodes whose values for all samples are one after the other.
    """
    lengths = {
        node: own
        for nodes, of in values.items()
        for node, own in zip(nodes, of.lengths.reshape(len(nodes), samples), strict=True)
    }
    fixed = torch.tensor([0 if isinstance(part, int) else len(part) for part, _ in parts], device=device)
    rows = [
        fixed[number].expand(samples) if isinstance(part, bytes) else lengths[part]
        for number, (part, _) in enumerate(parts)
    ]
    where = torch.stack(rows)
    some = [number for number, (_, there) in enumerate(parts) if there is not None]
    if some:
        there = torch.from_numpy(np.stack([of for _, of in parts if of is not None])).to(device)
        where[torch.tensor(some, device=device)] *= there
    written = where != 0
    ends = where.cumsum(0)
    offsets = offsets_of(ends[-1])
    where = select(written, ends.sub_(where).add_(offsets[:-1] + 1), 0)
    del ends, written
    out = torch.empty(int(offsets[-1]) + 1, dtype=torch.uint8, device=device)
    _write_fixed(out, [(part, where[at]) for at, (part, _) in enumerate(parts) if isinstance(part, bytes)])
    _write_values(out, [part for part, _ in parts], values, where)
    return Encoded(_host_copy(out[1:]), offsets.numpy(force=True))


def _write_values(
    out: Tensor, parts: list[bytes | int], values: dict[tuple[int, ...], ValueBytes], where: Tensor
) -> None:
    """Writes the values of nodes wherever they are among the parts."""
    places = defaultdict[int, list[int]](list)
    for number, part in enumerate(parts):
        if isinstance(part, int):
            places[part].append(number)
    for nodes, of in values.items():
        for time in range(max(len(places[node]) for node in nodes)):
            some = [at for at, node in enumerate(nodes) if len(places[node]) > time]
            at = where[[places[nodes[number]][time] for number in some]]
            if len(some) < len(nodes):
                at = at.new_zeros(len(nodes), at.shape[1]).index_copy(0, torch.tensor(some, device=at.device), at)
            of.write(out, at.reshape(-1))


def _piece(column: Column, wanted: Tensor) -> _Piece | None:
    """The values of a column that are wanted; None where the host encodes them."""
    match column:
        case Ints(boolean=True):
            return _Piece(None, wanted.to(torch.int64), lambda out, at: write_flags(out, at, column.values))
        case Ints():
            return _numbers([column.values], wanted)
        case Pairs():
            return _numbers([column.first, column.second], wanted)
        case Grids() if not bool((column.cells >> 8).any()):
            return _grids(column, wanted)
    return None


def _numbers(values: list[Tensor], wanted: Tensor) -> _Piece:
    """Whole numbers, or pairs of them."""
    return _Piece(None, number_lengths(values, wanted), lambda out, at: write_numbers(out, at, values))


def _grids(column: Grids, wanted: Tensor) -> _Piece:
    """Grids of cells of one byte, and those without rows."""
    height, width, offsets = column.height, column.width, column.offsets
    cells = column.cells.to(torch.uint8)  # a fourth of the memory, and the column itself is not needed any more
    lengths = grid_lengths(height, width, offsets, wanted)
    return _Piece(None, lengths, lambda out, at: write_grids(out, at, cells, offsets, height, width))


def _kernels() -> Any:
    from ..gpu import records

    return records


def write_flags(out: Tensor, at: Tensor, values: Tensor) -> None:
    """Writes booleans."""
    if has_kernels(out):
        _kernels().write_flags(out, at, values)
    else:
        out[at] = select(values != 0, _TRUE, _FALSE).to(torch.uint8)


def number_lengths(values: list[Tensor], wanted: Tensor) -> Tensor:
    """The bytes of whole numbers, or of pairs; 0 where one is not wanted, or is too large."""
    head = len(_head(values))
    if has_kernels(wanted):
        return _kernels().number_lengths(values, wanted, head)
    small = wanted
    for numbers in values:
        small = small & (numbers > -LARGE) & (numbers < LARGE)
    length = torch.full_like(values[0], head + len(values))
    return select(small, sum((_digits(_unsigned(numbers)) for numbers in values), length), 0)


def write_numbers(out: Tensor, at: Tensor, values: list[Tensor]) -> None:
    """Writes whole numbers, or pairs of them."""
    if has_kernels(out):
        _kernels().write_numbers(out, at, values)
        return
    for byte in _head(values):
        out[at] = byte
        at = _moved(at, 1)
    for numbers in map(_unsigned, values):
        out[at] = _NUMBER
        at = _moved(at, 1)
        count = _digits(numbers)
        _write_number(out, at, numbers, count)
        at = _moved(at, count)


def grid_lengths(height: Tensor, width: Tensor, offsets: Tensor, wanted: Tensor) -> Tensor:
    """The bytes of grids; 0 where one is not wanted, or has rows of width 0."""
    if has_kernels(wanted):
        return _kernels().grid_lengths(height, width, offsets, wanted)
    sizes = offsets.diff()
    length = torch.where(sizes > 0, 1 + _digits(height) + _digits(width) + sizes, select(height == 0, 2, 0))
    return select(wanted, length, 0)


def write_grids(out: Tensor, at: Tensor, cells: Tensor, offsets: Tensor, height: Tensor, width: Tensor) -> None:
    """Writes grids: their height, their width and their cells."""
    if has_kernels(out):
        _kernels().write_grids(out, at, cells, offsets, height, width)
        return
    sizes, of_height, of_width = offsets.diff(), _digits(height), _digits(width)
    out[at] = select(sizes > 0, _GRID, _TUPLE).to(torch.uint8)
    at = _moved(at, 1)
    _write_number(out, at, height, of_height)
    at = select(sizes > 0, _moved(at, of_height), 0)
    _write_number(out, at, width, of_width)
    copy_rows(out, _moved(at, of_width), cells, offsets)


def _head(values: list[Tensor]) -> bytes:
    """What is before the numbers."""
    return b"(\x02" if len(values) == 2 else b""


def _unsigned(numbers: Tensor) -> Tensor:
    """Whole numbers in turn: 0, -1, 1, -2, ..."""
    return torch.where(numbers >= 0, numbers << 1, (-numbers << 1) - 1)


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
    return select(at > 0, at + by, 0)


def _write_number(out: Tensor, at: Tensor, numbers: Tensor, digits: Tensor) -> None:
    """Writes whole numbers, their lowest seven bits first."""
    digit = torch.arange(_DIGITS, device=at.device)
    there = (digit < digits[:, None]) & (at > 0)[:, None]
    value = (numbers[:, None] >> 7 * digit) & 127 | select(digit < digits[:, None] - 1, 128, 0)
    out[select(there, at[:, None] + digit, 0)] = value.to(torch.uint8)


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
    out[select(at > 0, at + byte[:, None], 0)] = text[:, None].expand(at.shape)


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
