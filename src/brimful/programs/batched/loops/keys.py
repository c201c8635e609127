"""Loops over locations and cells as keys, compiled for the CPU: one pass where torch makes several. Their plain twins
are in `../keys.py`."""

import numpy as np

from ..compiled import jit
from ..key_bits import BIAS, BITS, COLOR_BIAS, FIELD


@jit
def located(i, j, color):
    """The keys of locations, or of cells of one color."""
    out = np.empty(len(i), np.int64)
    high = (color + COLOR_BIAS) << 2 * BITS
    for at in range(len(out)):
        out[at] = high | ((i[at] + BIAS) << BITS) | (j[at] + BIAS)
    return out


@jit
def colored(i, j, colors):
    """The keys of cells, each of its own color."""
    out = np.empty(len(i), np.int64)
    for at in range(len(out)):
        out[at] = ((np.int64(colors[at]) + COLOR_BIAS) << 2 * BITS) | ((i[at] + BIAS) << BITS) | (j[at] + BIAS)
    return out


@jit
def rows(keys):
    out = np.empty(len(keys), np.int64)
    for at in range(len(out)):
        out[at] = ((keys[at] >> BITS) & FIELD) - BIAS
    return out


@jit
def columns(keys):
    out = np.empty(len(keys), np.int64)
    for at in range(len(out)):
        out[at] = (keys[at] & FIELD) - BIAS
    return out


@jit
def colors(keys):
    out = np.empty(len(keys), np.int64)
    for at in range(len(out)):
        out[at] = (keys[at] >> 2 * BITS) - COLOR_BIAS
    return out
