"""Linear algebra of small matrices, compiled, a task in each lane: four rows against four, sixteen sums in registers.

A symmetric matrix is its lower triangle, row after row; while it is factored it is the lower half of a square with
`across` columns, whose side is a multiple of four, with rows of the identity at the end. What goes over such rows adds
zeros at the end of sums, and changes none.
"""

import math

from .simd_lanes import broadcast, compiled, inlined, load, rsqrt, store


@inlined
def copy(to, source):
    """The numbers of one vector into another. (An assignment of all of them compiles for seconds.)"""
    for k in range(len(to)):
        to[k] = source[k]


@compiled
def dot(a, first_a, b, first_b, count):
    """The inner product of `count` rows of two arrays. Four sums side by side: one would wait for itself."""
    s0, s1, s2, s3 = broadcast(0.0), broadcast(0.0), broadcast(0.0), broadcast(0.0)
    for k in range(0, count - 3, 4):
        s0 += load(a, first_a + k) * load(b, first_b + k)
        s1 += load(a, first_a + k + 1) * load(b, first_b + k + 1)
        s2 += load(a, first_a + k + 2) * load(b, first_b + k + 2)
        s3 += load(a, first_a + k + 3) * load(b, first_b + k + 3)
    done = count - count % 4
    if count - done > 0:
        s0 += load(a, first_a + done) * load(b, first_b + done)
    if count - done > 1:
        s1 += load(a, first_a + done + 1) * load(b, first_b + done + 1)
    if count - done > 2:
        s2 += load(a, first_a + done + 2) * load(b, first_b + done + 2)
    return (s0 + s1) + (s2 + s3)


@compiled
def axpy(a, first_a, factor, b, first_b, count):
    for k in range(count):
        store(a, first_a + k, load(a, first_a + k) + factor * load(b, first_b + k))


@compiled
def _solve_corner(X, at, s0, s1, s2, s3, d0, d1, d2, d3, l10, l20, l21, l30, l31, l32):
    """Four sums of a row times the inverse of a corner."""
    s0 = s0 * d0
    s1 = (s1 - s0 * l10) * d1
    s2 = (s2 - s0 * l20 - s1 * l21) * d2
    s3 = (s3 - s0 * l30 - s1 * l31 - s2 * l32) * d3
    store(X, at, s0)
    store(X, at + 1, s1)
    store(X, at + 2, s2)
    store(X, at + 3, s3)


@compiled
def solve_rows(X, r, L, across, first, last):
    """Rows r to r + 3 of X times L^-T, from column `first` on, before which they are 0. L has the reciprocal of its
    diagonal. Four rows against four: sixteen sums in registers, each number read used four times."""
    a0, a1, a2, a3 = r * across, (r + 1) * across, (r + 2) * across, (r + 3) * across
    for j in range(first, last, 4):
        b0, b1, b2, b3 = j * across, (j + 1) * across, (j + 2) * across, (j + 3) * across
        s00, s01, s02, s03 = load(X, a0 + j), load(X, a0 + j + 1), load(X, a0 + j + 2), load(X, a0 + j + 3)
        s10, s11, s12, s13 = load(X, a1 + j), load(X, a1 + j + 1), load(X, a1 + j + 2), load(X, a1 + j + 3)
        s20, s21, s22, s23 = load(X, a2 + j), load(X, a2 + j + 1), load(X, a2 + j + 2), load(X, a2 + j + 3)
        s30, s31, s32, s33 = load(X, a3 + j), load(X, a3 + j + 1), load(X, a3 + j + 2), load(X, a3 + j + 3)
        for k in range(first, j):
            v0, v1, v2, v3 = load(X, a0 + k), load(X, a1 + k), load(X, a2 + k), load(X, a3 + k)
            w = load(L, b0 + k)
            s00 -= v0 * w
            s10 -= v1 * w
            s20 -= v2 * w
            s30 -= v3 * w
            w = load(L, b1 + k)
            s01 -= v0 * w
            s11 -= v1 * w
            s21 -= v2 * w
            s31 -= v3 * w
            w = load(L, b2 + k)
            s02 -= v0 * w
            s12 -= v1 * w
            s22 -= v2 * w
            s32 -= v3 * w
            w = load(L, b3 + k)
            s03 -= v0 * w
            s13 -= v1 * w
            s23 -= v2 * w
            s33 -= v3 * w
        d0, d1, d2, d3 = load(L, b0 + j), load(L, b1 + j + 1), load(L, b2 + j + 2), load(L, b3 + j + 3)
        l10, l20, l21 = load(L, b1 + j), load(L, b2 + j), load(L, b2 + j + 1)
        l30, l31, l32 = load(L, b3 + j), load(L, b3 + j + 1), load(L, b3 + j + 2)
        _solve_corner(X, a0 + j, s00, s01, s02, s03, d0, d1, d2, d3, l10, l20, l21, l30, l31, l32)
        _solve_corner(X, a1 + j, s10, s11, s12, s13, d0, d1, d2, d3, l10, l20, l21, l30, l31, l32)
        _solve_corner(X, a2 + j, s20, s21, s22, s23, d0, d1, d2, d3, l10, l20, l21, l30, l31, l32)
        _solve_corner(X, a3 + j, s30, s31, s32, s33, d0, d1, d2, d3, l10, l20, l21, l30, l31, l32)


@compiled
def _factor_corner(A, across, i):
    """Factors the block of four on the diagonal; its diagonal gets its reciprocal, NaN where it has none."""
    a0, a1, a2, a3 = i * across + i, (i + 1) * across + i, (i + 2) * across + i, (i + 3) * across + i
    s00, s10, s11, s20, s21 = load(A, a0), load(A, a1), load(A, a1 + 1), load(A, a2), load(A, a2 + 1)
    s22, s30, s31, s32, s33 = load(A, a2 + 2), load(A, a3), load(A, a3 + 1), load(A, a3 + 2), load(A, a3 + 3)
    for k in range(-i, 0):
        v0, v1, v2, v3 = load(A, a0 + k), load(A, a1 + k), load(A, a2 + k), load(A, a3 + k)
        s00 -= v0 * v0
        s10 -= v1 * v0
        s11 -= v1 * v1
        s20 -= v2 * v0
        s21 -= v2 * v1
        s22 -= v2 * v2
        s30 -= v3 * v0
        s31 -= v3 * v1
        s32 -= v3 * v2
        s33 -= v3 * v3
    d0 = rsqrt(s00)
    s10, s20, s30 = s10 * d0, s20 * d0, s30 * d0
    d1 = rsqrt(s11 - s10 * s10)
    s21, s31 = (s21 - s20 * s10) * d1, (s31 - s30 * s10) * d1
    d2 = rsqrt(s22 - s20 * s20 - s21 * s21)
    s32 = (s32 - s30 * s20 - s31 * s21) * d2
    d3 = rsqrt(s33 - s30 * s30 - s31 * s31 - s32 * s32)
    store(A, a0, d0)
    store(A, a1, s10)
    store(A, a1 + 1, d1)
    store(A, a2, s20)
    store(A, a2 + 1, s21)
    store(A, a2 + 2, d2)
    store(A, a3, s30)
    store(A, a3 + 1, s31)
    store(A, a3 + 2, s32)
    store(A, a3 + 3, d3)


@compiled
def factor(A, across, n):
    """The Cholesky factor, in place; NaN in the lanes of a matrix that is not positive definite."""
    for i in range(0, n, 4):
        solve_rows(A, i, A, across, 0, i)
        _factor_corner(A, across, i)


@compiled
def invert(L, across, n, W, inverse):
    """The rows of L^-T into W, and their products, the inverse of L L^T, into a triangle."""
    zero, one = broadcast(0.0), broadcast(1.0)
    for j in range(0, n, 4):
        for r in range(j, j + 4):
            for k in range(j, n):
                store(W, r * across + k, zero)
            store(W, r * across + r, one)
        solve_rows(W, j, L, across, j, n)
    for i in range(0, n, 4):
        a0, a1, a2, a3 = i * across, (i + 1) * across, (i + 2) * across, (i + 3) * across
        at0 = i * (i + 1) // 2
        at1 = at0 + i + 1
        at2 = at1 + i + 2
        at3 = at2 + i + 3
        for j in range(0, i + 4, 4):
            b0, b1, b2, b3 = j * across, (j + 1) * across, (j + 2) * across, (j + 3) * across
            s00, s01, s02, s03, s10, s11, s12, s13 = zero, zero, zero, zero, zero, zero, zero, zero
            s20, s21, s22, s23, s30, s31, s32, s33 = zero, zero, zero, zero, zero, zero, zero, zero
            for k in range(i, n):
                v0, v1, v2, v3 = load(W, a0 + k), load(W, a1 + k), load(W, a2 + k), load(W, a3 + k)
                w = load(W, b0 + k)
                s00 += v0 * w
                s10 += v1 * w
                s20 += v2 * w
                s30 += v3 * w
                w = load(W, b1 + k)
                s01 += v0 * w
                s11 += v1 * w
                s21 += v2 * w
                s31 += v3 * w
                w = load(W, b2 + k)
                s02 += v0 * w
                s12 += v1 * w
                s22 += v2 * w
                s32 += v3 * w
                w = load(W, b3 + k)
                s03 += v0 * w
                s13 += v1 * w
                s23 += v2 * w
                s33 += v3 * w
            store(inverse, at0 + j, s00)
            store(inverse, at1 + j, s10)
            store(inverse, at1 + j + 1, s11)
            store(inverse, at2 + j, s20)
            store(inverse, at2 + j + 1, s21)
            store(inverse, at2 + j + 2, s22)
            store(inverse, at3 + j, s30)
            store(inverse, at3 + j + 1, s31)
            store(inverse, at3 + j + 2, s32)
            store(inverse, at3 + j + 3, s33)
            if j < i:
                store(inverse, at0 + j + 1, s01)
                store(inverse, at0 + j + 2, s02)
                store(inverse, at0 + j + 3, s03)
                store(inverse, at1 + j + 2, s12)
                store(inverse, at1 + j + 3, s13)
                store(inverse, at2 + j + 3, s23)


@compiled
def symmetric_matvec(A, first, n, v, there, out, first_out):
    """A symmetric matrix, its triangle from row `first` on, times a vector, at the points that are there."""
    for i in range(n):
        store(out, first_out + i, broadcast(0.0))
    at = first
    for i in range(n):
        vi = load(v, i)
        s = load(A, at + i) * vi
        for j in range(i):
            value = load(A, at + j)
            s += value * load(v, j)
            store(out, first_out + j, load(out, first_out + j) + value * vi)
        store(out, first_out + i, (load(out, first_out + i) + s))
        at += i + 1
    for i in range(n):
        store(out, first_out + i, load(out, first_out + i) * load(there, i))


@compiled
def solve_small(P, A, b, free, damping, floor, x, C):
    """x solves (A + damping diag A) x = b over those of the first P places that are free, and is 0 at the others; of
    one task. False: it cannot."""
    for i in range(P):
        x[i] = b[i] if free[i] else 0.0
        for j in range(i + 1):
            C[i, j] = A[i, j] if free[i] and free[j] else 0.0
        C[i, i] = A[i, i] * (1.0 + damping) + floor if free[i] else 1.0
    for i in range(P):
        for j in range(i + 1):
            s = C[i, j]
            for k in range(j):
                s -= C[i, k] * C[j, k]
            if i == j:
                if not s > 0.0:
                    return False
                C[i, i] = math.sqrt(s)
            else:
                C[i, j] = s / C[j, j]
    for i in range(P):
        s = x[i]
        for k in range(i):
            s -= C[i, k] * x[k]
        x[i] = s / C[i, i]
    for i in range(P - 1, -1, -1):
        s = x[i]
        for k in range(i + 1, P):
            s -= C[k, i] * x[k]
        x[i] = s / C[i, i]
    return True
