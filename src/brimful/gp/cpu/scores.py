"""The likelihood of tasks at given parameters on the CPU, compiled: four tasks at a time, one in each SIMD lane; a lane
that has no further point of its task takes the next. Nothing here imports torch."""

import math
from collections import namedtuple

import numpy as np
from numba import types

from .borrowed import Layout
from .evaluation import EVALUATION, NOISE, VALUE, make_workspace
from .layouts import TASKS, TaskArrays, prior_penalty
from .likelihood import load_task, nlml
from .simd_lanes import WIDTH, compiled, entry_point, inlined, larger, smaller
from .workspace import WORKSPACE, call_at

Segments = namedtuple("Segments", "task begin stop theta value")
"""What is evaluated: `theta[begin:stop]` of each task, into `value`: the negative log likelihood, and the quadratic
form in it."""

Bounded = namedtuple("Bounded", "factors wanted fixed scales precision")
"""The kernel, as `covariance` takes it; 1 where points are moved inside the bounds and to their best factors, `value`
then being the score there, and whether a bound was in the way; and what that takes, by parameter: see
`initialization.scored_by`, of which this is the twin."""

_Share = namedtuple("_Share", "chosen now at")
"""The segments to evaluate, and which of them, and which point, each lane is at."""

_SEGMENTS = Layout(Segments, "i1 i1 i1 f2 f2")
_BOUNDED = Layout(Bounded, "i2 i0 b1 b1 f1")
_SHARE = Layout(_Share, "i1 i1 i1")
_share_at, _tasks_at, _segments_at = _SHARE.at, TASKS.at, _SEGMENTS.at
_bounded_at, _workspace_at = _BOUNDED.at, WORKSPACE.at


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
        call_at(workspace.evaluation, VALUE if moved else NOISE, workspace, factors)
        for lane in range(WIDTH):
            if now[lane] >= 0:
                place, value = segments.theta[at[lane]], segments.value[at[lane]]
                value[0], value[1] = nlml(workspace, lane), workspace.parts[0, lane]
                if bounded.wanted:
                    _finish(workspace, lane, data, segments.task[now[lane]], place, value, bounded)
                at[lane] += 1


SIGNATURE = types.none(*[types.int64] * 5)


@entry_point()
def score(share, tasks, segments, bounded, workspace):
    """Evaluates some of the segments."""
    own, given = _share_at(share), _bounded_at(bounded)
    _score(
        _workspace_at(workspace), own.now, own.at, _tasks_at(tasks), given.factors, _segments_at(segments), own.chosen,
        given,
    )  # fmt: skip


def evaluate_segments(chosen: np.ndarray, tasks: TaskArrays, segments: Segments, bounded: Bounded) -> None:
    """Evaluates some of the segments, by their index."""
    _, N, D = tasks.x.shape
    lanes = np.full(WIDTH, -1), np.zeros(WIDTH, np.int64)
    workspace = make_workspace(N, D, segments.theta.shape[1], tasks.H.shape[2], bounded.factors)
    lent = _SHARE.lend((chosen, *lanes)), TASKS.lend(tasks), _SEGMENTS.lend(segments), _BOUNDED.lend(bounded), workspace
    score(*(one.address for one in lent))


def compile_likelihood() -> int:
    """Compiles the likelihood, unless it is on disk."""
    return EVALUATION.address


def compile_with_likelihood() -> None:
    """Compiles both, unless they are on disk."""
    compile_likelihood()
    score.compile(SIGNATURE)
