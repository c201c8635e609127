"""Loops over rows, compiled for the CPU: sets of sorted keys, row by row.

Each has its plain twin in torch in `segments.py`, which runs on a GPU, and holds to it in the tests.
"""

import numpy as np

from .compiled import jit


@jit
def sort_unique(keys, offsets):
    """The keys of every row in ascending order, each once, and where rows then begin."""
    out, starts = np.empty(len(keys), np.int64), np.empty(len(offsets), np.int64)
    count = starts[0] = 0
    for row in range(len(offsets) - 1):
        part = keys[offsets[row] : offsets[row + 1]]
        in_order = True
        for at in range(1, len(part)):
            if part[at] < part[at - 1]:
                in_order = False
                break
        ordered = part if in_order else np.sort(part)
        for at in range(len(ordered)):
            if at == 0 or ordered[at] != ordered[at - 1]:
                out[count] = ordered[at]
                count += 1
        starts[row + 1] = count
    return out[:count].copy(), starts


@jit
def member(keys, offsets, others, other_offsets):
    """Whether every key is among those of another set of the same row; both sets are in ascending order."""
    inside = np.zeros(len(keys), np.bool_)
    for row in range(len(offsets) - 1):
        at, end = other_offsets[row], other_offsets[row + 1]
        for index in range(offsets[row], offsets[row + 1]):
            while at < end and others[at] < keys[index]:
                at += 1
            inside[index] = at < end and others[at] == keys[index]
    return inside


@jit
def _before(keys, offsets, a, b):
    """Whether set a comes before set b canonically: the larger first, then by their sorted elements; 0 where equal."""
    size_a, size_b = offsets[a + 1] - offsets[a], offsets[b + 1] - offsets[b]
    if size_a != size_b:
        return 1 if size_a > size_b else -1
    for at in range(size_a):
        left, right = keys[offsets[a] + at], keys[offsets[b] + at]
        if left != right:
            return 1 if left < right else -1
    return 0


@jit
def order_sets(keys, offsets, list_offsets):
    """The canonical order of sets within every list, without duplicates: their indices, and where lists then begin."""
    chosen, starts = np.empty(len(offsets) - 1, np.int64), np.empty(len(list_offsets), np.int64)
    count = starts[0] = 0
    for row in range(len(list_offsets) - 1):
        begin = count
        for item in range(list_offsets[row], list_offsets[row + 1]):
            low, high, equal = begin, count, False
            while low < high:
                middle = (low + high) // 2
                order = _before(keys, offsets, item, chosen[middle])
                if order == 0:
                    equal = True
                    break
                if order > 0:
                    high = middle
                else:
                    low = middle + 1
            if not equal:
                for at in range(count, low, -1):
                    chosen[at] = chosen[at - 1]
                chosen[low] = item
                count += 1
        starts[row + 1] = count
    return chosen[:count].copy(), starts
