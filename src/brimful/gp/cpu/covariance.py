"""Covariances over all pairs of a task's points, with their derivatives, compiled, a task in each lane.

The twin of kernels.py. A symmetric matrix is its lower triangle, row after row, so that a kernel is a few long loops
over pairs of points. `most` is how many pairs there is room for; m, how many there are.
"""

import math

import numpy as np

from ..model.shapes import SHAPES
from .simd_lanes import WIDTH, broadcast, compiled, load, maximum, sqrt, store, times_power

_LOG2E, _LN2, _LN2_REST = 1 / math.log(2), 0.693147180369123816490, 1.90821492927058770002e-10  # ln 2 in two parts
_PI = 3.1415926534682512, 1.2154201012607932e-10, 4.044532497591901e-21  # in parts of 33 bits, for exact products
_ROUND = 6755399441055744.0  # 1.5 * 2^52: a sum with it is a whole number

RBF, MATERN12, MATERN32, MATERN52, RATIONAL, PERIODIC, LINEAR, CONSTANT = range(len(SHAPES))


@compiled
def _exp(x):
    """The exponential of numbers that are not positive: a power of 2 times a polynomial on what is left, within 1e-14
    of the true one, relatively. Of those below -300 that of -300: so small that any distance times it is nothing, and
    not so small that products of two are slow."""
    x = maximum(x, -300.0)
    power = x * _LOG2E + _ROUND  # its last bits are the integer
    whole = power - _ROUND
    x = x - whole * _LN2 - whole * _LN2_REST
    x2 = x * x
    x4 = x2 * x2
    low = (x + 1.0) + x2 * (x * (1.0 / 6) + 0.5)
    middle = (x * (1.0 / 120) + 1.0 / 24) + x2 * (x * (1.0 / 5040) + 1.0 / 720)
    high = (x * (1.0 / 362880) + 1.0 / 40320) + x2 * (x * (1.0 / 39916800) + 1.0 / 3628800)
    return times_power(low + x4 * (middle + x4 * high), power)


@compiled
def _within_half_turn(angle):
    """Angles less the nearest number of half turns: the square of their sine is the same, and its derivative."""
    whole = angle * (1 / math.pi) + _ROUND - _ROUND
    return angle - whole * _PI[0] - whole * _PI[1] - whole * _PI[2]


@compiled
def _sine(x):
    """The sine of angles of at most a quarter turn, by its series: within 1e-15."""
    x2 = x * x
    x4 = x2 * x2
    low = x2 * (-1.0 / 6) + 1.0 + x4 * (x2 * (-1.0 / 5040) + 1.0 / 120)
    middle = x2 * (-1.0 / 39916800) + 1.0 / 362880 + x4 * (x2 * (-1.0 / 1307674368000) + 1.0 / 6227020800)
    high = x2 * (-1.0 / 121645100408832000) + 1.0 / 355687428096000 + x4 * (1.0 / 5.109094217170944e19)
    x8 = x4 * x4
    return x * (low + x8 * (middle + x8 * high))


@compiled
def _cosine(x):
    """The cosine of such angles."""
    x2 = x * x
    x4 = x2 * x2
    low = x2 * -0.5 + 1.0 + x4 * (x2 * (-1.0 / 720) + 1.0 / 24)
    middle = x2 * (-1.0 / 3628800) + 1.0 / 40320 + x4 * (x2 * (-1.0 / 87178291200) + 1.0 / 479001600)
    high = x2 * (-1.0 / 6402373705728000) + 1.0 / 20922789888000 + x4 * (1.0 / 2432902008176640000)
    x8 = x4 * x4
    return low + x8 * (middle + x8 * high)


@compiled
def point_pairs(x, n, D, lane, square, product):
    """Squared differences of every pair of a task's points, one row a dimension, and inner products, where there is
    room for them, into its lane."""
    for d in range(D):
        at = 0
        for i in range(n):
            for j in range(i + 1):
                difference = x[i, d] - x[j, d]
                square[d, at + j, lane] = difference * difference
            at += i + 1
    at = 0
    for i in range(n if len(product) > 1 else 0):
        for j in range(i + 1):
            total = 0.0
            for d in range(D):
                total += x[i, d] * x[j, d]
            product[at + j, lane] = total
        at += i + 1


def is_linear(factors: np.ndarray) -> bool:
    """Whether a kernel needs inner products."""
    return bool((factors[:, 0] == LINEAR).any())


@compiled
def _smooth(kind, at, ard, D, square, most, m, inverse, scale, out, dK, want):
    """The shapes that fall with the distance alone, times `scale`."""
    for q in range(m):
        r2 = broadcast(0.0)
        for d in range(D):
            r2 += load(square, d * most + q) * load(inverse, d)
        if kind == RBF:
            value = _exp(r2 * -0.5) * scale
            derivative = value
        elif kind == MATERN12:
            r = sqrt(r2)
            value = _exp(r * -1.0) * scale
            derivative = value / maximum(r, 1e-150)
        elif kind == MATERN32:
            r = sqrt(r2 * 3.0)
            e = _exp(r * -1.0) * scale
            value, derivative = e + r * e, e * 3.0
        else:
            r = sqrt(r2 * 5.0)
            e = _exp(r * -1.0) * scale
            derivative = (e + r * e) * (5.0 / 3.0)
            value = e + r * e + r * r * e * (1.0 / 3.0)
        store(out, q, value)
        if not want:
            continue
        if ard == 1:
            store(dK, at * most + q, derivative * r2)
        else:
            for d in range(D):
                store(dK, (at + d) * most + q, derivative * load(square, d * most + q) * load(inverse, d))


@compiled
def _rational(theta, first, at, ard, D, square, m, inverse, scale, out, dK, want):
    for lane in range(WIDTH):
        alpha = math.exp(theta[first, lane])
        for q in range(m):
            r2 = 0.0
            for d in range(D):
                r2 += square[d, q, lane] * inverse[d, lane]
            u = 1.0 + r2 / (2.0 * alpha)
            log_u = math.log(u)
            value = math.exp(-alpha * log_u) * scale[lane]
            out[q, lane] = value
            if not want:
                continue
            dK[first, q, lane] = value * (-alpha * log_u + r2 / (2.0 * u))
            for d in range(ard):
                part = r2 if ard == 1 else square[d, q, lane] * inverse[d, lane]
                dK[at + d, q, lane] = value / u * part


@compiled
def _periodic(theta, first, at, ard, D, square, most, m, inverse, scale, out, dK, want):
    variance = load(scale, 0)
    for lane in range(WIDTH):
        scale[lane] = math.pi * math.exp(-theta[first, lane])
    rate = load(scale, 0)
    for q in range(m):
        waves, turned = broadcast(0.0), broadcast(0.0)
        for d in range(D):
            angle = sqrt(load(square, d * most + q)) * rate
            within = _within_half_turn(angle)
            sine = _sine(within)
            wave = sine * sine * load(inverse, d)
            waves += wave
            if want:
                turned += sine * _cosine(within) * angle * load(inverse, d)
                if ard > 1:
                    store(dK, (at + d) * most + q, wave)
        value = _exp(waves * -2.0) * variance
        store(out, q, value)
        if not want:
            continue
        store(dK, first * most + q, turned * value * 4.0)
        if ard == 1:
            store(dK, at * most + q, waves * value * 4.0)
        else:
            for d in range(D):
                store(dK, (at + d) * most + q, load(dK, (at + d) * most + q) * value * 4.0)


@compiled
def _shape(kind, theta, first, stop, D, square, product, m, inverse, scale, out, dK, want):
    """A kernel's shape over all pairs, times `scale`, and its derivatives by the logarithms of its parameters, in the
    rows of dK that are theirs, where they are wanted."""
    if kind == LINEAR:
        for q in range(m):
            store(out, q, load(product, q) * load(scale, 0))
        return
    if kind == CONSTANT:
        for q in range(m):
            store(out, q, load(scale, 0))
        return
    at = first + 1 if kind in (RATIONAL, PERIODIC) else first
    ard = stop - at  # lengthscales from here on
    for d in range(D):
        for lane in range(WIDTH):
            inverse[d, lane] = math.exp(-2.0 * theta[at + (d if ard > 1 else 0), lane])
    if kind == PERIODIC:
        _periodic(theta, first, at, ard, D, square, square.shape[1], m, inverse, scale, out, dK, want)
    elif kind == RATIONAL:
        _rational(theta, first, at, ard, D, square, m, inverse, scale, out, dK, want)
    else:
        _smooth(kind, at, ard, D, square, square.shape[1], m, inverse, load(scale, 0), out, dK, want)


@compiled
def covariance(factors, theta, D, square, product, m, K, shapes, inverse, scale, dK, want):
    """The covariance without its noise, and its derivatives where they are wanted. `factors` has a row for each shape:
    kind, term, first parameter, one past the last, and the place of its term's variance; those of one term stand
    together. inverse, scale: room for a lane each of every dimension, and one."""
    F, most = len(factors), square.shape[1]
    if F == 1:
        position = factors[0, 4]
        for lane in range(WIDTH):
            scale[lane] = math.exp(theta[position, lane])
        _shape(factors[0, 0], theta, factors[0, 2], factors[0, 3], D, square, product, m, inverse, scale, K, dK, want)
        if want:
            for q in range(m):
                store(dK, position * most + q, load(K, q))
        return
    for f in range(F):
        store(scale, 0, broadcast(1.0))
        _shape(
            factors[f, 0], theta, factors[f, 2], factors[f, 3], D, square, product, m, inverse, scale, shapes[f], dK,
            want,
        )  # fmt: skip
    for q in range(m):
        store(K, q, broadcast(0.0))
    f = 0
    while f < F:
        stop = f
        while stop < F and factors[stop, 1] == factors[f, 1]:
            stop += 1
        position = factors[f, 4]
        for lane in range(WIDTH):
            scale[lane] = math.exp(theta[position, lane])
        variance = load(scale, 0)
        for q in range(m):
            product_q = variance
            for g in range(f, stop):
                product_q *= load(shapes, g * most + q)
            if want:
                store(dK, position * most + q, product_q)
            store(K, q, load(K, q) + product_q)
        for g in range(f, stop if want else f):
            for p in range(factors[g, 2], factors[g, 3]):
                for q in range(m):
                    derivative = load(dK, p * most + q) * variance
                    for h in range(f, stop):
                        if h != g:
                            derivative *= load(shapes, h * most + q)
                    store(dK, p * most + q, derivative)
        f = stop
