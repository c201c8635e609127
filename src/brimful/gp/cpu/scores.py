"""The likelihood of tasks at given parameters on the CPU, compiled: four tasks at a time, one in each SIMD lane; a lane
that has no further point of its task takes the next."""

import math
from collections import namedtuple

import numpy as np
import torch
from torch import Tensor

from .arrays import prior_penalty
from .borrowed import borrow
from .evaluation import NOISE, VALUE, evaluate_at
from .likelihood import load_task, make_workspace, nlml
from .simd_lanes import WIDTH, compiled, entry_point, inlined, larger, smaller, zeros

Segments = namedtuple("Segments", "task begin stop theta value")
"""What is evaluated: `theta[begin:stop]` of each task, into `value`: the negative log likelihood, and the quadratic
form in it."""

Bounded = namedtuple("Bounded", "evaluation wanted fixed scales precision")
"""The address of the compiled likelihood; whether points are moved inside the bounds and to their best factors, `value`
then being the score there, and whether a bound was in the way; and what that takes, by parameter: see
`initialization.scored_by`, of which this is the twin."""


@compiled
def _next_point(workspace, lane, now, at, data, segments, chosen, upcoming):
    """Moves a lane to its next point, of a further segment where one has ended; the number of segments begun."""
    if now[lane] >= 0 and at[lane] < segments.stop[now[lane]]:
        return upcoming
    now[lane] = -1
    if upcoming < len(chosen):
        now[lane] = chosen[upcoming]
        at[lane] = segments.begin[now[lane]]
        load_task(workspace, lane, data, segments.task[now[lane]])
        return upcoming + 1
    return upcoming


@inlined
def _clamped(value, data, t, p, bounded):
    return value if bounded.fixed[p] else smaller(larger(value, data.low[t, p]), data.high[t, p])


@compiled
def _finish(workspace, lane, data, t, theta, value, bounded):
    """Moves a point that was evaluated to its best factor."""
    n, reached, stopped, scaled = workspace.count[lane], value[0], False, False
    if reached < np.inf:
        quadratic = value[1]
        shift = math.log(larger(quadratic / larger(n, 1), 1e-30))
        for p in range(len(theta)):
            if bounded.scales[p]:
                moved = theta[p] + shift
                theta[p] = _clamped(moved, data, t, p, bounded)
                scaled, stopped = True, stopped or theta[p] != moved
        if scaled:
            reached += 0.5 * (n * (1.0 + shift) - quadratic)
        reached += prior_penalty(theta, data.center[t], bounded.precision)
    value[0] = reached if reached < np.inf else np.inf
    value[1] = 1.0 if stopped else 0.0


@compiled
def _score(workspace, now, at, data, factors, segments, chosen, bounded):
    P, begun, going = len(workspace.theta), 0, True
    while going:
        going, moved = False, False
        for lane in range(WIDTH):
            before = begun
            begun = _next_point(workspace, lane, now, at, data, segments, chosen, begun)
            if now[lane] < 0:
                continue
            going, moved = True, moved or begun > before
            for p in range(P):
                value = segments.theta[at[lane], p]
                if bounded.wanted:
                    value = segments.theta[at[lane], p] = _clamped(value, data, segments.task[now[lane]], p, bounded)
                moved = moved or (p < P - 1 and value != workspace.theta[p, lane])
                workspace.theta[p, lane] = value
        if not going:
            return
        evaluate_at(bounded.evaluation, VALUE if moved else NOISE, workspace, factors)
        for lane in range(WIDTH):
            if now[lane] >= 0:
                place, value = segments.theta[at[lane]], segments.value[at[lane]]
                value[0], value[1] = nlml(workspace, lane), workspace.parts[0, lane]
                if bounded.wanted:
                    _finish(workspace, lane, data, segments.task[now[lane]], place, value, bounded)
                at[lane] += 1


@entry_point()
def score(chosen, all_tasks, factors, all_segments, bounded):
    """Evaluates some of the segments."""
    data, segments = borrow(all_tasks), borrow(all_segments)
    P, Q = segments.theta.shape[1], data.H.shape[2]
    owned = make_workspace(data.x.shape[1], data.x.shape[2], P, Q, factors)
    now, at = zeros((WIDTH,), 0), zeros((WIDTH,), 0)
    for lane in range(WIDTH):
        now[lane] = -1
    _score(borrow(owned), now, at, data, factors, segments, chosen, borrow(bounded))
    owned.count[0] = 0  # in use until here


def segments_of(index_L: Tensor, theta_LP: Tensor) -> Segments:
    """Segments of evaluations of one task each, of tasks by their index."""
    task, count = torch.unique_consecutive(index_L.long(), return_counts=True)
    stop = count.cumsum(0)
    theta = np.array(theta_LP.detach().numpy(), order="C")
    return Segments(task.numpy(), (stop - count).numpy(), stop.numpy(), theta, np.empty((len(theta), 2)))
