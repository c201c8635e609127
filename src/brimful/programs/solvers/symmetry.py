"""Solvers for tasks about mirroring, rotating and completing symmetric pictures."""

from ..vocabulary.arc import *


# Turn the grid upside down by half a rotation.
def solve_3c9b0459(I):
    O = rot180(I)
    return O


# Rotate by half a turn, as two mirrorings at the diagonals.
def solve_6150a2bd(I):
    x1 = dmirror(I)
    O = cmirror(x1)
    return O


# Mirror the grid left to right.
def solve_67a3c6ac(I):
    O = vmirror(I)
    return O


# Mirror the grid top to bottom.
def solve_68b16354(I):
    O = hmirror(I)
    return O


# Transpose the grid.
def solve_74dd1130(I):
    O = dmirror(I)
    return O


# Put the mirror image to the right of the grid.
def solve_6d0aefbc(I):
    x1 = vmirror(I)
    O = hconcat(I, x1)
    return O


# Put the mirror image below the grid.
def solve_6fa7a44f(I):
    x1 = hmirror(I)
    O = vconcat(I, x1)
    return O


# Put the mirror image above the grid.
def solve_4c4377d9(I):
    x1 = hmirror(I)
    O = vconcat(x1, I)
    return O


# Make a kaleidoscope: mirror to the right, then the whole downwards.
def solve_62c24649(I):
    x1 = vmirror(I)
    x2 = hconcat(I, x1)
    x3 = hmirror(x2)
    O = vconcat(x2, x3)
    return O


# Make a kaleidoscope: mirror downwards, then each half to the right.
def solve_67e8384a(I):
    x1 = hmirror(I)
    x2 = vconcat(I, x1)
    x3 = vsplit(x2, TWO)
    x4 = apply(vmirror, x3)
    O = mpapply(hconcat, x3, x4)
    return O


# Make a kaleidoscope: both mirrorings as functions of the grid.
def solve_3af2c5a8(I):
    x1 = fork(hconcat, identity, vmirror)
    x2 = fork(vconcat, identity, hmirror)
    x3 = compose(x2, x1)
    O = x3(I)
    return O


# Surround the centre with the four rotations, turning clockwise.
def solve_7fe24cdd(I):
    x1 = rot90(I)
    x2 = rot180(I)
    x3 = rot270(I)
    x4 = hconcat(I, x1)
    x5 = hconcat(x3, x2)
    O = vconcat(x4, x5)
    return O


# Surround the centre with the four rotations as functions of the grid.
def solve_46442a0e(I):
    x1 = fork(hconcat, identity, rot90)
    x2 = fork(hconcat, rot270, rot180)
    x3 = fork(vconcat, x1, x2)
    O = x3(I)
    return O


# Mirror the filled upper half into the empty lower half.
def solve_496994bd(I):
    x1 = tophalf(I)
    x2 = hmirror(x1)
    O = vconcat(x1, x2)
    return O


# Keep one quarter of the symmetric figure.
def solve_2013d3e2(I):
    x1 = objects(I, F, T, T)
    x2 = merge(x1)
    x3 = subgrid(x2, I)
    x4 = tophalf(x3)
    O = lefthalf(x4)
    return O


# Complete the ornament by its mirror images at the diagonal and both axes.
def solve_11852cab(I):
    x1 = fgpartition(I)
    x2 = merge(x1)
    x3 = dmirror(x2)
    x4 = combine(x2, x3)
    x5 = hmirror(x4)
    x6 = combine(x4, x5)
    x7 = vmirror(x6)
    x8 = combine(x6, x7)
    O = paint(I, x8)
    return O


# Mirror the upper figure to the side that the lower one points to.
def solve_760b3cac(I):
    x1 = ofcolor(I, EIGHT)
    x2 = ofcolor(I, FOUR)
    x3 = ulcorner(x2)
    x4 = contained(x3, x2)
    x5 = branch(x4, LEFT, RIGHT)
    x6 = width(x2)
    x7 = multiply(x5, x6)
    x8 = vmirror(x1)
    x9 = shift(x8, x7)
    O = fill(I, EIGHT, x9)
    return O


# One if the grid is its own mirror image, seven if it is not.
def solve_44f52bb0(I):
    x1 = vmirror(I)
    x2 = equality(I, x1)
    x3 = branch(x2, ONE, SEVEN)
    O = canvas(x3, UNITY)
    return O


# Keep the third of the grid that changes when it is transposed.
def solve_662c240a(I):
    x1 = vsplit(I, THREE)
    x2 = fork(equality, dmirror, identity)
    x3 = compose(flip, x2)
    O = extract(x1, x3)
    return O


# Cut out the object that equals its own mirror image.
def solve_72ca375d(I):
    x1 = objects(I, T, T, T)
    x2 = fork(equality, vmirror, identity)
    x3 = extract(x1, x2)
    O = subgrid(x3, I)
    return O


# Cut out the object and mirror it left to right.
def solve_7468f01a(I):
    x1 = objects(I, F, T, T)
    x2 = first(x1)
    x3 = subgrid(x2, I)
    O = vmirror(x3)
    return O


# Mirror the upper left quarter into the others, in the colour of the bars.
def solve_47c1f68c(I):
    x1 = leastcolor(I)
    x2 = asindices(I)
    x3 = center(x2)
    x4 = index(I, x3)
    x5 = replace(I, x1, x4)
    x6 = tophalf(x5)
    x7 = lefthalf(x6)
    x8 = vmirror(x7)
    x9 = hconcat(x7, x8)
    x10 = hmirror(x9)
    O = vconcat(x9, x10)
    return O


# Complete the figure by its reflections at the centre of the cross.
def solve_4c5c2cf0(I):
    x1 = fgpartition(I)
    x2 = fork(equality, vmirror, identity)
    x3 = extract(x1, x2)
    x4 = other(x1, x3)
    x5 = center(x3)
    x6 = double(x5)
    x7 = uppermost(x4)
    x8 = lowermost(x4)
    x9 = add(x7, x8)
    x10 = leftmost(x4)
    x11 = rightmost(x4)
    x12 = add(x10, x11)
    x13 = astuple(x9, x12)
    x14 = subtract(x6, x13)
    x15 = first(x14)
    x16 = last(x14)
    x17 = toivec(x15)
    x18 = tojvec(x16)
    x19 = hmirror(x4)
    x20 = shift(x19, x17)
    x21 = combine(x4, x20)
    x22 = vmirror(x21)
    x23 = shift(x22, x18)
    x24 = paint(I, x20)
    O = paint(x24, x23)
    return O
