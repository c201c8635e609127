"""The grid search from which a fit on the CPU starts, compiled: four tasks at a time, one in each SIMD lane.

The twin of `scoring.grid_search`, where the method is explained.
"""

import math

import numpy as np

from ..optimize.scoring import SECOND_START
from .arrays import prior_penalty
from .evaluation import ALL, NOISE, evaluate_at
from .likelihood import load_task, nlml
from .linear_algebra import copy
from .simd_lanes import WIDTH, allocating, compiled, larger, smaller, zeros

_LOG2PI = math.log(2 * math.pi)


@compiled
def _local_minima(score, shape, order):
    """The points of a grid that have no better neighbor along any axis, best first; how many there are."""
    count = 0
    for g in range(len(score)):
        if not score[g] < np.inf:
            continue
        stride, lowest = 1, True
        for axis in range(len(shape) - 1, -1, -1):
            position = (g // stride) % shape[axis]
            if position > 0 and score[g - stride] <= score[g]:  # of a plateau, the first
                lowest = False
            if position < shape[axis] - 1 and score[g + stride] < score[g]:
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
        second = _second_start(score, shape, order[0])
        if second >= 0:
            order[1] = second
            count = 2
    return count


@compiled
def _second_start(score, shape, first):
    """The best point that is not beside the only local minimum, where it is not much worse; -1 if there is none."""
    chosen = -1
    for g in range(len(score)):
        if score[g] <= score[first] + SECOND_START and (chosen < 0 or score[g] < score[chosen]):
            stride, beside = 1, True
            for axis in range(len(shape) - 1, -1, -1):
                if abs((g // stride) % shape[axis] - (first // stride) % shape[axis]) > 1:
                    beside = False
                stride *= shape[axis]
            if not beside:
                chosen = g
    return chosen


@allocating
def grid_search(workspace, tasks, data, settings, theta, starts, counts):
    """Scores the grid of initial values of some tasks, one per lane, each point with the best factor for all its
    variances: the local minima, best first, and from how many to descend."""
    G, P = settings.grid.shape
    levels = settings.shape[len(settings.shape) - 1]
    noises = 1 if settings.fixed[P - 1] else levels
    score, positions, point = zeros((WIDTH, G), 0.0), zeros((WIDTH, G, P), 0.0), zeros((P,), 0.0)
    order, short, shorts, most = zeros((G + 1,), 0), zeros((WIDTH, G), 0), zeros((WIDTH,), 0), 0
    for lane in range(len(tasks)):
        load_task(workspace, lane, data, tasks[lane])
    for g in range(G):
        for lane in range(len(tasks)):
            t = tasks[lane]
            copy(point, settings.grid[g])
            for wave in range(len(settings.periods)):
                point[settings.periods[wave]] = data.periods[t, g // levels % data.periods.shape[1], wave]
            for p in range(P):
                bounded = smaller(larger(point[p], data.low[t, p]), data.high[t, p])
                workspace.theta[p, lane] = theta[t, p] if settings.fixed[p] else bounded
        if g % noises == 0:
            evaluate_at(settings.evaluation, ALL, workspace, settings.factors)
        else:
            evaluate_at(settings.evaluation, NOISE, workspace, settings.factors)
        for lane in range(len(tasks)):
            if _score(workspace, lane, data, tasks[lane], settings, positions[lane, g], score, g):
                short[lane, shorts[lane]] = g
                shorts[lane] += 1
                most = larger(most, shorts[lane])
    for again in range(most):  # where a bound was in the way of the best factor
        for lane in range(len(tasks)):
            if again < shorts[lane]:
                copy(workspace.theta[:, lane], positions[lane, short[lane, again]])
        evaluate_at(settings.evaluation, ALL, workspace, settings.factors)
        for lane in range(len(tasks)):
            if again < shorts[lane]:
                g = short[lane, again]
                score[lane, g] = nlml(workspace, lane) + prior_penalty(
                    positions[lane, g], data.center[tasks[lane]], settings.precision
                )
    for lane in range(len(tasks)):
        counts[lane] = smaller(settings.starts, _local_minima(score[lane], settings.shape, order))
        for attempt in range(counts[lane]):
            copy(starts[lane, attempt], positions[lane, order[attempt]])


@compiled
def _score(workspace, lane, data, t, settings, position, score, g):
    """The score of a point at the best factor for its variances, which goes to `position`. True where a bound was in
    the way of it, and it must be evaluated there."""
    n = workspace.count[lane]
    reached = nlml(workspace, lane)
    copy(position, workspace.theta[:, lane])
    score[lane, g] = reached + prior_penalty(position, data.center[t], settings.precision)
    if not reached < np.inf:
        return False
    shift = math.log(larger(workspace.parts[0, lane] / larger(n, 1), 1e-300))
    scaled, within_bounds = False, True
    for p in range(len(position)):
        if settings.scales[p]:
            wanted = position[p] + shift
            position[p] = smaller(larger(wanted, data.low[t, p]), data.high[t, p])
            scaled, within_bounds = True, within_bounds and position[p] == wanted
    if scaled:
        nats_there = 0.5 * (n + n * shift + workspace.parts[1, lane] + n * _LOG2PI)
        score[lane, g] = nats_there + prior_penalty(position, data.center[t], settings.precision)
    return scaled and not within_bounds
