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
def _is_grid(values, inner, begin, end):
    """Whether tuples of numbers are the rows of a grid of cells of one byte."""
    if begin == end or inner[begin] == inner[begin + 1]:
        return False
    width = inner[begin + 1] - inner[begin]
    for row in range(begin, end):
        if inner[row + 1] - inner[row] != width:
            return False
    part = values[inner[begin] : inner[end]]
    return part.min() >= 0 and part.max() < 256


@jit
def _unsigned(number):
    return number << 1 if number >= 0 else (-number << 1) - 1


@jit
def tuple_lengths(values, inner, offsets, wanted):
    """The bytes of every tuple of tuples of numbers that is wanted; 0 for others, and where a number is too large."""
    lengths = np.zeros(len(offsets) - 1, np.int64)
    for row in range(len(lengths)):
        begin, end = offsets[row], offsets[row + 1]
        if not wanted[row]:
            continue
        if _is_grid(values, inner, begin, end):
            width = inner[begin + 1] - inner[begin]
            lengths[row] = 1 + number_length(end - begin) + number_length(width) + (end - begin) * width
            continue
        total, large = 1 + number_length(end - begin), False
        for part in range(begin, end):
            total += 1 + number_length(inner[part + 1] - inner[part])
            for at in range(inner[part], inner[part + 1]):
                large |= abs(values[at]) >= LARGE
                total += 1 + number_length(_unsigned(values[at]))
        lengths[row] = 0 if large else total
    return lengths


LARGE = 1 << 60
"""Numbers from which on values are encoded one by one."""

_TUPLE, _NUMBER = ord("("), ord("i")


@jit
def write_tuples(values, inner, offsets, lengths, out, at):
    """Writes tuples of tuples of numbers, each where `at` says; not those of no length, nor those whose place is
    negative."""
    for row in range(len(lengths)):
        place, begin, end = at[row], offsets[row], offsets[row + 1]
        if lengths[row] == 0 or place < 0:
            continue
        if _is_grid(values, inner, begin, end):
            out[place] = _GRID
            place = write_number(out, place + 1, end - begin)
            place = write_number(out, place, inner[begin + 1] - inner[begin])
            for cell in range(inner[begin], inner[end]):
                out[place] = values[cell]
                place += 1
            continue
        out[place] = _TUPLE
        place = write_number(out, place + 1, end - begin)
        for part in range(begin, end):
            out[place] = _TUPLE
            place = write_number(out, place + 1, inner[part + 1] - inner[part])
            for number in range(inner[part], inner[part + 1]):
                out[place] = _NUMBER
                place = write_number(out, place + 1, _unsigned(values[number]))


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
