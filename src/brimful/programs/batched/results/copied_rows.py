"""Rows of numbers copied as bytes to places of their own: one kernel on a GPU, and its plain twin."""

from __future__ import annotations

import torch
from torch import Tensor

from .. import gpu
from ..rows import select

_AT_ONCE = 1 << 24  # numbers whose places are in memory at once, in the plain twin
_NOWHERE = -(1 << 62)


def copy_rows(out: Tensor, at: Tensor, source: Tensor, offsets: Tensor) -> None:
    """Copies row r of the source to `out[at[r]:]`; where `at[r]` is 0 it is not wanted, and `out[0]` may change.

    Args:
        out: (B,) uint8.
        at: (R,) int64.
        source: (M,) whole numbers from 0 to 255.
        offsets: (R + 1,) where the rows of the source begin.
    """
    if gpu.has_kernels(out):
        from ..gpu import rows

        rows.copy_rows(out, at, source, offsets)
    else:
        copy_rows_plain(out, at, source, offsets)


def copy_rows_plain(out: Tensor, at: Tensor, source: Tensor, offsets: Tensor) -> None:
    """The twin of the kernel."""
    base = select(at > 0, at - offsets[:-1], _NOWHERE)
    for start in range(0, len(source), _AT_ONCE):
        some = source[start : start + _AT_ONCE]
        number = torch.arange(start, start + len(some), device=out.device)
        row = torch.searchsorted(offsets[1:].contiguous(), number, right=True)
        out[(base[row] + number).clamp_(min=0)] = some.to(torch.uint8)
