"""Locations and cells as one number each: see `columns`."""

from __future__ import annotations

import torch
from torch import Tensor

from .compiled import call, usable
from .gpu import has_kernels
from .key_bits import BIAS, BITS, COLOR_BIAS, FIELD
from .loops import keys as loops

ORIGIN = (COLOR_BIAS << 2 * BITS) | (BIAS << BITS) | BIAS
"""The key of the location (0, 0), and of the cell (0, (0, 0))."""


def key_of(i: Tensor, j: Tensor, color: Tensor | int = 0) -> Tensor:
    """Keys of locations, or of cells."""
    flat = i.dim() == 1 and all(part.shape == i.shape for part in (j, color) if isinstance(part, Tensor))
    if flat and has_kernels(i):
        from .gpu import keys

        return keys.packed(i, j, color)
    if flat and _whole(i, j):
        loop = loops.colored if isinstance(color, Tensor) else loops.located
        return call(loop, i, j, color)
    return key_of_plain(i, j, color)


def _whole(*numbers: Tensor) -> bool:
    """Whether compiled loops run on such numbers."""
    return all(of.dtype == torch.int64 for of in numbers) and usable(numbers[0])


def key_of_plain(i: Tensor, j: Tensor, color: Tensor | int = 0) -> Tensor:
    color = color.to(torch.int64) if isinstance(color, Tensor) else color  # that of a grid has too few bits to be moved
    return ((color + COLOR_BIAS) << 2 * BITS) | ((i + BIAS) << BITS) | (j + BIAS)


def row_of(key: Tensor) -> Tensor:
    return call(loops.rows, key) if key.dim() == 1 and usable(key) else row_of_plain(key)


def row_of_plain(key: Tensor) -> Tensor:
    return (key >> BITS & FIELD) - BIAS


def column_of(key: Tensor) -> Tensor:
    return call(loops.columns, key) if key.dim() == 1 and usable(key) else column_of_plain(key)


def column_of_plain(key: Tensor) -> Tensor:
    return (key & FIELD) - BIAS


def location_of(key: Tensor) -> tuple[Tensor, Tensor]:
    """The rows and the columns of keys."""
    if has_kernels(key):
        from .gpu import keys

        return keys.unpacked(key)
    return row_of(key), column_of(key)


def color_of(key: Tensor) -> Tensor:
    return call(loops.colors, key) if key.dim() == 1 and usable(key) else color_of_plain(key)


def color_of_plain(key: Tensor) -> Tensor:
    return (key >> 2 * BITS) - COLOR_BIAS
