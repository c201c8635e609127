"""Results as bytes, compiled for the CPU. Where nothing can be compiled, Python runs the same loops."""

import numpy as np

from ..compiled import jit

_GRID = ord("G")


@jit
def number_length(number):
    """The bytes of a whole number, of seven bits each."""
    length = 1
    while number >= 128:
        number >>= 7
        length += 1
    return length


@jit
def write_number(out, at, number):
    """Writes a whole number, its lowest seven bits first, and returns where it ends."""
    while number >= 128:
        out[at] = number & 127 | 128
        number >>= 7
        at += 1
    out[at] = number
    return at + 1


@jit
def grid_lengths(cells, offsets, height, width, wanted):
    """The bytes of every grid that is wanted; 0 for others, and for a grid that is not of cells of one byte."""
    lengths = np.zeros(len(height), np.int64)
    for row in range(len(height)):
        if not wanted[row] or height[row] == 0 or width[row] == 0:
            continue
        part = cells[offsets[row] : offsets[row + 1]]
        if part.min() >= 0 and part.max() < 256:
            lengths[row] = 1 + number_length(height[row]) + number_length(width[row]) + len(part)
    return lengths


@jit
def write_grids(cells, offsets, height, width, lengths, out, at):
    """Writes grids, each where `at` says; not those of no length, nor those whose place is negative."""
    for row in range(len(height)):
        place = at[row]
        if lengths[row] == 0 or place < 0:
            continue
        out[place] = _GRID
        place = write_number(out, write_number(out, place + 1, height[row]), width[row])
        for cell in range(offsets[row], offsets[row + 1]):
            out[place] = cells[cell]
            place += 1


@jit
def write_rows(flat, offsets, out, at):
    """Writes the bytes of rows, each where `at` says; not those whose place is negative."""
    for row in range(len(at)):
        if at[row] >= 0:
            length = offsets[row + 1] - offsets[row]
            out[at[row] : at[row] + length] = flat[offsets[row] : offsets[row + 1]]


@jit
def write_everywhere(data, out, at):
    """Writes the same bytes wherever `at` says; not where it is negative."""
    for place in at:
        if place >= 0:
            out[place : place + len(data)] = data
