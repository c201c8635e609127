"""Lines between all locations of two sets: `prapply(connect, a, b)`.

Two sets of n locations have n * n pairs, few of which lie on a straight or diagonal line. Only those are kept, as one
number per line (see `loops/all_lines.py`), until the distinct ones of a row are known.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ...execution.failures import Category
from ..columns import BITS, Lists, Pairs, Patches, PatchKind, key_of
from ..compiled import call, usable
from ..kernels import Computed
from ..loops import all_lines as loops
from ..loops.all_lines import COLUMN_SHIFT, HALF, LENGTH_SHIFT, NO_LINE, ROW_SHIFT, SPAN
from ..rows import groups, offsets_of, owners, select
from ..segments import filtered, sort_unique_plain, totals


def lines_between(left: Lists, right: Lists, same: bool, elements: int, group: int) -> Computed | None:
    """The set of lines between all locations of two lists; None where they have no locations, or some far away.

    Args:
        left, right: the lists.
        same: whether they are one and the same.
        elements: that a row may reserve; one that reserves more fails.
        group: pairs that are looked at together in plain torch.
    """
    a, b = left.elements, right.elements
    if not (isinstance(a, Pairs) and isinstance(b, Pairs)):
        return None
    places = (a.first, a.second, b.first, b.second)
    if any(len(place) and not bool(((place >= -HALF) & (place < HALF)).all()) for place in places):
        return None
    given = tuple(part.contiguous() for part in (a.first, a.second, left.offsets, b.first, b.second, right.offsets))
    pairs = left.sizes * right.sizes
    small = pairs <= elements
    if usable(pairs):
        used = call(loops.reserved, *given, small)
        wanted = small & (used <= elements)
        codes, offsets = call(loops.codes, *given, wanted, same)
    else:
        codes, offsets, used = codes_plain(given, small, elements, group)
        wanted = small & (used <= elements)
    used = torch.where(small, used, pairs)
    starts = offsets_of(SPAN - (codes >> LENGTH_SHIFT))
    keys = call(loops.keys, codes, starts) if usable(codes) else keys_plain(codes, starts)
    failed = None if bool(wanted.all()) else (~wanted).to(torch.int8) * int(Category.SIZE)
    return Computed(Lists(Patches(keys, starts, PatchKind.INDICES), offsets, True), failed, None, used)


def codes_plain(given: tuple[Tensor, ...], small: Tensor, elements: int, group: int) -> tuple[Tensor, Tensor, Tensor]:
    """The twin of `loops.reserved` and `loops.codes`: the codes, where rows begin, and what rows reserve."""
    ai, aj, a_offsets, bi, bj, b_offsets = given
    width, pairs = a_offsets.diff(), (a_offsets.diff() * b_offsets.diff()).masked_fill(~small, 0)
    parts, sizes, used = list[Tensor](), list[Tensor](), list[Tensor]()
    for start, stop in groups(pairs, group):
        counts = pairs[start:stop]
        offsets = offsets_of(counts)
        row = owners(offsets)
        within = torch.arange(len(row), device=row.device) - offsets[row]
        row += start
        second = torch.div(within, width[row], rounding_mode="floor")
        p, q = a_offsets[row] + within - second * width[row], b_offsets[row] + second
        i, j, end_i, end_j = ai[p], aj[p], bi[q], bj[q]
        down, right = (end_i - i).abs(), (end_j - j).abs()
        straight = (down == 0) | (right == 0) | (down == right)
        length = select(straight, torch.maximum(down, right) + 1, 0)
        reserved = totals(length, offsets) + counts
        keep = straight & (reserved <= elements)[row - start]
        back = (end_i < i) | ((end_i == i) & (end_j < j))
        first_i, first_j = torch.where(back, end_i, i), torch.where(back, end_j, j)
        step = select(end_i == i, 0, 2 + (end_j - j).sign() * (end_i - i).sign())
        code = ((SPAN - length) << LENGTH_SHIFT) | ((first_i + HALF) << ROW_SHIFT) | ((first_j + HALF) << COLUMN_SHIFT)
        code = select(straight, code | step, NO_LINE)
        gaps = counts - totals(straight.to(torch.int64), offsets)
        # Of the pairs without a line, the first of each row stands for all.
        one = ~straight & ((~straight).to(torch.int64).cumsum(0) - 1 == (offsets_of(gaps)[:-1])[row - start])
        chosen, starts = filtered(code, offsets, keep | (one & (reserved <= elements)[row - start]))
        distinct, starts = sort_unique_plain(chosen, starts)
        parts.append(distinct)
        sizes.append(starts.diff())
        used.append(reserved)
    return torch.cat(parts), offsets_of(torch.cat(sizes)), torch.cat(used)


def keys_plain(codes: Tensor, offsets: Tensor) -> Tensor:
    """The twin of `loops.keys`."""
    line, number = owners(offsets), codes & 3
    first = key_of(((codes >> ROW_SHIFT) & (SPAN - 1)) - HALF, ((codes >> COLUMN_SHIFT) & (SPAN - 1)) - HALF)
    step = select(number == 0, 1, (1 << BITS) + number - 2)
    within = torch.arange(len(line), device=line.device) - offsets[line]
    return first[line] + within * step[line]
