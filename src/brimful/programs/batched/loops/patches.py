"""Loops over the keys of patches, compiled for the CPU. Their plain twins are in `../operations`: patches, painting."""

import numpy as np

from ..compiled import jit
from ..key_bits import BIAS, BITS, COLOR_BIAS, COORDINATE_LIMIT, FIELD


@jit
def extents(keys, offsets):
    """The first and the last row and column of every patch: top, left, bottom, right; 0 for an empty one."""
    rows = len(offsets) - 1
    top, left = np.zeros(rows, np.int64), np.zeros(rows, np.int64)
    bottom, right = np.zeros(rows, np.int64), np.zeros(rows, np.int64)
    for row in range(rows):
        begin, end = offsets[row], offsets[row + 1]
        if begin == end:
            continue
        low_i = low_j = FIELD
        high_i = high_j = np.int64(0)
        for at in range(begin, end):
            i, j = (keys[at] >> BITS) & FIELD, keys[at] & FIELD
            low_i, high_i = min(low_i, i), max(high_i, i)
            low_j, high_j = min(low_j, j), max(high_j, j)
        top[row], left[row], bottom[row], right[row] = low_i - BIAS, low_j - BIAS, high_i - BIAS, high_j - BIAS
    return top, left, bottom, right


@jit
def moved(keys, offsets, by):
    """Keys with a number per row added, and the rows that have a location too far away then."""
    out, far = np.empty_like(keys), np.zeros(len(by), np.bool_)
    for row in range(len(by)):
        away = False
        for at in range(offsets[row], offsets[row + 1]):
            key = keys[at] + by[row]
            out[at] = key
            i, j = ((key >> BITS) & FIELD) - BIAS, (key & FIELD) - BIAS
            away |= abs(i) >= COORDINATE_LIMIT or abs(j) >= COORDINATE_LIMIT
        far[row] = away
    return out, far


@jit
def filled(cells, offsets, height, width, keys, starts, values):
    """Cells with the value of its row at the locations of its patch."""
    out = cells.copy()
    for row in range(len(height)):
        for at in range(starts[row], starts[row + 1]):
            i, j = ((keys[at] >> BITS) & FIELD) - BIAS, (keys[at] & FIELD) - BIAS
            if 0 <= i < height[row] and 0 <= j < width[row]:
                out[offsets[row] + i * width[row] + j] = values[row]
    return out


@jit
def painted(cells, offsets, height, width, keys, starts):
    """Cells with those of an object on them; of several at one location, the last one."""
    out = cells.copy()
    for row in range(len(height)):
        for at in range(starts[row], starts[row + 1]):
            i, j = ((keys[at] >> BITS) & FIELD) - BIAS, (keys[at] & FIELD) - BIAS
            if 0 <= i < height[row] and 0 <= j < width[row]:
                out[offsets[row] + i * width[row] + j] = (keys[at] >> 2 * BITS) - COLOR_BIAS
    return out
