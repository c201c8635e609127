"""The distance of sets of locations, and the periods of sets, row by row, compiled for the CPU."""

import numpy as np

from ..compiled import jit


@jit
def distances(rows_a, columns_a, offsets_a, rows_b, columns_b, offsets_b):
    """The smallest Manhattan distance between the locations of two sets; -1 where one is empty."""
    nearest = np.full(len(offsets_a) - 1, -1, np.int64)
    for row in range(len(nearest)):
        best = -1
        for a in range(offsets_a[row], offsets_a[row + 1]):
            for b in range(offsets_b[row], offsets_b[row + 1]):
                apart = abs(rows_a[a] - rows_b[b]) + abs(columns_a[a] - columns_b[b])
                if best < 0 or apart < best:
                    best = apart
            if best == 0:
                break
        nearest[row] = best
    return nearest


@jit
def periods(keys, offsets, place, long, step):
    """The smallest period of every set, up to its length; `place` says how far every key is from its beginning."""
    found = long.copy()
    for row in range(len(found)):
        begin, end = offsets[row], offsets[row + 1]
        for period in range(1, long[row]):
            at, fits = begin, True
            for index in range(begin, end):
                if place[index] >= period:
                    key = keys[index] - period * step
                    while at < end and keys[at] < key:
                        at += 1
                    if at == end or keys[at] != key:
                        fits = False
                        break
            if fits:
                found[row] = period
                break
    return found
