"""Sums and extremes of rows, one program per row: twins of the functions of `batched.segments`."""

# pyright: reportArgumentType=false, reportCallIssue=false, reportOperatorIssue=false, reportAttributeAccessIssue=false
# pyright: reportGeneralTypeIssues=false, reportIndexIssue=false
import torch
import triton
import triton.language as tl
from torch import Tensor

from .jit import kernel

_BLOCK = 256
_COLORS = 64  # of a row, which are looked for one after the other
_BEYOND = 1 << 40  # more than any color
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


@kernel
def _beyond(out, first, second, third, fourth, number, rows, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    real = row < rows
    most = tl.abs(tl.load(first + row, mask=real, other=0))
    most = tl.maximum(most, tl.abs(tl.load(second + row, mask=real, other=0)))
    most = tl.maximum(most, tl.abs(tl.load(third + row, mask=real, other=0)))
    most = tl.maximum(most, tl.abs(tl.load(fourth + row, mask=real, other=0)))
    tl.store(out + row, (most >= number).to(tl.uint8), mask=real)


@kernel
def _extreme_color(out, colors, offsets, SIGN: tl.constexpr, COLORS: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    start, end = tl.load(offsets + row), tl.load(offsets + row + 1)
    beyond = (start * 0 + 1) << 40
    best, known = start * 0, -beyond
    color, colors_seen = -beyond, 0
    while (color < beyond) & (colors_seen <= COLORS):  # the next larger color, until there is none
        colors_seen += 1
        larger = tl.zeros((BLOCK,), tl.int64) + beyond
        for first in range(start, end, BLOCK):
            place = first + tl.arange(0, BLOCK)
            value = tl.load(colors + place, mask=place < end, other=0).to(tl.int64)
            larger = tl.minimum(larger, tl.where((place < end) & (value > color), value, beyond))
        color = tl.min(larger, 0)
        count = tl.zeros((BLOCK,), tl.int64)
        for first in range(start, end, BLOCK):
            place = first + tl.arange(0, BLOCK)
            value = tl.load(colors + place, mask=place < end, other=0).to(tl.int64)
            count += ((place < end) & (value == color)).to(tl.int64)
        total = tl.sum(count, 0)
        rank = tl.where(total > 0, total * SIGN, known)
        best = tl.where(rank > known, color, best)
        known = tl.maximum(rank, known)
    tl.store(out + row, tl.where(color < beyond, beyond, best))


def extreme_color(colors: Tensor, offsets: Tensor, greatest: bool) -> Tensor | None:
    """See `batched.cells.extreme_color`; None where a row has so many colors that sorting them is quicker."""
    out = torch.empty(len(offsets) - 1, dtype=torch.int64, device=colors.device)
    if not len(out):
        return out
    given = colors.contiguous(), offsets.contiguous()
    _extreme_color[(len(out),)](out, *given, 1 if greatest else -1, _COLORS, _BLOCK)
    return None if len(colors) > _COLORS and int(out.max()) >= _BEYOND else out


def beyond(limit: int, *numbers: Tensor) -> Tensor:
    """See `batched.segments.beyond`."""
    given = [of.contiguous() for of in numbers]
    out = torch.empty(len(given[0]), dtype=torch.bool, device=given[0].device)
    if len(out):
        given += given[:1] * (4 - len(given))
        _beyond[(triton.cdiv(len(out), _BLOCK),)](out.view(torch.uint8), *given, limit, len(out), _BLOCK)
    return out


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
