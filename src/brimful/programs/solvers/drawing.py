"""Solvers for tasks about lines, rays and neighbourhoods drawn from what is given."""

from ..vocabulary.arc import *


# Draw a plus around each dot of one colour and a cross around the other.
def solve_0ca9ddb6(I):
    x1 = ofcolor(I, ONE)
    x2 = ofcolor(I, TWO)
    x3 = mapply(dneighbors, x1)
    x4 = mapply(ineighbors, x2)
    x5 = fill(I, SEVEN, x3)
    O = fill(x5, FOUR, x4)
    return O


# Draw columns through the red dots, then rows through all the others.
def solve_178fcbfb(I):
    x1 = ofcolor(I, TWO)
    x2 = mapply(vfrontier, x1)
    x3 = fill(I, TWO, x2)
    x4 = ofcolor(I, THREE)
    x5 = mapply(hfrontier, x4)
    x6 = fill(x3, THREE, x5)
    x7 = ofcolor(I, ONE)
    x8 = mapply(hfrontier, x7)
    O = fill(x6, ONE, x8)
    return O


# Connect the two dots of each colour.
def solve_1f876c06(I):
    x1 = fgpartition(I)
    x2 = compose(first, toindices)
    x3 = compose(last, toindices)
    x4 = fork(connect, x2, x3)
    x5 = fork(recolor, color, x4)
    x6 = mapply(x5, x1)
    O = paint(I, x6)
    return O


# Fill each V-shaped figure by the lines between its own cells.
def solve_22168020(I):
    x1 = fgpartition(I)
    x2 = lbind(prapply, connect)
    x3 = fork(x2, toindices, toindices)
    x4 = compose(merge, x3)
    x5 = fork(recolor, color, x4)
    x6 = mapply(x5, x1)
    O = paint(I, x6)
    return O


# Mark where the columns of the upper dots meet the rows of the right ones.
def solve_2281f1f4(I):
    x1 = ofcolor(I, FIVE)
    x2 = apply(first, x1)
    x3 = apply(last, x1)
    x4 = product(x2, x3)
    x5 = urcorner(x4)
    x6 = remove(x5, x4)
    O = underfill(I, TWO, x6)
    return O


# Join the dots of one colour that face each other in a row.
def solve_22eb0ac0(I):
    x1 = fgpartition(I)
    x2 = matcher(height, ONE)
    x3 = sfilter(x1, x2)
    x4 = fork(recolor, color, backdrop)
    x5 = mapply(x4, x3)
    O = paint(I, x5)
    return O


# Draw a row and a column through both dots and mark where they cross.
def solve_23581191(I):
    x1 = initset(vfrontier)
    x2 = insert(hfrontier, x1)
    x3 = ofcolor(I, EIGHT)
    x4 = ofcolor(I, SEVEN)
    x5 = first(x3)
    x6 = first(x4)
    x7 = rapply(x2, x5)
    x8 = rapply(x2, x6)
    x9 = merge(x7)
    x10 = merge(x8)
    x11 = fill(I, EIGHT, x9)
    x12 = fill(x11, SEVEN, x10)
    x13 = intersection(x9, x10)
    O = fill(x12, TWO, x13)
    return O


# Connect the dots that share a row or a column.
def solve_253bf280(I):
    x1 = ofcolor(I, EIGHT)
    x2 = prapply(connect, x1, x1)
    x3 = fork(either, vline, hline)
    x4 = mfilter(x2, x3)
    O = underfill(I, THREE, x4)
    return O


# Shoot a ray from the odd cell through the tip of the triangle.
def solve_25d487eb(I):
    x1 = leastcolor(I)
    x2 = ofcolor(I, x1)
    x3 = first(x2)
    x4 = objects(I, F, F, T)
    x5 = merge(x4)
    x6 = center(x5)
    x7 = subtract(x6, x3)
    x8 = sign(x7)
    x9 = shoot(x3, x8)
    O = underfill(I, x1, x9)
    return O


# Draw each pair of dots as two half lines that meet at a grey cell.
def solve_29c11459(I):
    x1 = height(I)
    x2 = astuple(x1, ONE)
    x3 = crop(I, ORIGIN, x2)
    x4 = vmirror(I)
    x5 = crop(x4, ORIGIN, x2)
    x6 = hupscale(x3, FIVE)
    x7 = hupscale(x5, FIVE)
    x8 = asindices(x3)
    x9 = ofcolor(x3, ZERO)
    x10 = difference(x8, x9)
    x11 = fill(x3, FIVE, x10)
    x12 = hconcat(x6, x11)
    O = hconcat(x12, x7)
    return O


# Let each dot of the first row drip downwards in a zigzag of three branches.
def solve_3ac3eb23(I):
    x1 = fgpartition(I)
    x2 = lbind(mapply, ineighbors)
    x3 = compose(x2, toindices)
    x4 = fork(recolor, color, x3)
    x5 = mapply(x4, x1)
    x6 = merge(x1)
    x7 = combine(x5, x6)
    x8 = rbind(shift, TWO_BY_ZERO)
    x9 = fork(combine, identity, x8)
    x10 = power(x9, TWO)
    x11 = x10(x7)
    O = paint(I, x11)
    return O


# From the foot of the bar, draw a diagonal and a line along the bottom.
def solve_3bd67248(I):
    x1 = asindices(I)
    x2 = llcorner(x1)
    x3 = shoot(x2, UP_RIGHT)
    x4 = shoot(x2, RIGHT)
    x5 = underfill(I, TWO, x3)
    O = underfill(x5, FOUR, x4)
    return O


# Punch a hole into every second cell along the middle of each bar.
def solve_3bdb4ada(I):
    x1 = objects(I, T, F, T)
    x2 = matcher(first, ONE)
    x3 = chain(flip, even, last)
    x4 = fork(both, x2, x3)
    x5 = rbind(sfilter, x4)
    x6 = chain(x5, toindices, normalize)
    x7 = fork(shift, x6, ulcorner)
    x8 = mapply(x7, x1)
    O = fill(I, ZERO, x8)
    return O


# Draw a row and a column through the centre of each frame, behind it.
def solve_41e4d17e(I):
    x1 = objects(I, T, F, T)
    x2 = apply(center, x1)
    x3 = fork(combine, vfrontier, hfrontier)
    x4 = mapply(x3, x2)
    O = underfill(I, SIX, x4)
    return O


# Surround each dot with a ring.
def solve_4258a5f9(I):
    x1 = ofcolor(I, FIVE)
    x2 = mapply(neighbors, x1)
    O = fill(I, ONE, x2)
    return O


# Outline the frames and fill their insides.
def solve_543a7ed5(I):
    x1 = objects(I, T, F, T)
    x2 = mapply(outbox, x1)
    x3 = mapply(delta, x1)
    x4 = fill(I, THREE, x2)
    O = fill(x4, FOUR, x3)
    return O


# Mark the bottom row below the opening of each arch.
def solve_54d82841(I):
    x1 = objects(I, T, F, T)
    x2 = compose(last, center)
    x3 = apply(x2, x1)
    x4 = height(I)
    x5 = decrement(x4)
    x6 = initset(x5)
    x7 = product(x6, x3)
    O = fill(I, FOUR, x7)
    return O


# Fill the field around each dot with the colour five steps on.
def solve_54d9e175(I):
    x1 = objects(I, T, F, T)
    x2 = sizefilter(x1, ONE)
    x3 = rbind(add, FIVE)
    x4 = compose(x3, color)
    x5 = compose(backdrop, outbox)
    x6 = fork(recolor, x4, x5)
    x7 = mapply(x6, x2)
    O = paint(I, x7)
    return O


# Draw the rectangle that two dots of a colour span.
def solve_56ff96f3(I):
    x1 = fgpartition(I)
    x2 = fork(recolor, color, backdrop)
    x3 = mapply(x2, x1)
    O = paint(I, x3)
    return O


# One square sends a ray up to the left, the other down to the right.
def solve_5c0a986e(I):
    x1 = ofcolor(I, ONE)
    x2 = ofcolor(I, TWO)
    x3 = ulcorner(x1)
    x4 = lrcorner(x2)
    x5 = shoot(x3, NEG_UNITY)
    x6 = shoot(x4, UNITY)
    x7 = fill(I, ONE, x5)
    O = fill(x7, TWO, x6)
    return O


# Send rays from the dot along both diagonals.
def solve_623ea044(I):
    x1 = leastcolor(I)
    x2 = ofcolor(I, x1)
    x3 = ineighbors(ORIGIN)
    x4 = prapply(shoot, x2, x3)
    x5 = merge(x4)
    O = fill(I, x1, x5)
    return O
