"""Rows of numbers copied as bytes to places of their own: one kernel on a GPU, and its plain twin."""

from __future__ import annotations

import warnings
from functools import cache
from importlib.util import find_spec

import torch
from torch import Tensor

from ....core.base.errors import BrimfulWarning
from ....core.memory.oom import error_line, is_device_lost, is_out_of_memory

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
    if out.device.type == "cuda" and _kernel_works(out.device):
        from .copied_rows_triton import copy_rows as copy

        copy(out, at, source, offsets)
    else:
        copy_rows_plain(out, at, source, offsets)


def copy_rows_plain(out: Tensor, at: Tensor, source: Tensor, offsets: Tensor) -> None:
    base = torch.where(at > 0, at - offsets[:-1], _NOWHERE)
    for start in range(0, len(source), _AT_ONCE):
        some = source[start : start + _AT_ONCE]
        number = torch.arange(start, start + len(some), device=out.device)
        row = torch.searchsorted(offsets[1:], number, right=True)
        out[(base[row] + number).clamp_(min=0)] = some.to(torch.uint8)


@cache
def _kernel_works(device: torch.device) -> bool:
    """Whether the kernel can be compiled; if not, a warning says what runs instead."""
    if find_spec("triton") is None:
        return False
    try:
        from .copied_rows_triton import copy_rows as copy

        out, one = torch.zeros(2, dtype=torch.uint8, device=device), torch.ones(1, dtype=torch.int64, device=device)
        copy(out, one, one.to(torch.int32), torch.tensor([0, 1], device=device))
        if int(out[1]) == 1:
            return True
        reason = "it gives a wrong result"
    except Exception as error:
        if is_out_of_memory(error) or is_device_lost(error):
            raise
        reason = error_line(error)
    warnings.warn(f"the kernel that copies rows does not run here: {reason}; torch does it", BrimfulWarning, 3)
    return False
