"""Fitting on the CPU, compiled: a task in each lane of a processor, a lane that is done takes the next task, and the
tasks are shared out over the threads.

The twin of scoring.py, where the method is explained, with the same names; a test holds the two together.
"""

import math
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
import torch

from ..model import periods
from ..model.kernels import SHAPES, Kernel
from ..model.priors import Limits
from ..model.tasks import Tasks
from ..optimize import scoring
from .lanes import WIDTH, compiled, entered, inlined, lend
from .likelihood import evaluate, evaluate_noise, make_room, nats, slopes, take
from .linear_algebra import copy, solve_small

SECOND = scoring.SECOND
_SHARE = 256  # tasks that a thread takes at a time, at the most: handing them over takes as long as fitting a few
_LOG2PI = math.log(2 * math.pi)


class Rules(NamedTuple):
    """What holds for every task. factors: as `_covariance` has them. grid, shape: the first guesses, in a grid of that
    many along each axis. periods: the places of parameters that each task has guesses of its own for. precision: of the
    priors. fixed: parameters that stay as given. scales: those that multiply all of the covariance, all False where
    some part of it is not to be scaled."""

    factors: Any
    grid: Any
    shape: Any
    periods: Any
    precision: Any
    fixed: Any
    scales: Any
    follow: int
    iterations: int
    tolerance: float
    reach: float
    late: int


class Data(NamedTuple):
    """The tasks, their bounds, the centres of their priors and guesses of their periods, one row a task; of inputs that
    all share, one row."""

    x: Any
    y: Any
    keep: Any
    H: Any
    known: Any
    low: Any
    high: Any
    centre: Any
    periods: Any


class Found(NamedTuple):
    """Results, one row a task. theta holds the values of fixed parameters before. good: 0 failed, 1 not converged,
    2 converged."""

    theta: Any
    nlml: Any
    iterations: Any
    norm: Any
    good: Any
    beta: Any


class Progress(NamedTuple):
    """How far the task in each lane is, one row a lane.

    task: -1 where there is none. place: among the starts. attempt: which of its starts it follows. done: steps from
    this one. pairs: steps remembered. begun: whether its start was evaluated. fresh: whether it is at a new place, of
    which the derivatives are not known. ended: whether this attempt is over, and `converged` how. best: the objective
    of the best attempt so far. kept: the mean's coefficients at `now`."""

    task: Any
    place: Any
    attempt: Any
    done: Any
    pairs: Any
    begun: Any
    fresh: Any
    ended: Any
    converged: Any
    objective: Any
    damping: Any
    rise: Any
    gain: Any
    norm: Any
    left: Any
    best: Any
    now: Any
    step: Any
    gradient: Any
    before: Any
    info: Any
    steps: Any
    changes: Any
    free: Any
    kept: Any
    C: Any


@compiled
def _progress(P, Q):
    W = WIDTH
    return Progress(
        np.zeros(W, np.int64), np.zeros(W, np.int64), np.zeros(W, np.int64), np.zeros(W, np.int64),
        np.zeros(W, np.int64),
        np.zeros(W, np.bool_), np.zeros(W, np.bool_), np.zeros(W, np.bool_), np.zeros(W, np.bool_),
        np.zeros(W), np.zeros(W), np.zeros(W), np.zeros(W), np.zeros(W), np.zeros(W), np.zeros(W),
        np.zeros((W, P)), np.zeros((W, P)), np.zeros((W, P)), np.zeros((W, P)), np.zeros((W, P, P)),
        np.zeros((W, P + 2, P)), np.zeros((W, P + 2, P)), np.zeros((W, P), np.bool_), np.zeros((W, Q)),
        np.zeros((P + 2, P + 2)),
    )  # fmt: skip


@inlined
def _pull(theta, centre, precision):
    s = 0.0
    for p in range(len(theta)):
        if precision[p] > 0.0:  # the logarithm of a noise that is known to be 0 is not finite
            s += precision[p] * (theta[p] - centre[p]) ** 2
    return 0.5 * s


@inlined
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


@compiled
def _load(room, lane, data, t):
    shared = len(data.x) == 1
    take(room, lane, data.x[0 if shared else t], data.y[t], data.keep[t], data.H[t], data.known[t], shared)


@compiled
def _survey(room, tasks, data, rules, theta, starts, counts):
    """Scores the grid of first guesses of some tasks, one a lane, each guess with the best factor for all its
    variances: the hollows, best first, and how many to follow."""
    G, P = rules.grid.shape
    levels = rules.shape[len(rules.shape) - 1]
    noises = 1 if rules.fixed[P - 1] else levels
    score, places, guess = np.empty((WIDTH, G)), np.empty((WIDTH, G, P)), np.empty(P)
    order, short, shorts = np.empty(G + 1, np.int64), np.empty((WIDTH, G), np.int64), np.zeros(WIDTH, np.int64)
    for lane in range(len(tasks)):
        _load(room, lane, data, tasks[lane])
    for g in range(G):
        for lane in range(len(tasks)):
            t = tasks[lane]
            copy(guess, rules.grid[g])
            for wave in range(len(rules.periods)):
                guess[rules.periods[wave]] = data.periods[t, g // levels % data.periods.shape[1], wave]
            for p in range(P):
                bounded = min(max(guess[p], data.low[t, p]), data.high[t, p])
                room.theta[p, lane] = theta[t, p] if rules.fixed[p] else bounded
        if g % noises == 0:
            evaluate(room, rules.factors)
        else:
            evaluate_noise(room)
        for lane in range(len(tasks)):
            if _score(room, lane, data, tasks[lane], rules, places[lane, g], score, g):
                short[lane, shorts[lane]] = g
                shorts[lane] += 1
    most = 0
    for lane in range(len(tasks)):
        most = max(most, shorts[lane])
    for again in range(most):  # where a bound was in the way of the best factor
        for lane in range(len(tasks)):
            if again < shorts[lane]:
                copy(room.theta[:, lane], places[lane, short[lane, again]])
        evaluate(room, rules.factors)
        for lane in range(len(tasks)):
            if again < shorts[lane]:
                g = short[lane, again]
                score[lane, g] = nats(room, lane) + _pull(places[lane, g], data.centre[tasks[lane]], rules.precision)
    for lane in range(len(tasks)):
        counts[lane] = min(rules.follow, _hollows(score[lane], rules.shape, order))
        for attempt in range(counts[lane]):
            copy(starts[lane, attempt], places[lane, order[attempt]])


@compiled
def _score(room, lane, data, t, rules, place, score, g):
    """The score of a guess at the best factor for its variances, which goes to `place`. True, where a bound was in the
    way of it, and it must be evaluated there."""
    n = room.count[lane]
    reached = nats(room, lane)
    copy(place, room.theta[:, lane])
    score[lane, g] = reached + _pull(place, data.centre[t], rules.precision)
    if not reached < np.inf:
        return False
    shift = math.log(max(room.parts[0, lane] / max(n, 1), 1e-300))
    scaled, inside = False, True
    for p in range(len(place)):
        if rules.scales[p]:
            wanted = place[p] + shift
            place[p] = min(max(wanted, data.low[t, p]), data.high[t, p])
            scaled, inside = True, inside and place[p] == wanted
    if scaled:
        nats_there = 0.5 * (n + n * shift + room.parts[1, lane] + n * _LOG2PI)
        score[lane, g] = nats_there + _pull(place, data.centre[t], rules.precision)
    return scaled and not inside


@compiled
def _begin(lanes, room, lane, data, rules, starts, theta):
    """Sets a lane to the next of its task's starts."""
    t, start = lanes.task[lane], starts[lanes.place[lane], lanes.attempt[lane]]
    for p in range(len(start)):
        bounded = min(max(start[p], data.low[t, p]), data.high[t, p])
        room.theta[p, lane] = theta[t, p] if rules.fixed[p] else bounded
    lanes.done[lane] = lanes.pairs[lane] = 0
    lanes.begun[lane] = lanes.fresh[lane] = lanes.ended[lane] = lanes.converged[lane] = False
    lanes.objective[lane] = lanes.gain[lane] = lanes.norm[lane] = lanes.left[lane] = np.inf
    lanes.damping[lane], lanes.rise[lane] = 1e-3, 4.0


@compiled
def _judge(lanes, room, lane, data, rules, theta):
    """Takes the place just evaluated, if it is better. True, where its derivatives are wanted."""
    t, P = lanes.task[lane], len(room.theta)
    now, trial = lanes.now[lane], room.theta[:, lane]
    reached = nats(room, lane) + _pull(trial, data.centre[t], rules.precision)
    lanes.fresh[lane] = False
    if not lanes.begun[lane]:
        lanes.begun[lane] = True
        lanes.objective[lane] = reached
        copy(now, trial)
        lanes.fresh[lane] = reached < np.inf
        lanes.ended[lane] = not lanes.fresh[lane]
    elif not reached < lanes.objective[lane]:
        lanes.damping[lane] = max(lanes.damping[lane], 1e-3) * lanes.rise[lane]
        lanes.rise[lane] *= 2.0
        if lanes.damping[lane] > 1e8:
            lanes.ended[lane] = True
            lanes.converged[lane] = lanes.left[lane] < 1e3 * rules.tolerance
    else:
        foretold, apart = 0.0, 0.0
        moved = lanes.steps[lane, lanes.pairs[lane] % (P + 2)]
        for p in range(P):
            moved[p] = trial[p] - now[p] if lanes.free[lane, p] else 0.0
            if not rules.fixed[p]:
                apart = max(apart, abs(trial[p] - theta[t, p]))
        for p in range(P):
            foretold -= lanes.gradient[lane, p] * moved[p]
            for o in range(P):
                foretold -= 0.5 * moved[p] * lanes.info[lane, p, o] * moved[o]
        lanes.gain[lane] = lanes.objective[lane] - reached
        ratio = lanes.gain[lane] / max(foretold, 1e-300)
        calmer = lanes.damping[lane] * min(max(1.0 - (2.0 * ratio - 1.0) ** 3, 0.1), 2.0)
        lanes.damping[lane], lanes.rise[lane] = max(calmer, 1e-7), 4.0
        lanes.objective[lane] = reached
        copy(now, trial)
        lanes.pairs[lane] += 1
        known = reached > lanes.best[lane] and (apart < 0.2 or lanes.done[lane] >= rules.late)
        lanes.ended[lane], lanes.fresh[lane] = known, not known
    if lanes.fresh[lane]:
        copy(lanes.kept[lane], room.beta[:, lane])
    return lanes.fresh[lane]


@compiled
def _derive(lanes, room, lane, data, rules):
    """Takes the gradient and the information at a new place: its largest part, and the gain still to be had by them."""
    t, P, pairs = lanes.task[lane], len(room.theta), lanes.pairs[lane]
    now, gradient, info, free = lanes.now[lane], lanes.gradient[lane], lanes.info[lane], lanes.free[lane]
    for p in range(P):
        gradient[p] = room.gradient[p, lane]
        for o in range(P):
            info[p, o] = room.info[p, o, lane]
        if rules.precision[p] > 0.0:
            gradient[p] += rules.precision[p] * (now[p] - data.centre[t, p])
            info[p, p] += rules.precision[p]
    if pairs > 0:
        for p in range(P):
            lanes.changes[lane, (pairs - 1) % (P + 2), p] = gradient[p] - lanes.before[lane, p]
        _learn(info, lanes.steps[lane], lanes.changes[lane], pairs, lanes.step[lane])
    norm = 0.0
    for p in range(P):
        lanes.before[lane, p] = gradient[p]
        against = (now[p] <= data.low[t, p] and gradient[p] > 0) or (now[p] >= data.high[t, p] and gradient[p] < 0)
        free[p] = not rules.fixed[p] and not against
        if free[p]:
            norm = max(norm, abs(gradient[p]))
    left = np.inf
    if solve_small(P, info, gradient, free, 1e-6, 1e-12, lanes.step[lane], lanes.C):
        left = 0.0
        for p in range(P):
            left += 0.5 * lanes.step[lane, p] * gradient[p]
    lanes.norm[lane], lanes.left[lane] = norm, left


@compiled
def _go_on(lanes, room, lane, data, rules):
    """Makes the next trial of a lane; True, where its attempt is over."""
    if lanes.fresh[lane]:
        _derive(lanes, room, lane, data, rules)
        left, objective = lanes.left[lane], lanes.objective[lane]
        if left < rules.tolerance:
            lanes.ended[lane] = lanes.converged[lane] = True
        elif lanes.gain[lane] < 1e-13 * (1.0 + abs(objective)):
            lanes.ended[lane] = True
            lanes.converged[lane] = left < 1e3 * rules.tolerance
        elif objective - 3.0 * left > lanes.best[lane] + 0.2:
            lanes.ended[lane] = True
    if lanes.ended[lane] or lanes.done[lane] >= rules.iterations:
        return True
    t, P, step = lanes.task[lane], len(room.theta), lanes.step[lane]
    while not solve_small(
        P, lanes.info[lane], lanes.gradient[lane], lanes.free[lane], lanes.damping[lane], 1e-9, step, lanes.C
    ):
        lanes.damping[lane] = max(lanes.damping[lane], 1e-6) * 10.0
        if lanes.damping[lane] > 1e9:
            return True
    longest, now = 0.0, lanes.now[lane]
    for p in range(P):
        if (now[p] <= data.low[t, p] and step[p] > 0.0) or (now[p] >= data.high[t, p] and step[p] < 0.0):
            step[p] = 0.0  # it cannot go there, and must not hold up the others
        longest = max(longest, abs(step[p]))
    for p in range(P):
        moved = now[p] - step[p] * rules.reach / max(rules.reach, longest)
        room.theta[p, lane] = min(max(moved, data.low[t, p]), data.high[t, p]) if lanes.free[lane, p] else now[p]
    lanes.done[lane] += 1
    return False


@compiled
def _record(lanes, lane, data, rules, found):
    """Keeps the end of an attempt, if it is the best so far."""
    t = lanes.task[lane]
    found.iterations[t] += lanes.done[lane]
    if lanes.objective[lane] < lanes.best[lane]:
        lanes.best[lane] = lanes.objective[lane]
        copy(found.theta[t], lanes.now[lane])
        copy(found.beta[t], lanes.kept[lane])
        found.nlml[t] = lanes.objective[lane] - _pull(lanes.now[lane], data.centre[t], rules.precision)
        found.norm[t] = lanes.norm[lane]
        found.good[t] = 2 if lanes.converged[lane] else 1


@compiled
def _descend(room, lanes, tasks, data, rules, starts, counts, found):
    """From the starts of every task down to its minima, the best of which is kept."""
    following, going = 0, 0
    for lane in range(WIDTH):
        following = _follow(lanes, room, lane, tasks, following, data, rules, starts, counts, found)
        going += lanes.task[lane] >= 0
    while going > 0:
        evaluate(room, rules.factors)
        wanted = False
        for lane in range(WIDTH):
            if lanes.task[lane] >= 0:
                wanted = _judge(lanes, room, lane, data, rules, found.theta) or wanted
        if wanted:
            slopes(room)
        for lane in range(WIDTH):
            if lanes.task[lane] < 0 or not _go_on(lanes, room, lane, data, rules):
                continue
            _record(lanes, lane, data, rules, found)
            lanes.attempt[lane] += 1
            if lanes.attempt[lane] < counts[lanes.place[lane]]:
                _begin(lanes, room, lane, data, rules, starts, found.theta)
                continue
            following = _follow(lanes, room, lane, tasks, following, data, rules, starts, counts, found)
            going -= lanes.task[lane] < 0


@compiled
def _follow(lanes, room, lane, tasks, following, data, rules, starts, counts, found):
    """Gives a lane the next task that has a start, if there is one; which comes after it."""
    lanes.task[lane] = -1
    while following < len(tasks) and lanes.task[lane] < 0:
        if counts[following] > 0:
            lanes.task[lane], lanes.place[lane], lanes.attempt[lane] = tasks[following], following, 0
            lanes.best[lane] = np.inf
            _load(room, lane, data, tasks[following])
            _begin(lanes, room, lane, data, rules, starts, found.theta)
        following += 1
    return following


@entered
def fit(tasks, every, starts, counts, same, reached):
    """Fits some tasks: from so many of their starts as `counts` says, or, where there are none at all, from the hollows
    of the grid."""
    data, rules, found = lend(every), lend(same), lend(reached)
    P, Q = found.theta.shape[1], data.H.shape[2]
    rooms, states = make_room(data.x.shape[1], data.x.shape[2], P, Q, len(rules.factors)), _progress(P, Q)
    room, lanes = lend(rooms), lend(states)
    begin = np.empty((len(tasks), max(starts.shape[1], rules.follow), P))
    follow = np.empty(len(tasks), np.int64)
    for place in range(len(tasks)):
        t = tasks[place]
        found.nlml[t], found.norm[t], found.iterations[t], found.good[t] = np.inf, np.inf, 0, 0
        follow[place] = counts[t]
        for attempt in range(starts.shape[1]):
            copy(begin[place, attempt], starts[t, attempt])
    if starts.shape[1] == 0:
        for first in range(0, len(tasks), WIDTH):
            stop = min(len(tasks), first + WIDTH)
            _survey(room, tasks[first:stop], data, rules, found.theta, begin[first:stop], follow[first:stop])
    _descend(room, lanes, tasks, data, rules, begin, follow, found)
    rooms.count[0] = states.task[0] = 0  # in use until here


def scoring_fit(
    kernel: Kernel, tasks: Tasks, limits: Limits, rules: scoring.Rules, starts: scoring.Starts | None = None
) -> scoring.Fitted:
    """What `scoring.fit` does, compiled; on the CPU, in float64."""
    T, P = limits.low_TP.shape
    guesses, axes = scoring.grid(kernel, limits)
    periods_TFW = limits.low_TP.new_empty(T, 0, 0) if starts else periods.guesses(kernel, tasks, limits)
    starts_TSP, count_T = starts or (limits.low_TP[:, None][:, :0], torch.zeros(T, dtype=torch.int64))
    own = Rules(
        np.array(
            [(SHAPES.index(each.shape), each.term, each.start, each.stop, each.variance) for each in kernel.factors]
        ),
        _array(guesses),
        np.array(axes),
        np.array(kernel.periods, np.int64),
        _array(limits.precision_P),
        np.ascontiguousarray(limits.fixed_P.numpy()),
        scoring.scaling(kernel, limits).numpy(),
        min(rules.starts, len(guesses)),
        rules.iterations,
        rules.tolerance,
        rules.reach,
        rules.late,
    )
    shared = T > 1 and bool((tasks.x_TND == tasks.x_TND[:1]).all())
    data = Data(
        _array(tasks.x_TND[:1] if shared else tasks.x_TND),
        _array(tasks.y_TN),
        np.ascontiguousarray(tasks.keep_TN.numpy()),
        _array(tasks.H_TNQ),
        _array(tasks.known_TN),
        _array(limits.low_TP),
        _array(limits.high_TP),
        _array(limits.centre_TP),
        _array(periods_TFW),
    )
    found = Found(
        np.full((T, P), scoring.NO_NOISE), np.empty(T), np.empty(T, np.int64), np.empty(T), np.empty(T, np.int64),
        np.zeros((T, tasks.coefficients)),
    )  # fmt: skip
    begin = (_array(starts_TSP), np.ascontiguousarray(count_T.numpy().astype(np.int64)))
    order = np.argsort(data.keep.sum(1), kind="stable")  # lanes go in step: best with as many points as each other
    threads = torch.get_num_threads()
    share = WIDTH * max(1, -(-min(_SHARE, -(-T // (8 * threads))) // WIDTH))

    def some(first: int) -> None:
        fit(order[first : first + share], data, *begin, own, found)

    if threads < 2:
        for first in range(0, T, share):
            some(first)
    else:
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(some, range(0, T, share)))
    return scoring.Fitted(*(torch.from_numpy(each) for each in found))


def _array(tensor: torch.Tensor) -> np.ndarray:
    return np.ascontiguousarray(tensor.detach().double().numpy())
