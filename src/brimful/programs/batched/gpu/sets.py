"""Sets of keys, row by row: twins of functions of `batched.segments`.

Rows are short, so that every key is compared with all others of its row, a tile of them at a time: that takes two or
three launches, where sorting all rows together takes twenty. Where a row is longer than `LONGEST`, torch sorts.
"""

# pyright: reportArgumentType=false, reportCallIssue=false, reportOperatorIssue=false, reportAttributeAccessIssue=false
# pyright: reportGeneralTypeIssues=false, reportIndexIssue=false
import torch
import triton.language as tl
from torch import Tensor

from .jit import kernel
from .offsets import offsets_of
from .rows import owners

LONGEST = 1 << 11
_MEMBERS = 1 << 14  # keys of all rows, with which one row may be compared
_SEQUENCES = 1 << 13  # that may be one list, so that no list need be measured
_TOO_LONG = 1 << 40  # more than there are numbers, and few enough that as many as there are rows can be added up
_TILE, _BLOCK, _ROW = 64, 64, 256


@kernel
def _distinct(new, counts, keys, offsets, LONGEST: tl.constexpr, MANY: tl.constexpr, TILE: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    start, end = tl.load(offsets + row), tl.load(offsets + row + 1)
    if end - start > LONGEST:
        tl.store(counts + row, start * 0 + MANY)
    else:
        count = tl.zeros((TILE,), tl.int64)
        for first in range(start, end, TILE):
            place = first + tl.arange(0, TILE)
            key = tl.load(keys + place, mask=place < end, other=0)
            again = tl.zeros((TILE,), tl.int32)
            for before in range(start, first + 1, TILE):
                other = before + tl.arange(0, TILE)
                value = tl.load(keys + other, mask=other < end, other=0)
                same = (value[None, :] == key[:, None]) & (other[None, :] < place[:, None])
                again += tl.sum(same.to(tl.int32), 1)
            is_new = (place < end) & (again == 0)
            tl.store(new + place, is_new.to(tl.uint8), mask=place < end)
            count += is_new.to(tl.int64)
        tl.store(counts + row, tl.sum(count, 0))


@kernel
def _in_order(out, starts, new, keys, offsets, INDEX: tl.constexpr, TILE: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    start, end, to = tl.load(offsets + row), tl.load(offsets + row + 1), tl.load(starts + row)
    for first in range(start, end, TILE):
        place = first + tl.arange(0, TILE)
        key = tl.load(keys + place, mask=place < end, other=0)
        is_new = tl.load(new + place, mask=place < end, other=0) != 0
        smaller = tl.zeros((TILE,), tl.int64)
        for before in range(start, end, TILE):
            other = before + tl.arange(0, TILE)
            value = tl.load(keys + other, mask=other < end, other=0)
            counted = tl.load(new + other, mask=other < end, other=0) != 0
            smaller += tl.sum(((value[None, :] < key[:, None]) & counted[None, :]).to(tl.int64), 1)
        if INDEX:
            tl.store(out + to + smaller, place, mask=is_new)
        else:
            tl.store(out + to + smaller, key, mask=is_new)


@kernel
def _member(inside, keys, offsets, others, other_offsets, TILE: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    start, end = tl.load(offsets + row), tl.load(offsets + row + 1)
    low, high = tl.load(other_offsets + row), tl.load(other_offsets + row + 1)
    for first in range(start, end, TILE):
        place = first + tl.arange(0, TILE)
        key = tl.load(keys + place, mask=place < end, other=0)
        found = tl.zeros((TILE,), tl.int32)
        for before in range(low, high, TILE):
            other = before + tl.arange(0, TILE)
            value = tl.load(others + other, mask=other < high, other=0)
            same = (value[None, :] == key[:, None]) & (other < high)[None, :]
            found += tl.sum(same.to(tl.int32), 1)
        tl.store(inside + place, (found > 0).to(tl.uint8), mask=place < end)


@kernel
def _kept_counts(counts, keep, offsets, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    end = tl.load(offsets + row + 1)
    count = tl.zeros((BLOCK,), tl.int64)
    for first in range(tl.load(offsets + row), end, BLOCK):
        place = first + tl.arange(0, BLOCK)
        count += (tl.load(keep + place, mask=place < end, other=0) != 0).to(tl.int64)
    tl.store(counts + row, tl.sum(count, 0))


@kernel
def _kept(out, starts, flat, keep, offsets, INDEX: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    end = tl.load(offsets + row + 1)
    to = tl.zeros((BLOCK,), tl.int64) + tl.load(starts + row)
    for first in range(tl.load(offsets + row), end, BLOCK):
        place = first + tl.arange(0, BLOCK)
        here = tl.load(keep + place, mask=place < end, other=0) != 0
        count = here.to(tl.int64)
        at = to + tl.cumsum(count, 0) - count
        if INDEX:
            tl.store(out + at, place, mask=here)
        else:
            tl.store(out + at, tl.load(flat + place, mask=here, other=0), mask=here)
        to += tl.sum(count, 0)


@kernel
def _compared(
    smaller, new, keys, offsets, lists, list_offsets, LARGER_FIRST: tl.constexpr, BLOCK: tl.constexpr
):  # fmt: skip
    own = tl.program_id(0).to(tl.int64)
    start, end, of = tl.load(offsets + own), tl.load(offsets + own + 1), tl.load(lists + own)
    size, lane = end - start, tl.arange(0, BLOCK)
    less = size * 0
    again = size * 0
    for other in range(tl.load(list_offsets + of), tl.load(list_offsets + of + 1)):
        begin = tl.load(offsets + other)
        length = tl.load(offsets + other + 1) - begin
        shorter = tl.minimum(size, length)
        by_size = tl.where(length < size, -1, tl.where(length > size, 1, 0)).to(tl.int32)
        order = by_size * 0
        if LARGER_FIRST:
            order = -by_size
        position = size * 0
        while (order == 0) & (position < shorter):
            place = position + lane
            mine = tl.load(keys + start + place, mask=place < shorter, other=0)
            theirs = tl.load(keys + begin + place, mask=place < shorter, other=0)
            differing = tl.min(tl.where(mine != theirs, lane, BLOCK), 0)
            signs = tl.where(theirs < mine, -1, 1).to(tl.int32)
            order = tl.sum(tl.where(lane == differing, signs, 0), 0)
            position += BLOCK
        order = tl.where(order == 0, by_size, order)
        less += (order < 0).to(tl.int64)
        again += ((order == 0) & (other < own)).to(tl.int64)
    tl.store(smaller + own, less)
    tl.store(new + own, (again == 0).to(tl.uint8))


@kernel
def _dense(out, smaller, new, lists, list_offsets, BLOCK: tl.constexpr):
    own = tl.program_id(0).to(tl.int64)
    of = tl.load(lists + own)
    less, end = tl.load(smaller + own), tl.load(list_offsets + of + 1)
    rank = tl.zeros((BLOCK,), tl.int64)
    for first in range(tl.load(list_offsets + of), end, BLOCK):
        other = first + tl.arange(0, BLOCK)
        counted = tl.load(new + other, mask=other < end, other=0) != 0
        rank += (counted & (tl.load(smaller + other, mask=other < end, other=0) < less)).to(tl.int64)
    tl.store(out + own, tl.sum(rank, 0))


def sort_unique(keys: Tensor, offsets: Tensor, index: bool = False) -> tuple[Tensor, Tensor] | None:
    """See `batched.segments.sort_unique`, and `sort_unique_index` for an index; None where a row is too long."""
    rows = len(offsets) - 1
    keys, offsets = keys.contiguous(), offsets.contiguous()
    new, counts = torch.empty_like(keys, dtype=torch.uint8), torch.empty_like(offsets[1:])
    if not len(keys):
        return keys[:0].to(torch.int64), torch.zeros_like(offsets)
    _distinct[(rows,)](new, counts, keys, offsets, LONGEST, _TOO_LONG, _TILE)
    starts = offsets_of(counts)
    total = int(starts[-1])
    if total >= _TOO_LONG:
        return None
    out = torch.empty(total, dtype=torch.int64, device=keys.device)
    _in_order[(rows,)](out, starts, new, keys, offsets, index, _TILE)
    return out, starts


def member(keys: Tensor, offsets: Tensor, others: Tensor, other_offsets: Tensor) -> Tensor | None:
    """See `batched.segments.member`; None where there are too many keys."""
    if max(len(keys), len(others)) > _MEMBERS:
        return None
    inside = torch.empty(len(keys), dtype=torch.bool, device=keys.device)
    if len(keys):
        given = (of.contiguous() for of in (keys, offsets, others, other_offsets))
        _member[(len(offsets) - 1,)](inside.view(torch.uint8), *given, _TILE)
    return inside


def filtered(flat: Tensor | None, offsets: Tensor, keep: Tensor) -> tuple[Tensor, Tensor]:
    """See `batched.segments.filtered`; without numbers, which of them are kept."""
    rows, keep, offsets = len(offsets) - 1, keep.contiguous().view(torch.uint8), offsets.contiguous()
    if not len(keep):
        return (keep.to(torch.int64) if flat is None else flat[:0]), torch.zeros_like(offsets)
    counts = torch.empty_like(offsets[1:])
    _kept_counts[(rows,)](counts, keep, offsets, _ROW)
    starts = offsets_of(counts)
    out = torch.empty(int(starts[-1]), dtype=torch.int64 if flat is None else flat.dtype, device=keep.device)
    if len(out):
        source = keep if flat is None else _numbers(flat.contiguous())
        _kept[(rows,)](_numbers(out), starts, source, keep, offsets, flat is None, _ROW)
    return out, starts


def ranks(keys: Tensor, offsets: Tensor, list_offsets: Tensor, larger_first: bool) -> Tensor | None:
    """See `batched.segments.ranks`; None where a list is too long."""
    count = len(offsets) - 1
    if count > _SEQUENCES and int(list_offsets.diff().max()) > _SEQUENCES:
        return None
    keys, offsets, list_offsets = keys.contiguous(), offsets.contiguous(), list_offsets.contiguous()
    out, smaller = torch.empty_like(offsets[1:]), torch.empty_like(offsets[1:])
    if count:
        lists, new = owners(list_offsets, count), torch.empty_like(out, dtype=torch.uint8)
        _compared[(count,)](smaller, new, keys, offsets, lists, list_offsets, larger_first, _BLOCK)
        _dense[(count,)](out, smaller, new, lists, list_offsets, _ROW)
    return out


def _numbers(values: Tensor) -> Tensor:
    """Flags as the numbers that they are in memory."""
    return values.view(torch.uint8) if values.dtype == torch.bool else values
