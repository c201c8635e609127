"""Solvers for tasks whose answer is a part of the grid, found by what sets it apart."""

from ..vocabulary.arc import *


# Overlay the two halves: keep what both have.
def solve_0520fde7(I):
    x1 = lefthalf(I)
    x2 = righthalf(I)
    x3 = cellwise(x1, x2, ZERO)
    O = replace(x3, ONE, TWO)
    return O


# Overlay the two halves: mark what both leave empty.
def solve_1b2d62fb(I):
    x1 = hsplit(I, TWO)
    x2 = rbind(ofcolor, ZERO)
    x3 = apply(x2, x1)
    x4 = first(x3)
    x5 = last(x3)
    x6 = intersection(x4, x5)
    x7 = first(x1)
    x8 = shape(x7)
    x9 = canvas(ZERO, x8)
    O = fill(x9, EIGHT, x6)
    return O


# Overlay the two halves: mark what exactly one of them has.
def solve_3428a4f5(I):
    x1 = tophalf(I)
    x2 = bottomhalf(I)
    x3 = ofcolor(x1, TWO)
    x4 = ofcolor(x2, TWO)
    x5 = combine(x3, x4)
    x6 = intersection(x3, x4)
    x7 = difference(x5, x6)
    x8 = shape(x1)
    x9 = canvas(ZERO, x8)
    O = fill(x9, THREE, x7)
    return O


# Overlay the two halves: mark the cells that are empty in the halves alike.
def solve_6430c8c4(I):
    x1 = tophalf(I)
    x2 = bottomhalf(I)
    x3 = cellwise(x1, x2, ONE)
    x4 = replace(x3, ZERO, THREE)
    O = replace(x4, ONE, ZERO)
    return O


# Lay the four quarters over each other, each with its own precedence.
def solve_75b8110e(I):
    x1 = tophalf(I)
    x2 = bottomhalf(I)
    x3 = lefthalf(x1)
    x4 = righthalf(x1)
    x5 = lefthalf(x2)
    x6 = righthalf(x2)
    x7 = ofcolor(x6, NINE)
    x8 = ofcolor(x5, SIX)
    x9 = ofcolor(x4, FIVE)
    x10 = fill(x3, NINE, x7)
    x11 = fill(x10, SIX, x8)
    O = fill(x11, FIVE, x9)
    return O


# Cut out the object and set it twice side by side.
def solve_28bf18c6(I):
    x1 = objects(I, T, T, T)
    x2 = first(x1)
    x3 = subgrid(x2, I)
    O = hconcat(x3, x3)
    return O


# Cut out the only object.
def solve_1cf80156(I):
    x1 = leastcolor(I)
    x2 = ofcolor(I, x1)
    O = subgrid(x2, I)
    return O


# Cut out the smallest of the rectangles.
def solve_23b5c85d(I):
    x1 = fgpartition(I)
    x2 = argmin(x1, size)
    O = subgrid(x2, I)
    return O


# Of the four fields between the bars, keep the one unlike the others.
def solve_2dc579da(I):
    x1 = hsplit(I, TWO)
    x2 = rbind(vsplit, TWO)
    x3 = mapply(x2, x1)
    O = leastcommon(x3)
    return O


# Keep the first of the three repeats.
def solve_2dee498d(I):
    x1 = hsplit(I, THREE)
    O = first(x1)
    return O


# Cut out the shape that occurs most often.
def solve_39a8645d(I):
    x1 = objects(I, T, T, T)
    x2 = totuple(x1)
    x3 = apply(normalize, x2)
    x4 = mostcommon(x3)
    x5 = shape(x4)
    x6 = canvas(ZERO, x5)
    O = paint(x6, x4)
    return O


# Cut out what four dots enclose, in the colour of the dots.
def solve_3de23699(I):
    x1 = fgpartition(I)
    x2 = sizefilter(x1, FOUR)
    x3 = first(x2)
    x4 = subgrid(x3, I)
    x5 = trim(x4)
    x6 = palette(x5)
    x7 = other(x6, ZERO)
    x8 = color(x3)
    O = replace(x5, x7, x8)
    return O


# A small square in the colour of the frame that takes up the most room.
def solve_445eab21(I):
    x1 = objects(I, T, T, T)
    x2 = compose(size, backdrop)
    x3 = argmax(x1, x2)
    x4 = color(x3)
    O = canvas(x4, TWO_BY_TWO)
    return O


# Cut out the object below the marker.
def solve_48d8fb45(I):
    x1 = objects(I, F, T, T)
    x2 = matcher(numcolors, TWO)
    x3 = extract(x1, x2)
    x4 = matcher(first, FIVE)
    x5 = compose(flip, x4)
    x6 = sfilter(x3, x5)
    O = subgrid(x6, I)
    return O


# Cut out the object with a marked cell, the mark painted over.
def solve_5117e062(I):
    x1 = objects(I, F, T, T)
    x2 = argmax(x1, numcolors)
    x3 = mostcolor(x2)
    x4 = subgrid(x2, I)
    O = replace(x4, EIGHT, x3)
    return O


# Keep the upper right corner of the grid.
def solve_5bd6f4ac(I):
    x1 = tojvec(SIX)
    O = crop(I, x1, THREE_BY_THREE)
    return O


# Fit the two pieces together into a full square.
def solve_681b3aeb(I):
    x1 = objects(I, T, T, T)
    x2 = fork(contained, ulcorner, toindices)
    x3 = sfilter(x1, x2)
    x4 = argmax(x3, size)
    x5 = other(x1, x4)
    x6 = color(x5)
    x7 = canvas(x6, THREE_BY_THREE)
    x8 = normalize(x4)
    O = paint(x7, x8)
    return O


# Keep what is between the two marked columns, one cell beyond their ends.
def solve_3f7978a0(I):
    x1 = fgpartition(I)
    x2 = matcher(color, FIVE)
    x3 = extract(x1, x2)
    x4 = ulcorner(x3)
    x5 = lrcorner(x3)
    x6 = subtract(x5, x4)
    x7 = astuple(THREE, ONE)
    x8 = add(x6, x7)
    x9 = add(x4, UP)
    O = crop(I, x9, x8)
    return O


# Lay all groups over each other, their grey cells at the centre.
def solve_137eaa0f(I):
    x1 = objects(I, F, T, T)
    x2 = matcher(first, FIVE)
    x3 = rbind(extract, x2)
    x4 = compose(last, x3)
    x5 = lbind(subtract, UNITY)
    x6 = compose(x5, x4)
    x7 = fork(shift, identity, x6)
    x8 = mapply(x7, x1)
    x9 = canvas(ZERO, THREE_BY_THREE)
    O = paint(x9, x8)
    return O
