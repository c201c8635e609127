"""The likelihood of the tasks in a processor's lanes, with its gradient and average information, compiled.

The twin of gp/model/likelihood.py, where the method is explained. Lanes go in step: a task with fewer points than its
neighbors has rows of the identity at the end, which change nothing.
"""

import math

import numpy as np

from .covariance import point_pairs
from .linear_algebra import axpy, dot, factor, invert, solve_rows, solve_small, symmetric_matvec
from .simd_lanes import WIDTH, broadcast, compiled, inlined, load, rows, smaller, store
from .workspace import call_at, side

_LOG2PI = math.log(2 * math.pi)
_FACTORS = 8  # of a determinant, multiplied before a logarithm is taken: it costs as much as twenty products


@compiled
def load_task(workspace, lane, data, t):
    """Copies a task's points into a lane, without the missing ones. Inputs that all tasks share may be there already.
    `data`: as `TaskArrays`."""
    shared = len(data.x) == 1
    x, y, mask, H, known = data.x[0 if shared else t], data.y[t], data.mask[t], data.H[t], data.known[t]
    D, Q, n = x.shape[1], H.shape[1], 0
    for i in range(len(y)):
        if mask[i]:
            for c in range(Q):
                workspace.H[c, n, lane] = H[i, c]
            workspace.y[n, lane] = y[i]
            workspace.known[n, lane] = known[i]
            n += 1
    if not (shared and n == len(y) and workspace.count[lane] == n):
        points, at = workspace.points, 0
        for i in range(len(y)):
            if mask[i]:
                for d in range(D):
                    points[at, d] = x[i, d]
                at += 1
        point_pairs(points, n, D, lane, workspace.square, workspace.product)
        had = workspace.count[lane]
        for q in range(n * (n + 1) // 2, had * (had + 1) // 2):  # what fills may be anything but infinite
            if len(workspace.product) > 1:
                workspace.product[q, lane] = 0.0
            for d in range(D):
                workspace.square[d, q, lane] = 0.0
    for i in range(len(workspace.there)):
        workspace.there[i, lane] = 1.0 if i < n else 0.0
        if i >= n:
            workspace.y[i, lane] = 0.0
            workspace.known[i, lane] = 0.0
            for c in range(Q):
                workspace.H[c, i, lane] = 0.0
    workspace.count[lane] = n


@compiled
def _spread(K, there, known, noise, n, A, across):
    """The covariance as the lower half of a matrix, with the noise; the identity where a lane has no points."""
    at = 0
    for i in range(n):
        point = load(there, i)
        for j in range(i):
            store(A, i * across + j, load(K, at + j) * point)
        own = (load(K, at + i) + noise) * point + load(known, i)
        store(A, i * across + i, own + (broadcast(1.0) - point))
        at += i + 1


@compiled
def _fit_mean(workspace, Z, n, across, Q):
    """The mean's coefficients by generalised least squares, the first row of Z made what is left of the targets. A
    regressor that the points cannot tell gets 0."""
    cross, beta, free = workspace.cross, workspace.beta, workspace.mean_free
    small, right, C, solution = workspace.small, workspace.right, workspace.C, workspace.solution
    wide = len(cross)
    for i in range(Q):
        store(cross, Q * wide + i, dot(Z, (1 + i) * across, Z, 0, n))
        for j in range(i + 1):
            store(cross, i * wide + j, dot(Z, (1 + i) * across, Z, (1 + j) * across, n))
    for lane in range(WIDTH):
        for i in range(Q):
            right[i] = cross[Q, i, lane]
            for j in range(i + 1):
                small[i, j] = small[j, i] = cross[i, j, lane]
        for i in range(Q):
            left = small[i, i]
            # What is left of a regressor beyond the ones before it; nothing, when there are too few points.
            if i > 0 and solve_small(i, small, small[i], free[lane], 0.0, 0.0, solution, C):
                for j in range(i):
                    left -= small[i, j] * solution[j]
            free[lane, i] = left > 1e-10 * small[i, i]
        good = solve_small(Q, small, right, free[lane], 0.0, 0.0, solution, C)
        for i in range(Q):
            beta[i, lane] = solution[i] if good else 0.0
    for i in range(Q):
        axpy(Z, 0, load(beta, i) * -1.0, Z, (1 + i) * across, n)


@inlined
def _noise(workspace):
    """The noise variance of every lane."""
    for lane in range(WIDTH):
        workspace.scale[lane] = math.exp(workspace.theta[len(workspace.theta) - 1, lane])
    return load(workspace.scale, 0)


@compiled
def _log_determinant(workspace, n, across):
    """That of the covariance, from its factor, whose diagonal has its reciprocal."""
    A, scale, parts = workspace.A, workspace.scale, workspace.parts
    store(parts, 1, broadcast(0.0))
    for first in range(0, n, _FACTORS):
        product = broadcast(1.0)
        for i in range(first, smaller(n, first + _FACTORS)):
            product *= load(A, i * across + i)
        store(scale, 0, product)
        for lane in range(WIDTH):
            if scale[lane] > 1e-250 and scale[lane] < 1e250:
                parts[1, lane] -= 2.0 * math.log(scale[lane])
            else:  # too large or too small for a number, or NaN
                for i in range(first, smaller(n, first + _FACTORS)):
                    parts[1, lane] -= 2.0 * math.log(A[i, i, lane])


@compiled
def evaluate_noise(workspace):
    """As `evaluate`, where only the noise has changed since."""
    n, across, Q, tall = side(workspace), workspace.A.shape[1], len(workspace.H), len(workspace.Z)
    A, Z, y, H = rows(workspace.A), rows(workspace.Z), rows(workspace.y), rows(workspace.H)
    _spread(rows(workspace.K), rows(workspace.there), rows(workspace.known), _noise(workspace), n, A, across)
    factor(A, across, n)
    for i in range(n):
        store(Z, i, load(y, i))
        for c in range(Q):
            store(Z, (1 + c) * across + i, load(H, c * across + i))
        for c in range(1 + Q, tall):
            store(Z, c * across + i, broadcast(0.0))
    for c in range(0, tall, 4):
        solve_rows(Z, c, A, across, 0, n)
    if Q > 0:
        _fit_mean(workspace, Z, n, across, Q)
    store(workspace.parts, 0, dot(Z, 0, Z, 0, n))
    _log_determinant(workspace, n, across)


@compiled
def evaluate(workspace, factors, want):
    """The quadratic form and the log determinant of every lane, at its theta; what `derivatives` needs where they are
    wanted."""
    call_at(workspace.covariance, want, workspace, factors)
    evaluate_noise(workspace)


@inlined
def nlml(workspace, lane):
    """The negative log likelihood of a lane; infinite where its covariance is not positive definite."""
    solution = 0.5 * (workspace.parts[0, lane] + workspace.parts[1, lane] + workspace.count[lane] * _LOG2PI)
    return solution if abs(solution) < np.inf and workspace.parts[0, lane] < np.inf else np.inf


@compiled
def derivatives(workspace):
    """Gradient and average information of every lane, from the factored covariance."""
    n, across, Q, P = side(workspace), workspace.A.shape[1], len(workspace.H), len(workspace.theta)
    most, tall = len(workspace.K), len(workspace.U)
    A, W, G, Z, U = rows(workspace.A), rows(workspace.W), rows(workspace.G), rows(workspace.Z), rows(workspace.U)
    a, dK, info, there = rows(workspace.a), rows(workspace.dK), rows(workspace.info), rows(workspace.there)
    invert(A, across, n, W, G)
    for i in range(n):
        store(a, i, dot(W, i * across + i, Z, i, n - i))
    noise = _noise(workspace)
    store(workspace.gradient, P - 1, noise * _gradient_weights(G, a, there, n) * 0.5)
    for p in range(P - 1):
        store(workspace.gradient, p, dot(G, 0, dK, p * most, n * (n + 1) // 2) * 0.5)
        symmetric_matvec(dK, p * most, n, a, there, U, p * across)
    for i in range(n):
        store(U, (P - 1) * across + i, noise * load(a, i))
        for p in range(P, tall):
            store(U, p * across + i, broadcast(0.0))
    for p in range(0, tall, 4):
        solve_rows(U, p, A, across, 0, n)
    if Q > 0:
        for p in range(P):
            _without_mean(workspace, U, p * across, Z, n, across, Q)
    for p in range(P):
        for o in range(p + 1):
            both = dot(U, p * across, U, o * across, n) * 0.5
            store(info, p * P + o, both)
            store(info, o * P + p, both)


@compiled
def _gradient_weights(G, a, there, n):
    """Makes of the inverse what the derivatives are multiplied by, twice where it stands for two; its trace."""
    trace, at = broadcast(0.0), 0
    for i in range(n):
        point, ai = load(there, i), load(a, i)
        twice = point * 2.0
        for j in range(i):
            store(G, at + j, (load(G, at + j) - ai * load(a, j)) * twice)
        own = (load(G, at + i) - ai * ai) * point
        store(G, at + i, own)
        trace += own
        at += i + 1
    return trace


@compiled
def _without_mean(workspace, U, first, Z, n, across, Q):
    """Takes from a row of U what the mean would take up of it."""
    cross, free = workspace.cross, workspace.mean_free
    small, right, C, solution = workspace.small, workspace.right, workspace.C, workspace.solution
    wide = len(cross)
    for c in range(Q):
        store(cross, Q * wide + c, dot(Z, (1 + c) * across, U, first, n))
    for lane in range(WIDTH):
        for i in range(Q):
            right[i] = cross[Q, i, lane]
            for j in range(i + 1):
                small[i, j] = small[j, i] = cross[i, j, lane]
        good = solve_small(Q, small, right, free[lane], 0.0, 0.0, solution, C)
        for c in range(Q):
            cross[Q, c, lane] = -solution[c] if good else 0.0
    for c in range(Q):
        axpy(U, first, load(cross, Q * wide + c), Z, (1 + c) * across, n)
