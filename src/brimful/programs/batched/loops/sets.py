"""Loops over rows, compiled for the CPU: sets of sorted keys, row by row.

Each has its plain twin in torch in `../segments.py`, which runs on a GPU, and holds to it in the tests.
"""

import numpy as np

from ..compiled import assign, jit
from ..key_bits import BITS, FIELD

_DENSE = 8
"""Places per key up to which the keys of a row are marked in a table of all places, and not sorted."""


@jit
def _box(part):
    """The smallest and the greatest color, row and column of keys, as they are in a key; and how many places lie in
    between."""
    low_c = low_i = low_j = np.int64(FIELD) << 20
    high_c = high_i = high_j = -low_c
    for key in part:
        c, i, j = key >> 2 * BITS, (key >> BITS) & FIELD, key & FIELD
        low_c, high_c = min(low_c, c), max(high_c, c)
        low_i, high_i = min(low_i, i), max(high_i, i)
        low_j, high_j = min(low_j, j), max(high_j, j)
    return low_c, low_i, low_j, high_c - low_c + 1, high_i - low_i + 1, high_j - low_j + 1


@jit
def _marked(part, box, marks):
    """Marks the places of keys in a table; false where there are too many places for that."""
    low_c, low_i, low_j, colors, rows, columns = box
    most = _DENSE * len(part)
    if colors > most or rows > most or columns > most or colors * rows > most or colors * rows * columns > most:
        return False
    marks[: colors * rows * columns] = False
    for key in part:
        c, i, j = (key >> 2 * BITS) - low_c, ((key >> BITS) & FIELD) - low_i, (key & FIELD) - low_j
        marks[(c * rows + i) * columns + j] = True
    return True


@jit
def _merged_runs(part, bounds, spare):
    """Keys in ascending order, by merging runs of them that are so already: a row is often a few sets, one after
    another."""
    runs, bounds[0] = 0, 0
    for at in range(1, len(part)):
        if part[at] < part[at - 1]:
            runs += 1
            bounds[runs] = at
    runs += 1
    bounds[runs] = len(part)
    source, target = spare[0, : len(part)], spare[1, : len(part)]
    assign(source, part)
    while runs > 1:
        merged = 0
        for run in range(0, runs, 2):
            low, middle, high = bounds[run], bounds[run + 1], bounds[min(run + 2, runs)]
            left, right = low, middle
            for at in range(low, high):
                if right == high or (left < middle and source[left] <= source[right]):
                    target[at] = source[left]
                    left += 1
                else:
                    target[at] = source[right]
                    right += 1
            bounds[merged] = low
            merged += 1
        bounds[merged] = len(part)
        runs = merged
        source, target = target, source
    return source


@jit
def sort_unique(keys, offsets):
    """The keys of every row in ascending order, each once, and where rows then begin.

    Keys lie close together, most of the time: then their places are marked in a table, and read in order.
    """
    out, starts = np.empty(len(keys), np.int64), np.empty(len(offsets), np.int64)
    longest = 0
    for row in range(len(offsets) - 1):
        longest = max(longest, offsets[row + 1] - offsets[row])
    marks = np.empty(_DENSE * longest, np.bool_)
    bounds, spare = np.empty(longest + 2, np.int64), np.empty((2, longest), np.int64)
    count = starts[0] = 0
    for row in range(len(offsets) - 1):
        part = keys[offsets[row] : offsets[row + 1]]
        in_order = True
        for at in range(1, len(part)):
            if part[at] < part[at - 1]:
                in_order = False
                break
        if not in_order and len(part) > 16:
            box = _box(part)
            if _marked(part, box, marks):
                low_c, low_i, low_j, colors, rows, columns = box
                at = 0
                for c in range(low_c, low_c + colors):
                    for i in range(low_i, low_i + rows):
                        for j in range(low_j, low_j + columns):
                            if marks[at]:
                                out[count] = (c << 2 * BITS) | (i << BITS) | j
                                count += 1
                            at += 1
                starts[row + 1] = count
                continue
        ordered = part if in_order else _merged_runs(part, bounds, spare)
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
def _precedes(keys, offsets, a, b, larger_first):
    """Whether one sequence of keys comes before another: 1, or -1 where it comes after it, or 0 where they are equal.

    Where `larger_first`, the longer one does; otherwise they are compared as Python compares tuples.
    """
    size_a, size_b = offsets[a + 1] - offsets[a], offsets[b + 1] - offsets[b]
    if larger_first and size_a != size_b:
        return 1 if size_a > size_b else -1
    for at in range(min(size_a, size_b)):
        left, right = keys[offsets[a] + at], keys[offsets[b] + at]
        if left != right:
            return 1 if left < right else -1
    return 0 if size_a == size_b else 1 if size_a < size_b else -1


@jit
def _merge_sort(keys, offsets, items, larger_first):
    """Distinct sequences in order."""
    count = len(items)
    in_order = True
    for at in range(1, count):
        if _precedes(keys, offsets, items[at - 1], items[at], larger_first) < 0:
            in_order = False
            break
    if in_order:
        return items
    source, target, width = items.copy(), np.empty_like(items), 1
    while width < count:
        for low in range(0, count, 2 * width):
            middle, high = min(low + width, count), min(low + 2 * width, count)
            left, right = low, middle
            for at in range(low, high):
                if right >= high or (
                    left < middle and _precedes(keys, offsets, source[left], source[right], larger_first) > 0
                ):
                    target[at] = source[left]
                    left += 1
                else:
                    target[at] = source[right]
                    right += 1
        source, target = target, source
        width *= 2
    return source


@jit
def ranks(keys, offsets, list_offsets, larger_first):
    """The place of every sequence of keys among the distinct ones of its list: those are hashed, then sorted."""
    out, rank = np.empty(len(offsets) - 1, np.int64), np.empty(len(offsets) - 1, np.int64)
    longest = 0
    for row in range(len(list_offsets) - 1):
        longest = max(longest, list_offsets[row + 1] - list_offsets[row])
    capacity = 2
    while capacity < 2 * longest:
        capacity *= 2
    table, distinct = np.empty(capacity, np.int64), np.empty(longest, np.int64)
    for row in range(len(list_offsets) - 1):
        begin, end = list_offsets[row], list_offsets[row + 1]
        capacity, count = 2, 0
        while capacity < 2 * (end - begin):
            capacity *= 2
        table[:capacity] = -1
        for item in range(begin, end):
            mixed = offsets[item + 1] - offsets[item]
            for at in range(offsets[item], offsets[item + 1]):
                mixed = (mixed ^ keys[at]) * -7046029254386353131
                mixed ^= mixed >> 29
            slot = mixed & (capacity - 1)
            while table[slot] >= 0 and _precedes(keys, offsets, item, table[slot], larger_first) != 0:
                slot = (slot + 1) & (capacity - 1)
            if table[slot] < 0:
                table[slot] = distinct[count] = item
                count += 1
            out[item] = table[slot]
        in_order = _merge_sort(keys, offsets, distinct[:count], larger_first)
        for place in range(count):
            rank[in_order[place]] = place
        for item in range(begin, end):
            out[item] = rank[out[item]]
    return out


@jit
def sort_unique_index(keys, offsets):
    """Which keys of every row are its keys in ascending order, each once; and where rows then begin."""
    out, starts = np.empty(len(keys), np.int64), np.empty(len(offsets), np.int64)
    count = starts[0] = 0
    for row in range(len(offsets) - 1):
        begin, end = offsets[row], offsets[row + 1]
        in_order = True
        for at in range(begin + 1, end):
            if keys[at] < keys[at - 1]:
                in_order = False
                break
        if in_order:
            for at in range(begin, end):
                if at == begin or keys[at] != keys[at - 1]:
                    out[count] = at
                    count += 1
        else:
            order = np.argsort(keys[begin:end], kind="mergesort")
            for at in range(len(order)):
                if at == 0 or keys[begin + order[at]] != keys[begin + order[at - 1]]:
                    out[count] = begin + order[at]
                    count += 1
        starts[row + 1] = count
    return out[:count].copy(), starts
