"""Sums and extremes of rows, one program per row: twins of the functions of `batched.segments`."""

# pyright: reportArgumentType=false, reportCallIssue=false, reportOperatorIssue=false, reportAttributeAccessIssue=false
# pyright: reportGeneralTypeIssues=false, reportIndexIssue=false
import torch
import triton.language as tl
from torch import Tensor

from .jit import kernel

_BLOCK = 256
_SUM, _LEAST, _GREATEST = range(3)


@kernel
def _reduced(out, values, offsets, empty, KIND: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    start, end = tl.load(offsets + row), tl.load(offsets + row + 1)
    kind = out.dtype.element_ty
    if start == end:
        tl.store(out + row, empty.to(kind))
    else:
        beyond = tl.load(values + start).to(kind)  # of the row, so that it changes no extreme
        if KIND == 0:
            beyond = beyond * 0
        known = tl.zeros((BLOCK,), kind) + beyond
        for first in range(start, end, BLOCK):
            place = first + tl.arange(0, BLOCK)
            value = tl.load(values + place, mask=place < end, other=0).to(kind)
            value = tl.where(place < end, value, beyond)
            if KIND == 0:
                known += value
            elif KIND == 1:
                known = tl.minimum(known, value)
            else:
                known = tl.maximum(known, value)
        if KIND == 0:
            tl.store(out + row, tl.sum(known, 0))
        elif KIND == 1:
            tl.store(out + row, tl.min(known, 0))
        else:
            tl.store(out + row, tl.max(known, 0))


def _reduce(values: Tensor, offsets: Tensor, empty: int, kind: int, dtype: torch.dtype) -> Tensor:
    out = torch.empty(len(offsets) - 1, dtype=dtype, device=values.device)
    if len(out):
        _reduced[(len(out),)](out, values.contiguous(), offsets.contiguous(), empty, kind, _BLOCK)
    return out


def totals(values: Tensor, offsets: Tensor) -> Tensor:
    """See `batched.segments.totals`."""
    return _reduce(values, offsets, 0, _SUM, torch.int64)


def minima(values: Tensor, offsets: Tensor, empty: int) -> Tensor:
    """See `batched.segments.minima`."""
    return _reduce(values, offsets, empty, _LEAST, values.dtype)


def maxima(values: Tensor, offsets: Tensor, empty: int) -> Tensor:
    """See `batched.segments.maxima`."""
    return _reduce(values, offsets, empty, _GREATEST, values.dtype)
