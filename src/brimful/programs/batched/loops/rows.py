"""Loops over rows of flat numbers, compiled for the CPU. Their plain twins are in `../rows.py`."""

import numpy as np

from ..compiled import assign, jit


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
        assign(out[new[row] : new[row + 1]], flat[offsets[index[row]] : offsets[index[row] + 1]])
    return out, new


@jit
def same_rows(a, a_offsets, b, b_offsets):
    """Whether rows have the same numbers."""
    out = np.zeros(len(a_offsets) - 1, np.bool_)
    for row in range(len(out)):
        shift = b_offsets[row] - a_offsets[row]
        if b_offsets[row + 1] - a_offsets[row + 1] != shift:
            continue
        alike = True
        for at in range(a_offsets[row], a_offsets[row + 1]):
            if a[at] != b[at + shift]:
                alike = False
                break
        out[row] = alike
    return out


@jit
def _offsets(offsets, index):
    new = np.empty(len(index) + 1, np.int64)
    new[0] = 0
    for row in range(len(index)):
        new[row + 1] = new[row] + offsets[index[row] + 1] - offsets[index[row]]
    return new
