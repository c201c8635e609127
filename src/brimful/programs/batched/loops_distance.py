"""The distance of sets of locations, row by row, compiled for the CPU."""

import numpy as np

from .compiled import jit


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
