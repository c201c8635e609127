"""Results as bytes, compiled for the CPU. Where nothing can be compiled, Python runs the same loops."""

import math
import struct

import numpy as np

from ..compiled import assign, jit
from ..key_bits import BIAS, BITS, COLOR_BIAS, FIELD, NAN_COLOR

LARGE = 1 << 60
"""Numbers from which on values are encoded one by one."""

_GRID, _TUPLE, _SET, _NUMBER, _TRUE, _FALSE = map(ord, "G({iTF")
_NAN = np.frombuffer(b"d" + struct.pack("<d", math.nan), np.uint8)


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
def _unsigned(number):
    return number << 1 if number >= 0 else (-number << 1) - 1


@jit
def _small(number):
    return -LARGE < number < LARGE


@jit
def number_lengths(values, boolean, wanted):
    """The bytes of every number that is wanted; 0 for others, and for large ones."""
    lengths = np.zeros(len(values), np.int64)
    for row in range(len(values)):
        if wanted[row] and _small(values[row]):
            lengths[row] = 1 if boolean else 1 + number_length(_unsigned(values[row]))
    return lengths


@jit
def write_numbers(values, boolean, lengths, out, at):
    """Writes numbers, each where `at` says; not those of no length, nor those whose place is negative."""
    for row in range(len(lengths)):
        if lengths[row] == 0 or at[row] < 0:
            continue
        if boolean:
            out[at[row]] = _TRUE if values[row] else _FALSE
        else:
            out[at[row]] = _NUMBER
            write_number(out, at[row] + 1, _unsigned(values[row]))


@jit
def pair_lengths(first, second, wanted):
    """The bytes of every pair that is wanted; 0 for others, and for those with a large number."""
    lengths = np.zeros(len(first), np.int64)
    for row in range(len(first)):
        if wanted[row] and _small(first[row]) and _small(second[row]):
            lengths[row] = 4 + number_length(_unsigned(first[row])) + number_length(_unsigned(second[row]))
    return lengths


@jit
def write_pairs(first, second, lengths, out, at):
    """Writes pairs, each where `at` says; not those of no length, nor those whose place is negative."""
    for row in range(len(lengths)):
        place = at[row]
        if lengths[row] == 0 or place < 0:
            continue
        out[place], out[place + 1], out[place + 2] = _TUPLE, 2, _NUMBER
        place = write_number(out, place + 3, _unsigned(first[row]))
        out[place] = _NUMBER
        write_number(out, place + 1, _unsigned(second[row]))


@jit
def _are_bytes(cells):
    low = high = np.int64(0)
    for cell in cells:
        low, high = min(low, np.int64(cell)), max(high, np.int64(cell))
    return low >= 0 and high < 256


@jit
def grid_lengths(cells, offsets, height, width, wanted):
    """The bytes of every grid that is wanted; 0 for others. One that is not of cells of one byte is tuples."""
    lengths = np.zeros(len(height), np.int64)
    for row in range(len(height)):
        if not wanted[row]:
            continue
        part = cells[offsets[row] : offsets[row + 1]]
        if len(part) and (cells.itemsize == 1 or _are_bytes(part)):
            lengths[row] = 1 + number_length(height[row]) + number_length(width[row]) + len(part)
            continue
        total = 1 + number_length(height[row]) + height[row] * (1 + number_length(width[row]))
        for cell in part:
            total += 9 if cell == NAN_COLOR else 1 + number_length(_unsigned(np.int64(cell)))
        lengths[row] = total
    return lengths


@jit
def write_grids(cells, offsets, height, width, lengths, out, at):
    """Writes grids, each where `at` says; not those of no length, nor those whose place is negative."""
    for row in range(len(height)):
        place = at[row]
        if lengths[row] == 0 or place < 0:
            continue
        size = offsets[row + 1] - offsets[row]
        if size and lengths[row] == 1 + number_length(height[row]) + number_length(width[row]) + size:
            out[place] = _GRID
            place = write_number(out, write_number(out, place + 1, height[row]), width[row])
            assign(out[place : place + size], cells[offsets[row] : offsets[row + 1]])
            continue
        out[place] = _TUPLE
        place, cell = write_number(out, place + 1, height[row]), offsets[row]
        for _ in range(height[row]):
            out[place] = _TUPLE
            place = write_number(out, place + 1, width[row])
            for _ in range(width[row]):
                if cells[cell] == NAN_COLOR:
                    assign(out[place : place + 9], _NAN)
                    place += 9
                else:
                    out[place] = _NUMBER
                    place = write_number(out, place + 1, _unsigned(np.int64(cells[cell])))
                cell += 1


@jit
def _is_grid(values, inner, begin, end):
    """Whether tuples of numbers are the rows of a grid of cells of one byte."""
    if begin == end or inner[begin] == inner[begin + 1]:
        return False
    width = inner[begin + 1] - inner[begin]
    for row in range(begin, end):
        if inner[row + 1] - inner[row] != width:
            return False
        for place in range(inner[row], inner[row + 1]):
            if not 0 <= values[place] < 256:
                return False
    return True


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
                large |= not _small(values[at])
                total += 1 + number_length(_unsigned(values[at]))
        lengths[row] = 0 if large else total
    return lengths


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
def _color(key):
    """The third number of a triple."""
    return (key & FIELD) - BIAS


@jit
def set_lengths(keys, offsets, wanted):
    """The bytes of every set of triples that is wanted; 0 for others."""
    lengths = np.zeros(len(offsets) - 1, np.int64)
    for row in range(len(lengths)):
        if not wanted[row]:
            continue
        total = 1 + number_length(offsets[row + 1] - offsets[row])
        for at in range(offsets[row], offsets[row + 1]):
            key = keys[at]
            total += 4 + number_length(_unsigned((key >> 2 * BITS) - COLOR_BIAS))
            total += number_length(_unsigned((key >> BITS & FIELD) - BIAS))
            total += 9 if _color(key) == NAN_COLOR else 1 + number_length(_unsigned(_color(key)))
        lengths[row] = total
    return lengths


@jit
def write_sets(keys, offsets, lengths, out, at):
    """Writes sets of triples, each where `at` says; not those of no length, nor those whose place is negative."""
    for row in range(len(lengths)):
        place = at[row]
        if lengths[row] == 0 or place < 0:
            continue
        out[place] = _SET
        place = write_number(out, place + 1, offsets[row + 1] - offsets[row])
        for number in range(offsets[row], offsets[row + 1]):
            key = keys[number]
            out[place], out[place + 1], out[place + 2] = _TUPLE, 3, _NUMBER
            place = write_number(out, place + 3, _unsigned((key >> 2 * BITS) - COLOR_BIAS))
            out[place] = _NUMBER
            place = write_number(out, place + 1, _unsigned((key >> BITS & FIELD) - BIAS))
            if _color(key) == NAN_COLOR:
                assign(out[place : place + 9], _NAN)
                place += 9
            else:
                out[place] = _NUMBER
                place = write_number(out, place + 1, _unsigned(_color(key)))


@jit
def write_rows(flat, offsets, out, at):
    """Writes the bytes of rows, each where `at` says; not those whose place is negative."""
    for row in range(len(at)):
        if at[row] >= 0:
            length = offsets[row + 1] - offsets[row]
            assign(out[at[row] : at[row] + length], flat[offsets[row] : offsets[row + 1]])


@jit
def write_fixed(text, starts, numbers, first, last, where, out):
    """Writes some parts of a text, the same for all samples, each where its line of `where` says; not where that is
    negative."""
    for part in range(first, last):
        data = text[starts[part] : starts[part + 1]]
        for place in where[numbers[part]]:
            if place >= 0:
                assign(out[place : place + len(data)], data)


@jit
def write_constants(flat, offsets, numbers, lengths, out, at):
    """Writes for every row one of some values; not for rows of no length, nor for those whose place is negative."""
    for row in range(len(at)):
        if lengths[row] and at[row] >= 0:
            start = offsets[numbers[row]]
            assign(out[at[row] : at[row] + lengths[row]], flat[start : start + lengths[row]])
