"""Results as bytes, compiled for the CPU. The plain twins are in `../records.py`."""

import numpy as np

from ..compiled import jit

_GRID = ord("G")


@jit
def _number_length(number):
    length = 1
    while number >= 128:
        number >>= 7
        length += 1
    return length


@jit
def _write_number(out, at, number):
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
        joined = np.int64(0)
        for at in range(offsets[row], offsets[row + 1]):
            joined |= cells[at]
        if 0 <= joined < 256:
            lengths[row] = 1 + _number_length(height[row]) + _number_length(width[row]) + height[row] * width[row]
    return lengths


@jit
def grid_bytes(cells, offsets, height, width, starts):
    """The bytes of grids, which begin at `starts`; a grid of no bytes is left out."""
    out = np.empty(starts[-1], np.uint8)
    for row in range(len(height)):
        at = starts[row]
        if starts[row + 1] == at:
            continue
        out[at] = _GRID
        at = _write_number(out, _write_number(out, at + 1, height[row]), width[row])
        for cell in range(offsets[row], offsets[row + 1]):
            out[at] = cells[cell]
            at += 1
    return out


@jit
def joined(fixed, fixed_starts, program, node, ended, values, starts):
    """The parts of every sample, one after the other, and where samples begin.

    A part is of a program, and the bytes of a node's value, or fixed ones where its node is -1. Of a program that ended
    nothing is written but the parts whose program is negative: -1 for all samples, and -2 - p where p ended.
    """
    samples = ended.shape[1]
    offsets = np.zeros(samples + 1, np.int64)
    for sample in range(samples):
        total = 0
        for part in range(len(program)):
            if _left_out(program[part], ended, sample):
                continue
            if node[part] < 0:
                total += fixed_starts[part + 1] - fixed_starts[part]
            else:
                total += starts[node[part], sample + 1] - starts[node[part], sample]
        offsets[sample + 1] = offsets[sample] + total
    out = np.empty(offsets[-1], np.uint8)
    for sample in range(samples):
        at = offsets[sample]
        for part in range(len(program)):
            if _left_out(program[part], ended, sample):
                continue
            if node[part] < 0:
                begin, end = fixed_starts[part], fixed_starts[part + 1]
                out[at : at + end - begin] = fixed[begin:end]
            else:
                begin, end = starts[node[part], sample], starts[node[part], sample + 1]
                out[at : at + end - begin] = values[begin:end]
            at += end - begin
    return out, offsets


@jit
def _left_out(program, ended, sample):
    if program >= 0:
        return ended[program, sample]
    return program < -1 and not ended[-2 - program, sample]
