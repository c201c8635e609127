"""Lines between all locations of two sets, compiled for the CPU. The plain twins are in `../operations/all_lines.py`.

A straight or diagonal line is one number that has the canonical order of lines: first the longer one, then that which
begins at the smaller location, then that with the smaller step. It is made of the length (counted down from `SPAN`),
the first row and column, and the number of the step. A line without locations comes last.
"""

import numpy as np

from ..compiled import assign, jit
from ..key_bits import BIAS, BITS, COLOR_BIAS

PLACE_BITS = 15
HALF = 1 << PLACE_BITS - 1
"""Rows and columns are at least -HALF, and below HALF."""

SPAN = 1 << PLACE_BITS
LENGTH_SHIFT = 2 * PLACE_BITS + 2
ROW_SHIFT, COLUMN_SHIFT = PLACE_BITS + 2, 2
NO_LINE = SPAN << LENGTH_SHIFT
"""The code of a line without locations."""

_ORIGIN = (COLOR_BIAS << 2 * BITS) | (BIAS << BITS) | BIAS
_DOWN = 1 << BITS


@jit
def _length(i, j, end_i, end_j):
    """The number of locations on the line between two; 0 where there is none."""
    down, right = abs(end_i - i), abs(end_j - j)
    return max(down, right) + 1 if down == 0 or right == 0 or down == right else 0


@jit
def _code(i, j, end_i, end_j, length):
    if end_i < i or (end_i == i and end_j < j):
        i, j, end_i, end_j = end_i, end_j, i, j
    step = 0 if end_i == i else 2 + np.sign(end_j - j)
    return ((SPAN - length) << LENGTH_SHIFT) | ((i + HALF) << ROW_SHIFT) | ((j + HALF) << COLUMN_SHIFT) | step


@jit
def reserved(ai, aj, a_offsets, bi, bj, b_offsets, wanted):
    """What rows that are wanted reserve: a call for every pair, and the locations of every line."""
    out = np.zeros(len(a_offsets) - 1, np.int64)
    for row in range(len(out)):
        if not wanted[row]:
            continue
        total = (a_offsets[row + 1] - a_offsets[row]) * (b_offsets[row + 1] - b_offsets[row])
        for q in range(b_offsets[row], b_offsets[row + 1]):
            for p in range(a_offsets[row], a_offsets[row + 1]):
                total += _length(ai[p], aj[p], bi[q], bj[q])
        out[row] = total
    return out


@jit
def codes(ai, aj, a_offsets, bi, bj, b_offsets, wanted, same):
    """The codes of all lines of the rows that are wanted, each once and in order, and where rows begin. Where both sets
    are the `same`, every line is looked at from one of its ends."""
    out, starts, count = np.empty(1 << 10, np.int64), np.zeros(len(a_offsets), np.int64), 0
    for row in range(len(a_offsets) - 1):
        begin, end = a_offsets[row], a_offsets[row + 1]
        lines, empty = 0, False
        if wanted[row]:
            most = (end - begin) * (b_offsets[row + 1] - b_offsets[row]) + 1
            row_codes = np.empty(most, np.int64)
            for q in range(b_offsets[row], b_offsets[row + 1]):
                last = begin + q - b_offsets[row] + 1 if same else end
                for p in range(begin, last):
                    length = _length(ai[p], aj[p], bi[q], bj[q])
                    if length:
                        row_codes[lines] = _code(ai[p], aj[p], bi[q], bj[q], length)
                        lines += 1
                    else:
                        empty = True
            if count + lines + 1 > len(out):
                larger = np.empty(2 * (count + lines + 1), np.int64)
                assign(larger[:count], out[:count])
                out = larger
            before = np.int64(-1)
            for code in np.sort(row_codes[:lines]):
                if code != before:
                    out[count] = before = code
                    count += 1
            if empty:
                out[count] = NO_LINE
                count += 1
        starts[row + 1] = count
    return out[:count].copy(), starts


@jit
def keys(codes, offsets):
    """The keys of the locations of lines."""
    out = np.empty(offsets[-1], np.int64)
    for line in range(len(codes)):
        code, mask = codes[line], SPAN - 1
        i, j = ((code >> ROW_SHIFT) & mask) - HALF, ((code >> COLUMN_SHIFT) & mask) - HALF
        number = code & 3
        step = 1 if number == 0 else _DOWN + number - 2
        key = _ORIGIN + i * _DOWN + j
        for at in range(offsets[line], offsets[line + 1]):
            out[at] = key
            key += step
    return out
