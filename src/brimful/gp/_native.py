"""Fitting on the CPU: one task at a time, all of it in one compiled loop, the tasks shared out over the threads.

The twin of scoring.py, where the method is explained, with the same names; a test holds the two together. A symmetric
matrix is its lower triangle, row after row, in one vector, so that a kernel is a few long loops over pairs of points.
"""

import math
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numba
import numpy as np
import torch

from . import scoring
from .kernels import SHAPES, Kernel
from .priors import Limits
from .tasks import Tasks

SECOND = scoring.SECOND
_SHARE = 32  # tasks that a thread takes at a time

_FAST: Any = {"reassoc", "contract", "arcp", "nsz"}  # not nnan, ninf: an infinity is how a failure is told
_LOG2PI = math.log(2 * math.pi)

_SETTINGS: Any = {"fastmath": _FAST, "error_model": "numpy", "cache": True, "no_cpython_wrapper": True}
_inner: Any = numba.njit(**_SETTINGS)

RBF, MATERN12, MATERN32, MATERN52, RATIONAL, PERIODIC, LINEAR, CONSTANT = range(len(SHAPES))


@_inner
def _exp(x: float) -> float:
    """The exponential of a number that is not positive, in operations that a loop over an array turns into vectors:
    a polynomial on a thousandth of it, squared ten times. Within 1e-12 of the true one, relatively, down to 1e-30."""
    x = max(x, -700.0) * (1.0 / 1024.0)
    y = 1.0 + x * (
        1.0 + x * (1.0 / 2 + x * (1.0 / 6 + x * (1.0 / 24 + x * (1.0 / 120 + x * (1.0 / 720 + x * (1.0 / 5040))))))
    )
    y *= y
    y *= y
    y *= y
    y *= y
    y *= y
    y *= y
    y *= y
    y *= y
    y *= y
    return y * y


@_inner
def _pairs(x, n, D, square, product):
    """Squared differences of every pair, one row a dimension, and inner products."""
    at = 0
    for i in range(n):
        for j in range(i + 1):
            total = 0.0
            for d in range(D):
                square[d, at + j] = (x[i, d] - x[j, d]) ** 2
                total += x[i, d] * x[j, d]
            product[at + j] = total
        at += i + 1


@_inner
def _shape(kind, theta, first, D, square, product, m, out, r2, slope, dK):
    """A kernel's shape over all pairs, and its derivatives by the logarithms of its parameters, in the rows of dK that
    are theirs."""
    if kind == LINEAR:
        for q in range(m):
            out[q] = product[q]
        return
    if kind == CONSTANT:
        for q in range(m):
            out[q] = 1.0
        return
    at = first + 1 if kind in (RATIONAL, PERIODIC) else first
    ard = len(theta) - at  # lengthscales from here on
    if kind == PERIODIC:
        _periodic(theta, first, at, ard, D, square, m, out, r2, dK)
        return
    for q in range(m):
        r2[q] = 0.0
    for d in range(D):
        inverse = math.exp(-2.0 * theta[at + (d if ard > 1 else 0)])
        for q in range(m):
            r2[q] += square[d, q] * inverse
    if kind == RBF:
        for q in range(m):
            out[q] = _exp(-0.5 * r2[q])
            slope[q] = out[q]
    elif kind == MATERN12:
        for q in range(m):
            r = math.sqrt(r2[q])
            out[q] = _exp(-r)
            slope[q] = out[q] / max(r, 1e-150)
    elif kind == MATERN32:
        for q in range(m):
            r = math.sqrt(3.0 * r2[q])
            e = _exp(-r)
            out[q] = (1.0 + r) * e
            slope[q] = 3.0 * e
    elif kind == MATERN52:
        for q in range(m):
            r = math.sqrt(5.0 * r2[q])
            e = _exp(-r)
            out[q] = (1.0 + r + r * r / 3.0) * e
            slope[q] = 5.0 / 3.0 * (1.0 + r) * e
    else:
        alpha = math.exp(theta[first])
        for q in range(m):
            u = 1.0 + r2[q] / (2.0 * alpha)
            log_u = math.log(u)
            out[q] = math.exp(-alpha * log_u)
            slope[q] = out[q] / u
            dK[first, q] = out[q] * (-alpha * log_u + r2[q] / (2.0 * u))
    if ard == 1:
        for q in range(m):
            dK[at, q] = slope[q] * r2[q]
    else:
        for d in range(D):
            inverse = math.exp(-2.0 * theta[at + d])
            for q in range(m):
                dK[at + d, q] = slope[q] * square[d, q] * inverse


@_inner
def _periodic(theta, first, at, ard, D, square, m, out, r2, dK):
    rate = math.pi * math.exp(-theta[first])
    for q in range(m):
        r2[q] = 0.0
        out[q] = 0.0
    for d in range(D):
        inverse = math.exp(-2.0 * theta[at + (d if ard > 1 else 0)])
        for q in range(m):
            angle = math.sqrt(square[d, q]) * rate
            wave = math.sin(angle) ** 2 * inverse
            r2[q] += wave
            out[q] += 2.0 * math.sin(2.0 * angle) * angle * inverse
            if ard > 1:
                dK[at + d, q] = 4.0 * wave
    for q in range(m):
        dK[first, q] = out[q]
        if ard == 1:
            dK[at, q] = 4.0 * r2[q]
        out[q] = _exp(-2.0 * r2[q])
    for p in range(first, at + ard):
        for q in range(m):
            dK[p, q] *= out[q]


@_inner
def _covariance(factors, theta, D, square, product, n, K, shapes, r2, slope, dK):
    """The covariance without its noise, and its derivatives. `factors` has a row for each shape: kind, term, first
    parameter, one past the last, and the place of its term's variance; those of one term stand together."""
    m = n * (n + 1) // 2
    F = len(factors)
    for f in range(F):
        _shape(factors[f, 0], theta[: factors[f, 3]], factors[f, 2], D, square, product, m, shapes[f], r2, slope, dK)
    for q in range(m):
        K[q] = 0.0
    f = 0
    while f < F:
        stop = f
        while stop < F and factors[stop, 1] == factors[f, 1]:
            stop += 1
        place = factors[f, 4]
        variance = math.exp(theta[place])
        for g in range(f, stop):
            for p in range(factors[g, 2], factors[g, 3]):
                for q in range(m):
                    dK[p, q] *= variance
                for h in range(f, stop):
                    if h != g:
                        for q in range(m):
                            dK[p, q] *= shapes[h, q]
        for q in range(m):
            r2[q] = variance * shapes[f, q]
        for g in range(f + 1, stop):
            for q in range(m):
                r2[q] *= shapes[g, q]
        for q in range(m):
            K[q] += r2[q]
            dK[place, q] = r2[q]
        f = stop


@_inner
def _dot(a, b):
    s = 0.0
    for k in range(len(a)):
        s += a[k] * b[k]
    return s


@_inner
def _sweep(X, r, L, first, last):
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


@_inner
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


@_inner
def _root(x):
    """One over the square root; infinite where there is none."""
    return 1.0 / math.sqrt(x) if x > 0.0 and x < np.inf else np.inf


@_inner
def _factor(A, n):
    """The Cholesky factor, in place. False: not positive definite."""
    for i in range(0, n, 4):
        _sweep(A, i, A, 0, i)
        if not _corner(A, i):
            return False
    return True


@_inner
def _invert(L, n, W, inverse):
    """The rows of L^-T into W, and their products, the inverse of L L^T, into a triangle."""
    for j in range(0, n, 4):
        for r in range(j, j + 4):
            row = W[r]
            for k in range(j, n):
                row[k] = 0.0
            row[r] = 1.0
        _sweep(W, j, L, j, n)
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


@_inner
def _times(A, n, v, out):
    """A symmetric matrix times a vector."""
    for i in range(n):
        out[i] = 0.0
    at = 0
    for i in range(n):
        vi = v[i]
        row = A[at : at + i]
        s = _dot(row, v[:i])
        for j in range(i):
            out[j] += row[j] * vi
        out[i] += s + A[at + i] * vi
        at += i + 1


@_inner
def _small_solve(P, A, b, free, damping, floor, x, C):
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


@_inner
def _spread(K, n, noise, known, A):
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


@_inner
def _fit_mean(Z, n, Q, small, beta, C, free):
    """The mean's coefficients by generalised least squares, the first row of Z made what is left of the targets. The
    other rows are the regressors, all times L^-1. A regressor that the points cannot tell gets 0."""
    for i in range(Q):
        small[Q, i] = _dot(Z[1 + i, :n], Z[0, :n])
        for j in range(i + 1):
            small[i, j] = _dot(Z[1 + i, :n], Z[1 + j, :n])
            small[j, i] = small[i, j]
    for i in range(Q):
        left = small[i, i]
        # What is left of a regressor beyond the ones before it; nothing, when there are too few points.
        if i > 0 and _small_solve(i, small, small[i], free, 0.0, 0.0, beta, C):
            for j in range(i):
                left -= small[i, j] * beta[j]
        free[i] = left > 1e-10 * small[i, i]
    if not _small_solve(Q, small, small[Q], free, 0.0, 0.0, beta, C):
        for i in range(Q):
            beta[i] = 0.0
    for i in range(Q):
        _add(Z[0, :n], -beta[i], Z[1 + i, :n])


@_inner
def _add(a, factor, b):
    for k in range(len(a)):
        a[k] += factor * b[k]


@_inner
def _value(A, n, up, y, H, Q, Z, small, beta, C, free, parts):
    """Factors the covariance in place, and fits the mean. parts: the quadratic form and the log determinant."""
    if not _factor(A, up):
        return False
    for c in range(Z.shape[0]):
        row = Z[c]
        for i in range(up):
            row[i] = 0.0
        for i in range(n):
            if c == 0:
                row[i] = y[i]
            elif c <= Q:
                row[i] = H[i, c - 1]
    for c in range(0, Z.shape[0], 4):
        _sweep(Z, c, A, 0, up)
    if Q > 0:
        _fit_mean(Z, n, Q, small, beta, C, free)
    parts[0] = _dot(Z[0, :n], Z[0, :n])
    # The determinant as a product, taken out before it can overflow: a logarithm costs as much as twenty factors.
    logdet, product = 0.0, 1.0
    for i in range(n):
        product *= A[i, i]
        if not (product > 1e-250 and product < 1e250) or i == n - 1:
            logdet -= 2.0 * math.log(product)
            product = 1.0
    parts[1] = logdet
    return parts[0] < np.inf


@_inner
def _slopes(A, n, up, P, theta, Z, Q, small, C, free, W, G, inverse, a, dK, U, gradient, info, other):
    """Gradient and average information from the factored covariance."""
    _invert(A, up, W, inverse)
    for i in range(n):
        a[i] = _dot(W[i, i:n], Z[0, i:n])
    noise = math.exp(theta[P - 1])
    trace, at = 0.0, 0
    for i in range(n):
        own, row, ai = G[at : at + i], inverse[at : at + i], a[i]
        for j in range(i):
            own[j] = 2.0 * (row[j] - ai * a[j])
        G[at + i] = inverse[at + i] - ai * ai
        trace += G[at + i]
        at += i + 1
    m = n * (n + 1) // 2
    for p in range(U.shape[0]):
        row = U[p]
        for i in range(up):
            row[i] = 0.0
    for p in range(P - 1):
        gradient[p] = 0.5 * _dot(G[:m], dK[p, :m])
        _times(dK[p], n, a, U[p])
    gradient[P - 1] = 0.5 * noise * trace
    for i in range(n):
        U[P - 1, i] = noise * a[i]
    for p in range(0, U.shape[0], 4):
        _sweep(U, p, A, 0, up)
    for p in range(P):
        # Without what the mean would take up of it.
        for c in range(Q):
            small[Q, c] = _dot(Z[1 + c, :n], U[p, :n])
        if Q > 0 and _small_solve(Q, small, small[Q], free, 0.0, 0.0, other, C):
            for c in range(Q):
                _add(U[p, :n], -other[c], Z[1 + c, :n])
        for o in range(p + 1):
            info[p, o] = 0.5 * _dot(U[p, :n], U[o, :n])
            info[o, p] = info[p, o]


@_inner
def _pull(theta, centre, precision):
    s = 0.0
    for p in range(len(theta)):
        if precision[p] > 0.0:  # the logarithm of a noise that is known to be 0 is not finite
            s += precision[p] * (theta[p] - centre[p]) ** 2
    return 0.5 * s


@_inner
def _learn(info, steps, changes, pairs, Bs):
    """Bends the information so that the last steps would have changed the gradient as they did (BFGS updates)."""
    P = len(info)
    for k in range(max(0, pairs - len(steps)), pairs):
        s, y = steps[k % len(steps)], changes[k % len(steps)]
        sy, sBs = 0.0, 0.0
        for p in range(P):
            Bs[p] = 0.0
            for o in range(P):
                Bs[p] += info[p, o] * s[o]
            sy += s[p] * y[p]
            sBs += s[p] * Bs[p]
        if sy > 1e-3 * sBs and sBs > 0.0:
            for p in range(P):
                for o in range(P):
                    info[p, o] += y[p] * y[o] / sy - Bs[p] * Bs[o] / sBs


@_inner
def _hollows(score, shape, order):
    """The points of a grid that have no better neighbour along any axis, best first; how many there are."""
    count = 0
    for g in range(len(score)):
        if not score[g] < np.inf:
            continue
        stride, lowest = 1, True
        for axis in range(len(shape) - 1, -1, -1):
            place = (g // stride) % shape[axis]
            if place > 0 and score[g - stride] <= score[g]:  # of a plateau, the first
                lowest = False
            if place < shape[axis] - 1 and score[g + stride] < score[g]:
                lowest = False
            stride *= shape[axis]
        if lowest:
            at = count
            while at > 0 and score[order[at - 1]] > score[g]:
                order[at] = order[at - 1]
                at -= 1
            order[at] = g
            count += 1
    if count == 1:
        second = _second(score, shape, order[0])
        if second >= 0:
            order[1] = second
            count = 2
    return count


@_inner
def _second(score, shape, first):
    """The best point that is not beside the only hollow, where it is not much worse; -1 if there is none."""
    chosen = -1
    for g in range(len(score)):
        if score[g] <= score[first] + SECOND and (chosen < 0 or score[g] < score[chosen]):
            stride, beside = 1, True
            for axis in range(len(shape) - 1, -1, -1):
                if abs((g // stride) % shape[axis] - (first // stride) % shape[axis]) > 1:
                    beside = False
                stride *= shape[axis]
            if not beside:
                chosen = g
    return chosen


class Room(NamedTuple):
    """Working memory of one thread, for tasks of up to N points."""

    square: Any
    product: Any
    K: Any
    shapes: Any
    r2: Any
    slope: Any
    dK: Any
    A: Any
    W: Any
    G: Any
    inverse: Any
    x: Any
    y: Any
    H: Any
    known: Any
    a: Any
    Z: Any
    U: Any
    small: Any
    C: Any
    beta: Any
    other: Any
    kept: Any
    meanfree: Any
    free: Any
    parts: Any
    gradient: Any
    before: Any
    info: Any
    now: Any
    trial: Any
    step: Any
    steps: Any
    changes: Any
    score: Any
    starts: Any
    order: Any


@_inner
def _room(N, D, P, Q, F, G):
    up, rows = -(-N // 4) * 4, max(P, Q) + 2
    most = up * (up + 1) // 2
    return Room(
        np.empty((D, most)), np.empty(most), np.empty(most), np.empty((F, most)), np.empty(most), np.empty(most),
        np.empty((P, most)), np.zeros((up, up)), np.zeros((up, up)), np.empty(most), np.empty(most),
        np.empty((N, D)), np.empty(N), np.empty((N, Q)), np.empty(N),
        np.empty(N), np.empty((-(-(Q + 1) // 4) * 4, up)), np.empty((-(-P // 4) * 4, up)),
        np.empty((rows, rows)), np.empty((rows, rows)), np.zeros(rows), np.empty(rows), np.empty(Q),
        np.empty(rows, np.bool_), np.empty(P, np.bool_),
        np.empty(2), np.empty(P), np.empty(P), np.empty((P, P)),
        np.empty(P), np.empty(P), np.empty(P), np.empty((P + 2, P)), np.empty((P + 2, P)),
        np.empty(G), np.empty((G, P)), np.empty(G, np.int64),
    )  # fmt: skip


class Rules(NamedTuple):
    """What holds for every task. factors: as `_covariance` has them. grid, shape: the first guesses, in a grid of that
    many along each axis. precision: of the priors. fixed: parameters that stay as given. scales: those that multiply
    all of the covariance, all False where some part of it is not to be scaled."""

    factors: Any
    grid: Any
    shape: Any
    precision: Any
    fixed: Any
    scales: Any
    follow: int
    iterations: int
    tolerance: float
    reach: float


@_inner
def _objective(theta, n, rules, centre, room):
    """Likelihood and prior at theta, the covariance left factored; infinite where it is not positive definite."""
    _covariance(
        rules.factors, theta, room.x.shape[1], room.square, room.product, n, room.K, room.shapes, room.r2, room.slope,
        room.dK,
    )  # fmt: skip
    return _noisy(theta, n, rules, centre, room)


@_inner
def _noisy(theta, n, rules, centre, room):
    """The same, where only the noise has changed since."""
    Q = room.H.shape[1]
    up = _spread(room.K, n, math.exp(theta[len(theta) - 1]), room.known, room.A)
    if not _value(room.A, n, up, room.y, room.H, Q, room.Z, room.small, room.beta, room.C, room.meanfree, room.parts):
        return np.inf
    return 0.5 * (room.parts[0] + room.parts[1] + n * _LOG2PI) + _pull(theta, centre, rules.precision)


@_inner
def _survey(n, rules, theta, low, high, centre, room):
    """Scores the grid of first guesses, each with the best factor for all its variances; how many hollows it has."""
    P = len(theta)
    noises = 1 if rules.fixed[P - 1] else rules.shape[len(rules.shape) - 1]
    stale = False
    for g in range(len(rules.grid)):
        start = room.starts[g]
        for p in range(P):
            start[p] = theta[p] if rules.fixed[p] else min(max(rules.grid[g, p], low[p]), high[p])
        if g % noises == 0 or stale:
            room.score[g] = _objective(start, n, rules, centre, room)
            stale = False
        else:
            room.score[g] = _noisy(start, n, rules, centre, room)
        if not room.score[g] < np.inf:
            continue
        shift = math.log(max(room.parts[0] / max(n, 1), 1e-300))
        scaled, inside = False, True
        for p in range(P):
            if rules.scales[p]:
                wanted = start[p] + shift
                start[p] = min(max(wanted, low[p]), high[p])
                scaled, inside = True, inside and start[p] == wanted
        if scaled and inside:
            room.score[g] = 0.5 * (n + n * shift + room.parts[1] + n * _LOG2PI) + _pull(start, centre, rules.precision)
        elif scaled:
            room.score[g] = _objective(start, n, rules, centre, room)
            stale = True  # that changed the covariance which the next noise would have used
    return _hollows(room.score, rules.shape, room.order)


@_inner
def _derive(n, rules, low, high, centre, room, pairs):
    """Gradient and information at the point just evaluated; the largest part of the gradient, and the gain that is
    still to be had by them."""
    P, Q = len(room.now), room.H.shape[1]
    _slopes(
        room.A, n, -(-n // 4) * 4, P, room.now, room.Z, Q, room.small, room.C, room.meanfree, room.W, room.G,
        room.inverse, room.a, room.dK, room.U, room.gradient, room.info, room.other,
    )  # fmt: skip
    for c in range(Q):
        room.kept[c] = room.beta[c]
    for p in range(P):
        if rules.precision[p] > 0.0:
            room.gradient[p] += rules.precision[p] * (room.now[p] - centre[p])
            room.info[p, p] += rules.precision[p]
    if pairs > 0:
        for p in range(P):
            room.changes[(pairs - 1) % len(room.steps), p] = room.gradient[p] - room.before[p]
        _learn(room.info, room.steps, room.changes, pairs, room.step)
    norm = 0.0
    for p in range(P):
        room.before[p] = room.gradient[p]
        against = (room.now[p] <= low[p] and room.gradient[p] > 0) or (room.now[p] >= high[p] and room.gradient[p] < 0)
        room.free[p] = not rules.fixed[p] and not against
        if room.free[p]:
            norm = max(norm, abs(room.gradient[p]))
    left = np.inf
    if _small_solve(P, room.info, room.gradient, room.free, 1e-6, 1e-12, room.step, room.C):
        left = 0.0
        for p in range(P):
            left += 0.5 * room.step[p] * room.gradient[p]
    return norm, left


@_inner
def _descend(n, rules, low, high, centre, room, found, theta):
    """From `room.now` down to a minimum. `found` is the best objective so far, at theta: a descent that comes to the
    same place is given up. Returns objective, gradient norm, steps, and whether it converged."""
    P = len(room.now)
    now, trial = room.now, room.trial
    objective = _objective(now, n, rules, centre, room)
    if not objective < np.inf:
        return objective, np.inf, 0, False
    damping, rise, pairs, done, fresh, gain = 1e-3, 4.0, 0, 0, True, np.inf
    norm, left = np.inf, np.inf
    while True:
        if fresh:
            norm, left = _derive(n, rules, low, high, centre, room, pairs)
            fresh = False
            if left < rules.tolerance:
                return objective, norm, done, True
            if gain < 1e-13 * (1.0 + abs(objective)):
                return objective, norm, done, left < 1e3 * rules.tolerance
            if objective - 3.0 * left > found + 0.2:
                return objective, norm, done, False
        if done >= rules.iterations:
            return objective, norm, done, False
        if not _small_solve(P, room.info, room.gradient, room.free, damping, 1e-9, room.step, room.C):
            damping = max(damping, 1e-6) * 10.0
            if damping > 1e9:
                return objective, norm, done, False
            continue
        longest = 0.0
        for p in range(P):
            longest = max(longest, abs(room.step[p]))
        for p in range(P):
            trial[p] = now[p]
            if room.free[p]:
                trial[p] = min(max(now[p] - room.step[p] * rules.reach / max(rules.reach, longest), low[p]), high[p])
        done += 1
        reached = _objective(trial, n, rules, centre, room)
        if not reached < objective:
            damping = max(damping, 1e-3) * rise
            rise *= 2.0
            if damping > 1e8:
                return objective, norm, done, left < 1e3 * rules.tolerance
            continue
        foretold, apart = 0.0, 0.0
        moved = room.steps[pairs % len(room.steps)]
        for p in range(P):
            moved[p] = trial[p] - now[p] if room.free[p] else 0.0
            if not rules.fixed[p]:
                apart = max(apart, abs(trial[p] - theta[p]))
        for p in range(P):
            foretold -= room.gradient[p] * moved[p]
            for o in range(P):
                foretold -= 0.5 * moved[p] * room.info[p, o] * moved[o]
        gain = objective - reached
        ratio = gain / max(foretold, 1e-300)
        damping = max(damping * min(max(1.0 - (2.0 * ratio - 1.0) ** 3, 0.1), 2.0), 1e-7)
        rise = 4.0
        objective = reached
        for p in range(P):
            now[p] = trial[p]
        pairs += 1
        if apart < 0.2 and objective > found:
            return objective, norm, done, False
        fresh = True


@_inner
def _take(x, y, keep, H, known, room):
    """Copies a task's points, without the missing ones; how many there are."""
    n = 0
    for i in range(len(y)):
        if keep[i]:
            for d in range(x.shape[1]):
                room.x[n, d] = x[i, d]
            for c in range(H.shape[1]):
                room.H[n, c] = H[i, c]
            room.y[n] = y[i]
            room.known[n] = known[i]
            n += 1
    return n


@numba.njit(error_model="numpy", cache=True, nogil=True)
def fit(
    first, stop, x, y, keep, H, known, low, high, centre, starts, counts, rules,
    theta, nlml, iterations, norm, good, beta,
):  # fmt: skip
    """Fits the tasks `first` to `stop`: from so many of their starts as `counts` says, or, where there are none at all,
    from the hollows of the grid. Results go to the arrays after `rules`; good: 0 failed, 1 not converged, 2 converged.
    theta holds the values of fixed parameters before."""
    _, N, D = x.shape
    room = _room(N, D, theta.shape[1], H.shape[2], len(rules.factors), len(rules.grid))
    for t in range(first, stop):
        n = _take(x[t], y[t], keep[t], H[t], known[t], room)
        _pairs(room.x, n, D, room.square, room.product)
        given = starts.shape[1] > 0
        follow = counts[t]
        if not given:
            follow = min(rules.follow, _survey(n, rules, theta[t], low[t], high[t], centre[t], room))
        nlml[t], norm[t], iterations[t], good[t] = np.inf, np.inf, 0, 0
        best = np.inf
        for attempt in range(follow):
            for p in range(len(room.now)):
                start = starts[t, attempt, p] if given else room.starts[room.order[attempt], p]
                room.now[p] = theta[t, p] if rules.fixed[p] else min(max(start, low[t, p]), high[t, p])
            objective, slope, done, converged = _descend(n, rules, low[t], high[t], centre[t], room, best, theta[t])
            iterations[t] += done
            if objective < best:
                best = objective
                for p in range(len(room.now)):
                    theta[t, p] = room.now[p]
                for c in range(H.shape[2]):
                    beta[t, c] = room.kept[c]
                nlml[t] = objective - _pull(room.now, centre[t], rules.precision)
                norm[t] = slope
                good[t] = 2 if converged else 1


def scoring_fit(
    kernel: Kernel, tasks: Tasks, limits: Limits, rules: scoring.Rules, starts: scoring.Starts | None = None
) -> scoring.Fitted:
    """What `scoring.fit` does, compiled; on the CPU, in float64."""
    T, P = limits.low_TP.shape
    guesses, axes = scoring.grid(kernel, limits)
    starts_TSP, count_T = starts or (limits.low_TP[:, None][:, :0], torch.zeros(T, dtype=torch.int64))
    theta = np.full((T, P), scoring.NO_NOISE)
    own = Rules(
        np.array(
            [(SHAPES.index(each.shape), each.term, each.start, each.stop, each.variance) for each in kernel.factors]
        ),
        _array(guesses),
        np.array(axes),
        _array(limits.precision_P),
        np.ascontiguousarray(limits.fixed_P.numpy()),
        scoring.scaling(kernel, limits).numpy(),
        rules.starts,
        rules.iterations,
        rules.tolerance,
        rules.reach,
    )
    nlml, iterations, norm, good = np.empty(T), np.empty(T, np.int64), np.empty(T), np.empty(T, np.int64)
    beta = np.zeros((T, tasks.H_TNQ.shape[2]))
    data = (_array(tasks.x_TND), _array(tasks.y_TN), np.ascontiguousarray(tasks.keep_TN.numpy()))
    data = (*data, _array(tasks.H_TNQ), _array(tasks.known_TN))
    bounds = (_array(limits.low_TP), _array(limits.high_TP), _array(limits.centre_TP))
    begin = (_array(starts_TSP), np.ascontiguousarray(count_T.numpy()))

    def some(first: int) -> None:
        fit(first, min(T, first + _SHARE), *data, *bounds, *begin, own, theta, nlml, iterations, norm, good, beta)

    threads = min(torch.get_num_threads(), -(-T // _SHARE))
    if threads < 2:
        for first in range(0, T, _SHARE):
            some(first)
    else:
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(some, range(0, T, _SHARE)))
    found = (torch.from_numpy(each) for each in (theta, nlml, iterations, norm, good, beta))
    return scoring.Fitted(*found)


def _array(tensor: torch.Tensor) -> np.ndarray:
    return np.ascontiguousarray(tensor.detach().double().numpy())
