"""The results of a batch as bytes, as `encode` writes them one by one: all grids of all samples at once.

What a program returns for a sample is a few fixed bytes with values between them. The bytes of every value are laid out
in one array per node; then each sample's are copied together.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..execution.encoding import encode, tuple_header
from ..language.graph import GraphProgram
from .columns import Grids
from .flags import Step

Bytes = tuple[np.ndarray, np.ndarray]
"""The bytes of all samples, one after the other, and where each begins."""

Places = tuple[Sequence[int], int]
"""The numbers of some programs, and how many there are of all."""


def value_bytes(step: Step, samples: int) -> Bytes:
    """A step's values as bytes; nothing for samples that have none."""
    dead = np.zeros(samples, bool) if step.failed is None else step.failed.numpy(force=True) != 0
    rows = [row for row in range(samples) if not dead[row]]
    column = step.column
    if not isinstance(column, Grids):
        return _one_by_one(step, rows, samples)
    cells = column.cells.numpy(force=True)
    starts, height, width = (part.numpy(force=True) for part in (column.offsets, column.height, column.width))
    plain = _plain(cells, starts, height, width)
    plain[dead] = False
    plain[list(step.boxed)] = False
    others = [row for row in rows if not plain[row]]
    apart = dict(zip(others, map(encode, step.decode(others)), strict=True))
    lengths = np.where(plain, 3 + height * width, 0)
    for row, data in apart.items():
        lengths[row] = len(data)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    flat = np.empty(int(offsets[-1]), np.uint8)
    _write_grids(flat, offsets, cells, starts, height, width, plain)
    for row, data in apart.items():
        flat[offsets[row] : offsets[row + 1]] = np.frombuffer(data, np.uint8)
    return flat, offsets


def _one_by_one(step: Step, rows: list[int], samples: int) -> Bytes:
    parts = dict(zip(rows, map(encode, step.decode(rows)), strict=True))
    lengths = np.array([len(parts.get(row, b"")) for row in range(samples)], np.int64)
    flat = np.frombuffer(b"".join(parts[row] for row in rows), np.uint8)
    return flat, np.concatenate([[0], np.cumsum(lengths)])


def _plain(cells: np.ndarray, starts: np.ndarray, height: np.ndarray, width: np.ndarray) -> np.ndarray:
    """Which grids are written as grids: with one byte for either side, and for every color."""
    odd = np.concatenate([[0], np.cumsum((cells < 0) | (cells > 255))])
    sides = (height > 0) & (height < 128) & (width > 0) & (width < 128)
    return sides & (odd[starts[1:]] == odd[starts[:-1]])


def _write_grids(
    flat: np.ndarray,
    offsets: np.ndarray,
    cells: np.ndarray,
    starts: np.ndarray,
    height: np.ndarray,
    width: np.ndarray,
    plain: np.ndarray,
) -> None:
    at = offsets[:-1][plain]
    flat[at], flat[at + 1], flat[at + 2] = 71, height[plain], width[plain]
    inside = np.repeat(plain, np.diff(starts))
    to = np.arange(len(cells)) + np.repeat(offsets[:-1] + 3 - starts[:-1], np.diff(starts))
    flat[to[inside]] = cells[inside]


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
