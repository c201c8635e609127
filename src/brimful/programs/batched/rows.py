"""Rows of unequal length, one after the other in a flat tensor: row r is `flat[offsets[r]:offsets[r + 1]]`."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import torch
from torch import Tensor

from .compiled import call, usable
from .gpu import has_kernels
from .loops import rows as loops


def _kernels() -> Any:
    """Those for a GPU."""
    from .gpu import rows

    return rows


def select(flags: Tensor, first: Tensor | int, second: Tensor | int) -> Tensor:
    """As `torch.where`, which fills memory of a GPU with a number every time that it is given one."""
    if flags.device.type == "cpu":
        return torch.where(flags, first, second)
    like = first if isinstance(first, Tensor) else second
    dtype = like.dtype if isinstance(like, Tensor) else torch.int64
    first = first if isinstance(first, Tensor) else _number(int(first), dtype, flags.device)
    return torch.where(
        flags, first, second if isinstance(second, Tensor) else _number(int(second), dtype, flags.device)
    )


@cache
def _number(value: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    return torch.tensor(value, dtype=dtype, device=device)


def indices_of(flags: Tensor) -> Tensor:
    """Where flags are set."""
    if flags.device.type == "cpu":
        return torch.from_numpy(flags.numpy().nonzero()[0])  # torch takes six times as long
    return flags.nonzero()[:, 0]


def picked(values: Tensor, index: Tensor) -> Tensor:
    """As `values[index]`, which takes four times as long on a CPU. No index is below zero."""
    if values.device.type == "cpu" and index.dtype == torch.int64 and index.dim() == 1:
        return values.index_select(0, index)
    return values[index]


def offsets_of(sizes: Tensor) -> Tensor:
    """Where rows of some sizes begin, and the last one ends."""
    if has_kernels(sizes):
        from .gpu import offsets

        return offsets.offsets_of(sizes)
    return offsets_of_plain(sizes)


def offsets_of_plain(sizes: Tensor) -> Tensor:
    offsets = torch.zeros(len(sizes) + 1, dtype=torch.int64, device=sizes.device)
    torch.cumsum(sizes, 0, out=offsets[1:])
    return offsets


def groups(counts: Tensor, most: int) -> Iterator[tuple[int, int]]:
    """Rows in groups of a bounded number of elements; a row with more of them is a group of its own."""
    rows = len(counts)
    if rows < 2 or int(counts.sum()) <= most:
        yield 0, rows
        return
    start, total = 0, 0
    for row, count in enumerate(counts.tolist()):
        if row > start and total + count > most:
            yield start, row
            start, total = row, 0
        total += count
    yield start, rows


def owners(offsets: Tensor, numbers: int | None = None) -> Tensor:
    """The row that every number belongs to. Where it is known how many numbers there are, a GPU need not be asked."""
    if usable(offsets):
        return call(loops.owners, offsets)
    return _kernels().owners(offsets, numbers) if has_kernels(offsets) else owners_plain(offsets, numbers)


def owners_plain(offsets: Tensor, numbers: int | None = None) -> Tensor:
    return torch.repeat_interleave(offsets.diff(), output_size=numbers)


def repeated(values: Tensor, offsets: Tensor, numbers: int | None = None) -> Tensor:
    """The value of its row for every number; see `owners`."""
    if usable(values):
        return call(loops.repeated, values.contiguous(), offsets)
    if has_kernels(values):
        return _kernels().repeated(values, offsets, numbers)
    return repeated_plain(values, offsets, numbers)


def repeated_plain(values: Tensor, offsets: Tensor, numbers: int | None = None) -> Tensor:
    return torch.repeat_interleave(values, offsets.diff(), output_size=numbers)


def gathered(offsets: Tensor, index: Tensor) -> tuple[Tensor, Tensor]:
    """Where the numbers of some rows are, one row after the other, and the offsets of those rows."""
    if usable(offsets) and index.dtype == torch.int64:
        return call(loops.gathered, offsets, index)
    if has_kernels(offsets) and index.dtype == torch.int64:
        return _kernels().gathered(offsets, index)
    return gathered_plain(offsets, index)


def gathered_plain(offsets: Tensor, index: Tensor) -> tuple[Tensor, Tensor]:
    sizes = offsets.diff()[index]
    new = offsets_of(sizes)
    shift = torch.repeat_interleave(offsets[:-1][index] - new[:-1], sizes, output_size=int(new[-1]))
    return torch.arange(len(shift), device=offsets.device) + shift, new


def taken(flat: Tensor, offsets: Tensor, index: Tensor) -> tuple[Tensor, Tensor]:
    """The numbers of some rows, one row after the other, and the offsets of those rows."""
    if usable(flat) and index.dtype == torch.int64:
        return call(loops.taken, flat, offsets, index)
    if has_kernels(flat) and index.dtype == torch.int64:
        return _kernels().taken(flat, offsets, index)
    return taken_plain(flat, offsets, index)


def taken_plain(flat: Tensor, offsets: Tensor, index: Tensor) -> tuple[Tensor, Tensor]:
    source, new = gathered_plain(offsets, index)
    return flat[source], new


def same_rows(a: Tensor, a_offsets: Tensor, b: Tensor, b_offsets: Tensor) -> Tensor:
    """Whether rows have the same numbers, and as many of them."""
    if usable(a):
        return call(loops.same_rows, a, a_offsets, b, b_offsets)
    if has_kernels(a) and a.dtype == b.dtype:
        return _kernels().same_rows(a, a_offsets, b, b_offsets)
    return same_rows_plain(a, a_offsets, b, b_offsets)


def same_rows_plain(a: Tensor, a_offsets: Tensor, b: Tensor, b_offsets: Tensor) -> Tensor:
    same = a_offsets.diff() == b_offsets.diff()
    row = indices_of(same)
    (left, offsets), (right, _) = taken_plain(a, a_offsets, row), taken_plain(b, b_offsets, row)
    differs = torch.cat([offsets.new_zeros(1), (left != right).cumsum(0)])
    return same.index_put((row,), differs[offsets[1:]] == differs[offsets[:-1]])
