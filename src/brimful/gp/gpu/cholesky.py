"""A lane's covariance, factored: for Triton kernels in which each lane has a task of its own.

The points of a task come in blocks of 4. K = L L^T is made from left to right, block by block; the targets and the
regressors of the mean (ones, and the inputs of one dimension) are taken along as further rows, so that what is stored
of them is L^-1 y and L^-1 H.
"""

# pyright: reportArgumentType=false, reportCallIssue=false, reportOperatorIssue=false, reportAttributeAccessIssue=false
# pyright: reportGeneralTypeIssues=false, reportIndexIssue=false
import math

import triton
import triton.language as tl

from . import blocks
from .blocks import LANES

_INTERPRETED = tl.constexpr(blocks.INTERPRETED)
_T0, _T1, _T2, _T3, _T4, _T5, _T6, _T7, _T8, _T9, _T10, _T11, _T12 = (
    tl.constexpr(1.0 / math.factorial(k)) for k in range(13)
)


@triton.jit
def exp_negative(x):
    """e to the power of x, for x not above 0; below -700 as at -700, where it is nothing beside any noise.

    The library's takes twice the instructions, and branches; of all that a lane does, it was two fifths.
    """
    x = tl.where(x < -700.0, -700.0, x)
    shifted = x * 1.4426950408889634 + 6755399441055744.0  # the nearest whole power of 2, in the lowest bits
    power = shifted - 6755399441055744.0
    r = (x - power * 0.6931471803691238) - power * 1.9082149292705877e-10
    p = _T6 + r * (_T7 + r * (_T8 + r * (_T9 + r * (_T10 + r * (_T11 + r * _T12)))))
    p = _T0 + r * (_T1 + r * (_T2 + r * (_T3 + r * (_T4 + r * (_T5 + r * p)))))
    return p * ((shifted.to(tl.int64, bitcast=True) + 1023) << 52).to(tl.float64, bitcast=True)


@triton.jit
def _exp_negative(x):
    return tl.exp(x) if _INTERPRETED else exp_negative(x)  # the interpreter takes a while for each step


@triton.jit
def value_of(r2, SHAPE: tl.constexpr):
    """A kernel's shape at a squared distance, and what its derivative by a lengthscale is, over the squared distance
    along it."""
    if SHAPE == 0:
        value = _exp_negative(-0.5 * r2)
        derivative = value
    elif SHAPE == 1:
        r = tl.sqrt(r2)
        value = _exp_negative(-r)
        derivative = tl.where(r > 0.0, value / tl.where(r > 0.0, r, 1.0), 0.0)
    elif SHAPE == 2:
        r = tl.sqrt(3.0 * r2)
        e = _exp_negative(-r)
        value, derivative = (1.0 + r) * e, 3.0 * e
    else:
        r = tl.sqrt(5.0 * r2)
        e = _exp_negative(-r)
        value, derivative = (1.0 + r + r * r / 3.0) * e, (1.0 + r) * e * (5.0 / 3.0)
    return value, derivative


@triton.jit
def _square(x, y, scale, r2):
    return r2 + (x - y) * (x - y) * scale


@triton.jit
def _square4(x, y, s, r):
    return (_square(x, y[0], s, r[0]), _square(x, y[1], s, r[1]), _square(x, y[2], s, r[2]), _square(x, y[3], s, r[3]))


@triton.jit
def add_squared_distances(x, y, scale, R):
    """Adds the squared distances of 4 points to 4 others along one dimension."""
    return blocks.from_rows(
        _square4(x[0], y, scale, blocks.row(R, 0)), _square4(x[1], y, scale, blocks.row(R, 1)),
        _square4(x[2], y, scale, blocks.row(R, 2)), _square4(x[3], y, scale, blocks.row(R, 3)),
    )  # fmt: skip


@triton.jit
def _values4(r, m, n, SHAPE: tl.constexpr):
    """Values and derivatives of a row: m and n are 0 at missing points."""
    a, p = value_of(r[0], SHAPE)
    b, q = value_of(r[1], SHAPE)
    c, s = value_of(r[2], SHAPE)
    d, t = value_of(r[3], SHAPE)
    v = (a * (m * n[0]), b * (m * n[1]), c * (m * n[2]), d * (m * n[3]))
    return v, (p * (m * n[0]), q * (m * n[1]), s * (m * n[2]), t * (m * n[3]))


@triton.jit
def values(R, m, n, SHAPE: tl.constexpr):
    a, p = _values4(blocks.row(R, 0), m[0], n, SHAPE)
    b, q = _values4(blocks.row(R, 1), m[1], n, SHAPE)
    c, s = _values4(blocks.row(R, 2), m[2], n, SHAPE)
    d, t = _values4(blocks.row(R, 3), m[3], n, SHAPE)
    return blocks.from_rows(a, b, c, d), blocks.from_rows(p, q, s, t)


@triton.jit
def _unless_missing(bits, one: tl.constexpr):
    return tl.where((bits & one) != 0, 0.0, float("-inf")).to(tl.float64)


@triton.jit
def known4(known, i, t, T):
    """The noise that is known of the 4 points of block i, -inf at a missing one. Where none is known, all that is in
    memory is a bit a point."""
    if known.dtype.element_ty == tl.int32:
        bits = tl.load(known + i * T + t)
        return (_unless_missing(bits, 1), _unless_missing(bits, 2), _unless_missing(bits, 4), _unless_missing(bits, 8))
    else:  # noqa: RET505, the branch that is not taken is not compiled
        return blocks.gather4(known + 4 * i * T + t, T)


@triton.jit
def _there(k):
    return tl.where(k == float("-inf"), 0.0, 1.0).to(tl.float64)


@triton.jit
def mask4(k):
    """1 for a point that is there, 0 for a missing one."""
    return (_there(k[0]), _there(k[1]), _there(k[2]), _there(k[3]))


@triton.jit
def scale(A, v):
    return (
        A[0] * v, A[1] * v, A[2] * v, A[3] * v, A[4] * v, A[5] * v, A[6] * v, A[7] * v,
        A[8] * v, A[9] * v, A[10] * v, A[11] * v, A[12] * v, A[13] * v, A[14] * v, A[15] * v,
    )  # fmt: skip


@triton.jit
def axpy4(s, a, b):
    return (b[0] + s * a[0], b[1] + s * a[1], b[2] + s * a[2], b[3] + s * a[3])


@triton.jit
def squared_distances(x, scales, i, j, zero, XN, NP, D: tl.constexpr, ARD: tl.constexpr):
    """The squared distances of the points of block i to those of block j; x: of each lane, its points XN apart."""
    R = blocks.zeros(zero)
    for d in tl.static_range(D):
        a = blocks.gather4(x + (d * NP + 4 * i) * XN, XN)
        b = blocks.gather4(x + (d * NP + 4 * j) * XN, XN)
        R = add_squared_distances(a, b, tl.load(scales + d * ARD * LANES), R)
    return R


@triton.jit
def times4(a, b):
    return (a[0] * b[0], a[1] * b[1], a[2] * b[2], a[3] * b[3])


@triton.jit
def at(A, i, j):
    return A + ((i * (i + 1)) // 2 + j) * (16 * LANES)


@triton.jit
def _with_noise(K, known, noise, variance):
    """The covariance of a block on the diagonal: with the noise, and 1 for a missing point."""
    return (
        tl.where(known[0] == float("-inf"), 1.0, variance + noise + known[0]), K[1], K[2], K[3],
        K[4], tl.where(known[1] == float("-inf"), 1.0, variance + noise + known[1]), K[6], K[7],
        K[8], K[9], tl.where(known[2] == float("-inf"), 1.0, variance + noise + known[2]), K[11],
        K[12], K[13], K[14], tl.where(known[3] == float("-inf"), 1.0, variance + noise + known[3]),
    )  # fmt: skip


@triton.jit
def factor(
    x, y, known, theta, A, Z, scales, t, T, XN, nb, NP,
    D: tl.constexpr, P: tl.constexpr, Q: tl.constexpr, SHAPE: tl.constexpr, ARD: tl.constexpr,
):  # fmt: skip
    """Factors the covariance of task t into A, and puts L^-1 of targets and regressors into Z, and one over the squares
    of the lengthscales into `scales`. Returns the log determinant, the least pivot (not positive: no factor), and the
    products of the rows of Z."""
    for s in tl.static_range(P - 2):
        tl.store(scales + s * LANES, tl.exp(-2.0 * tl.load(theta + 1 + s)))
    variance, noise = tl.exp(tl.load(theta)), tl.exp(tl.load(theta + P - 1))
    zero = variance * 0.0
    logdet, least = zero, zero + 1.0
    yy, y0, y1, h00, h01, h11 = zero, zero, zero, zero, zero, zero
    for j in range(nb):
        kj = known4(known, j, t, T)
        mj = mask4(kj)
        R = squared_distances(x, scales, j, j, zero, XN, NP, D, ARD)
        K, _derivative = values(R, mj, mj, SHAPE)
        C = _with_noise(scale(K, variance), kj, noise, variance)
        ry = blocks.gather4(y + 4 * j * T + t, T)
        r0, r1 = ry, ry
        if Q > 0:
            r0 = mj
        if Q > 1:
            r1 = times4(blocks.gather4(x + 4 * j * XN, XN), mj)
        for k in range(j):
            B = blocks.load(at(A, j, k))
            C = blocks.sub_abt(C, B, B)
            ry = blocks.sub_av(ry, B, blocks.load4(Z + 4 * k * LANES))
            if Q > 0:
                r0 = blocks.sub_av(r0, B, blocks.load4(Z + (NP + 4 * k) * LANES))
            if Q > 1:
                r1 = blocks.sub_av(r1, B, blocks.load4(Z + (2 * NP + 4 * k) * LANES))
        L, square, least = blocks.factor(C, least)
        logdet += tl.log(square)
        blocks.store(at(A, j, j), L)
        ry = blocks.solve4(L, ry)
        blocks.store4(Z + 4 * j * LANES, ry)
        yy += blocks.dot4(ry, ry)
        if Q > 0:
            r0 = blocks.solve4(L, r0)
            blocks.store4(Z + (NP + 4 * j) * LANES, r0)
            y0 += blocks.dot4(ry, r0)
            h00 += blocks.dot4(r0, r0)
        if Q > 1:
            r1 = blocks.solve4(L, r1)
            blocks.store4(Z + (2 * NP + 4 * j) * LANES, r1)
            y1 += blocks.dot4(ry, r1)
            h01 += blocks.dot4(r0, r1)
            h11 += blocks.dot4(r1, r1)
        for i in range(j + 1, nb):
            mi = mask4(known4(known, i, t, T))
            R = squared_distances(x, scales, i, j, zero, XN, NP, D, ARD)
            K, _derivative = values(R, mi, mj, SHAPE)
            C = scale(K, variance)
            for k in range(j):
                C = blocks.sub_abt(C, blocks.load(at(A, i, k)), blocks.load(at(A, j, k)))
            blocks.store(at(A, i, j), blocks.solve(L, C))

    return logdet, least, yy, y0, y1, h00, h01, h11


@triton.jit
def invert_factor(A, nb, zero):
    """L^-1 in the place of L."""
    for j in range(nb):
        W = blocks.invert(blocks.load(at(A, j, j)))
        blocks.store(at(A, j, j), W)
        for i in range(j + 1, nb):
            C = blocks.sub_abt(blocks.zeros(zero), blocks.load(at(A, i, j)), blocks.transpose(W))
            for k in range(j + 1, i):
                V = blocks.load(at(A, k, j))
                C = blocks.sub_abt(C, blocks.load(at(A, i, k)), blocks.transpose(V))
            L = blocks.load(at(A, i, i))
            blocks.store(at(A, i, j), blocks.transpose(blocks.solve(L, blocks.transpose(C))))


@triton.jit
def fit_mean(y0, y1, h00, h01, h11, Q: tl.constexpr):
    """The mean's coefficients by generalised least squares, and the inverse of their normal matrix; a regressor that
    the points cannot tell gets 0."""
    zero = y0 * 0.0
    n00, n01, n11, c0, c1 = zero, zero, zero, zero, zero
    if Q > 0:
        n00 = tl.where(h00 > 0.0, 1.0 / tl.where(h00 > 0.0, h00, 1.0), 0.0)
        if Q > 1:
            whole = h00 * h11 - h01 * h01
            determined = whole > 1e-10 * h00 * h11
            over = tl.where(determined, 1.0 / tl.where(determined, whole, 1.0), 0.0)
            n00 = tl.where(determined, h11 * over, n00)
            n01, n11 = -h01 * over, h00 * over
        c0, c1 = n00 * y0 + n01 * y1, n01 * y0 + n11 * y1
    return c0, c1, n00, n01, n11
