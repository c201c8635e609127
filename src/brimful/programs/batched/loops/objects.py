"""Loops over the cells of grids, compiled for the CPU: components, groups of cells, colors, lines, occurrences.

Each has its plain twin in torch in `../cells.py`, which runs on a GPU, and holds to it in the tests. Scratch arrays
have the size of the largest row and are used again for every row.
"""

import numpy as np

from ..compiled import jit
from ..key_bits import BIAS, BITS, COLOR_BIAS, COORDINATE_LIMIT, FIELD

LIMIT = 1_000_000
"""The most cells of a grid here; larger ones run sequentially, where the bound on size decides."""
_POSITION = 20
"""Bits of a position in a row of at most `LIMIT` cells."""
TABLE = 1024
"""The colors, from the lowest one of a grid, that are counted in a table."""
_ORIGIN = (BIAS << BITS) | BIAS
COMPONENTS, COLORS, GRIDS = 0, 1, 2
"""What makes cells one object: that they are connected, that they have one color, or that they are of one grid."""


@jit
def largest_of(offsets):
    largest = 0
    for row in range(len(offsets) - 1):
        largest = max(largest, offsets[row + 1] - offsets[row])
    return min(largest, LIMIT)


@jit
def _root(parent, node):
    while parent[node] != node:
        parent[node] = parent[parent[node]]
        node = parent[node]
    return node


@jit
def _hook(parent, a, b):
    """Makes two trees one, whose root is the smaller one."""
    a, b = _root(parent, a), _root(parent, b)
    if a < b:
        parent[b] = a
    else:
        parent[a] = b


@jit
def _find_runs(cells, start, height, width, omit, omitted, apart, hooks, by_color, reach, run_keys, begin, end, parent):
    """The runs of one grid, and their trees: neighbours in a row that have one color, hooked to those they touch.

    Returns:
        How many there are, and the lowest and the highest color.
    """
    count = above = above_end = 0
    low = high = np.int64(0)
    for i in range(height):
        line, line_begin, j = start + i * width, count, 0
        while j < width:
            value, after = np.int64(cells[line + j]), j + 1
            while after < width and cells[line + after] == value and value != apart:
                after += 1
            if not (omit and value == omitted):
                run_keys[count] = ((value + COLOR_BIAS) << (2 * BITS)) + (i << BITS) + j + _ORIGIN
                begin[count], end[count], parent[count] = j, after, count
                low, high = (min(low, value), max(high, value)) if count else (value, value)
                if hooks:
                    if not by_color and count > line_begin and end[count - 1] == j:
                        _hook(parent, count, count - 1)
                    while above < above_end and end[above] <= j - reach:
                        above += 1
                    other = above
                    while other < above_end and begin[other] < after + reach:
                        if not by_color or (_same_color(run_keys[other], run_keys[count]) and value != apart):
                            _hook(parent, count, other)
                        other += 1
                count += 1
            j = after
        above, above_end = line_begin, count
    return count, low, high


@jit
def _same_color(key, other):
    return (key ^ other) >> (2 * BITS) == 0


@jit
def _sort_runs(run_keys, parent, count, low, high, table, order):
    """The runs of one grid in ascending order where objects have several colors, else row by row."""
    mixed = False
    for run in range(count):
        order[run] = run
        mixed |= not _same_color(run_keys[run], run_keys[parent[run]])
    if not mixed:
        return
    for run in range(count):
        table[(run_keys[run] >> (2 * BITS)) - COLOR_BIAS - low + 1] += 1
    for color in range(1, high - low + 1):
        table[color] += table[color - 1]
    for run in range(count):
        color = (run_keys[run] >> (2 * BITS)) - COLOR_BIAS - low
        order[table[color]] = run
        table[color] += 1
    table[: high - low + 2] = 0


@jit
def _hook_colors(run_keys, parent, count, low, high, table):
    """Makes all runs of one color one tree."""
    table[: high - low + 1] = -1
    for run in range(count):
        color = (run_keys[run] >> (2 * BITS)) - COLOR_BIAS - low
        if table[color] < 0:
            table[color] = run
        parent[run] = table[color]
    table[: high - low + 1] = 0


@jit
def _rank_objects(run_keys, parent, order, count, sizes, places, ranks):
    """The objects of one grid in canonical order, each as the position of its first run; `places` gets their sizes."""
    number = 0
    for at in range(count):
        run = order[at]
        root = parent[run]
        if sizes[root] > 0:
            color = (run_keys[run] >> (2 * BITS)) - COLOR_BIAS + COORDINATE_LIMIT
            ranks[number] = ((LIMIT - sizes[root]) << (18 + _POSITION)) | (color << _POSITION) | at
            places[root] = sizes[root]
            sizes[root] = 0
            number += 1
    if number > 1:
        ranks[:number].sort()
    for rank in range(number):
        ranks[rank] &= (1 << _POSITION) - 1
    return number


@jit
def group(cells, offsets, width, by, background, without, univalued, diagonal, apart):
    """Groups of the cells of every grid as objects in canonical order.

    Objects do not overlap, so that a larger size, then the smallest cell decide their order.

    Args:
        by: `COMPONENTS`, which hook runs to those that touch them; `COLORS`, or `GRIDS` for one object per grid.
        apart: a color that does not equal itself.

    Returns:
        The keys of all objects, where objects begin, where grids begin among the objects, and the grids that are left
        out, since they are large, or have more colors than the table.
    """
    largest = largest_of(offsets)
    keys, object_offsets = np.empty(len(cells), np.int64), np.empty(len(cells) + 1, np.int64)
    list_offsets, left_out = np.zeros(len(offsets), np.int64), np.zeros(len(offsets) - 1, np.bool_)
    run_keys, ranks = np.empty(largest, np.int64), np.empty(largest, np.int64)
    begin, end, parent = np.empty(largest, np.int64), np.empty(largest, np.int64), np.empty(largest, np.int64)
    sizes, places, order = np.zeros(largest, np.int64), np.empty(largest, np.int64), np.empty(largest, np.int64)
    table = np.zeros(TABLE + 1, np.int64)
    made = objects = object_offsets[0] = 0
    for grid in range(len(offsets) - 1):
        start, size, across = offsets[grid], offsets[grid + 1] - offsets[grid], width[grid]
        left_out[grid] = size > LIMIT
        list_offsets[grid + 1] = objects
        if size == 0 or size > LIMIT:
            continue
        one_color, reach = univalued[grid], 1 if diagonal[grid] else 0
        trees = (by == COMPONENTS, one_color, reach, run_keys, begin, end, parent)
        count, low, high = _find_runs(
            cells, start, size // across, across, without[grid], background[grid], apart, *trees
        )
        if high - low >= TABLE:
            left_out[grid] = True
            continue
        if by == COLORS:
            _hook_colors(run_keys, parent, count, low, high, table)
        elif by == GRIDS:
            parent[:count] = 0
        for run in range(count):
            root = parent[run] = parent[parent[run]]
            sizes[root] += end[run] - begin[run]
        _sort_runs(run_keys, parent, count, low, high, table, order)
        number = _rank_objects(run_keys, parent, order, count, sizes, places, ranks)
        for rank in range(number):
            root = parent[order[ranks[rank]]]
            places[root], made = made, made + places[root]
            objects += 1
            object_offsets[objects] = made
        for at in range(count):
            run = order[at]
            root, key, length = parent[run], run_keys[run], end[run] - begin[run]
            place = places[root]
            for step in range(length):
                keys[place + step] = key + step
            places[root] = place + length
        list_offsets[grid + 1] = objects
    return keys[:made].copy(), object_offsets[: objects + 1].copy(), list_offsets, left_out


@jit
def count_colors(colors, offsets):
    """The colors of every row in ascending order, how often each is there, and where rows then begin."""
    distinct, counts = np.empty(len(colors), np.int64), np.empty(len(colors), np.int64)
    starts = np.zeros(len(offsets), np.int64)
    table = np.zeros(TABLE, np.int64)
    made = 0
    for row in range(len(offsets) - 1):
        at, end, high = offsets[row], offsets[row + 1], np.int64(-1)
        while at < end:
            value, after = np.int64(colors[at]), at + 1
            while after < end and colors[after] == value:
                after += 1
            if not 0 <= value < TABLE:
                break
            table[value] += after - at
            high = max(high, value)
            at = after
        if at == end:
            for color in range(high + 1):
                if table[color]:
                    distinct[made], counts[made] = color, table[color]
                    made += 1
        else:
            part = colors[offsets[row] : end].astype(np.int64)  # of other numbers no sort is compiled
            part.sort()
            for at in range(len(part)):
                if at == 0 or part[at] != part[at - 1]:
                    distinct[made], counts[made] = part[at], 0
                    made += 1
                counts[made - 1] += 1
        table[: high + 1] = 0
        starts[row + 1] = made
    return distinct[:made].copy(), counts[:made].copy(), starts


@jit
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


@jit
def look_up(keys, offsets, cells, grid_offsets, height, width):
    """The cells of grids at the locations of patches, those outside left out, in the order of the patches."""
    found, starts = np.empty(len(keys), np.int64), np.zeros(len(offsets), np.int64)
    made = 0
    for row in range(len(offsets) - 1):
        for at in range(offsets[row], offsets[row + 1]):
            i, j = (keys[at] >> BITS & FIELD) - BIAS, (keys[at] & FIELD) - BIAS
            if 0 <= i < height[row] and 0 <= j < width[row]:
                color = cells[grid_offsets[row] + i * width[row] + j]
                found[made] = ((color + COLOR_BIAS) << (2 * BITS)) + (i << BITS) + j + _ORIGIN
                made += 1
        starts[row + 1] = made
    return found[:made].copy(), starts


@jit
def single_colored(cells, offsets, row_offsets, column_offsets):
    """Whether the lines of every grid have one color: all rows of all grids, and all columns of all grids."""
    rows, columns = np.ones(row_offsets[-1], np.bool_), np.ones(column_offsets[-1], np.bool_)
    for grid in range(len(offsets) - 1):
        start, down, along = offsets[grid], row_offsets[grid], column_offsets[grid]
        height, width = row_offsets[grid + 1] - down, column_offsets[grid + 1] - along
        for i in range(height):
            same = width > 0
            for j in range(width):
                value = cells[start + i * width + j]
                same &= value == cells[start + i * width]
                columns[along + j] &= value == cells[start + j]
            rows[down + i] = same
    return rows, columns


@jit
def keep_lines(cells, offsets, row_offsets, column_offsets, rows, columns):
    """The cells of grids that are in rows and in columns to keep."""
    kept = np.empty(len(cells), cells.dtype)
    made = 0
    for grid in range(len(offsets) - 1):
        down, along, end = row_offsets[grid], column_offsets[grid], column_offsets[grid + 1]
        for i in range(row_offsets[grid + 1] - down):
            if rows[down + i]:
                line = offsets[grid] + i * (end - along)
                for j in range(end - along):
                    if columns[along + j]:
                        kept[made] = cells[line + j]
                        made += 1
    return kept[:made].copy()


@jit
def line_objects(cells, offsets, row_offsets, column_offsets, rows, columns):
    """Rows and columns of grids as objects in canonical order, all that flags name.

    Of lines of one size and one color, the one with the smaller first cell comes first; of the two lines that begin in
    the upper left corner, the row does.
    """
    total = lines = 0
    for grid in range(len(offsets) - 1):
        height, width = row_offsets[grid + 1] - row_offsets[grid], column_offsets[grid + 1] - column_offsets[grid]
        across, down = 0, 0
        for at in range(row_offsets[grid], row_offsets[grid + 1]):
            across += rows[at]
        for at in range(column_offsets[grid], column_offsets[grid + 1]):
            down += columns[at]
        total += across * width + down * height
        lines += across + down
    keys, line_offsets = np.empty(total, np.int64), np.zeros(lines + 1, np.int64)
    list_offsets = np.zeros(len(offsets), np.int64)
    ranks = np.empty(lines, np.int64)
    made = count = 0
    for grid in range(len(offsets) - 1):
        start, down, along = offsets[grid], row_offsets[grid], column_offsets[grid]
        height, width, begin = row_offsets[grid + 1] - down, column_offsets[grid + 1] - along, count
        size = offsets[grid + 1] - start  # the column of a grid of one cell is its row
        for number in range(height + width):
            row = number == 0 or number > width  # the first row, all columns, the other rows
            i, j = (max(number - width, 0), 0) if row else (0, number - 1)
            if rows[down + i] if row else columns[along + j] and size > 1:
                color, length = cells[start + i * width + j] + COORDINATE_LIMIT, width if row else height
                ranks[count] = ((LIMIT - min(length, LIMIT)) << (18 + _POSITION)) | (color << _POSITION) | number
                count += 1
        ranks[begin:count].sort()
        for at in range(begin, count):
            number = ranks[at] & ((1 << _POSITION) - 1)
            row = number == 0 or number > width
            i, j = (max(number - width, 0), 0) if row else (0, number - 1)
            color, step = cells[start + i * width + j], 1 if row else 1 << BITS
            key = ((color + COLOR_BIAS) << (2 * BITS)) + (i << BITS) + j + _ORIGIN
            for _ in range(width if row else height):
                keys[made] = key
                key += step
                made += 1
            line_offsets[at + 1] = made
        list_offsets[grid + 1] = count
    return keys[:made].copy(), line_offsets[: count + 1].copy(), list_offsets


@jit
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
