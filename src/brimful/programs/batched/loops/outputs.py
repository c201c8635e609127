"""Encoded results read where they lie, without decoding them: where outputs are, and the cells of those that are grids.

The bytes are those of `execution.encoding`. Compiled for the CPU; where nothing can be compiled, Python runs the same
loops.
"""

import numpy as np

from ..compiled import jit

_NONE, _TRUE, _FALSE, _FLOAT, _NUMBER = ord("N"), ord("T"), ord("F"), ord("d"), ord("i")
_TEXT, _FUNCTION, _GRID, _TUPLE, _SET = ord("s"), ord("f"), ord("G"), ord("("), ord("{")
_WIDE = 1 << 15  # numbers from which on a cell is none of a table


@jit
def _read(flat, at, end):
    """A whole number, and where it ends; beyond `end` where the bytes are damaged."""
    number = shift = 0
    while at < end and shift < 63:
        byte = np.int64(flat[at])
        number |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return number, at
    return 0, end + 1


@jit
def _skipped(flat, at, end):
    """Where the value that begins at `at` ends; beyond `end` where the bytes are damaged."""
    left = 1  # values yet to be passed
    while left > 0:
        if at >= end:
            return end + 1
        tag = flat[at]
        at, left = at + 1, left - 1
        if tag in (_NONE, _TRUE, _FALSE):
            continue
        if tag == _FLOAT:
            at += 8
        elif tag == _NUMBER:
            while at < end and flat[at] >= 128:
                at += 1
            at += 1
        elif tag in (_TEXT, _FUNCTION):
            size, at = _read(flat, at, end)
            at += size
        elif tag == _GRID:
            height, at = _read(flat, at, end)
            width, at = _read(flat, at, end)
            at += height * width
        elif tag in (_TUPLE, _SET):
            count, at = _read(flat, at, end)
            left += count
        else:
            return end + 1
    return at


@jit
def output_spans(flat, offsets, first):
    """Where the outputs of programs are in the bytes of samples: the last value of each record.

    Args:
        offsets: (N + 1,) where samples begin.
        first: (P + 1,) the number of every program's first output, among all of them.

    Returns:
        starts, ends: (N, K), both 0 where there is none: a program ended, or the sample itself failed.
        damaged: the first sample whose bytes are none of a result; -1 where all are.
    """
    samples, programs = len(offsets) - 1, len(first) - 1
    starts = np.zeros((samples, first[programs]), np.int64)
    ends = np.zeros((samples, first[programs]), np.int64)
    for sample in range(samples):
        at, end = offsets[sample], offsets[sample + 1]
        if at == end:
            continue
        count, at = _read(flat, at + 1, end)
        if count != programs:
            return starts, ends, sample
        for program in range(programs):
            if at >= end:
                return starts, ends, sample
            if flat[at] == _NONE:
                at += 1
                continue
            records, at = _read(flat, at + 3, end)  # a tuple of two, outputs and scores, is two bytes
            if records != first[program + 1] - first[program]:
                return starts, ends, sample
            for record in range(records):
                fields, at = _read(flat, at + 1, end)
                for field in range(fields):
                    if field == fields - 1:
                        starts[sample, first[program] + record] = at
                    at = _skipped(flat, at, end)
                ends[sample, first[program] + record] = at
            at = _skipped(flat, at, end)  # scores
            if at > end:
                return starts, ends, sample
    return starts, ends, -1


@jit
def grid_sizes(flat, starts, ends):
    """The rows and the cells of every value that is a grid, or rows of unequal length; -1 rows for any other."""
    rows, cells = np.full(len(starts), -1, np.int64), np.zeros(len(starts), np.int64)
    for value in range(len(starts)):
        at, end = starts[value], ends[value]
        if at == end:
            continue
        tag = flat[at]
        if tag == _GRID:
            height, at = _read(flat, at + 1, end)
            width, at = _read(flat, at, end)
            rows[value], cells[value] = height, height * width
        elif tag == _TUPLE:
            height, at = _read(flat, at + 1, end)
            total = _row_cells(flat, at, end, height)
            if height > 0 and total > 0:
                rows[value], cells[value] = height, total
    return rows, cells


@jit
def _row_cells(flat, at, end, rows):
    """The cells of rows that are tuples of small numbers; 0 where a row is empty, or anything else."""
    total = 0
    for _ in range(rows):
        if flat[at] != _TUPLE:
            return 0
        count, at = _read(flat, at + 1, end)
        if count == 0:
            return 0
        for _ in range(count):
            if flat[at] != _NUMBER:
                return 0
            number, at = _read(flat, at + 1, end)
            if number >= 2 * _WIDE - 1:
                return 0
        total += count
    return total


@jit
def write_grids(flat, starts, ends, rows, row_ends, cells):
    """Writes where the rows of all grids end, and their cells, one grid after the other.

    Args:
        rows: of every value; -1 for those that are no grids.
        row_ends: (all rows,), written.
        cells: (all cells,) int16, written.
    """
    row = cell = 0
    for value in range(len(starts)):
        if rows[value] < 0:
            continue
        at, end = starts[value], ends[value]
        if flat[at] == _GRID:
            height, at = _read(flat, at + 1, end)
            width, at = _read(flat, at, end)
            for _ in range(height):
                for _ in range(width):
                    cells[cell] = flat[at]
                    at, cell = at + 1, cell + 1
                row_ends[row] = cell
                row += 1
            continue
        _, at = _read(flat, at + 1, end)
        for _ in range(rows[value]):
            count, at = _read(flat, at + 1, end)
            for _ in range(count):
                number, at = _read(flat, at + 1, end)
                cells[cell] = -((number + 1) >> 1) if number & 1 else number >> 1
                cell += 1
            row_ends[row] = cell
            row += 1
