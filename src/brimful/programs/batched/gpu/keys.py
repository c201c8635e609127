"""Keys of locations and cells: made of their numbers, taken apart, moved and painted. Twins of functions of `columns`,
`operations.patches` and `operations.painting`."""

# pyright: reportArgumentType=false, reportCallIssue=false, reportOperatorIssue=false, reportAttributeAccessIssue=false
# pyright: reportGeneralTypeIssues=false, reportIndexIssue=false
import torch
import triton
import triton.language as tl
from torch import Tensor

from ..key_bits import BIAS, BITS, COLOR_BIAS, COORDINATE_LIMIT, FIELD
from .jit import kernel

_BLOCK, _ROW = 1024, 256


@kernel
def _packed(
    out, i, j, colors, number, rows, COLORED: tl.constexpr, BITS: tl.constexpr, BIAS: tl.constexpr,
    COLOR_BIAS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    place = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    real = place < rows
    down, across = tl.load(i + place, mask=real, other=0), tl.load(j + place, mask=real, other=0)
    color = tl.zeros((BLOCK,), tl.int64) + number
    if COLORED:
        color += tl.load(colors + place, mask=real, other=0).to(tl.int64)
    key = ((color + COLOR_BIAS) << 2 * BITS) | ((down + BIAS) << BITS) | (across + BIAS)
    tl.store(out + place, key, mask=real)


@kernel
def _unpacked(i, j, keys, rows, BITS: tl.constexpr, BIAS: tl.constexpr, FIELD: tl.constexpr, BLOCK: tl.constexpr):
    place = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    key = tl.load(keys + place, mask=place < rows, other=0)
    tl.store(i + place, ((key >> BITS) & FIELD) - BIAS, mask=place < rows)
    tl.store(j + place, (key & FIELD) - BIAS, mask=place < rows)


@kernel
def _moved(
    out, away, keys, offsets, by, MOVES: tl.constexpr, BITS: tl.constexpr, BIAS: tl.constexpr, FIELD: tl.constexpr,
    LIMIT: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    start, end = tl.load(offsets + row), tl.load(offsets + row + 1)
    step = start * 0
    if MOVES:
        step = tl.load(by + row)
    beyond = tl.zeros((BLOCK,), tl.int32)
    for first in range(start, end, BLOCK):
        place = first + tl.arange(0, BLOCK)
        key = tl.load(keys + place, mask=place < end, other=0) + step
        i, j = ((key >> BITS) & FIELD) - BIAS, (key & FIELD) - BIAS
        outside = (i >= LIMIT) | (i <= -LIMIT) | (j >= LIMIT) | (j <= -LIMIT)
        beyond += (outside & (place < end)).to(tl.int32)
        if MOVES:
            tl.store(out + place, key, mask=place < end)
    tl.store(away + row, (tl.sum(beyond, 0) > 0).to(tl.uint8))


@kernel
def _topmost(
    top, offsets, height, width, keys, starts, BITS: tl.constexpr, BIAS: tl.constexpr, FIELD: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    start, end = tl.load(starts + row), tl.load(starts + row + 1)
    if start < end:
        base, high, wide = tl.load(offsets + row), tl.load(height + row), tl.load(width + row)
        for first in range(start, end, BLOCK):
            place = first + tl.arange(0, BLOCK)
            key = tl.load(keys + place, mask=place < end, other=0)
            i, j = ((key >> BITS) & FIELD) - BIAS, (key & FIELD) - BIAS
            on = (place < end) & (i >= 0) & (j >= 0) & (i < high) & (j < wide)
            tl.atomic_max(top + base + i * wide + j, place, mask=on)


@kernel
def _painted(out, cells, top, keys, rows, BITS: tl.constexpr, COLOR_BIAS: tl.constexpr, BLOCK: tl.constexpr):
    place = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    real = place < rows
    at = tl.load(top + place, mask=real, other=-1)
    color = (tl.load(keys + at, mask=real & (at >= 0), other=0) >> 2 * BITS) - COLOR_BIAS
    cell = tl.load(cells + place, mask=real, other=0)
    tl.store(out + place, tl.where(at >= 0, color.to(cell.dtype), cell), mask=real)


@kernel
def _lines(
    out, ai, aj, bi, bj, offsets, BITS: tl.constexpr, BIAS: tl.constexpr, COLOR_BIAS: tl.constexpr, BLOCK: tl.constexpr
):
    line = tl.program_id(0).to(tl.int64)
    start, end = tl.load(offsets + line), tl.load(offsets + line + 1)
    if start < end:
        top, left = tl.load(ai + line), tl.load(aj + line)
        bottom, right = tl.load(bi + line), tl.load(bj + line)
        forward = (top < bottom) | ((top == bottom) & (left <= right))
        i, j = tl.where(forward, top, bottom), tl.where(forward, left, right)
        last_i, last_j = tl.where(forward, bottom, top), tl.where(forward, right, left)
        down = (last_i > i).to(tl.int64) - (last_i < i).to(tl.int64)
        across = (last_j > j).to(tl.int64) - (last_j < j).to(tl.int64)
        key = (((i * 0 + COLOR_BIAS) << 2 * BITS) | ((i + BIAS) << BITS)) + j + BIAS
        step = (down << BITS) + across
        for first in range(start, end, BLOCK):
            place = first + tl.arange(0, BLOCK)
            tl.store(out + place, key + (place - start) * step, mask=place < end)


def lines(ai: Tensor, aj: Tensor, bi: Tensor, bj: Tensor, offsets: Tensor) -> Tensor:
    """See `operations.lines.lines_plain`."""
    out = torch.empty(int(offsets[-1]), dtype=torch.int64, device=offsets.device)
    if len(out):
        given = (of.contiguous() for of in (ai, aj, bi, bj, offsets))
        _lines[(len(ai),)](out, *given, BITS, BIAS, COLOR_BIAS, _ROW)
    return out


def packed(i: Tensor, j: Tensor, color: Tensor | int) -> Tensor:
    """See `batched.columns.key_of`; of flat tensors of one length."""
    out, colored = torch.empty(len(i), dtype=torch.int64, device=i.device), isinstance(color, Tensor)
    if len(out):
        i, j = i.contiguous(), j.contiguous()
        colors, number = (color.contiguous(), 0) if isinstance(color, Tensor) else (i, color)
        _packed[(triton.cdiv(len(out), _BLOCK),)](
            out, i, j, colors, number, len(out), colored, BITS, BIAS, COLOR_BIAS, _BLOCK
        )
    return out


def unpacked(keys: Tensor) -> tuple[Tensor, Tensor]:
    """See `batched.columns.location_of`."""
    i, j = (torch.empty(len(keys), dtype=torch.int64, device=keys.device) for _ in range(2))
    if len(keys):
        _unpacked[(triton.cdiv(len(keys), _BLOCK),)](i, j, keys.contiguous(), len(keys), BITS, BIAS, FIELD, _BLOCK)
    return i, j


def moved(keys: Tensor, offsets: Tensor, by: Tensor) -> tuple[Tensor, Tensor]:
    """See `operations.patches.moved_plain`."""
    out = torch.empty_like(keys, memory_format=torch.contiguous_format)
    return out, _far(out, keys, offsets, by)


def far(keys: Tensor, offsets: Tensor) -> Tensor:
    """See `operations.patches.far`."""
    return _far(keys, keys, offsets, None)


def _far(out: Tensor, keys: Tensor, offsets: Tensor, by: Tensor | None) -> Tensor:
    away = torch.empty(len(offsets) - 1, dtype=torch.bool, device=keys.device)
    if len(away):
        keys, offsets = keys.contiguous(), offsets.contiguous()
        step = offsets if by is None else by.contiguous()
        _moved[(len(away),)](
            out, away.view(torch.uint8), keys, offsets, step, by is not None, BITS, BIAS, FIELD, COORDINATE_LIMIT, _ROW
        )
    return away


def painted(cells: Tensor, offsets: Tensor, height: Tensor, width: Tensor, keys: Tensor, starts: Tensor) -> Tensor:
    """See `operations.painting.painted_plain`."""
    if not len(keys) or not len(cells):
        return cells
    top = torch.full((len(cells),), -1, dtype=torch.int64, device=cells.device)
    cells, keys = cells.contiguous(), keys.contiguous()
    given = [of.contiguous() for of in (offsets, height, width)]
    _topmost[(len(height),)](top, *given, keys, starts.contiguous(), BITS, BIAS, FIELD, _ROW)
    out = torch.empty_like(cells)
    _painted[(triton.cdiv(len(out), _BLOCK),)](out, cells, top, keys, len(out), BITS, COLOR_BIAS, _BLOCK)
    return out
