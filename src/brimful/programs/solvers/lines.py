"""Solvers of tasks that draw lines and move things: rays, connections, steps, gravity."""

from ..vocabulary.arc import *


# Cyan cells in one row or one column are joined.
def solve_ded97339(I):
    x1 = ofcolor(I, EIGHT)
    x2 = prapply(connect, x1, x1)
    x3 = fork(either, vline, hline)
    x4 = mfilter(x2, x3)
    O = fill(I, EIGHT, x4)
    return O


# A red cell between two blue ones that stand one step apart.
def solve_a699fb00(I):
    x1 = ofcolor(I, ONE)
    x2 = shift(x1, RIGHT)
    x3 = shift(x1, LEFT)
    x4 = intersection(x2, x3)
    O = fill(I, TWO, x4)
    return O


# Cells in the rows or columns of the green square are joined to it.
def solve_d43fd935(I):
    x1 = ofcolor(I, THREE)
    x2 = ofcolor(I, ZERO)
    x3 = combine(x1, x2)
    x4 = asindices(I)
    x5 = difference(x4, x3)
    x6 = toobject(x5, I)
    x7 = apply(initset, x6)
    x8 = rbind(hmatching, x1)
    x9 = rbind(vmatching, x1)
    x10 = fork(either, x8, x9)
    x11 = sfilter(x7, x10)
    x12 = rbind(gravitate, x1)
    x13 = fork(add, center, x12)
    x14 = fork(connect, center, x13)
    x15 = fork(recolor, color, x14)
    x16 = mapply(x15, x11)
    O = underpaint(I, x16)
    return O


# A red line along its row, a cyan line along its column, yellow where they cross.
def solve_bdad9b1f(I):
    x1 = ofcolor(I, TWO)
    x2 = ofcolor(I, EIGHT)
    x3 = mapply(hfrontier, x1)
    x4 = mapply(vfrontier, x2)
    x5 = fill(I, TWO, x3)
    x6 = fill(x5, EIGHT, x4)
    x7 = intersection(x3, x4)
    O = fill(x6, FOUR, x7)
    return O


# Every colour runs straight down.
def solve_d037b0a7(I):
    x1 = asobject(I)
    x2 = matcher(first, ZERO)
    x3 = compose(flip, x2)
    x4 = sfilter(x1, x3)
    x5 = rbind(shoot, DOWN)
    x6 = compose(x5, last)
    x7 = fork(recolor, first, x6)
    x8 = mapply(x7, x4)
    O = paint(I, x8)
    return O


# Every colour runs down and right, on a grid of twice the size.
def solve_d13f3404(I):
    x1 = asobject(I)
    x2 = matcher(first, ZERO)
    x3 = compose(flip, x2)
    x4 = sfilter(x1, x3)
    x5 = rbind(shoot, UNITY)
    x6 = compose(x5, last)
    x7 = fork(recolor, first, x6)
    x8 = mapply(x7, x4)
    x9 = shape(I)
    x10 = double(x9)
    x11 = canvas(ZERO, x10)
    O = paint(x11, x8)
    return O


# Every cell runs right to the edge and from there down, the lower ones over the upper ones.
def solve_99fa7670(I):
    x1 = objects(I, T, F, T)
    x2 = order(x1, uppermost)
    x3 = rbind(shoot, RIGHT)
    x4 = compose(x3, center)
    x5 = fork(recolor, color, x4)
    x6 = mapply(x5, x2)
    x7 = paint(I, x6)
    x8 = width(I)
    x9 = decrement(x8)
    x10 = rbind(astuple, x9)
    x11 = compose(x10, uppermost)
    x12 = rbind(shoot, DOWN)
    x13 = compose(x12, x11)
    x14 = fork(recolor, color, x13)
    x15 = mapply(x14, x2)
    O = paint(x7, x15)
    return O


# A red bar continued as a staircase: green and longer upwards, blue and shorter downwards.
def solve_a65b410d(I):
    x1 = ofcolor(I, TWO)
    x2 = urcorner(x1)
    x3 = shoot(x2, UP_RIGHT)
    x4 = shoot(x2, DOWN_LEFT)
    x5 = rbind(shoot, LEFT)
    x6 = mapply(x5, x3)
    x7 = mapply(x5, x4)
    x8 = underfill(I, THREE, x6)
    O = underfill(x8, ONE, x7)
    return O


# From the red cell along its row, then along the column of the green cell.
def solve_a2fd1cf0(I):
    x1 = ofcolor(I, TWO)
    x2 = ofcolor(I, THREE)
    x3 = first(x1)
    x4 = first(x2)
    x5 = first(x3)
    x6 = last(x4)
    x7 = astuple(x5, x6)
    x8 = connect(x3, x7)
    x9 = connect(x7, x4)
    x10 = combine(x8, x9)
    O = underfill(I, EIGHT, x10)
    return O


# From the cyan cell along its column, then along the row of the red cell.
def solve_d4a91cb9(I):
    x1 = ofcolor(I, TWO)
    x2 = ofcolor(I, EIGHT)
    x3 = uppermost(x1)
    x4 = leftmost(x2)
    x5 = astuple(x3, x4)
    x6 = center(x1)
    x7 = center(x2)
    x8 = connect(x6, x5)
    x9 = connect(x5, x7)
    x10 = combine(x8, x9)
    O = underfill(I, FOUR, x10)
    return O


# Every second column from the cell on has its colour; grey marks between them, above and below in turn.
def solve_8403a5d5(I):
    x1 = leastcolor(I)
    x2 = ofcolor(I, x1)
    x3 = leftmost(x2)
    x4 = interval(x3, TEN, TWO)
    x5 = apply(tojvec, x4)
    x6 = mapply(vfrontier, x5)
    x7 = fill(I, x1, x6)
    x8 = increment(x3)
    x9 = interval(x8, TEN, FOUR)
    x10 = apply(tojvec, x9)
    x11 = fill(x7, FIVE, x10)
    x12 = add(x3, THREE)
    x13 = interval(x12, TEN, FOUR)
    x14 = lbind(astuple, NINE)
    x15 = apply(x14, x13)
    O = fill(x11, FIVE, x15)
    return O


# Two lines across the grid step left and down, once for each grey cell.
def solve_e48d4e1a(I):
    x1 = frontiers(I)
    x2 = extract(x1, vline)
    x3 = other(x1, x2)
    x4 = color(x2)
    x5 = colorcount(I, FIVE)
    x6 = leftmost(x2)
    x7 = uppermost(x3)
    x8 = subtract(x6, x5)
    x9 = add(x7, x5)
    x10 = astuple(x9, x8)
    x11 = vfrontier(x10)
    x12 = hfrontier(x10)
    x13 = shape(I)
    x14 = canvas(ZERO, x13)
    x15 = fill(x14, x4, x11)
    O = fill(x15, x4, x12)
    return O


# The shape becomes red and steps down.
def solve_a79310a0(I):
    x1 = ofcolor(I, EIGHT)
    x2 = recolor(TWO, x1)
    O = move(I, x2, DOWN)
    return O


# The green cell steps towards the yellow one.
def solve_dc433765(I):
    x1 = ofcolor(I, THREE)
    x2 = ofcolor(I, FOUR)
    x3 = center(x1)
    x4 = center(x2)
    x5 = subtract(x4, x3)
    x6 = sign(x5)
    x7 = recolor(THREE, x1)
    O = move(I, x7, x6)
    return O


# The red shape moves in between the four green corners.
def solve_a1570a43(I):
    x1 = ofcolor(I, TWO)
    x2 = ofcolor(I, THREE)
    x3 = inbox(x2)
    x4 = ulcorner(x3)
    x5 = ulcorner(x1)
    x6 = subtract(x4, x5)
    x7 = recolor(TWO, x1)
    O = move(I, x7, x6)
    return O


# The red cell bursts: four colours at its corners.
def solve_a9f96cdd(I):
    x1 = ofcolor(I, TWO)
    x2 = cover(I, x1)
    x3 = shift(x1, NEG_UNITY)
    x4 = shift(x1, UP_RIGHT)
    x5 = shift(x1, DOWN_LEFT)
    x6 = shift(x1, UNITY)
    x7 = fill(x2, THREE, x3)
    x8 = fill(x7, SIX, x4)
    x9 = fill(x8, EIGHT, x5)
    O = fill(x9, SEVEN, x6)
    return O


# Grey cells move up to the red square: each to the place around it that is nearest.
def solve_a48eeaf7(I):
    x1 = ofcolor(I, TWO)
    x2 = ofcolor(I, FIVE)
    x3 = outbox(x1)
    x4 = apply(initset, x3)
    x5 = lbind(lbind, manhattan)
    x6 = lbind(argmin, x4)
    x7 = chain(x6, x5, initset)
    x8 = mapply(x7, x2)
    x9 = cover(I, x2)
    O = fill(x9, FIVE, x8)
    return O


# Each cell around goes into the nearest place of the cyan square.
def solve_d89b689b(I):
    x1 = ofcolor(I, EIGHT)
    x2 = apply(initset, x1)
    x3 = fgpartition(I)
    x4 = colorfilter(x3, EIGHT)
    x5 = difference(x3, x4)
    x6 = lbind(lbind, manhattan)
    x7 = lbind(argmin, x2)
    x8 = compose(x7, x6)
    x9 = fork(recolor, color, x8)
    x10 = mapply(x9, x5)
    x11 = merge(x5)
    x12 = cover(I, x11)
    O = paint(x12, x10)
    return O


# Diagonals run up and outwards from the upper corners of the inner part of the base.
def solve_b8cdaf2b(I):
    x1 = leastcolor(I)
    x2 = ofcolor(I, x1)
    x3 = shift(x2, UP)
    x4 = ulcorner(x3)
    x5 = urcorner(x3)
    x6 = shoot(x4, NEG_UNITY)
    x7 = shoot(x5, UP_RIGHT)
    x8 = combine(x6, x7)
    O = underfill(I, x1, x8)
    return O


# Both diagonals of the grid are emptied.
def solve_ea786f4a(I):
    x1 = asindices(I)
    x2 = ulcorner(x1)
    x3 = lrcorner(x1)
    x4 = urcorner(x1)
    x5 = llcorner(x1)
    x6 = connect(x2, x3)
    x7 = connect(x4, x5)
    x8 = combine(x6, x7)
    O = fill(I, ZERO, x8)
    return O


# A bar in a single row grows by one cell in each row below.
def solve_bbc9ae5d(I):
    x1 = index(I, ORIGIN)
    x2 = ofcolor(I, x1)
    x3 = urcorner(x2)
    x4 = shoot(x3, UNITY)
    x5 = rbind(shoot, LEFT)
    x6 = mapply(x5, x4)
    x7 = width(I)
    x8 = halve(x7)
    x9 = astuple(x8, x7)
    x10 = canvas(ZERO, x9)
    O = fill(x10, x1, x6)
    return O


# The bars stacked by length, the longest lowest, all at the right edge.
def solve_beb8660c(I):
    x1 = objects(I, T, F, F)
    x2 = colorfilter(x1, ZERO)
    x3 = difference(x1, x2)
    x4 = compose(invert, size)
    x5 = order(x3, x4)
    x6 = height(I)
    x7 = decrement(x6)
    x8 = interval(x7, NEG_ONE, NEG_ONE)
    x9 = width(I)
    x10 = lbind(subtract, x9)
    x11 = compose(x10, size)
    x12 = apply(x11, x5)
    x13 = pair(x8, x12)
    x14 = apply(normalize, x5)
    x15 = papply(shift, x14, x13)
    x16 = merge(x15)
    x17 = shape(I)
    x18 = canvas(ZERO, x17)
    O = paint(x18, x16)
    return O


# Diagonals up and right from the lower edge of a square, its side five times the number of coloured cells.
def solve_feca6190(I):
    x1 = asobject(I)
    x2 = matcher(first, ZERO)
    x3 = compose(flip, x2)
    x4 = sfilter(x1, x3)
    x5 = size(x4)
    x6 = multiply(x5, FIVE)
    x7 = decrement(x6)
    x8 = toivec(x7)
    x9 = shift(x4, x8)
    x10 = rbind(shoot, UP_RIGHT)
    x11 = compose(x10, last)
    x12 = fork(recolor, first, x11)
    x13 = mapply(x12, x9)
    x14 = astuple(x6, x6)
    x15 = canvas(ZERO, x14)
    O = paint(x15, x13)
    return O
