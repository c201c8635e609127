"""Solvers for tasks about filling insides, holes and gaps."""

from ..vocabulary.arc import *


# Fill the regions that the outline encloses.
def solve_00d62c1b(I):
    x1 = objects(I, T, F, F)
    x2 = colorfilter(x1, ZERO)
    x3 = rbind(bordering, I)
    x4 = compose(flip, x3)
    x5 = mfilter(x2, x4)
    O = fill(I, FOUR, x5)
    return O


# Fill the missing corner of each hook.
def solve_3aa6fb7a(I):
    x1 = objects(I, T, F, T)
    x2 = mapply(delta, x1)
    O = fill(I, ONE, x2)
    return O


# Connect the dots of each colour, the columns in front of the rows.
def solve_40853293(I):
    x1 = fgpartition(I)
    x2 = fork(recolor, color, backdrop)
    x3 = apply(x2, x1)
    x4 = mfilter(x3, vline)
    x5 = mfilter(x3, hline)
    x6 = paint(I, x4)
    O = underpaint(x6, x5)
    return O


# Hollow out the rectangles.
def solve_4347f46a(I):
    x1 = objects(I, T, F, T)
    x2 = compose(backdrop, inbox)
    x3 = mapply(x2, x1)
    O = fill(I, ZERO, x3)
    return O


# Fill the inside of the rectangles: all but their outlines.
def solve_50cb2852(I):
    x1 = objects(I, T, F, T)
    x2 = fork(difference, backdrop, box)
    x3 = mapply(x2, x1)
    O = fill(I, EIGHT, x3)
    return O


# Fill the gaps in the bounding box of each figure.
def solve_60b61512(I):
    x1 = objects(I, T, T, T)
    x2 = mapply(delta, x1)
    O = fill(I, SEVEN, x2)
    return O


# Surround the place where the two lines cross.
def solve_67a423a3(I):
    x1 = fgpartition(I)
    x2 = extract(x1, portrait)
    x3 = other(x1, x2)
    x4 = uppermost(x3)
    x5 = leftmost(x2)
    x6 = astuple(x4, x5)
    x7 = neighbors(x6)
    O = fill(I, FOUR, x7)
    return O


# Replace each ring by a plus.
def solve_6c434453(I):
    x1 = canvas(ZERO, THREE_BY_THREE)
    x2 = asindices(x1)
    x3 = box(x2)
    x4 = recolor(ONE, x3)
    x5 = occurrences(I, x4)
    x6 = lbind(shift, x3)
    x7 = mapply(x6, x5)
    x8 = cover(I, x7)
    x9 = corners(x2)
    x10 = difference(x2, x9)
    x11 = lbind(shift, x10)
    x12 = mapply(x11, x5)
    O = fill(x8, TWO, x12)
    return O


# Keep the lines between facing dots of the rarest colour, and nothing else.
def solve_6cdd2623(I):
    x1 = leastcolor(I)
    x2 = ofcolor(I, x1)
    x3 = prapply(connect, x2, x2)
    x4 = sfilter(x3, hline)
    x5 = sfilter(x3, vline)
    x6 = width(I)
    x7 = height(I)
    x8 = sizefilter(x4, x6)
    x9 = sizefilter(x5, x7)
    x10 = combine(x8, x9)
    x11 = merge(x10)
    x12 = shape(I)
    x13 = canvas(ZERO, x12)
    O = fill(x13, x1, x11)
    return O


# Fill the gaps in the bounding box of the figure.
def solve_6d75e8bb(I):
    x1 = ofcolor(I, EIGHT)
    x2 = delta(x1)
    O = fill(I, TWO, x2)
    return O


# Draw the border of the grid.
def solve_6f8cd79b(I):
    x1 = asindices(I)
    x2 = box(x1)
    O = fill(I, EIGHT, x2)
    return O


# Colour the quarters of the pattern like the corners of the grid.
def solve_77fdfe62(I):
    x1 = power(trim, TWO)
    x2 = x1(I)
    x3 = width(I)
    x4 = decrement(x3)
    x5 = downscale(I, x4)
    x6 = width(x2)
    x7 = halve(x6)
    x8 = upscale(x5, x7)
    x9 = ofcolor(x2, ZERO)
    O = fill(x8, ZERO, x9)
    return O


# Fill the holes that are squares.
def solve_44d8ac46(I):
    x1 = objects(I, T, F, F)
    x2 = colorfilter(x1, ZERO)
    x3 = mfilter(x2, square)
    O = fill(I, TWO, x3)
    return O
