"""Solvers for tasks about moving objects and matching their shapes."""

from ..vocabulary.arc import *


# Move the object until it touches the square.
def solve_05f2a901(I):
    x1 = ofcolor(I, TWO)
    x2 = ofcolor(I, EIGHT)
    x3 = gravitate(x1, x2)
    x4 = recolor(TWO, x1)
    O = move(I, x4, x3)
    return O


# Move all objects to the bottom line of the blue one.
def solve_1caeab9d(I):
    x1 = objects(I, T, T, T)
    x2 = ofcolor(I, ONE)
    x3 = lowermost(x2)
    x4 = lbind(subtract, x3)
    x5 = chain(toivec, x4, lowermost)
    x6 = fork(shift, identity, x5)
    x7 = mapply(x6, x1)
    x8 = merge(x1)
    x9 = cover(I, x8)
    O = paint(x9, x7)
    return O


# Fill each frame with the loose shape that fits its hole.
def solve_228f6490(I):
    x1 = objects(I, T, F, F)
    x2 = partition(I)
    x3 = intersection(x1, x2)
    x4 = compose(normalize, toindices)
    x5 = apply(x4, x3)
    x6 = rbind(contained, x5)
    x7 = compose(x6, x4)
    x8 = colorfilter(x1, ZERO)
    x9 = sfilter(x8, x7)
    x10 = lbind(matcher, x4)
    x11 = lbind(extract, x3)
    x12 = chain(x11, x10, x4)
    x13 = compose(color, x12)
    x14 = fork(recolor, x13, identity)
    x15 = mapply(x14, x9)
    x16 = merge(x3)
    x17 = fill(I, ZERO, x16)
    O = paint(x17, x15)
    return O


# Move the object one row down.
def solve_25ff71a9(I):
    x1 = objects(I, T, T, T)
    x2 = first(x1)
    O = move(I, x2, DOWN)
    return O


# Put the coloured pattern in the place of each of its blank copies.
def solve_321b1fc6(I):
    x1 = objects(I, F, F, T)
    x2 = argmax(x1, numcolors)
    x3 = remove(x2, x1)
    x4 = normalize(x2)
    x5 = lbind(shift, x4)
    x6 = compose(x5, ulcorner)
    x7 = mapply(x6, x3)
    x8 = cover(I, x2)
    O = paint(x8, x7)
    return O


# Let the dots sink through the bars to the ground.
def solve_3618c87e(I):
    x1 = ofcolor(I, ONE)
    x2 = recolor(ONE, x1)
    O = move(I, x2, TWO_BY_ZERO)
    return O


# Move the ring to the next bead of the chain.
def solve_5168d44c(I):
    x1 = ofcolor(I, THREE)
    x2 = portrait(x1)
    x3 = branch(x2, TWO_BY_ZERO, ZERO_BY_TWO)
    x4 = ofcolor(I, TWO)
    x5 = recolor(TWO, x4)
    O = move(I, x5, x3)
    return O


# Move the object to the line and close it in with a second line.
def solve_56dc2b01(I):
    x1 = ofcolor(I, THREE)
    x2 = ofcolor(I, TWO)
    x3 = gravitate(x1, x2)
    x4 = recolor(THREE, x1)
    x5 = move(I, x4, x3)
    x6 = sign(x3)
    x7 = shape(x1)
    x8 = multiply(x6, x7)
    x9 = crement(x8)
    x10 = invert(x9)
    x11 = shift(x2, x10)
    O = fill(x5, EIGHT, x11)
    return O


# Grey the object that has the shape of the one in the corner.
def solve_63613498(I):
    x1 = crop(I, ORIGIN, THREE_BY_THREE)
    x2 = objects(x1, T, T, F)
    x3 = compose(flip, positive)
    x4 = compose(x3, color)
    x5 = mfilter(x2, x4)
    x6 = asindices(x1)
    x7 = toindices(x5)
    x8 = difference(x6, x7)
    x9 = normalize(x8)
    x10 = compose(normalize, toindices)
    x11 = matcher(x10, x9)
    x12 = objects(I, T, T, T)
    x13 = mfilter(x12, x11)
    x14 = difference(x13, x5)
    x15 = toobject(x8, I)
    x16 = fill(I, FIVE, x14)
    O = paint(x16, x15)
    return O


# Send a ray from the square through each of its tails.
def solve_7ddcd7ec(I):
    x1 = objects(I, T, F, T)
    x2 = sizefilter(x1, ONE)
    x3 = argmax(x1, size)
    x4 = lbind(position, x3)
    x5 = fork(shoot, ulcorner, x4)
    x6 = mapply(x5, x2)
    x7 = color(x3)
    O = fill(I, x7, x6)
    return O


# Project each dot onto the edge of the block.
def solve_1f642eb9(I):
    x1 = objects(I, T, F, T)
    x2 = sizefilter(x1, ONE)
    x3 = ofcolor(I, EIGHT)
    x4 = rbind(gravitate, x3)
    x5 = compose(crement, x4)
    x6 = fork(shift, identity, x5)
    x7 = mapply(x6, x2)
    O = paint(I, x7)
    return O
