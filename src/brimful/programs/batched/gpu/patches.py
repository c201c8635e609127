"""Patches and grids, one program per patch: twins of `extent` and `filled` of the operations."""

# pyright: reportArgumentType=false, reportCallIssue=false, reportOperatorIssue=false, reportAttributeAccessIssue=false
# pyright: reportGeneralTypeIssues=false, reportIndexIssue=false
import torch
import triton.language as tl
from torch import Tensor

from ..key_bits import BIAS, BITS, FIELD
from .jit import kernel

_BLOCK = 256


@kernel
def _extents(
    top, left, bottom, right, height, width, empty, keys, offsets, BITS: tl.constexpr, BIAS: tl.constexpr,
    FIELD: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    start, end = tl.load(offsets + row), tl.load(offsets + row + 1)
    low_i, low_j = tl.full((BLOCK,), FIELD, tl.int64), tl.full((BLOCK,), FIELD, tl.int64)
    high_i, high_j = tl.zeros((BLOCK,), tl.int64), tl.zeros((BLOCK,), tl.int64)
    for first in range(start, end, BLOCK):
        place = first + tl.arange(0, BLOCK)
        real = place < end
        key = tl.load(keys + place, mask=real, other=0)
        i, j = (key >> BITS) & FIELD, key & FIELD
        low_i, high_i = tl.minimum(low_i, tl.where(real, i, FIELD)), tl.maximum(high_i, tl.where(real, i, 0))
        low_j, high_j = tl.minimum(low_j, tl.where(real, j, FIELD)), tl.maximum(high_j, tl.where(real, j, 0))
    there = (start != end).to(tl.int64)  # an empty patch has zeros
    tl.store(height + row, (tl.max(high_i, 0) - tl.min(low_i, 0) + 1) * there)
    tl.store(width + row, (tl.max(high_j, 0) - tl.min(low_j, 0) + 1) * there)
    tl.store(empty + row, (start == end).to(tl.uint8))
    tl.store(top + row, (tl.min(low_i, 0) - BIAS) * there)
    tl.store(left + row, (tl.min(low_j, 0) - BIAS) * there)
    tl.store(bottom + row, (tl.max(high_i, 0) - BIAS) * there)
    tl.store(right + row, (tl.max(high_j, 0) - BIAS) * there)


@kernel
def _filled(cells, offsets, height, width, keys, starts, values, BITS: tl.constexpr, BIAS: tl.constexpr,
            FIELD: tl.constexpr, BLOCK: tl.constexpr):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    start, end = tl.load(starts + row), tl.load(starts + row + 1)
    if start < end:
        base, high, wide = tl.load(offsets + row), tl.load(height + row), tl.load(width + row)
        value = tl.load(values + row).to(cells.dtype.element_ty)
        for first in range(start, end, BLOCK):
            place = first + tl.arange(0, BLOCK)
            key = tl.load(keys + place, mask=place < end, other=0)
            i, j = ((key >> BITS) & FIELD) - BIAS, (key & FIELD) - BIAS
            on = (place < end) & (i >= 0) & (j >= 0) & (i < high) & (j < wide)
            tl.store(cells + base + i * wide + j, tl.zeros((BLOCK,), value.dtype) + value, mask=on)


def extents(keys: Tensor, offsets: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, tuple[Tensor, Tensor]]:
    """The first and the last row and column of every patch: top, left, bottom, right; whether it is empty, with zeros
    then; and its height and width."""
    rows = len(offsets) - 1
    numbers = [torch.empty(rows, dtype=torch.int64, device=keys.device) for _ in range(6)]
    empty = torch.empty(rows, dtype=torch.bool, device=keys.device)
    if rows:
        given = (empty.view(torch.uint8), keys.contiguous(), offsets.contiguous())
        _extents[(rows,)](*numbers, *given, BITS, BIAS, FIELD, _BLOCK)
    top, left, bottom, right, height, width = numbers
    return top, left, bottom, right, empty, (height, width)


def filled(
    cells: Tensor, offsets: Tensor, height: Tensor, width: Tensor, keys: Tensor, starts: Tensor, values: Tensor
) -> Tensor:
    """Cells with the value of its row at the locations of its patch."""
    out = cells.clone(memory_format=torch.contiguous_format)
    if len(height) and len(keys):
        given = [of.contiguous() for of in (offsets, height, width, keys, starts, values)]
        _filled[(len(height),)](out, *given, BITS, BIAS, FIELD, _BLOCK)
    return out
