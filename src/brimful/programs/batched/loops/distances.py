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
def approaches(rows_a, columns_a, offsets_a, rows_b, columns_b, offsets_b, down, across, most):
    """After how many steps one set is at a distance of 1 from another; `most`, which is below 62, where it never is."""
    taken = np.empty(len(offsets_a) - 1, np.int64)
    one = np.int64(1)
    for row in range(len(taken)):
        near = over = np.int64(0)  # bits: after so many steps, two locations at a distance of 1, and one on another
        for a in range(offsets_a[row], offsets_a[row + 1]):
            for b in range(offsets_b[row], offsets_b[row + 1]):
                i, j = rows_b[b] - rows_a[a], columns_b[b] - columns_a[a]
                ahead, aside = i * down[row] + j * across[row], abs(i * across[row]) + abs(j * down[row])
                if aside > 1 or ahead < -1 or ahead > most:
                    continue
                if aside == 1:
                    near |= one << ahead if ahead >= 0 else 0
                    continue
                over |= one << ahead if ahead >= 0 else 0
                near |= one << (ahead + 1)
                near |= one << (ahead - 1) if ahead > 0 else 0
        near &= ~over
        steps = 0
        while steps < most and not (near >> steps) & 1:
            steps += 1
        taken[row] = steps
    return taken


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
