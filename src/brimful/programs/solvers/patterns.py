"""Solvers of tasks on whole grids: mirrors, tilings, periods, overlays of halves."""

from ..vocabulary.arc import *


# The grid above its own reflection.
def solve_8be77c9e(I):
    x1 = hmirror(I)
    O = vconcat(I, x1)
    return O


# The grid beside its own reflection.
def solve_c9e6f938(I):
    x1 = vmirror(I)
    O = hconcat(I, x1)
    return O


# The grid turned a quarter anticlockwise.
def solve_ed36ccf7(I):
    O = rot270(I)
    return O


# The grid reflected along its diagonal.
def solve_9dfd6313(I):
    O = dmirror(I)
    return O


# Grey and cyan change places.
def solve_d511f180(I):
    O = switch(I, FIVE, EIGHT)
    return O


# Orange becomes grey.
def solve_c8f0f002(I):
    O = replace(I, SEVEN, FIVE)
    return O


# Every cell becomes a block of four.
def solve_c59eb873(I):
    O = upscale(I, TWO)
    return O


# The empty cells of the two blocks right of the first hold its quarter and its half turn.
def solve_8e5a5113(I):
    x1 = hsplit(I, THREE)
    x2 = first(x1)
    x3 = rot90(x2)
    x4 = rot180(x2)
    x5 = height(I)
    x6 = astuple(x5, ONE)
    x7 = canvas(FIVE, x6)
    x8 = hconcat(x2, x7)
    x9 = hconcat(x8, x3)
    x10 = hconcat(x9, x7)
    O = hconcat(x10, x4)
    return O


# Red where both halves, one above the other, are empty.
def solve_fafffa47(I):
    x1 = tophalf(I)
    x2 = bottomhalf(I)
    x3 = cellwise(x1, x2, ONE)
    x4 = replace(x3, ZERO, TWO)
    O = replace(x4, ONE, ZERO)
    return O


# Pink where either of the halves, side by side, has a cell.
def solve_dae9d2b5(I):
    x1 = lefthalf(I)
    x2 = righthalf(I)
    x3 = cellwise(x1, x2, SIX)
    O = replace(x3, FIVE, SIX)
    return O


# The right half, reflected, laid under the left half.
def solve_e3497940(I):
    x1 = lefthalf(I)
    x2 = righthalf(I)
    x3 = vmirror(x2)
    x4 = asobject(x3)
    O = underpaint(x1, x4)
    return O


# The lower half, reflected, fills the empty upper half.
def solve_f25ffba3(I):
    x1 = bottomhalf(I)
    x2 = hmirror(x1)
    O = vconcat(x2, x1)
    return O


# What a symmetric picture has under the black patch, read off the picture after half a turn.
def solve_9ecd008a(I):
    x1 = ofcolor(I, ZERO)
    x2 = rot180(I)
    O = subgrid(x1, x2)
    return O


# A symmetric picture mended: its yellow patches are read off its reflections.
def solve_b8825c91(I):
    x1 = ofcolor(I, FOUR)
    x2 = vmirror(I)
    x3 = toobject(x1, x2)
    x4 = paint(I, x3)
    x5 = ofcolor(x4, FOUR)
    x6 = hmirror(x4)
    x7 = toobject(x5, x6)
    O = paint(x4, x7)
    return O


# A lattice of blocks made small: one cell for each block, then reflected.
def solve_9f236235(I):
    x1 = compress(I)
    x2 = height(I)
    x3 = height(x1)
    x4 = subtract(x2, x3)
    x5 = increment(x4)
    x6 = divide(x3, x5)
    x7 = downscale(x1, x6)
    O = vmirror(x7)
    return O


# Every whole row or column of one colour becomes red.
def solve_c1d99e64(I):
    x1 = frontiers(I)
    x2 = merge(x1)
    O = fill(I, TWO, x2)
    return O


# A periodic strip carried on to a grid of twice the width.
def solve_963e52fc(I):
    x1 = asobject(I)
    x2 = hperiod(x1)
    x3 = width(I)
    x4 = double(x3)
    x5 = interval(ZERO, x4, x2)
    x6 = apply(tojvec, x5)
    x7 = lbind(shift, x1)
    x8 = mapply(x7, x6)
    x9 = height(I)
    x10 = astuple(x9, x4)
    x11 = canvas(ZERO, x10)
    O = paint(x11, x8)
    return O


# A periodic drawing on the floor carried on to the right edge.
def solve_d8c310e9(I):
    x1 = fgpartition(I)
    x2 = merge(x1)
    x3 = hperiod(x2)
    x4 = width(I)
    x5 = interval(ZERO, x4, x3)
    x6 = apply(tojvec, x5)
    x7 = lbind(shift, x2)
    x8 = mapply(x7, x6)
    O = paint(I, x8)
    return O


# A two-coloured carpet carried on over the whole grid, one step to the left.
def solve_caa06a1f(I):
    x1 = asindices(I)
    x2 = lrcorner(x1)
    x3 = index(I, x2)
    x4 = ofcolor(I, x3)
    x5 = difference(x1, x4)
    x6 = toobject(x5, I)
    x7 = hperiod(x6)
    x8 = vperiod(x6)
    x9 = width(I)
    x10 = interval(ZERO, x9, x7)
    x11 = height(I)
    x12 = interval(ZERO, x11, x8)
    x13 = product(x12, x10)
    x14 = shift(x6, LEFT)
    x15 = lbind(shift, x14)
    x16 = mapply(x15, x13)
    O = paint(I, x16)
    return O


# A band of cells repeated upwards and downwards by its own height.
def solve_8eb1be9a(I):
    x1 = fgpartition(I)
    x2 = merge(x1)
    x3 = height(x2)
    x4 = toivec(x3)
    x5 = invert(TEN)
    x6 = interval(x5, TEN, ONE)
    x7 = lbind(multiply, x4)
    x8 = lbind(shift, x2)
    x9 = compose(x8, x7)
    x10 = mapply(x9, x6)
    O = paint(I, x10)
    return O


# The grid put into each place of a larger grid where it has its own commonest colour.
def solve_c3e719e8(I):
    x1 = mostcolor(I)
    x2 = upscale(I, THREE)
    x3 = hconcat(I, I)
    x4 = hconcat(x3, I)
    x5 = vconcat(x4, x4)
    x6 = vconcat(x5, x4)
    x7 = asindices(x2)
    x8 = ofcolor(x2, x1)
    x9 = difference(x7, x8)
    O = fill(x6, ZERO, x9)
    return O


# The columns of the coloured cells filled with cyan, then the grid twice in both directions.
def solve_f5b8619d(I):
    x1 = ofcolor(I, ZERO)
    x2 = asindices(I)
    x3 = difference(x2, x1)
    x4 = mapply(vfrontier, x3)
    x5 = intersection(x4, x1)
    x6 = fill(I, EIGHT, x5)
    x7 = hconcat(x6, x6)
    O = vconcat(x7, x7)
    return O


# Whichever of the blocks has a pattern unlike the others.
def solve_a87f7484(I):
    x1 = portrait(I)
    x2 = dmirror(I)
    x3 = branch(x1, x2, I)
    x4 = numcolors(I)
    x5 = decrement(x4)
    x6 = hsplit(x3, x5)
    x7 = rbind(ofcolor, ZERO)
    x8 = apply(x7, x6)
    x9 = leastcommon(x8)
    x10 = matcher(x7, x9)
    x11 = extract(x6, x10)
    x12 = dmirror(x11)
    O = branch(x1, x12, x11)
    return O


# A plane of coloured areas without the repeated rows and columns.
def solve_90c28cc7(I):
    x1 = asindices(I)
    x2 = ofcolor(I, ZERO)
    x3 = difference(x1, x2)
    x4 = subgrid(x3, I)
    x5 = dedupe(x4)
    x6 = dmirror(x5)
    x7 = dedupe(x6)
    O = dmirror(x7)
    return O


# The four corner blocks of the grid laid over each other.
def solve_bc1d5164(I):
    x1 = crop(I, ORIGIN, THREE_BY_THREE)
    x2 = crop(I, TWO_BY_ZERO, THREE_BY_THREE)
    x3 = double(ZERO_BY_TWO)
    x4 = crop(I, x3, THREE_BY_THREE)
    x5 = add(x3, TWO_BY_ZERO)
    x6 = crop(I, x5, THREE_BY_THREE)
    x7 = leastcolor(I)
    x8 = ofcolor(x2, x7)
    x9 = ofcolor(x4, x7)
    x10 = ofcolor(x6, x7)
    x11 = fill(x1, x7, x8)
    x12 = fill(x11, x7, x9)
    O = fill(x12, x7, x10)
    return O


# The colours of the first row, one after the other, as whole rows below the grey line.
def solve_bd4472b8(I):
    x1 = width(I)
    x2 = astuple(TWO, x1)
    x3 = crop(I, ORIGIN, x2)
    x4 = tophalf(x3)
    x5 = dmirror(x4)
    x6 = hupscale(x5, x1)
    x7 = repeat(x6, THREE)
    x8 = merge(x7)
    x9 = vconcat(x3, x8)
    x10 = shape(I)
    O = crop(x9, ORIGIN, x10)
    return O


# Every cell becomes a block of nine.
def solve_9172f3a0(I):
    x1 = hupscale(I, THREE)
    O = vupscale(x1, THREE)
    return O


# Red where both blocks, one above the other, are empty.
def solve_94f9d214(I):
    x1 = vsplit(I, TWO)
    x2 = first(x1)
    x3 = last(x1)
    x4 = ofcolor(x2, ZERO)
    x5 = ofcolor(x3, ZERO)
    x6 = intersection(x4, x5)
    x7 = shape(x2)
    x8 = canvas(ZERO, x7)
    O = fill(x8, TWO, x6)
    return O


# The square that a green patch hides in a symmetric picture.
def solve_dc0a314f(I):
    x1 = ofcolor(I, THREE)
    x2 = cmirror(I)
    x3 = ofcolor(x2, THREE)
    x4 = hmirror(x2)
    x5 = toobject(x3, x4)
    x6 = paint(x2, x5)
    O = subgrid(x1, x6)
    return O


# Two rows of one colour each woven into a chequered band.
def solve_e9afcf9a(I):
    x1 = astuple(TWO, ONE)
    x2 = crop(I, ORIGIN, x1)
    x3 = hmirror(x2)
    x4 = hconcat(x2, x3)
    x5 = lbind(hconcat, x4)
    x6 = power(x5, TWO)
    O = x6(x4)
    return O


# Three blocks laid over each other: the first on top, the last at the bottom.
def solve_cf98881b(I):
    x1 = hsplit(I, THREE)
    x2 = first(x1)
    x3 = last(x1)
    x4 = remove(x2, x1)
    x5 = first(x4)
    x6 = ofcolor(x5, NINE)
    x7 = fill(x3, NINE, x6)
    x8 = ofcolor(x2, FOUR)
    O = fill(x7, FOUR, x8)
    return O
