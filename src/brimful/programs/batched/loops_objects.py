"""Loops over the cells of grids, compiled for the CPU: components, groups of cells, colors, lines, occurrences.

Each has its plain twin in torch in `cells.py`, which runs on a GPU, and holds to it in the tests. Scratch arrays have
the size of the largest row and are used again for every row.
"""

import numba
import numpy as np

from .columns import BIAS, BITS, COLOR_BIAS, COORDINATE_LIMIT

_jit = numba.njit(cache=True, nogil=True)

LIMIT = 100_000
"""The most cells of a grid here; larger ones run sequentially, where the bound on size decides."""
_POSITION = 17
"""Bits of a position in a row of at most `LIMIT` cells."""
_TABLE = 1024
_ORIGIN = (BIAS << BITS) | BIAS


@_jit
def _largest(offsets):
    largest = 0
    for row in range(len(offsets) - 1):
        largest = max(largest, offsets[row + 1] - offsets[row])
    return largest


@_jit
def _root(parent, node):
    while parent[node] != node:
        parent[node] = parent[parent[node]]
        node = parent[node]
    return node


@_jit
def _hook(parent, a, b):
    """Makes two trees one, whose root is the smaller one."""
    a, b = _root(parent, a), _root(parent, b)
    if a < b:
        parent[b] = a
    else:
        parent[a] = b


@_jit
def label(cells, offsets, width, background, without, univalued, diagonal):
    """The connected component of every cell: the index of its first cell; -1 for background and for large grids.

    The nodes of the trees are horizontal runs of connected cells, by their first cell.
    """
    labels = np.full(len(cells), -1, np.int64)
    parent = np.empty(min(_largest(offsets), LIMIT), np.int64)
    for grid in range(len(offsets) - 1):
        start, size, across = offsets[grid], offsets[grid + 1] - offsets[grid], width[grid]
        if size == 0 or size > LIMIT:
            continue
        part, run = cells[start : start + size], labels[start : start + size]
        one_color, corners, omit, omitted = univalued[grid], diagonal[grid], without[grid], background[grid]
        if not one_color and not omit:
            run[:] = start
            continue
        for line in range(0, size, across):
            for at in range(line, line + across):
                value = part[at]
                if omit and value == omitted:
                    continue
                joined = at > line and run[at - 1] >= 0 and (not one_color or part[at - 1] == value)
                if joined:
                    run[at] = run[at - 1]
                else:
                    run[at] = parent[at] = at
                if line == 0:
                    continue
                up = at - across
                if run[up] >= 0 and (not one_color or part[up] == value):
                    if not (joined and run[up - 1] == run[up]):
                        _hook(parent, run[at], run[up])
                elif corners:
                    if at > line and not joined and run[up - 1] >= 0 and (not one_color or part[up - 1] == value):
                        _hook(parent, run[at], run[up - 1])
                    if at + 1 < line + across and run[up + 1] >= 0 and (not one_color or part[up + 1] == value):
                        _hook(parent, run[at], run[up + 1])
        for at in range(size):
            if run[at] == at:
                parent[at] = parent[parent[at]]
        for at in range(size):
            if run[at] >= 0:
                run[at] = start + parent[run[at]]
    return labels


@_jit
def label_colors(cells, offsets, background, without):
    """For every cell the index of the first one of its color in its grid; -1 for background."""
    labels = np.full(len(cells), -1, np.int64)
    table = np.full(_TABLE, -1, np.int64)
    for grid in range(len(offsets) - 1):
        start, end = offsets[grid], offsets[grid + 1]
        if start == end:
            continue
        part = cells[start:end]
        low, high = part.min(), part.max()
        if high - low < _TABLE:
            for at in range(start, end):
                if table[cells[at] - low] < 0:
                    table[cells[at] - low] = at
                labels[at] = table[cells[at] - low]
            table[: high - low + 1] = -1
        else:
            order = np.argsort(part, kind="mergesort")
            for at in range(len(order)):
                same = at > 0 and part[order[at]] == part[order[at - 1]]
                labels[start + order[at]] = labels[start + order[at - 1]] if same else start + order[at]
        if without[grid]:
            for at in range(start, end):
                if cells[at] == background[grid]:
                    labels[at] = -1
    return labels


@_jit
def group(cells, offsets, width, labels):
    """Cells with one label as one object, the objects of every grid in canonical order.

    Objects do not overlap, so that a larger size, then the smallest cell decide. A label is the index of one of its
    cells; those of large grids are left out.

    Returns:
        The keys of all objects, where objects begin, and where grids begin among the objects.
    """
    largest = min(_largest(offsets), LIMIT)
    keys, object_offsets = np.empty(len(cells), np.int64), np.empty(len(cells) + 1, np.int64)
    list_offsets = np.zeros(len(offsets), np.int64)
    sizes, places = np.zeros(largest, np.int64), np.empty(largest, np.int64)
    row_keys, row_roots, ranks = np.empty(largest, np.int64), np.empty(largest, np.int64), np.empty(largest, np.int64)
    table = np.zeros(_TABLE + 1, np.int64)
    made = objects = object_offsets[0] = 0
    for grid in range(len(offsets) - 1):
        start, size, across = offsets[grid], offsets[grid + 1] - offsets[grid], width[grid]
        if size > LIMIT:
            size = 0
        low = high = np.int64(0)
        mixed, members = False, 0
        for at in range(start, start + size):
            if labels[at] >= 0:
                value = cells[at]
                if members == 0:
                    low = high = value
                low, high = min(low, value), max(high, value)
                mixed |= value != cells[labels[at]]
                sizes[labels[at] - start] += 1
                members += 1
        by_table = mixed and high - low < _TABLE
        if by_table:
            for at in range(start, start + size):
                if labels[at] >= 0:
                    table[cells[at] - low + 1] += 1
            for color in range(1, high - low + 1):
                table[color] += table[color - 1]
        count = 0
        i = j = 0
        for at in range(start, start + size):
            if labels[at] >= 0:
                place = count
                if by_table:
                    place = table[cells[at] - low]
                    table[cells[at] - low] += 1
                row_keys[place] = ((cells[at] + COLOR_BIAS) << (2 * BITS)) + (i << BITS) + j + _ORIGIN
                row_roots[place] = labels[at] - start
                count += 1
            j += 1
            if j == across:
                i, j = i + 1, 0
        if by_table:
            table[: high - low + 2] = 0
        elif mixed:
            order = np.argsort(row_keys[:count], kind="mergesort")
            row_keys[:count] = row_keys[:count][order]
            row_roots[:count] = row_roots[:count][order]
        number = 0
        for at in range(count):
            root = row_roots[at]
            if sizes[root] > 0:
                color = (row_keys[at] >> (2 * BITS)) - COLOR_BIAS + COORDINATE_LIMIT
                ranks[number] = ((LIMIT - sizes[root]) << (18 + _POSITION)) | (color << _POSITION) | at
                places[root] = sizes[root]
                sizes[root] = 0
                number += 1
        if number > 1:
            ranks[:number].sort()
        for rank in range(number):
            root = row_roots[ranks[rank] & ((1 << _POSITION) - 1)]
            places[root], made = made, made + places[root]
            objects += 1
            object_offsets[objects] = made
        for at in range(count):
            root = row_roots[at]
            keys[places[root]] = row_keys[at]
            places[root] += 1
        list_offsets[grid + 1] = objects
    return keys[:made].copy(), object_offsets[: objects + 1].copy(), list_offsets


@_jit
def count_colors(colors, offsets):
    """The colors of every row in ascending order, how often each is there, and where rows then begin."""
    distinct, counts = np.empty(len(colors), np.int64), np.empty(len(colors), np.int64)
    starts = np.zeros(len(offsets), np.int64)
    table = np.zeros(_TABLE, np.int64)
    made = 0
    for row in range(len(offsets) - 1):
        part = colors[offsets[row] : offsets[row + 1]]
        if len(part):
            low, high = part.min(), part.max()
            if high - low < _TABLE:
                for color in part:
                    table[color - low] += 1
                for color in range(high - low + 1):
                    if table[color]:
                        distinct[made], counts[made] = color + low, table[color]
                        table[color] = 0
                        made += 1
            else:
                part = np.sort(part)
                for at in range(len(part)):
                    if at == 0 or part[at] != part[at - 1]:
                        distinct[made], counts[made] = part[at], 0
                        made += 1
                    counts[made - 1] += 1
        starts[row + 1] = made
    return distinct[:made].copy(), counts[:made].copy(), starts


@_jit
def locate(cells, offsets, width, value, every):
    """The keys of the locations of one color of every grid, or of all locations, and where grids then begin."""
    keys, starts = np.empty(len(cells), np.int64), np.zeros(len(offsets), np.int64)
    made = 0
    for grid in range(len(offsets) - 1):
        i = j = 0
        for at in range(offsets[grid], offsets[grid + 1]):
            if every or cells[at] == value[grid]:
                keys[made] = (COLOR_BIAS << (2 * BITS)) + (i << BITS) + j + _ORIGIN
                made += 1
            j += 1
            if j == width[grid]:
                i, j = i + 1, 0
        starts[grid + 1] = made
    return keys[:made].copy(), starts


@_jit
def single_colored(cells, offsets, row_offsets, column_offsets):
    """Whether the lines of every grid have one color: all rows of all grids, and all columns of all grids."""
    rows, columns = np.ones(row_offsets[-1], np.bool_), np.ones(column_offsets[-1], np.bool_)
    for grid in range(len(offsets) - 1):
        start, down, along = offsets[grid], row_offsets[grid], column_offsets[grid]
        height, width = row_offsets[grid + 1] - down, column_offsets[grid + 1] - along
        if width == 0:
            rows[down : down + height] = False
        for i in range(height):
            for j in range(width):
                value = cells[start + i * width + j]
                if value != cells[start + i * width]:
                    rows[down + i] = False
                if value != cells[start + j]:
                    columns[along + j] = False
    return rows, columns


@_jit
def occur(cells, offsets, width, rows, columns, values, steps, step_offsets):
    """The keys of the locations, among some rows and columns of every grid, from which all cells of an object agree.

    Args:
        values, steps: per cell of an object its color, and how far it is from the first location of the grid.
    """
    starts = np.zeros(len(offsets), np.int64)
    keys = np.empty((rows * columns).sum(), np.int64)
    made = 0
    for grid in range(len(offsets) - 1):
        for i in range(rows[grid]):
            for j in range(columns[grid]):
                origin = offsets[grid] + i * width[grid] + j
                agree = True
                for at in range(step_offsets[grid], step_offsets[grid + 1]):
                    if cells[origin + steps[at]] != values[at]:
                        agree = False
                        break
                if agree:
                    keys[made] = (COLOR_BIAS << (2 * BITS)) + (i << BITS) + j + _ORIGIN
                    made += 1
        starts[grid + 1] = made
    return keys[:made].copy(), starts
