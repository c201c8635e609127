"""Linear algebra of small matrices, compiled: four rows against four, sixteen sums in registers.

A symmetric matrix is its lower triangle, row after row, in one vector; while it is factored it is the lower half of a
square whose side is a multiple of four, with rows of the identity at the end.
"""

import math
from typing import Any

import numba
import numpy as np

_FAST: Any = {"reassoc", "contract", "arcp", "nsz"}  # not nnan, ninf: an infinity is how a failure is told
_SETTINGS: Any = {"fastmath": _FAST, "error_model": "numpy", "cache": True, "no_cpython_wrapper": True}
compiled: Any = numba.njit(**_SETTINGS)
"""For functions that only compiled ones call."""


@compiled
def dot(a, b):
    s = 0.0
    for k in range(len(a)):
        s += a[k] * b[k]
    return s


@compiled
def add(a, factor, b):
    for k in range(len(a)):
        a[k] += factor * b[k]


@compiled
def sweep(X, r, L, first, last):
    """Rows r to r + 3 of X times L^-T, from column `first` on, before which they are 0. L has the reciprocal of its
    diagonal. Four rows against four: sixteen sums in registers, each number read used four times."""
    a0, a1, a2, a3 = X[r], X[r + 1], X[r + 2], X[r + 3]
    for j in range(first, last, 4):
        b0, b1, b2, b3 = L[j], L[j + 1], L[j + 2], L[j + 3]
        s00, s01, s02, s03 = a0[j], a0[j + 1], a0[j + 2], a0[j + 3]
        s10, s11, s12, s13 = a1[j], a1[j + 1], a1[j + 2], a1[j + 3]
        s20, s21, s22, s23 = a2[j], a2[j + 1], a2[j + 2], a2[j + 3]
        s30, s31, s32, s33 = a3[j], a3[j + 1], a3[j + 2], a3[j + 3]
        for k in range(first, j):
            v0, v1, v2, v3 = a0[k], a1[k], a2[k], a3[k]
            w0, w1, w2, w3 = b0[k], b1[k], b2[k], b3[k]
            s00 -= v0 * w0
            s01 -= v0 * w1
            s02 -= v0 * w2
            s03 -= v0 * w3
            s10 -= v1 * w0
            s11 -= v1 * w1
            s12 -= v1 * w2
            s13 -= v1 * w3
            s20 -= v2 * w0
            s21 -= v2 * w1
            s22 -= v2 * w2
            s23 -= v2 * w3
            s30 -= v3 * w0
            s31 -= v3 * w1
            s32 -= v3 * w2
            s33 -= v3 * w3
        d0, d1, d2, d3 = b0[j], b1[j + 1], b2[j + 2], b3[j + 3]
        l10, l20, l21, l30, l31, l32 = b1[j], b2[j], b2[j + 1], b3[j], b3[j + 1], b3[j + 2]
        a0[j] = s00 = s00 * d0
        a0[j + 1] = s01 = (s01 - s00 * l10) * d1
        a0[j + 2] = s02 = (s02 - s00 * l20 - s01 * l21) * d2
        a0[j + 3] = (s03 - s00 * l30 - s01 * l31 - s02 * l32) * d3
        a1[j] = s10 = s10 * d0
        a1[j + 1] = s11 = (s11 - s10 * l10) * d1
        a1[j + 2] = s12 = (s12 - s10 * l20 - s11 * l21) * d2
        a1[j + 3] = (s13 - s10 * l30 - s11 * l31 - s12 * l32) * d3
        a2[j] = s20 = s20 * d0
        a2[j + 1] = s21 = (s21 - s20 * l10) * d1
        a2[j + 2] = s22 = (s22 - s20 * l20 - s21 * l21) * d2
        a2[j + 3] = (s23 - s20 * l30 - s21 * l31 - s22 * l32) * d3
        a3[j] = s30 = s30 * d0
        a3[j + 1] = s31 = (s31 - s30 * l10) * d1
        a3[j + 2] = s32 = (s32 - s30 * l20 - s31 * l21) * d2
        a3[j + 3] = (s33 - s30 * l30 - s31 * l31 - s32 * l32) * d3


@compiled
def _corner(A, i):
    """Factors the block of four on the diagonal; its diagonal gets its reciprocal. False: not positive definite."""
    a0, a1, a2, a3 = A[i], A[i + 1], A[i + 2], A[i + 3]
    s00, s10, s11, s20, s21 = a0[i], a1[i], a1[i + 1], a2[i], a2[i + 1]
    s22, s30, s31, s32, s33 = a2[i + 2], a3[i], a3[i + 1], a3[i + 2], a3[i + 3]
    for k in range(i):
        v0, v1, v2, v3 = a0[k], a1[k], a2[k], a3[k]
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
    d0 = _root(s00)
    s10, s20, s30 = s10 * d0, s20 * d0, s30 * d0
    d1 = _root(s11 - s10 * s10)
    s21, s31 = (s21 - s20 * s10) * d1, (s31 - s30 * s10) * d1
    d2 = _root(s22 - s20 * s20 - s21 * s21)
    s32 = (s32 - s30 * s20 - s31 * s21) * d2
    d3 = _root(s33 - s30 * s30 - s31 * s31 - s32 * s32)
    a0[i], a1[i], a1[i + 1], a2[i], a2[i + 1] = d0, s10, d1, s20, s21
    a2[i + 2], a3[i], a3[i + 1], a3[i + 2], a3[i + 3] = d2, s30, s31, s32, d3
    return d0 < np.inf and d1 < np.inf and d2 < np.inf and d3 < np.inf


@compiled
def _root(x):
    """One over the square root; infinite where there is none."""
    return 1.0 / math.sqrt(x) if x > 0.0 and x < np.inf else np.inf


@compiled
def factor(A, n):
    """The Cholesky factor, in place. False: not positive definite."""
    for i in range(0, n, 4):
        sweep(A, i, A, 0, i)
        if not _corner(A, i):
            return False
    return True


@compiled
def invert(L, n, W, inverse):
    """The rows of L^-T into W, and their products, the inverse of L L^T, into a triangle."""
    for j in range(0, n, 4):
        for r in range(j, j + 4):
            row = W[r]
            for k in range(j, n):
                row[k] = 0.0
            row[r] = 1.0
        sweep(W, j, L, j, n)
    for i in range(0, n, 4):
        a0, a1, a2, a3 = W[i], W[i + 1], W[i + 2], W[i + 3]
        at0 = i * (i + 1) // 2
        at1 = at0 + i + 1
        at2 = at1 + i + 2
        at3 = at2 + i + 3
        for j in range(0, i + 4, 4):
            b0, b1, b2, b3 = W[j], W[j + 1], W[j + 2], W[j + 3]
            s00, s01, s02, s03, s10, s11, s12, s13 = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
            s20, s21, s22, s23, s30, s31, s32, s33 = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
            for k in range(i, n):
                v0, v1, v2, v3 = a0[k], a1[k], a2[k], a3[k]
                w0, w1, w2, w3 = b0[k], b1[k], b2[k], b3[k]
                s00 += v0 * w0
                s01 += v0 * w1
                s02 += v0 * w2
                s03 += v0 * w3
                s10 += v1 * w0
                s11 += v1 * w1
                s12 += v1 * w2
                s13 += v1 * w3
                s20 += v2 * w0
                s21 += v2 * w1
                s22 += v2 * w2
                s23 += v2 * w3
                s30 += v3 * w0
                s31 += v3 * w1
                s32 += v3 * w2
                s33 += v3 * w3
            inverse[at0 + j] = s00
            inverse[at1 + j], inverse[at1 + j + 1] = s10, s11
            inverse[at2 + j], inverse[at2 + j + 1], inverse[at2 + j + 2] = s20, s21, s22
            inverse[at3 + j], inverse[at3 + j + 1], inverse[at3 + j + 2], inverse[at3 + j + 3] = s30, s31, s32, s33
            if j < i:
                inverse[at0 + j + 1], inverse[at0 + j + 2], inverse[at0 + j + 3] = s01, s02, s03
                inverse[at1 + j + 2], inverse[at1 + j + 3] = s12, s13
                inverse[at2 + j + 3] = s23


@compiled
def times(A, n, v, out):
    """A symmetric matrix times a vector."""
    for i in range(n):
        out[i] = 0.0
    at = 0
    for i in range(n):
        vi = v[i]
        row = A[at : at + i]
        s = dot(row, v[:i])
        for j in range(i):
            out[j] += row[j] * vi
        out[i] += s + A[at + i] * vi
        at += i + 1


@compiled
def solve_small(P, A, b, free, damping, floor, x, C):
    """x solves (A + damping diag A) x = b over those of the first P places that are free, and is 0 at the others.
    False: it cannot."""
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


@compiled
def spread(K, n, noise, known, A):
    """A triangle as the lower half of a matrix, with the noise, and rows of the identity up to the next multiple of
    four."""
    at = 0
    for i in range(n):
        row, mine = A[i], K[at : at + i + 1]
        for j in range(i + 1):
            row[j] = mine[j]
        row[i] += noise + known[i]
        at += i + 1
    up = -(-n // 4) * 4
    for i in range(n, up):
        row = A[i]
        for j in range(up):
            row[j] = 0.0
        row[i] = 1.0
    return up
