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
        v, w = _down(a, first_a + k, 1), _down(b, first_b + k, 1)
        s0, s1, s2, s3 = s0 + v[0] * w[0], s1 + v[1] * w[1], s2 + v[2] * w[2], s3 + v[3] * w[3]
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


@inlined
def _down(X, at, across):
    """Four numbers of a column, or, 1 apart, of a row."""
    return load(X, at), load(X, at + across), load(X, at + 2 * across), load(X, at + 3 * across)


@inlined
def _lower(X, at, across):
    """The ten numbers of a block's lower half, row after row."""
    second, third, last = at + across, at + 2 * across, at + 3 * across
    return (
        load(X, at), load(X, second), load(X, second + 1), load(X, third), load(X, third + 1), load(X, third + 2),
        load(X, last), load(X, last + 1), load(X, last + 2), load(X, last + 3),
    )  # fmt: skip


@inlined
def _store_row(X, at, row):
    """Stores the numbers of a row, of which there are up to four."""
    for k in range(len(row)):
        store(X, at + k, row[k])


@inlined
def _add(s, v, w):
    """s + v w, of four."""
    return s[0] + v[0] * w, s[1] + v[1] * w, s[2] + v[2] * w, s[3] + v[3] * w


@inlined
def _subtract(s, v, w):
    """s - v w, of four."""
    return s[0] - v[0] * w, s[1] - v[1] * w, s[2] - v[2] * w, s[3] - v[3] * w


@compiled
def _solve_corner(X, at, s0, s1, s2, s3, corner):
    """Four sums of a row times the inverse of a corner."""
    d0, l10, d1, l20, l21, d2, l30, l31, l32, d3 = corner
    s0 = s0 * d0
    s1 = (s1 - s0 * l10) * d1
    s2 = (s2 - s0 * l20 - s1 * l21) * d2
    s3 = (s3 - s0 * l30 - s1 * l31 - s2 * l32) * d3
    _store_row(X, at, (s0, s1, s2, s3))


@compiled
def solve_rows(X, r, L, across, first, last):
    """Rows r to r + 3 of X times L^-T, from column `first` on, before which they are 0. L has the reciprocal of its
    diagonal. Four rows against four: sixteen sums in registers, each number read used four times."""
    a = r * across
    for j in range(first, last, 4):
        b, at = j * across, a + j
        c0, c1, c2, c3 = (
            _down(X, at, across),
            _down(X, at + 1, across),
            _down(X, at + 2, across),
            _down(X, at + 3, across),
        )
        for k in range(first, j):
            v, w = _down(X, a + k, across), _down(L, b + k, across)
            c0, c1, c2, c3 = (
                _subtract(c0, v, w[0]),
                _subtract(c1, v, w[1]),
                _subtract(c2, v, w[2]),
                _subtract(c3, v, w[3]),
            )
        corner = _lower(L, b + j, across)
        _solve_corner(X, at, c0[0], c1[0], c2[0], c3[0], corner)
        _solve_corner(X, at + across, c0[1], c1[1], c2[1], c3[1], corner)
        _solve_corner(X, at + 2 * across, c0[2], c1[2], c2[2], c3[2], corner)
        _solve_corner(X, at + 3 * across, c0[3], c1[3], c2[3], c3[3], corner)


@compiled
def _factor_corner(A, across, i):
    """Factors the block of four on the diagonal; its diagonal gets its reciprocal, NaN where it has none."""
    at = i * across + i
    s00, s10, s11, s20, s21, s22, s30, s31, s32, s33 = _lower(A, at, across)
    for k in range(-i, 0):
        v0, v1, v2, v3 = _down(A, at + k, across)
        s00, s10, s20, s30 = s00 - v0 * v0, s10 - v1 * v0, s20 - v2 * v0, s30 - v3 * v0
        s11, s21, s31 = s11 - v1 * v1, s21 - v2 * v1, s31 - v3 * v1
        s22, s32, s33 = s22 - v2 * v2, s32 - v3 * v2, s33 - v3 * v3
    d0 = rsqrt(s00)
    s10, s20, s30 = s10 * d0, s20 * d0, s30 * d0
    d1 = rsqrt(s11 - s10 * s10)
    s21, s31 = (s21 - s20 * s10) * d1, (s31 - s30 * s10) * d1
    d2 = rsqrt(s22 - s20 * s20 - s21 * s21)
    s32 = (s32 - s30 * s20 - s31 * s21) * d2
    d3 = rsqrt(s33 - s30 * s30 - s31 * s31 - s32 * s32)
    store(A, at, d0)
    _store_row(A, at + across, (s10, d1))
    _store_row(A, at + 2 * across, (s20, s21, d2))
    _store_row(A, at + 3 * across, (s30, s31, s32, d3))


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
        for j in range(0, i + 4, 4):
            c0 = c1 = c2 = c3 = (zero, zero, zero, zero)
            for k in range(i, n):
                v, w = _down(W, i * across + k, across), _down(W, j * across + k, across)
                c0, c1, c2, c3 = _add(c0, v, w[0]), _add(c1, v, w[1]), _add(c2, v, w[2]), _add(c3, v, w[3])
            first = i * (i + 1) // 2 + j
            second = first + i + 1
            third = second + i + 2
            last = third + i + 3
            _store_row(inverse, last, (c0[3], c1[3], c2[3], c3[3]))
            if j < i:
                _store_row(inverse, first, (c0[0], c1[0], c2[0], c3[0]))
                _store_row(inverse, second, (c0[1], c1[1], c2[1], c3[1]))
                _store_row(inverse, third, (c0[2], c1[2], c2[2], c3[2]))
            else:  # on the diagonal, what lies below it
                store(inverse, first, c0[0])
                _store_row(inverse, second, (c0[1], c1[1]))
                _store_row(inverse, third, (c0[2], c1[2], c2[2]))


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
