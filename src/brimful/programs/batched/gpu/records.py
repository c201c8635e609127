"""Values as bytes of a record: twins of what `results.on_device` does with torch, in one launch each.

`at` are the places of values in the bytes; those of values that are not wanted are 0, and nothing is written for them.
"""

# pyright: reportArgumentType=false, reportCallIssue=false, reportOperatorIssue=false, reportAttributeAccessIssue=false
# pyright: reportGeneralTypeIssues=false, reportIndexIssue=false
from collections.abc import Sequence

import torch
import triton
import triton.language as tl
from torch import Tensor

from ..loops.records import LARGE
from .jit import kernel

_ROWS = 256
_BLOCK = 1024
_LANES = 16  # at least as many as a number has bytes
_GRID, _TUPLE, _NUMBER, _TRUE, _FALSE = (tl.constexpr(ord(letter)) for letter in "G(iTF")
_LONGEST = tl.constexpr(9)  # bytes of a number


@triton.jit
def _unsigned(value):
    """Whole numbers in turn: 0, -1, 1, -2, ..."""
    return tl.where(value >= 0, value << 1, (-value << 1) - 1)


@triton.jit
def _bytes_of(unsigned):
    """The bytes of whole numbers, of seven bits each."""
    count = (unsigned >= 0).to(tl.int64)
    for position in tl.static_range(1, _LONGEST):
        count += ((unsigned >> 7 * position) > 0).to(tl.int64)
    return count


@triton.jit
def _put(out, place, there, value):
    """Writes a number behind its mark; where the next begins."""
    unsigned = _unsigned(value)
    count = _bytes_of(unsigned)
    tl.store(out + place, (unsigned * 0 + _NUMBER).to(tl.uint8), mask=there)
    for position in tl.static_range(_LONGEST):
        byte = ((unsigned >> 7 * position) & 127) | tl.where(position < count - 1, 128, 0)
        tl.store(out + place + 1 + position, byte.to(tl.uint8), mask=there & (position < count))
    return place + 1 + count


@kernel
def _number_lengths(
    out, wanted, first, second, rows, COUNT: tl.constexpr, HEAD: tl.constexpr, MOST: tl.constexpr, BLOCK: tl.constexpr
):
    row = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    real = row < rows
    value = tl.load(first + row, mask=real, other=0)
    small = (tl.load(wanted + row, mask=real, other=0) != 0) & (value > -MOST) & (value < MOST)
    length = HEAD + 1 + _bytes_of(_unsigned(value))
    if COUNT == 2:
        value = tl.load(second + row, mask=real, other=0)
        small = small & (value > -MOST) & (value < MOST)
        length += 1 + _bytes_of(_unsigned(value))
    tl.store(out + row, tl.where(small, length, 0), mask=real)


@kernel
def _write_numbers(out, at, first, second, rows, COUNT: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    place = tl.load(at + row, mask=row < rows, other=0)
    there = place > 0
    value = tl.load(first + row, mask=there, other=0)
    if COUNT == 2:
        tl.store(out + place, (value * 0 + _TUPLE).to(tl.uint8), mask=there)
        tl.store(out + place + 1, (value * 0 + 2).to(tl.uint8), mask=there)
        place = _put(out, place + 2, there, value)
        value = tl.load(second + row, mask=there, other=0)
    _put(out, place, there, value)


@kernel
def _write_flags(out, at, values, rows, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    place = tl.load(at + row, mask=row < rows, other=0)
    value = tl.load(values + row, mask=place > 0, other=0)
    tl.store(out + place, tl.where(value != 0, _TRUE, _FALSE).to(tl.uint8), mask=place > 0)


@kernel
def _grid_lengths(out, wanted, height, width, offsets, rows, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    real = row < rows
    size = tl.load(offsets + row + 1, mask=real, other=0) - tl.load(offsets + row, mask=real, other=0)
    high, wide = tl.load(height + row, mask=real, other=0), tl.load(width + row, mask=real, other=0)
    length = tl.where(size > 0, 1 + _bytes_of(high) + _bytes_of(wide) + size, tl.where(high == 0, 2, 0))
    tl.store(out + row, tl.where(tl.load(wanted + row, mask=real, other=0) != 0, length, 0), mask=real)


@kernel
def _write_grids(out, at, cells, offsets, height, width, LANES: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    place, start, end = tl.load(at + row), tl.load(offsets + row), tl.load(offsets + row + 1)
    if place > 0:
        lane = tl.arange(0, LANES)
        zeros = tl.zeros((LANES,), tl.int64)
        tl.store(out + place + lane, (zeros + tl.where(end > start, _GRID, _TUPLE)).to(tl.uint8), mask=lane < 1)
        place += 1
        high, wide = zeros + tl.load(height + row), zeros + tl.load(width + row)
        count = _bytes_of(high)
        byte = ((high >> 7 * lane) & 127) | tl.where(lane < count - 1, 128, 0)
        tl.store(out + place + lane, byte.to(tl.uint8), mask=lane < count)
        if end > start:
            place += tl.max(count, 0)
            count = _bytes_of(wide)
            byte = ((wide >> 7 * lane) & 127) | tl.where(lane < count - 1, 128, 0)
            tl.store(out + place + lane, byte.to(tl.uint8), mask=lane < count)
            place += tl.max(count, 0)
            for first in range(start, end, BLOCK):
                cell = first + tl.arange(0, BLOCK)
                real = cell < end
                tl.store(out + place + (cell - start), tl.load(cells + cell, mask=real).to(tl.uint8), mask=real)


def number_lengths(values: Sequence[Tensor], wanted: Tensor, head: int) -> Tensor:
    """See `on_device.number_lengths`."""
    out = torch.empty(len(wanted), dtype=torch.int64, device=wanted.device)
    if len(out):
        first, *more = (numbers.contiguous() for numbers in values)
        _number_lengths[(triton.cdiv(len(out), _ROWS),)](
            out, wanted.contiguous().view(torch.uint8), first, (more or [first])[0], len(out), len(values), head,
            LARGE, _ROWS,
        )  # fmt: skip
    return out


def write_numbers(out: Tensor, at: Tensor, values: Sequence[Tensor]) -> None:
    """See `on_device.write_numbers`."""
    if len(at):
        first, *more = (numbers.contiguous() for numbers in values)
        _write_numbers[(triton.cdiv(len(at), _ROWS),)](
            out, at.contiguous(), first, (more or [first])[0], len(at), len(values), _ROWS
        )


def write_flags(out: Tensor, at: Tensor, values: Tensor) -> None:
    """See `on_device.write_flags`."""
    if len(at):
        _write_flags[(triton.cdiv(len(at), _ROWS),)](out, at.contiguous(), values.contiguous(), len(at), _ROWS)


def grid_lengths(height: Tensor, width: Tensor, offsets: Tensor, wanted: Tensor) -> Tensor:
    """See `on_device.grid_lengths`."""
    out = torch.empty(len(wanted), dtype=torch.int64, device=wanted.device)
    if len(out):
        _grid_lengths[(triton.cdiv(len(out), _ROWS),)](
            out, wanted.contiguous().view(torch.uint8), height.contiguous(), width.contiguous(), offsets.contiguous(),
            len(out), _ROWS,
        )  # fmt: skip
    return out


def write_grids(out: Tensor, at: Tensor, cells: Tensor, offsets: Tensor, height: Tensor, width: Tensor) -> None:
    """See `on_device.write_grids`."""
    if len(at):
        _write_grids[(len(at),)](
            out, at.contiguous(), cells.contiguous(), offsets.contiguous(), height.contiguous(), width.contiguous(),
            _LANES, _BLOCK,
        )  # fmt: skip
