"""Solvers of tasks about the shapes on the grid: which to choose, count, order or recolour."""

from ..vocabulary.arc import *


# The largest shape, cut out.
def solve_be94b721(I):
    x1 = objects(I, T, F, T)
    x2 = argmax(x1, size)
    O = subgrid(x2, I)
    return O


# The shape with the most blue cells, cut out.
def solve_ae4f1146(I):
    x1 = objects(I, F, F, T)
    x2 = rbind(colorcount, ONE)
    x3 = argmax(x1, x2)
    O = subgrid(x3, I)
    return O


# The rectangle of the rarest colour, cut out.
def solve_c909285e(I):
    x1 = leastcolor(I)
    x2 = ofcolor(I, x1)
    O = subgrid(x2, I)
    return O


# The shape cut out and made twice as large.
def solve_f25fbde4(I):
    x1 = ofcolor(I, FOUR)
    x2 = subgrid(x1, I)
    O = upscale(x2, TWO)
    return O


# The square cut out, its two colours exchanged.
def solve_b94a9452(I):
    x1 = objects(I, F, F, T)
    x2 = first(x1)
    x3 = subgrid(x2, I)
    x4 = mostcolor(x2)
    x5 = leastcolor(x2)
    O = switch(x3, x4, x5)
    return O


# Four corner pieces put together to a ring.
def solve_a61ba2ce(I):
    x1 = objects(I, T, F, T)
    x2 = compose(initset, ulcorner)
    x3 = compose(initset, urcorner)
    x4 = compose(initset, llcorner)
    x5 = compose(initset, lrcorner)
    x6 = fork(equality, delta, x2)
    x7 = fork(equality, delta, x3)
    x8 = fork(equality, delta, x4)
    x9 = fork(equality, delta, x5)
    x10 = extract(x1, x9)
    x11 = extract(x1, x8)
    x12 = extract(x1, x7)
    x13 = extract(x1, x6)
    x14 = subgrid(x10, I)
    x15 = subgrid(x11, I)
    x16 = subgrid(x12, I)
    x17 = subgrid(x13, I)
    x18 = hconcat(x14, x15)
    x19 = hconcat(x16, x17)
    O = vconcat(x18, x19)
    return O


# The frame that has the most dots inside, in the colour of the dots.
def solve_fcb5c309(I):
    x1 = objects(I, T, F, T)
    x2 = leastcolor(I)
    x3 = rbind(subgrid, I)
    x4 = rbind(colorcount, x2)
    x5 = chain(x4, trim, x3)
    x6 = argmax(x1, x5)
    x7 = color(x6)
    x8 = subgrid(x6, I)
    O = replace(x8, x7, x2)
    return O


# The colour that a whole ring of the other colour encloses.
def solve_d9fac9be(I):
    x1 = palette(I)
    x2 = remove(ZERO, x1)
    x3 = neighbors(UNITY)
    x4 = rbind(recolor, x3)
    x5 = lbind(occurrences, I)
    x6 = chain(size, x5, x4)
    x7 = argmax(x2, x6)
    x8 = other(x2, x7)
    O = canvas(x8, UNITY)
    return O


# The colour of the rectangle with a hole.
def solve_b9b7f026(I):
    x1 = objects(I, T, F, T)
    x2 = compose(size, delta)
    x3 = argmax(x1, x2)
    x4 = color(x3)
    O = canvas(x4, UNITY)
    return O


# The colour of the area with the most dots.
def solve_de1cd16c(I):
    x1 = leastcolor(I)
    x2 = partition(I)
    x3 = colorfilter(x2, x1)
    x4 = difference(x2, x3)
    x5 = rbind(subgrid, I)
    x6 = rbind(colorcount, x1)
    x7 = compose(x6, x5)
    x8 = argmax(x4, x7)
    x9 = color(x8)
    O = canvas(x9, UNITY)
    return O


# One row with as many cells as the grid has coloured ones.
def solve_d631b094(I):
    x1 = palette(I)
    x2 = other(x1, ZERO)
    x3 = colorcount(I, x2)
    x4 = astuple(ONE, x3)
    O = canvas(x2, x4)
    return O


# A diagonal with one cell for each shape.
def solve_d0f5fe59(I):
    x1 = objects(I, T, F, T)
    x2 = size(x1)
    x3 = astuple(x2, x2)
    x4 = canvas(ZERO, x3)
    x5 = shoot(ORIGIN, UNITY)
    O = fill(x4, EIGHT, x5)
    return O


# The largest shapes from left to right, a column of their colour for each.
def solve_a3325580(I):
    x1 = objects(I, T, F, T)
    x2 = valmax(x1, size)
    x3 = sizefilter(x1, x2)
    x4 = order(x3, leftmost)
    x5 = apply(color, x4)
    O = repeat(x5, x2)
    return O


# The colours of the shapes in a column, the largest first.
def solve_f8ff0b80(I):
    x1 = objects(I, T, T, T)
    x2 = compose(invert, size)
    x3 = order(x1, x2)
    x4 = apply(color, x3)
    x5 = repeat(x4, ONE)
    O = dmirror(x5)
    return O


# The colours of the tiles in a column, the commonest first, without the one most tiles have.
def solve_f8b3ba0a(I):
    x1 = compress(I)
    x2 = mostcolor(x1)
    x3 = partition(x1)
    x4 = compose(invert, size)
    x5 = order(x3, x4)
    x6 = apply(color, x5)
    x7 = remove(x2, x6)
    x8 = repeat(x7, ONE)
    O = dmirror(x8)
    return O


# The colours of the lines in their order, as lines on a square of the size of the grey one.
def solve_8e1813be(I):
    x1 = fgpartition(I)
    x2 = extract(x1, square)
    x3 = remove(x2, x1)
    x4 = sfilter(x3, hline)
    x5 = size(x4)
    x6 = positive(x5)
    x7 = branch(x6, uppermost, leftmost)
    x8 = order(x3, x7)
    x9 = apply(color, x8)
    x10 = height(x2)
    x11 = repeat(x9, x10)
    x12 = dmirror(x11)
    O = branch(x6, x12, x11)
    return O


# The large shape takes the colour of the single cell, which vanishes.
def solve_aabf363d(I):
    x1 = leastcolor(I)
    x2 = objects(I, T, F, T)
    x3 = argmax(x2, size)
    x4 = recolor(x1, x3)
    x5 = ofcolor(I, x1)
    x6 = cover(I, x5)
    O = paint(x6, x4)
    return O


# A copy of the shape around the grey cell.
def solve_88a10436(I):
    x1 = objects(I, F, T, T)
    x2 = argmax(x1, size)
    x3 = argmin(x1, size)
    x4 = center(x3)
    x5 = center(x2)
    x6 = subtract(x4, x5)
    x7 = shift(x2, x6)
    O = paint(I, x7)
    return O


# A colour at each corner of the grey squares.
def solve_95990924(I):
    x1 = objects(I, T, F, T)
    x2 = apply(ulcorner, x1)
    x3 = apply(urcorner, x1)
    x4 = apply(llcorner, x1)
    x5 = apply(lrcorner, x1)
    x6 = shift(x2, NEG_UNITY)
    x7 = shift(x3, UP_RIGHT)
    x8 = shift(x4, DOWN_LEFT)
    x9 = shift(x5, UNITY)
    x10 = fill(I, ONE, x6)
    x11 = fill(x10, TWO, x7)
    x12 = fill(x11, THREE, x8)
    O = fill(x12, FOUR, x9)
    return O


# Three lines coloured by their length.
def solve_ea32f347(I):
    x1 = objects(I, T, F, T)
    x2 = argmax(x1, size)
    x3 = argmin(x1, size)
    x4 = replace(I, FIVE, FOUR)
    x5 = fill(x4, ONE, x2)
    O = fill(x5, TWO, x3)
    return O


# Only the longest and the shortest line stay, in blue and red.
def solve_a61f2674(I):
    x1 = objects(I, T, F, F)
    x2 = colorfilter(x1, FIVE)
    x3 = argmax(x2, size)
    x4 = argmin(x2, size)
    x5 = replace(I, FIVE, ZERO)
    x6 = fill(x5, ONE, x3)
    O = fill(x6, TWO, x4)
    return O


# Red cells that stand alone become blue.
def solve_aedd82e4(I):
    x1 = objects(I, T, F, F)
    x2 = colorfilter(x1, TWO)
    x3 = sizefilter(x2, ONE)
    x4 = merge(x3)
    O = fill(I, ONE, x4)
    return O


# The shape unlike the others becomes red, the others blue.
def solve_b230c067(I):
    x1 = objects(I, T, T, T)
    x2 = totuple(x1)
    x3 = apply(normalize, x2)
    x4 = leastcommon(x3)
    x5 = matcher(normalize, x4)
    x6 = extract(x2, x5)
    x7 = replace(I, EIGHT, ONE)
    O = fill(x7, TWO, x6)
    return O


# Grey blocks take the colour of the cell above them in the first row.
def solve_ddf7fa4f(I):
    x1 = objects(I, T, F, T)
    x2 = colorfilter(x1, FIVE)
    x3 = difference(x1, x2)
    x4 = lbind(lbind, vmatching)
    x5 = lbind(extract, x2)
    x6 = compose(x5, x4)
    x7 = fork(recolor, color, x6)
    x8 = mapply(x7, x3)
    O = paint(I, x8)
    return O


# Grey blocks become copies of the coloured one.
def solve_e76a88a6(I):
    x1 = objects(I, F, F, T)
    x2 = argmax(x1, numcolors)
    x3 = normalize(x2)
    x4 = remove(x2, x1)
    x5 = apply(ulcorner, x4)
    x6 = lbind(shift, x3)
    x7 = mapply(x6, x5)
    O = paint(I, x7)
    return O


# Green cells beside red ones become cyan, and those red ones vanish.
def solve_d90796e8(I):
    x1 = ofcolor(I, THREE)
    x2 = ofcolor(I, TWO)
    x3 = mapply(dneighbors, x1)
    x4 = mapply(dneighbors, x2)
    x5 = intersection(x1, x4)
    x6 = intersection(x2, x3)
    x7 = fill(I, EIGHT, x5)
    O = fill(x7, ZERO, x6)
    return O
