"""Covariances over all pairs of a task's points, with their derivatives, compiled.

The twin of kernels.py. A symmetric matrix is its lower triangle, row after row, in one vector, so that a kernel is a
few long loops over pairs of points.
"""

import math

from ._linear import compiled
from .kernels import SHAPES

RBF, MATERN12, MATERN32, MATERN52, RATIONAL, PERIODIC, LINEAR, CONSTANT = range(len(SHAPES))


@compiled
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


@compiled
def point_pairs(x, n, D, square, product):
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


@compiled
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


@compiled
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


@compiled
def covariance(factors, theta, D, square, product, n, K, shapes, r2, slope, dK):
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
