"""Loops over rows of flat numbers, compiled for the CPU. Their plain twins are in `../rows.py`."""

import numpy as np

from ..compiled import jit


@jit
def owners(offsets):
    """The row that every number belongs to."""
    owner = np.empty(offsets[-1], np.int64)
    for row in range(len(offsets) - 1):
        for at in range(offsets[row], offsets[row + 1]):
            owner[at] = row
    return owner


@jit
def repeated(values, offsets):
    """The value of its row for every number."""
    out = np.empty(offsets[-1], values.dtype)
    for row in range(len(offsets) - 1):
        out[offsets[row] : offsets[row + 1]] = values[row]
    return out


@jit
def gathered(offsets, index):
    """Where the numbers of some rows are, one row after the other, and the offsets of those rows."""
    new = _offsets(offsets, index)
    source = np.empty(new[-1], np.int64)
    for row in range(len(index)):
        shift = offsets[index[row]] - new[row]
        for at in range(new[row], new[row + 1]):
            source[at] = at + shift
    return source, new


@jit
def taken(flat, offsets, index):
    """The numbers of some rows, one row after the other, and the offsets of those rows."""
    new = _offsets(offsets, index)
    out = np.empty(new[-1], flat.dtype)
    for row in range(len(index)):
        out[new[row] : new[row + 1]] = flat[offsets[index[row]] : offsets[index[row] + 1]]
    return out, new


@jit
def _offsets(offsets, index):
    new = np.empty(len(index) + 1, np.int64)
    new[0] = 0
    for row in range(len(index)):
        new[row + 1] = new[row] + offsets[index[row] + 1] - offsets[index[row]]
    return new
