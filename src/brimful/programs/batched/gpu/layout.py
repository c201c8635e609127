"""Grids from other grids, one program per grid: twins of the functions of `batched.layout`."""

# pyright: reportArgumentType=false, reportCallIssue=false, reportOperatorIssue=false, reportAttributeAccessIssue=false
# pyright: reportGeneralTypeIssues=false, reportIndexIssue=false
import torch
import triton
import triton.language as tl
from torch import Tensor

from .jit import kernel

_BLOCK = 256


@kernel
def _places(grid, i, j, offsets, width, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    start, end, wide = tl.load(offsets + row), tl.load(offsets + row + 1), tl.load(width + row)
    for first in range(start, end, BLOCK):
        place = first + tl.arange(0, BLOCK)
        down = (place - start) // wide
        tl.store(grid + place, tl.zeros((BLOCK,), tl.int64) + row, mask=place < end)
        tl.store(i + place, down, mask=place < end)
        tl.store(j + place, place - start - down * wide, mask=place < end)


@kernel
def _walked(out, new, cells, offsets, width, origin, down, across, last, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    start, end = tl.load(new + row), tl.load(new + row + 1)
    if start < end:
        wide, source = tl.load(width + row), tl.load(offsets + row) + tl.load(origin + row)
        by_row, by_column = tl.load(down + row), tl.load(across + row)
        for first in range(start, end, BLOCK):
            place = first + tl.arange(0, BLOCK)
            i = (place - start) // wide
            at = source + i * by_row + (place - start - i * wide) * by_column
            at = tl.minimum(tl.maximum(at, 0), last)
            tl.store(out + place, tl.load(cells + at, mask=place < end, other=0), mask=place < end)


@kernel
def _scaled(out, new, cells, offsets, from_width, width, down, across, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    start, end = tl.load(new + row), tl.load(new + row + 1)
    if start < end:
        wide, source, step = tl.load(width + row), tl.load(offsets + row), tl.load(from_width + row)
        by_row, by_column = tl.load(down + row), tl.load(across + row)
        for first in range(start, end, BLOCK):
            place = first + tl.arange(0, BLOCK)
            i = (place - start) // wide
            at = source + i // by_row * step + (place - start - i * wide) // by_column
            tl.store(out + place, tl.load(cells + at, mask=place < end, other=0), mask=place < end)


@kernel
def _beside(out, new, a, a_offsets, a_width, b, b_offsets, b_width, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    start, end = tl.load(new + row), tl.load(new + row + 1)
    if start < end:
        left, right = tl.load(a_width + row), tl.load(b_width + row)
        first_a, first_b = tl.load(a_offsets + row), tl.load(b_offsets + row)
        for first in range(start, end, BLOCK):
            place = first + tl.arange(0, BLOCK)
            i = (place - start) // (left + right)
            j = place - start - i * (left + right)
            of_a, of_b = (place < end) & (j < left), (place < end) & (j >= left)
            value = tl.load(a + first_a + i * left + j, mask=of_a, other=0)
            other = tl.load(b + first_b + i * right + j - left, mask=of_b, other=0)
            tl.store(out + place, tl.where(of_a, value, other), mask=place < end)


@kernel
def _above(out, new, a, a_offsets, b, b_offsets, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    start, end = tl.load(new + row), tl.load(new + row + 1)
    if start < end:
        first_a, first_b = tl.load(a_offsets + row), tl.load(b_offsets + row)
        middle = start + tl.load(a_offsets + row + 1) - first_a
        for first in range(start, end, BLOCK):
            place = first + tl.arange(0, BLOCK)
            of_a, of_b = (place < end) & (place < middle), (place < end) & (place >= middle)
            value = tl.load(a + first_a + place - start, mask=of_a, other=0)
            other = tl.load(b + first_b + place - middle, mask=of_b, other=0)
            tl.store(out + place, tl.where(of_a, value, other), mask=place < end)


@kernel
def _sliced(begin, count, start, stop, length, rows, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    real = row < rows
    size = tl.load(length + row, mask=real, other=0)
    first, last = tl.load(start + row, mask=real, other=0), tl.load(stop + row, mask=real, other=0)
    first = tl.minimum(tl.where(first < 0, tl.maximum(first + size, 0), first), size)
    last = tl.minimum(tl.where(last < 0, tl.maximum(last + size, 0), last), size)
    tl.store(begin + row, first, mask=real)
    tl.store(count + row, tl.maximum(last - first, 0), mask=real)


def sliced(start: Tensor, stop: Tensor, length: Tensor) -> tuple[Tensor, Tensor]:
    """See `operations.grids.sliced_plain`."""
    begin, count = (torch.empty(len(length), dtype=torch.int64, device=length.device) for _ in range(2))
    if len(length):
        given = (of.contiguous() for of in (start, stop, length))
        _sliced[(triton.cdiv(len(length), _BLOCK),)](begin, count, *given, len(length), _BLOCK)
    return begin, count


def places(offsets: Tensor, width: Tensor, numbers: int | None = None) -> tuple[Tensor, Tensor, Tensor]:
    """See `batched.layout.places_plain`; of so many cells, where that is known."""
    cells = int(offsets[-1]) if numbers is None else numbers
    grid, i, j = (torch.empty(cells, dtype=torch.int64, device=offsets.device) for _ in range(3))
    if cells:
        _places[(len(width),)](grid, i, j, offsets.contiguous(), width.contiguous(), _BLOCK)
    return grid, i, j


def walked(
    cells: Tensor, offsets: Tensor, new: Tensor, width: Tensor, first: Tensor, down: Tensor, across: Tensor
) -> Tensor:
    """The cells of `batched.layout.walked`; of grids that begin at `new`."""
    out = cells.new_empty(int(new[-1]))
    if len(out):
        given = (of.contiguous() for of in (new, cells, offsets, width, first, down, across))
        _walked[(len(width),)](out, *given, len(cells) - 1, _BLOCK)
    return out


def scaled(
    cells: Tensor, offsets: Tensor, from_width: Tensor, new: Tensor, width: Tensor, down: Tensor, across: Tensor
) -> Tensor:
    """The cells of `batched.layout.scaled`."""
    out = cells.new_empty(int(new[-1]))
    if len(out):
        given = (of.contiguous() for of in (new, cells, offsets, from_width, width, down, across))
        _scaled[(len(width),)](out, *given, _BLOCK)
    return out


def beside(
    a: Tensor, a_offsets: Tensor, a_width: Tensor, b: Tensor, b_offsets: Tensor, b_width: Tensor, new: Tensor
) -> Tensor:
    """The cells of `batched.layout.beside`."""
    out = a.new_empty(int(new[-1]))
    if len(out):
        given = (of.contiguous() for of in (new, a, a_offsets, a_width, b, b_offsets, b_width))
        _beside[(len(a_width),)](out, *given, _BLOCK)
    return out


def above(a: Tensor, a_offsets: Tensor, b: Tensor, b_offsets: Tensor, new: Tensor) -> Tensor:
    """The cells of `batched.layout.above`."""
    out = a.new_empty(int(new[-1]))
    if len(out):
        given = (of.contiguous() for of in (new, a, a_offsets, b, b_offsets))
        _above[(len(new) - 1,)](out, *given, _BLOCK)
    return out
