"""Solvers for tasks about enlarging, tiling and rearranging whole grids."""

from ..vocabulary.arc import *


# Put a copy of the grid wherever the enlarged grid is filled.
def solve_007bbfb7(I):
    x1 = repeat(I, THREE)
    x2 = merge(x1)
    x3 = dmirror(x2)
    x4 = repeat(x3, THREE)
    x5 = merge(x4)
    x6 = dmirror(x5)
    x7 = upscale(I, THREE)
    O = cellwise(x6, x7, ZERO)
    return O


# Continue the vertical pattern by three rows and recolour it.
def solve_017c7c7b(I):
    x1 = asobject(I)
    x2 = vperiod(x1)
    x3 = height(I)
    x4 = divide(x3, x2)
    x5 = multiply(x2, x4)
    x6 = subtract(x3, x5)
    x7 = toivec(x6)
    x8 = crop(I, x7, THREE_BY_THREE)
    x9 = vconcat(I, x8)
    O = replace(x9, ONE, TWO)
    return O


# Continue the diagonal stripes of three colours over the whole grid.
def solve_05269061(I):
    x1 = rbind(shoot, UP_RIGHT)
    x2 = rbind(shoot, DOWN_LEFT)
    x3 = fork(combine, x1, x2)
    x4 = lbind(mapply, x3)
    x5 = compose(x4, toindices)
    x6 = fork(recolor, color, x5)
    x7 = fgpartition(I)
    x8 = mapply(x6, x7)
    x9 = initset(x8)
    x10 = double(SIX)
    x11 = invert(x10)
    x12 = increment(x10)
    x13 = interval(x11, x12, THREE)
    x14 = apply(tojvec, x13)
    x15 = prapply(shift, x9, x14)
    x16 = merge(x15)
    O = paint(I, x16)
    return O


# Exchange four pairs of colours.
def solve_0d3d703e(I):
    x1 = switch(I, ONE, FIVE)
    x2 = switch(x1, TWO, SIX)
    x3 = switch(x2, THREE, FOUR)
    O = switch(x3, EIGHT, NINE)
    return O


# Tile the grid two by two and mark the diagonal neighbours of its dots.
def solve_10fcaaa3(I):
    x1 = hconcat(I, I)
    x2 = vconcat(x1, x1)
    x3 = fgpartition(x2)
    x4 = merge(x3)
    x5 = toindices(x4)
    x6 = mapply(ineighbors, x5)
    O = underfill(x2, EIGHT, x6)
    return O


# Let the dots of each column fall to the bottom, their order unchanged.
def solve_1e0a9b12(I):
    x1 = dmirror(I)
    x2 = rbind(order, positive)
    x3 = apply(x2, x1)
    O = dmirror(x3)
    return O


# Let the bars of each column rise until they meet the block above.
def solve_3906de3d(I):
    x1 = dmirror(I)
    x2 = matcher(identity, ZERO)
    x3 = rbind(order, x2)
    x4 = apply(x3, x1)
    O = dmirror(x4)
    return O


# Enlarge the corner and the centre of the square, and the grid with them.
def solve_4522001f(I):
    x1 = ofcolor(I, THREE)
    x2 = ineighbors(UNITY)
    x3 = intersection(x1, x2)
    x4 = insert(UNITY, x3)
    x5 = recolor(THREE, x4)
    x6 = upscale(x5, FOUR)
    x7 = shape(I)
    x8 = multiply(x7, THREE)
    x9 = canvas(ZERO, x8)
    O = paint(x9, x6)
    return O


# Drop the empty rows and columns and enlarge what is left fourfold.
def solve_46f33fce(I):
    x1 = rot180(I)
    x2 = downscale(x1, TWO)
    x3 = rot180(x2)
    O = upscale(x3, FOUR)
    return O


# Enlarge by the number of colours; rays leave the corners of the square.
def solve_469497ad(I):
    x1 = numcolors(I)
    x2 = decrement(x1)
    x3 = upscale(I, x2)
    x4 = objects(x3, T, F, T)
    x5 = sfilter(x4, square)
    x6 = argmax(x5, size)
    x7 = ulcorner(x6)
    x8 = shoot(x7, NEG_UNITY)
    x9 = urcorner(x6)
    x10 = shoot(x9, UP_RIGHT)
    x11 = llcorner(x6)
    x12 = shoot(x11, DOWN_LEFT)
    x13 = lrcorner(x6)
    x14 = shoot(x13, UNITY)
    x15 = combine(x8, x10)
    x16 = combine(x12, x14)
    x17 = combine(x15, x16)
    O = underfill(x3, TWO, x17)
    return O


# Extend the border of the grid by one cell on each side, corners left empty.
def solve_49d1d64f(I):
    x1 = shape(I)
    x2 = add(x1, TWO)
    x3 = canvas(ZERO, x2)
    x4 = asobject(I)
    x5 = shift(x4, UNITY)
    x6 = lbind(shift, x5)
    x7 = dneighbors(ORIGIN)
    x8 = mapply(x6, x7)
    x9 = paint(x3, x8)
    O = paint(x9, x5)
    return O


# List the colours of the stripes, as a row or as a column.
def solve_746b3537(I):
    x1 = objects(I, T, F, F)
    x2 = order(x1, ulcorner)
    x3 = apply(color, x2)
    x4 = repeat(x3, ONE)
    x5 = valmax(x1, leftmost)
    x6 = positive(x5)
    x7 = branch(x6, identity, dmirror)
    O = x7(x4)
    return O


# Drop the repeated rows and the repeated columns.
def solve_7b7f7511(I):
    x1 = dedupe(I)
    x2 = dmirror(x1)
    x3 = dedupe(x2)
    O = dmirror(x3)
    return O


# Give each dot the colour of the border on its half of the grid.
def solve_2204b7a8(I):
    x1 = asindices(I)
    x2 = urcorner(x1)
    x3 = index(I, ORIGIN)
    x4 = index(I, x2)
    x5 = equality(x3, x4)
    x6 = branch(x5, identity, dmirror)
    x7 = x6(I)
    x8 = tophalf(x7)
    x9 = bottomhalf(x7)
    x10 = llcorner(x1)
    x11 = index(x7, x10)
    x12 = replace(x8, THREE, x3)
    x13 = replace(x9, THREE, x11)
    x14 = vconcat(x12, x13)
    O = x6(x14)
    return O
