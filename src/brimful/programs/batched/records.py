"""The results of a batch as bytes, as `encode` writes them one by one: all grids of all samples at once.

What a program returns for a sample is a few fixed bytes with values between them. The bytes of every value are laid out
in one array per node; then each sample's are copied together.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from ..execution.encoding import encode, tuple_header
from ..language.graph import GraphProgram
from .columns import Grids, Ints, Pairs
from .flags import Step
from .rows import taken
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
    apart |= {row: encode(value) for row, value in _decoded(step, [row for row in rows.tolist() if row not in apart])}
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
    odd = any_of((column.cells >> 8) != 0, column.offsets) | (column.height == 0) | (column.width == 0)
    plain = ~odd.numpy(force=True) & ~dead
    plain[list(apart)] = False
    others = [row for row in np.flatnonzero(~plain & ~dead).tolist() if row not in apart]
    apart = apart | {row: encode(value) for row, value in _decoded(step, others)}
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
    return _placed(flat, offsets, apart)


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
    samples = ended.shape[1]
    used = list(values)
    place = {node: number for number, node in enumerate(used)}
    flats = [values[node][0] for node in used]
    bases = np.concatenate([[0], np.cumsum([len(flat) for flat in flats])])
    everything = np.concatenate(flats) if flats else np.zeros(0, np.uint8)
    offsets = np.stack([values[node][1] + base for node, base in zip(used, bases[:-1], strict=True)]) if used else None
    numbers, total = (range(len(programs)), len(programs)) if places is None else places
    header = tuple_header(total)
    templates: list[tuple[int, list[bytes | int]] | None] = [None] * total
    for at, number in enumerate(numbers):
        templates[number] = at, _template(programs[at], place)
    results = []
    for sample in range(samples):
        parts = [header]
        for template in templates:
            if template is None or ended[template[0], sample]:
                parts.append(b"N")
                continue
            for part in template[1]:
                if isinstance(part, bytes):
                    parts.append(part)
                else:
                    assert offsets is not None
                    parts.append(everything[offsets[part, sample] : offsets[part, sample + 1]].tobytes())
        results.append(b"".join(parts))
    return results


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
