"""Solvers for tasks about counting and about ranking by size."""

from ..vocabulary.arc import *


# Recolour the bars by the rank of their height, the tallest first.
def solve_08ed6ac7(I):
    x1 = objects(I, T, F, T)
    x2 = order(x1, size)
    x3 = interval(FOUR, ZERO, NEG_ONE)
    x4 = pair(x3, x2)
    x5 = fork(recolor, first, last)
    x6 = mapply(x5, x4)
    O = paint(I, x6)
    return O


# Count the blue squares; one blue cell for each in a row of five.
def solve_1fad071e(I):
    x1 = objects(I, T, F, T)
    x2 = colorfilter(x1, ONE)
    x3 = sizefilter(x2, FOUR)
    x4 = size(x3)
    x5 = astuple(ONE, x4)
    x6 = canvas(ONE, x5)
    x7 = subtract(FIVE, x4)
    x8 = astuple(ONE, x7)
    x9 = canvas(ZERO, x8)
    O = hconcat(x6, x9)
    return O


# Eight if one object holds all cells of both squares, zero if none does.
def solve_239be575(I):
    x1 = objects(I, F, T, T)
    x2 = rbind(colorcount, TWO)
    x3 = valmax(x1, x2)
    x4 = equality(x3, EIGHT)
    x5 = branch(x4, EIGHT, ZERO)
    O = canvas(x5, UNITY)
    return O


# Mark the rows of a single colour.
def solve_25d8a9c8(I):
    x1 = objects(I, T, F, F)
    x2 = matcher(size, THREE)
    x3 = fork(both, hline, x2)
    x4 = mfilter(x1, x3)
    x5 = shape(I)
    x6 = canvas(ZERO, x5)
    O = fill(x6, FIVE, x4)
    return O


# Name the figure by the size of its largest connected part.
def solve_27a28665(I):
    x1 = objects(I, T, F, F)
    x2 = valmax(x1, size)
    x3 = equality(x2, ONE)
    x4 = equality(x2, FOUR)
    x5 = equality(x2, FIVE)
    x6 = branch(x3, TWO, ONE)
    x7 = branch(x4, THREE, x6)
    x8 = branch(x5, SIX, x7)
    O = canvas(x8, UNITY)
    return O


# Keep only the colour that occurs once and draw a ring around it.
def solve_31aa019c(I):
    x1 = fgpartition(I)
    x2 = valmin(x1, size)
    x3 = sizefilter(x1, x2)
    x4 = merge(x3)
    x5 = shape(I)
    x6 = canvas(ZERO, x5)
    x7 = paint(x6, x4)
    x8 = outbox(x4)
    O = fill(x7, TWO, x8)
    return O


# Remove the single dots.
def solve_42a50994(I):
    x1 = objects(I, T, T, T)
    x2 = sizefilter(x1, ONE)
    x3 = merge(x2)
    O = cover(I, x3)
    return O


# Fill the grid with its most frequent colour.
def solve_5582e5ca(I):
    x1 = partition(I)
    x2 = argmax(x1, size)
    x3 = color(x2)
    x4 = shape(I)
    O = canvas(x3, x4)
    return O


# Name each block of three by three cells by its most frequent colour.
def solve_5614dbcf(I):
    x1 = vsplit(I, THREE)
    x2 = rbind(hsplit, THREE)
    x3 = lbind(apply, mostcolor)
    x4 = compose(x3, x2)
    O = apply(x4, x1)
    return O


# Fill the largest empty field with one colour, the smallest ones with another.
def solve_6455b5f5(I):
    x1 = objects(I, T, F, F)
    x2 = colorfilter(x1, ZERO)
    x3 = apply(size, x2)
    x4 = maximum(x3)
    x5 = minimum(x3)
    x6 = sizefilter(x2, x4)
    x7 = sizefilter(x2, x5)
    x8 = merge(x6)
    x9 = merge(x7)
    x10 = fill(I, ONE, x8)
    O = fill(x10, EIGHT, x9)
    return O


# Recolour the objects of more than two cells.
def solve_67385a82(I):
    x1 = objects(I, T, F, F)
    x2 = colorfilter(x1, THREE)
    x3 = rbind(greater, TWO)
    x4 = compose(x3, size)
    x5 = mfilter(x2, x4)
    O = fill(I, EIGHT, x5)
    return O


# Mark the fields of the board that hold two dots.
def solve_6773b310(I):
    x1 = compress(I)
    x2 = vsplit(x1, THREE)
    x3 = rbind(hsplit, THREE)
    x4 = rbind(colorcount, SIX)
    x5 = compose(halve, x4)
    x6 = lbind(apply, x5)
    x7 = compose(x6, x3)
    O = apply(x7, x2)
    return O


# Fill the inside of the two rectangles, by the rank of their size.
def solve_694f12f3(I):
    x1 = objects(I, T, F, F)
    x2 = colorfilter(x1, FOUR)
    x3 = order(x2, size)
    x4 = compose(backdrop, inbox)
    x5 = apply(x4, x3)
    x6 = interval(ONE, THREE, ONE)
    x7 = papply(recolor, x6, x5)
    x8 = first(x7)
    x9 = last(x7)
    x10 = paint(I, x8)
    O = paint(x10, x9)
    return O


# Draw the line that stands for the number of colours.
def solve_6e02f1e3(I):
    x1 = numcolors(I)
    x2 = equality(x1, ONE)
    x3 = equality(x1, TWO)
    x4 = connect(ORIGIN, ZERO_BY_TWO)
    x5 = connect(ORIGIN, TWO_BY_TWO)
    x6 = connect(TWO_BY_ZERO, ZERO_BY_TWO)
    x7 = branch(x3, x5, x6)
    x8 = branch(x2, x4, x7)
    x9 = canvas(ZERO, THREE_BY_THREE)
    O = fill(x9, FIVE, x8)
    return O


# Recolour the objects by their size: the smaller, the higher.
def solve_6e82a1ae(I):
    x1 = objects(I, T, F, T)
    x2 = lbind(subtract, FIVE)
    x3 = compose(x2, size)
    x4 = fork(recolor, x3, identity)
    x5 = mapply(x4, x1)
    O = paint(I, x5)
    return O


# Count the dots: as many cells of the first row, the fourth at the centre.
def solve_794b24be(I):
    x1 = colorcount(I, ONE)
    x2 = decrement(x1)
    x3 = tojvec(x2)
    x4 = connect(ORIGIN, x3)
    x5 = equality(x1, FOUR)
    x6 = branch(x5, UNITY, ORIGIN)
    x7 = insert(x6, x4)
    x8 = canvas(ZERO, THREE_BY_THREE)
    O = fill(x8, TWO, x7)
    return O


# Count the fields between the bars, by rows and by columns.
def solve_1190e5a7(I):
    x1 = frontiers(I)
    x2 = sfilter(x1, hline)
    x3 = sfilter(x1, vline)
    x4 = size(x2)
    x5 = size(x3)
    x6 = astuple(x4, x5)
    x7 = increment(x6)
    x8 = mostcolor(I)
    O = canvas(x8, x7)
    return O


# List the colours of the ragged bands, as a row or as a column.
def solve_4be741c5(I):
    x1 = height(I)
    x2 = astuple(x1, ONE)
    x3 = crop(I, ORIGIN, x2)
    x4 = numcolors(x3)
    x5 = equality(x4, ONE)
    x6 = branch(x5, last, first)
    x7 = branch(x5, identity, dmirror)
    x8 = partition(I)
    x9 = compose(x6, centerofmass)
    x10 = order(x8, x9)
    x11 = apply(color, x10)
    x12 = repeat(x11, ONE)
    O = x7(x12)
    return O
