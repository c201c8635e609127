"""The results of a batch as bytes, as `encode` writes them one by one: all grids of all samples at once.

What a program returns for a sample is a few fixed bytes with values between them. The bytes of every value are laid out
in one array per node; then each sample's are copied together.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..execution.encoding import encode, tuple_header
from ..language.graph import GraphProgram
from .columns import Grids, Ints, Pairs, Values
from .compiled import call, compiles, usable
from .flags import Step
from .loops import records as loops
from .rows import offsets_of, taken
from .segments import any_of

Bytes = tuple[np.ndarray, np.ndarray]
"""The bytes of all samples, one after the other, and where each begins."""

Places = tuple[Sequence[int], int]
"""The numbers of some programs, and how many there are of all."""


def value_bytes(step: Step, samples: int) -> Bytes:
    """A step's values as bytes; nothing for samples that have none."""
    dead = np.zeros(samples, bool) if step.failed is None else step.failed.numpy(force=True) != 0
    apart = dict.fromkeys(step.boxed, b"")
    apart |= {row: encode(value) for row, value in zip(apart, step.decode(list(apart)), strict=True) if not dead[row]}
    column = step.column
    if isinstance(column, Grids):
        return _grid_bytes(column, step, dead, apart)
    rows = np.flatnonzero(~dead)
    if isinstance(column, Ints | Pairs) and len(rows):
        return _of_few(column, rows, samples, apart)
    bytes_of: dict[int, bytes] = {}  # by identity: constants are one value for all samples
    for row, value in _decoded(step, [row for row in rows.tolist() if row not in apart]):
        if not isinstance(column, Values):
            apart[row] = encode(value)
            continue
        if id(value) not in bytes_of:
            bytes_of[id(value)] = encode(value)
        apart[row] = bytes_of[id(value)]
    empty = np.zeros(0, np.uint8), np.zeros(samples + 1, np.int64)
    return _placed(*empty, apart)


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


def _grid_bytes(column: Grids, step: Step, dead: np.ndarray, apart: dict[int, bytes]) -> Bytes:
    """Grids with cells of one byte all at once; others one by one."""
    wanted = ~dead
    wanted[list(apart)] = False
    flat, offsets = grids_as_bytes(column, torch.from_numpy(wanted))
    others = np.flatnonzero(wanted & (np.diff(offsets) == 0)).tolist()
    return _placed(flat, offsets, apart | {row: encode(value) for row, value in _decoded(step, others)})


def grids_as_bytes(column: Grids, wanted: Tensor) -> Bytes:
    """The bytes of the grids that are wanted; none for those that are not of cells of one byte."""
    if not usable(column.cells):
        return grids_as_bytes_plain(column, wanted)
    parts = (column.cells, column.offsets, column.height, column.width)
    starts = offsets_of(call(loops.grid_lengths, *parts, wanted))
    return call(loops.grid_bytes, *parts, starts).numpy(), starts.numpy()


def grids_as_bytes_plain(column: Grids, wanted: Tensor) -> Bytes:
    """The twin, where nothing can be compiled or the grids are on a GPU."""
    odd = any_of((column.cells >> 8) != 0, column.offsets) | (column.height == 0) | (column.width == 0)
    plain = wanted.numpy() & ~odd.numpy(force=True)
    cells = column.cells.to(torch.uint8).numpy(force=True)
    starts, height, width = (part.numpy(force=True) for part in (column.offsets, column.height, column.width))
    header = 1 + _number_length(height) + _number_length(width)
    offsets = np.concatenate([[0], np.cumsum(np.where(plain, header + height * width, 0))])
    flat = np.empty(int(offsets[-1]), np.uint8)
    at = offsets[:-1][plain]
    flat[at] = _GRID
    at = at + 1
    for side in (height[plain], width[plain]):
        at = _write_numbers(flat, at, side)
    inside = np.repeat(plain, np.diff(starts))
    shift = np.repeat((offsets[:-1] + header - starts[:-1])[plain], np.diff(starts)[plain])
    flat[np.flatnonzero(inside) + shift] = cells[inside]
    return flat, offsets


_GRID = ord("G")


def _number_length(numbers: np.ndarray) -> np.ndarray:
    """The bytes of whole numbers of seven bits per byte."""
    return 1 + np.sum([numbers >= 1 << 7 * more for more in range(1, 5)], axis=0)


def _write_numbers(flat: np.ndarray, at: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """Writes numbers, the lowest seven bits first, and says where each ends."""
    rest, open_ = numbers.copy(), np.ones(len(numbers), bool)
    at = at.copy()
    while open_.any():
        more = rest >= 128
        flat[at[open_]] = (rest & 127 | np.where(more, 128, 0))[open_]
        at[open_] += 1
        rest >>= 7
        open_ &= more
    return at


def record_bytes(
    programs: tuple[GraphProgram, ...], values: dict[int, Bytes], ended: np.ndarray, places: Places | None = None
) -> list[bytes]:
    """What all programs return, for every sample.

    Args:
        values: by node.
        ended: (programs, samples): which programs ended, and return None.
        places: where they are among more programs, the others of which return None.
    """
    used = list(values)
    place = {node: number for number, node in enumerate(used)}
    flats = [values[node][0] for node in used]
    bases = np.concatenate([[0], np.cumsum([len(flat) for flat in flats])])
    everything = np.concatenate(flats) if flats else np.zeros(0, np.uint8)
    none = np.zeros((0, ended.shape[1] + 1), np.int64)
    offsets = np.stack([values[node][1] + base for node, base in zip(used, bases[:-1], strict=True)]) if used else none
    numbers, total = (range(len(programs)), len(programs)) if places is None else places
    parts: list[tuple[int, bytes | int]] = [(_ALWAYS, tuple_header(total))]
    at = {number: position for position, number in enumerate(numbers)}
    for number in range(total):
        if number not in at:
            parts.append((_ALWAYS, b"N"))
            continue
        parts += [(at[number], part) for part in _template(programs[at[number]], place)]
        parts.append((_ENDED - at[number], b"N"))
    fixed = [part if isinstance(part, bytes) else b"" for _, part in parts]
    flat, starts = _joined(
        np.frombuffer(b"".join(fixed), np.uint8),
        np.concatenate([[0], np.cumsum([len(part) for part in fixed])]),
        np.array([program for program, _ in parts]),
        np.array([-1 if isinstance(part, bytes) else part for _, part in parts]),
        ended,
        everything,
        offsets,
    )
    return [flat[start:stop].tobytes() for start, stop in itertools.pairwise(starts.tolist())]


_ALWAYS = -1
"""The program of a part that every sample has."""

_ENDED = -2
"""The program of a part that samples have for which the first program ended; one less for the second, and so on."""


def _joined(*parts: np.ndarray) -> Bytes:
    """The parts of every sample, one after the other, and where samples begin; see `loops.records.joined`."""
    flat, starts = (loops.joined if compiles() else joined_plain)(*parts)
    return flat, starts


def joined_plain(
    fixed: np.ndarray,
    fixed_starts: np.ndarray,
    program: np.ndarray,
    node: np.ndarray,
    ended: np.ndarray,
    values: np.ndarray,
    starts: np.ndarray,
) -> Bytes:
    """The twin of `loops.joined`."""
    pieces, lengths = list[bytes](), [0]
    for sample in range(ended.shape[1]):
        begun = len(pieces)
        for part, (of, at) in enumerate(zip(program.tolist(), node.tolist(), strict=True)):
            if ended[of, sample] if of >= 0 else of < _ALWAYS and not ended[_ENDED - of, sample]:
                continue
            source, of_source, row = (fixed, fixed_starts, part) if at < 0 else (values, starts[at], sample)
            pieces.append(source[of_source[row] : of_source[row + 1]].tobytes())
        lengths.append(sum(map(len, pieces[begun:])))
    return np.frombuffer(b"".join(pieces), np.uint8), np.cumsum(lengths)


def _template(program: GraphProgram, place: dict[int, int]) -> list[bytes | int]:
    """The fixed bytes of what a program returns, and between them the places of nodes."""
    parts: list[bytes | int] = [tuple_header(2)]
    for records in (program.outputs, program.scores):
        parts.append(tuple_header(len(records)))
        for record in records:
            parts += [tuple_header(len(record)), *(place[node] for node in record)]
    joined: list[bytes | int] = []
    for part in parts:
        if joined and isinstance(part, bytes) and isinstance(joined[-1], bytes):
            joined[-1] += part
        else:
            joined.append(part)
    return joined
