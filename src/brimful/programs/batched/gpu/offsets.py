"""Where rows begin, by the sizes that they have: one program for all rows, so that it is one launch.

Sizes are given, or those of some rows of others, or those of grids by their height and width. Of more rows than `_MOST`
torch sums them up.
"""

# pyright: reportArgumentType=false, reportCallIssue=false, reportOperatorIssue=false, reportAttributeAccessIssue=false
# pyright: reportGeneralTypeIssues=false, reportIndexIssue=false
import torch
import triton.language as tl
from torch import Tensor

from .jit import kernel

_MOST = 1 << 14
_BLOCK = 1024


@kernel
def _summed(out, sizes, rows, BLOCK: tl.constexpr):
    lane = tl.arange(0, BLOCK)
    before = tl.zeros((BLOCK,), tl.int64)
    tl.store(out + lane, before, mask=lane < 1)
    for first in range(0, rows, BLOCK):
        row = first + lane
        size = tl.load(sizes + row, mask=row < rows, other=0).to(tl.int64)
        tl.store(out + row + 1, tl.cumsum(size, 0) + before, mask=row < rows)
        before += tl.sum(size, 0)


@kernel
def _summed_of(out, offsets, index, rows, BLOCK: tl.constexpr):
    lane = tl.arange(0, BLOCK)
    before = tl.zeros((BLOCK,), tl.int64)
    tl.store(out + lane, before, mask=lane < 1)
    for first in range(0, rows, BLOCK):
        row = first + lane
        of = tl.load(index + row, mask=row < rows, other=0)
        start = tl.load(offsets + of, mask=row < rows, other=0)
        size = tl.load(offsets + of + 1, mask=row < rows, other=0) - start
        tl.store(out + row + 1, tl.cumsum(size, 0) + before, mask=row < rows)
        before += tl.sum(size, 0)


@kernel
def _summed_areas(out, across, height, width, rows, BLOCK: tl.constexpr):
    lane = tl.arange(0, BLOCK)
    before = tl.zeros((BLOCK,), tl.int64)
    tl.store(out + lane, before, mask=lane < 1)
    for first in range(0, rows, BLOCK):
        row = first + lane
        high = tl.load(height + row, mask=row < rows, other=0)
        wide = tl.where(high == 0, 0, tl.load(width + row, mask=row < rows, other=0))
        tl.store(across + row, wide, mask=row < rows)
        size = high * wide
        tl.store(out + row + 1, tl.cumsum(size, 0) + before, mask=row < rows)
        before += tl.sum(size, 0)


@kernel
def _summed_sides(out, high, wide, height, width, index, rows, BLOCK: tl.constexpr):
    lane = tl.arange(0, BLOCK)
    before = tl.zeros((BLOCK,), tl.int64)
    tl.store(out + lane, before, mask=lane < 1)
    for first in range(0, rows, BLOCK):
        row = first + lane
        of = tl.load(index + row, mask=row < rows, other=0)
        down, across = tl.load(height + of, mask=row < rows, other=0), tl.load(width + of, mask=row < rows, other=0)
        tl.store(high + row, down, mask=row < rows)
        tl.store(wide + row, across, mask=row < rows)
        size = down * across
        tl.store(out + row + 1, tl.cumsum(size, 0) + before, mask=row < rows)
        before += tl.sum(size, 0)


def offsets_of(sizes: Tensor) -> Tensor:
    """See `batched.rows.offsets_of`."""
    if len(sizes) > _MOST:
        out = torch.zeros(len(sizes) + 1, dtype=torch.int64, device=sizes.device)
        torch.cumsum(sizes, 0, out=out[1:])
        return out
    out = torch.empty(len(sizes) + 1, dtype=torch.int64, device=sizes.device)
    _summed[(1,)](out, sizes.contiguous(), len(sizes), _BLOCK)
    return out


def offsets_of_rows(offsets: Tensor, index: Tensor) -> Tensor:
    """The offsets of some rows, one after the other; both tensors without gaps."""
    if len(index) > _MOST:
        return offsets_of(offsets[index + 1] - offsets[index])
    out = torch.empty(len(index) + 1, dtype=torch.int64, device=offsets.device)
    _summed_of[(1,)](out, offsets, index, len(index), _BLOCK)
    return out


def offsets_of_grids(height: Tensor, width: Tensor, index: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Where the cells of some grids begin, one after the other, and the sides of those; all tensors without gaps."""
    if len(index) > _MOST:
        high, wide = height[index], width[index]
        return offsets_of(high * wide), high, wide
    out = torch.empty(len(index) + 1, dtype=torch.int64, device=height.device)
    high, wide = (torch.empty(len(index), dtype=torch.int64, device=height.device) for _ in range(2))
    if len(height):
        _summed_sides[(1,)](out, high, wide, height, width, index, len(index), _BLOCK)
    else:
        out.zero_()
    return out, high, wide


def areas(height: Tensor, width: Tensor) -> tuple[Tensor, Tensor]:
    """See `batched.layout.areas`."""
    if len(height) > _MOST:
        width = torch.where(height == 0, 0, width)
        return offsets_of(height * width), width
    out = torch.empty(len(height) + 1, dtype=torch.int64, device=height.device)
    across = torch.empty(len(height), dtype=torch.int64, device=height.device)
    _summed_areas[(1,)](out, across, height.contiguous(), width.contiguous(), len(height), _BLOCK)
    return out, across
