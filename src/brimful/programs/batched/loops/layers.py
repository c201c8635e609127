"""A loop over the cells of grids, compiled for the CPU: components, cell by cell from the first one outwards.

It has its plain twin in torch in `../cells.py`, which runs on a GPU, and holds to it in the tests.
"""

import numpy as np

from ..compiled import jit
from ..key_bits import BIAS, BITS, COLOR_BIAS
from .objects import LIMIT, largest_of


@jit
def by_distance(cells, offsets, width, background, without, univalued, diagonal):
    """The components of grids by their first cells, the cells of each layer by layer from the first one.

    Returns:
        The keys of triples (i, j, color), where components begin, and where grids begin among the components.
    """
    largest = largest_of(offsets)
    keys, object_offsets = np.empty(len(cells), np.int64), np.zeros(len(cells) + 1, np.int64)
    list_offsets = np.zeros(len(offsets), np.int64)
    visited, queue = np.empty(largest, np.bool_), np.empty(largest, np.int64)
    made = objects = 0
    for grid in range(len(offsets) - 1):
        start, size, across = offsets[grid], offsets[grid + 1] - offsets[grid], width[grid]
        list_offsets[grid + 1] = objects
        if size == 0 or size > LIMIT:
            continue
        height, omit, omitted, one_color = size // across, without[grid], background[grid], univalued[grid]
        visited[:size] = False
        for first in range(size):
            value = cells[start + first]
            if visited[first] or (omit and value == omitted):
                continue
            visited[first], queue[0], layer, end = True, first, 0, 1
            while layer < end:
                after = end
                for place in range(layer, end):
                    i, j = queue[place] // across, queue[place] % across
                    for di in range(-1, 2):
                        for dj in range(-1, 2):
                            if (di == 0 and dj == 0) or (di != 0 and dj != 0 and not diagonal[grid]):
                                continue
                            if not (0 <= i + di < height and 0 <= j + dj < across):
                                continue
                            at = (i + di) * across + j + dj
                            other = cells[start + at]
                            same = other == value if one_color else not (omit and other == omitted)
                            if same and not visited[at]:
                                visited[at], queue[after] = True, at
                                after += 1
                queue[end:after].sort()
                layer, end = end, after
            for place in range(end):
                i, j = queue[place] // across, queue[place] % across
                color = np.int64(cells[start + queue[place]])
                keys[made] = ((i + COLOR_BIAS) << (2 * BITS)) | ((j + BIAS) << BITS) | (color + BIAS)
                made += 1
            objects += 1
            object_offsets[objects] = made
        list_offsets[grid + 1] = objects
    return keys[:made].copy(), object_offsets[: objects + 1].copy(), list_offsets
