"""Fitting on the CPU: one task at a time, all of it in one compiled loop, the tasks shared out over the threads.

The twin of scoring.py, where the method is explained, with the same names; a test holds the two together.
"""

import math
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numba
import numpy as np
import torch

from . import scoring
from ._covariance import covariance, point_pairs
from ._linear import add, compiled, dot, factor, invert, solve_small, spread, sweep, times
from .kernels import SHAPES, Kernel
from .priors import Limits
from .tasks import Tasks

SECOND = scoring.SECOND
_SHARE = 256  # tasks that a thread takes at a time, at the most: handing them over takes as long as fitting a few
_LOG2PI = math.log(2 * math.pi)


@compiled
def _fit_mean(Z, n, Q, small, beta, C, free):
    """The mean's coefficients by generalised least squares, the first row of Z made what is left of the targets. The
    other rows are the regressors, all times L^-1. A regressor that the points cannot tell gets 0."""
    for i in range(Q):
        small[Q, i] = dot(Z[1 + i, :n], Z[0, :n])
        for j in range(i + 1):
            small[i, j] = dot(Z[1 + i, :n], Z[1 + j, :n])
            small[j, i] = small[i, j]
    for i in range(Q):
        left = small[i, i]
        # What is left of a regressor beyond the ones before it; nothing, when there are too few points.
        if i > 0 and solve_small(i, small, small[i], free, 0.0, 0.0, beta, C):
            for j in range(i):
                left -= small[i, j] * beta[j]
        free[i] = left > 1e-10 * small[i, i]
    if not solve_small(Q, small, small[Q], free, 0.0, 0.0, beta, C):
        for i in range(Q):
            beta[i] = 0.0
    for i in range(Q):
        add(Z[0, :n], -beta[i], Z[1 + i, :n])


@compiled
def _value(A, n, up, y, H, Q, Z, small, beta, C, free, parts):
    """Factors the covariance in place, and fits the mean. parts: the quadratic form and the log determinant."""
    if not factor(A, up):
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
        sweep(Z, c, A, 0, up)
    if Q > 0:
        _fit_mean(Z, n, Q, small, beta, C, free)
    parts[0] = dot(Z[0, :n], Z[0, :n])
    # The determinant as a product, taken out before it can overflow: a logarithm costs as much as twenty factors.
    logdet, product = 0.0, 1.0
    for i in range(n):
        product *= A[i, i]
        if not (product > 1e-250 and product < 1e250) or i == n - 1:
            logdet -= 2.0 * math.log(product)
            product = 1.0
    parts[1] = logdet
    return parts[0] < np.inf


@compiled
def _slopes(A, n, up, P, theta, Z, Q, small, C, free, W, G, inverse, a, dK, U, gradient, info, other):
    """Gradient and average information from the factored covariance."""
    invert(A, up, W, inverse)
    for i in range(n):
        a[i] = dot(W[i, i:n], Z[0, i:n])
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
        gradient[p] = 0.5 * dot(G[:m], dK[p, :m])
        times(dK[p], n, a, U[p])
    gradient[P - 1] = 0.5 * noise * trace
    for i in range(n):
        U[P - 1, i] = noise * a[i]
    for p in range(0, U.shape[0], 4):
        sweep(U, p, A, 0, up)
    for p in range(P):
        # Without what the mean would take up of it.
        for c in range(Q):
            small[Q, c] = dot(Z[1 + c, :n], U[p, :n])
        if Q > 0 and solve_small(Q, small, small[Q], free, 0.0, 0.0, other, C):
            for c in range(Q):
                add(U[p, :n], -other[c], Z[1 + c, :n])
        for o in range(p + 1):
            info[p, o] = 0.5 * dot(U[p, :n], U[o, :n])
            info[o, p] = info[p, o]


@compiled
def _pull(theta, centre, precision):
    s = 0.0
    for p in range(len(theta)):
        if precision[p] > 0.0:  # the logarithm of a noise that is known to be 0 is not finite
            s += precision[p] * (theta[p] - centre[p]) ** 2
    return 0.5 * s


@compiled
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


@compiled
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


@compiled
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


@compiled
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
    late: int


@compiled
def _objective(theta, n, rules, centre, room):
    """Likelihood and prior at theta, the covariance left factored; infinite where it is not positive definite."""
    covariance(
        rules.factors, theta, room.x.shape[1], room.square, room.product, n, room.K, room.shapes, room.r2, room.slope,
        room.dK,
    )  # fmt: skip
    return _noisy(theta, n, rules, centre, room)


@compiled
def _noisy(theta, n, rules, centre, room):
    """The same, where only the noise has changed since."""
    Q = room.H.shape[1]
    up = spread(room.K, n, math.exp(theta[len(theta) - 1]), room.known, room.A)
    if not _value(room.A, n, up, room.y, room.H, Q, room.Z, room.small, room.beta, room.C, room.meanfree, room.parts):
        return np.inf
    return 0.5 * (room.parts[0] + room.parts[1] + n * _LOG2PI) + _pull(theta, centre, rules.precision)


@compiled
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


@compiled
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
    if solve_small(P, room.info, room.gradient, room.free, 1e-6, 1e-12, room.step, room.C):
        left = 0.0
        for p in range(P):
            left += 0.5 * room.step[p] * room.gradient[p]
    return norm, left


@compiled
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
        if not solve_small(P, room.info, room.gradient, room.free, damping, 1e-9, room.step, room.C):
            damping = max(damping, 1e-6) * 10.0
            if damping > 1e9:
                return objective, norm, done, False
            continue
        longest = 0.0
        for p in range(P):
            if (now[p] <= low[p] and room.step[p] > 0.0) or (now[p] >= high[p] and room.step[p] < 0.0):
                room.step[p] = 0.0  # it cannot go there, and must not hold up the others
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
        if objective > found and (apart < 0.2 or done >= rules.late):
            return objective, norm, done, False
        fresh = True


@compiled
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
        point_pairs(room.x, n, D, room.square, room.product)
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
        rules.late,
    )
    nlml, iterations, norm, good = np.empty(T), np.empty(T, np.int64), np.empty(T), np.empty(T, np.int64)
    beta = np.zeros((T, tasks.coefficients))
    data = (_array(tasks.x_TND), _array(tasks.y_TN), np.ascontiguousarray(tasks.keep_TN.numpy()))
    data = (*data, _array(tasks.H_TNQ), _array(tasks.known_TN))
    bounds = (_array(limits.low_TP), _array(limits.high_TP), _array(limits.centre_TP))
    begin = (_array(starts_TSP), np.ascontiguousarray(count_T.numpy()))

    threads = torch.get_num_threads()
    share = max(1, min(_SHARE, -(-T // (8 * threads))))

    def some(first: int) -> None:
        fit(first, min(T, first + share), *data, *bounds, *begin, own, theta, nlml, iterations, norm, good, beta)

    if threads < 2:
        for first in range(0, T, share):
            some(first)
    else:
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(some, range(0, T, share)))
    found = (torch.from_numpy(each) for each in (theta, nlml, iterations, norm, good, beta))
    return scoring.Fitted(*found)


def _array(tensor: torch.Tensor) -> np.ndarray:
    return np.ascontiguousarray(tensor.detach().double().numpy())
