"""Rows of unequal length, one program per row: twins of the functions of `batched.rows`, and of `copied_rows`.

Kernels read tensors without gaps; offsets that are every second of others, as those of joined rows, are copied first.
"""

# pyright: reportArgumentType=false, reportCallIssue=false, reportOperatorIssue=false, reportAttributeAccessIssue=false
# pyright: reportGeneralTypeIssues=false, reportIndexIssue=false
import torch
import triton.language as tl
from torch import Tensor

from .jit import kernel
from .offsets import offsets_of_grids, offsets_of_rows

_BLOCK = 1024


@kernel
def _taken(out, new, source, offsets, index, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    to, end = tl.load(new + row), tl.load(new + row + 1)
    shift = tl.load(offsets + tl.load(index + row)) - to
    for first in range(to, end, BLOCK):
        place = first + tl.arange(0, BLOCK)
        real = place < end
        tl.store(out + place, tl.load(source + place + shift, mask=real), mask=real)


@kernel
def _gathered(out, new, offsets, index, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    to, end = tl.load(new + row), tl.load(new + row + 1)
    shift = tl.load(offsets + tl.load(index + row)) - to
    for first in range(to, end, BLOCK):
        place = first + tl.arange(0, BLOCK)
        tl.store(out + place, place + shift, mask=place < end)


@kernel
def _owners(out, offsets, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    end = tl.load(offsets + row + 1)
    for first in range(tl.load(offsets + row), end, BLOCK):
        place = first + tl.arange(0, BLOCK)
        tl.store(out + place, tl.zeros((BLOCK,), tl.int64) + row, mask=place < end)


@kernel
def _repeated(out, values, offsets, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    value, end = tl.load(values + row), tl.load(offsets + row + 1)
    for first in range(tl.load(offsets + row), end, BLOCK):
        place = first + tl.arange(0, BLOCK)
        tl.store(out + place, tl.zeros((BLOCK,), value.dtype) + value, mask=place < end)


@kernel
def _copied(out, at, source, offsets, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    to, start, end = tl.load(at + row), tl.load(offsets + row), tl.load(offsets + row + 1)
    if to > 0:
        for first in range(start, end, BLOCK):
            place = first + tl.arange(0, BLOCK)
            real = place < end
            value = tl.load(source + place, mask=real)
            tl.store(out + place + (to - start), value.to(tl.uint8), mask=real)


@kernel
def _same(out, a, a_offsets, b, b_offsets, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    start, end = tl.load(a_offsets + row), tl.load(a_offsets + row + 1)
    shift = tl.load(b_offsets + row) - start
    differing = (tl.load(b_offsets + row + 1) - end != shift).to(tl.int32)
    if differing == 0:
        for first in range(start, end, BLOCK):
            place = first + tl.arange(0, BLOCK)
            real = place < end
            one, other = tl.load(a + place, mask=real, other=0), tl.load(b + place + shift, mask=real, other=0)
            differing += tl.sum((one != other).to(tl.int32), 0)
    tl.store(out + row, (differing == 0).to(tl.uint8))


def taken(flat: Tensor, offsets: Tensor, index: Tensor) -> tuple[Tensor, Tensor]:
    """See `batched.rows.taken`."""
    offsets, index = offsets.contiguous(), index.contiguous()
    new = offsets_of_rows(offsets, index)
    out = flat.new_empty(int(new[-1]))
    if len(out):
        _taken[(len(index),)](_numbers(out), new, _numbers(flat.contiguous()), offsets, index, _BLOCK)
    return out, new


def grids_taken(
    cells: Tensor, offsets: Tensor, height: Tensor, width: Tensor, index: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """See `batched.columns.Grids.take`: cells, offsets, height and width."""
    index = index.contiguous()
    new, high, wide = offsets_of_grids(height.contiguous(), width.contiguous(), index)
    out = cells.new_empty(int(new[-1]))
    if len(out):
        _taken[(len(index),)](out, new, cells.contiguous(), offsets.contiguous(), index, _BLOCK)
    return out, new, high, wide


def gathered(offsets: Tensor, index: Tensor) -> tuple[Tensor, Tensor]:
    """See `batched.rows.gathered`."""
    offsets, index = offsets.contiguous(), index.contiguous()
    new = offsets_of_rows(offsets, index)
    out = offsets.new_empty(int(new[-1]))
    if len(out):
        _gathered[(len(index),)](out, new, offsets, index, _BLOCK)
    return out, new


def owners(offsets: Tensor, numbers: int | None = None) -> Tensor:
    """See `batched.rows.owners`."""
    out = offsets.new_empty(int(offsets[-1]) if numbers is None else numbers)
    if len(out):
        _owners[(len(offsets) - 1,)](out, offsets.contiguous(), _BLOCK)
    return out


def repeated(values: Tensor, offsets: Tensor, numbers: int | None = None) -> Tensor:
    """See `batched.rows.repeated`."""
    out = values.new_empty(int(offsets[-1]) if numbers is None else numbers)
    if len(out):
        _repeated[(len(values),)](_numbers(out), _numbers(values.contiguous()), offsets.contiguous(), _BLOCK)
    return out


def same_rows(a: Tensor, a_offsets: Tensor, b: Tensor, b_offsets: Tensor) -> Tensor:
    """See `batched.rows.same_rows`."""
    out = torch.empty(len(a_offsets) - 1, dtype=torch.bool, device=a.device)
    if len(out):
        a, a_offsets, b, b_offsets = (of.contiguous() for of in (a, a_offsets, b, b_offsets))
        _same[(len(out),)](_numbers(out), _numbers(a), a_offsets, _numbers(b), b_offsets, _BLOCK)
    return out


def copy_rows(out: Tensor, at: Tensor, source: Tensor, offsets: Tensor) -> None:
    """See `copied_rows.copy_rows`."""
    if len(source):
        _copied[(len(at),)](out, at.contiguous(), source.contiguous(), offsets.contiguous(), _BLOCK)


def _numbers(values: Tensor) -> Tensor:
    """Flags as the numbers that they are in memory."""
    return values.view(torch.uint8) if values.dtype == torch.bool else values
