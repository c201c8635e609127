"""The arguments of all samples as columns."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from ...execution.arguments import EncodedArguments, SampleArguments
from ..columns import CELL, Column, Grids
from ..convert import encode
from ..others import Others
from ..rows import offsets_of

_GRID = ord("G")
_HEAD = 3  # bytes before the cells of a grid with fewer than 128 rows and columns


def encode_argument(
    samples: Sequence[SampleArguments], name: str, device: torch.device, form: str | None = None
) -> tuple[Column, Others]:
    """A column of one of the arguments, and the values that it does not hold; see `encode`."""
    grids = [sample.grids.get(name) for sample in samples if isinstance(sample, EncodedArguments)]
    if samples and len(grids) == len(samples):
        column = _grids([data for data in grids if data is not None], len(samples), device)
        if column is not None:
            return column, Others()
    return encode([getattr(sample, name) for sample in samples], device, form)


def _grids(grids: list[bytes], samples: int, device: torch.device) -> Grids | None:
    """Encoded grids as a column, all at once; None where one of them is none, or has 128 rows or columns."""
    flat = np.frombuffer(b"".join(grids), np.uint8)
    lengths = np.fromiter(map(len, grids), np.int64, len(grids))
    if len(grids) != samples or lengths.min() <= _HEAD:
        return None
    starts = np.cumsum(lengths) - lengths
    height, width = flat[starts + 1].astype(np.int64), flat[starts + 2].astype(np.int64)
    if (flat[starts] != _GRID).any() or max(height.max(), width.max()) >= 128:
        return None
    if (lengths != height * width + _HEAD).any():
        return None
    cells = np.ones(len(flat), bool)
    for byte in range(_HEAD):
        cells[starts + byte] = False
    height, width = (torch.from_numpy(sizes).to(device) for sizes in (height, width))
    return Grids(torch.from_numpy(flat[cells]).to(device).to(CELL), offsets_of(height * width), height, width)
