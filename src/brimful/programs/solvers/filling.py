"""Solvers of tasks that colour cells of the grid: insides, neighbourhoods, columns, sizes."""

from ..vocabulary.arc import *


# Around each red cell a ring of blue.
def solve_dc1df850(I):
    x1 = ofcolor(I, TWO)
    x2 = mapply(neighbors, x1)
    O = underfill(I, ONE, x2)
    return O


# Each grey cell becomes a ring: blue at its sides, grey at its corners, empty inside.
def solve_b60334d2(I):
    x1 = ofcolor(I, FIVE)
    x2 = fill(I, ZERO, x1)
    x3 = mapply(dneighbors, x1)
    x4 = mapply(ineighbors, x1)
    x5 = fill(x2, ONE, x3)
    O = fill(x5, FIVE, x4)
    return O


# A green cross in the middle between the two blue cells.
def solve_e9614598(I):
    x1 = ofcolor(I, ONE)
    x2 = centerofmass(x1)
    x3 = dneighbors(x2)
    x4 = insert(x2, x3)
    O = fill(I, THREE, x4)
    return O


# Each rectangle gets blue corners, yellow edges and a red inside.
def solve_b6afb2da(I):
    x1 = objects(I, T, F, F)
    x2 = colorfilter(x1, FIVE)
    x3 = replace(I, FIVE, TWO)
    x4 = mapply(box, x2)
    x5 = fill(x3, FOUR, x4)
    x6 = mapply(corners, x2)
    O = fill(x5, ONE, x6)
    return O


# The inside of each rectangle, one cell from its edge, becomes red.
def solve_bb43febb(I):
    x1 = objects(I, T, F, F)
    x2 = colorfilter(x1, FIVE)
    x3 = compose(backdrop, inbox)
    x4 = mapply(x3, x2)
    O = fill(I, TWO, x4)
    return O


# A box with a gap is filled, and what is in it runs out of the gap to the edge of the grid.
def solve_d4f3cd78(I):
    x1 = ofcolor(I, FIVE)
    x2 = delta(x1)
    x3 = fill(I, EIGHT, x2)
    x4 = box(x1)
    x5 = difference(x4, x1)
    x6 = first(x5)
    x7 = position(x1, x5)
    x8 = shoot(x6, x7)
    O = fill(x3, EIGHT, x8)
    return O


# Empty squares inside boxes are coloured by their size.
def solve_c0f76784(I):
    x1 = objects(I, T, F, T)
    x2 = apply(delta, x1)
    x3 = sizefilter(x2, ONE)
    x4 = sizefilter(x2, FOUR)
    x5 = sizefilter(x2, NINE)
    x6 = merge(x3)
    x7 = merge(x4)
    x8 = merge(x5)
    x9 = fill(I, SIX, x6)
    x10 = fill(x9, SEVEN, x7)
    O = fill(x10, EIGHT, x8)
    return O


# Blue shapes that enclose an empty area become green.
def solve_810b9b61(I):
    x1 = objects(I, T, F, F)
    x2 = colorfilter(x1, ZERO)
    x3 = rbind(bordering, I)
    x4 = compose(flip, x3)
    x5 = mfilter(x2, x4)
    x6 = colorfilter(x1, ONE)
    x7 = rbind(adjacent, x5)
    x8 = mfilter(x6, x7)
    O = fill(I, THREE, x8)
    return O


# Enclosed empty areas become blue.
def solve_a5313dff(I):
    x1 = objects(I, T, F, F)
    x2 = colorfilter(x1, ZERO)
    x3 = rbind(bordering, I)
    x4 = compose(flip, x3)
    x5 = mfilter(x2, x4)
    O = fill(I, ONE, x5)
    return O


# Enclosed empty areas become green, and what enclosed them vanishes.
def solve_d5d6de2d(I):
    x1 = objects(I, T, F, F)
    x2 = colorfilter(x1, ZERO)
    x3 = rbind(bordering, I)
    x4 = compose(flip, x3)
    x5 = mfilter(x2, x4)
    x6 = replace(I, TWO, ZERO)
    O = fill(x6, THREE, x5)
    return O


# Empty areas that touch a blue cell become blue.
def solve_9edfc990(I):
    x1 = objects(I, T, F, F)
    x2 = colorfilter(x1, ZERO)
    x3 = ofcolor(I, ONE)
    x4 = rbind(adjacent, x3)
    x5 = mfilter(x2, x4)
    O = fill(I, ONE, x5)
    return O


# Empty areas are coloured by their size: one, two or three cells.
def solve_e8593010(I):
    x1 = objects(I, T, F, T)
    x2 = sizefilter(x1, ONE)
    x3 = sizefilter(x1, TWO)
    x4 = merge(x2)
    x5 = merge(x3)
    x6 = fill(I, THREE, x4)
    x7 = fill(x6, TWO, x5)
    O = replace(x7, ZERO, ONE)
    return O


# Shapes of six cells become red, all others blue.
def solve_d2abd087(I):
    x1 = objects(I, T, F, T)
    x2 = sizefilter(x1, SIX)
    x3 = merge(x2)
    x4 = replace(I, FIVE, ONE)
    O = fill(x4, TWO, x3)
    return O


# Around each pair of red cells a green frame.
def solve_b27ca6d3(I):
    x1 = objects(I, T, F, T)
    x2 = sizefilter(x1, TWO)
    x3 = mapply(outbox, x2)
    O = fill(I, THREE, x3)
    return O


# Every third column, from the first, has its yellow cells made pink.
def solve_ba26e723(I):
    x1 = width(I)
    x2 = interval(ZERO, x1, THREE)
    x3 = apply(tojvec, x2)
    x4 = mapply(vfrontier, x3)
    x5 = ofcolor(I, FOUR)
    x6 = rbind(contained, x4)
    x7 = sfilter(x5, x6)
    O = fill(I, SIX, x7)
    return O


# Only the middle column stays.
def solve_d23f8c26(I):
    x1 = width(I)
    x2 = halve(x1)
    x3 = tojvec(x2)
    x4 = vfrontier(x3)
    x5 = toobject(x4, I)
    x6 = shape(I)
    x7 = canvas(ZERO, x6)
    O = paint(x7, x5)
    return O


# Each row takes the colour that the place of its grey cell stands for.
def solve_a85d4709(I):
    x1 = ofcolor(I, FIVE)
    x2 = matcher(last, ZERO)
    x3 = matcher(last, ONE)
    x4 = sfilter(x1, x2)
    x5 = sfilter(x1, x3)
    x6 = mapply(hfrontier, x4)
    x7 = mapply(hfrontier, x5)
    x8 = shape(I)
    x9 = canvas(THREE, x8)
    x10 = fill(x9, TWO, x6)
    O = fill(x10, FOUR, x7)
    return O


# All that has not the commonest colour becomes grey.
def solve_9565186b(I):
    x1 = mostcolor(I)
    x2 = ofcolor(I, x1)
    x3 = asindices(I)
    x4 = difference(x3, x2)
    O = fill(I, FIVE, x4)
    return O


# Grey cells take the colour that the first column has in their row.
def solve_c9f8e694(I):
    x1 = height(I)
    x2 = width(I)
    x3 = astuple(x1, ONE)
    x4 = crop(I, ORIGIN, x3)
    x5 = hupscale(x4, x2)
    x6 = ofcolor(I, FIVE)
    x7 = toobject(x6, x5)
    O = paint(I, x7)
    return O


# Between the red blocks of a row the empty cells become maroon, save on the edge of the grid.
def solve_ef135b50(I):
    x1 = ofcolor(I, TWO)
    x2 = prapply(connect, x1, x1)
    x3 = mfilter(x2, hline)
    x4 = trim(I)
    x5 = ofcolor(x4, ZERO)
    x6 = shift(x5, UNITY)
    x7 = intersection(x3, x6)
    O = fill(I, NINE, x7)
    return O


# The first, the middle and the last of the fields between the grey lines are coloured.
def solve_941d9a10(I):
    x1 = objects(I, T, F, F)
    x2 = colorfilter(x1, ZERO)
    x3 = argmin(x2, ulcorner)
    x4 = argmax(x2, lrcorner)
    x5 = astuple(FIVE, FIVE)
    x6 = lbind(contained, x5)
    x7 = compose(x6, toindices)
    x8 = extract(x2, x7)
    x9 = fill(I, ONE, x3)
    x10 = fill(x9, TWO, x8)
    O = fill(x10, THREE, x4)
    return O


# Nested rings with their colours in the opposite order.
def solve_85c4e7cd(I):
    x1 = partition(I)
    x2 = order(x1, size)
    x3 = compose(invert, size)
    x4 = order(x1, x3)
    x5 = apply(color, x4)
    x6 = mpapply(recolor, x5, x2)
    O = paint(I, x6)
    return O


# Under each block as many green rows as the block has colours.
def solve_fcc82909(I):
    x1 = objects(I, F, F, T)
    x2 = compose(increment, lowermost)
    x3 = fork(add, x2, numcolors)
    x4 = rbind(interval, ONE)
    x5 = fork(x4, x2, x3)
    x6 = compose(increment, rightmost)
    x7 = fork(x4, leftmost, x6)
    x8 = fork(product, x5, x7)
    x9 = mapply(x8, x1)
    O = fill(I, THREE, x9)
    return O


# Grey cells in every second column, counted from the right, become green.
def solve_d406998b(I):
    x1 = ofcolor(I, FIVE)
    x2 = width(I)
    x3 = decrement(x2)
    x4 = lbind(subtract, x3)
    x5 = chain(even, x4, last)
    x6 = sfilter(x1, x5)
    O = fill(I, THREE, x6)
    return O
