"""The descent of a fit on the CPU, compiled: a task in each SIMD lane, and a lane whose task has ended takes the next.

The twin of the loop in `scoring.fit`, where the method is explained, with the same names.
"""

import math
from collections import namedtuple

import numpy as np

from .borrowed import Layout, Lent
from .evaluation import ALL, DERIVATIVES
from .layouts import prior_penalty
from .likelihood import load_task, nlml
from .linear_algebra import copy, solve_small
from .simd_lanes import WIDTH, compiled, inlined, larger, smaller
from .workspace import call_at

LaneStates = namedtuple(
    "LaneStates",
    "task position attempt done pairs begun fresh ended converged objective damping rise gain norm left best now step "
    "gradient before info steps changes free kept C",
)
"""How far the task in each lane is, one row per lane.

Attributes:
    task, position: which task it is, -1 where there is none, and which among the starts.
    attempt, done: the start that it descends from, and the steps made from there.
    begun, fresh: whether its start was evaluated, and whether it is at a new point whose derivatives are unknown.
    ended, converged: whether this attempt is over, and whether it has converged.
    objective, damping, rise, gain, norm, left: the objective, Levenberg's damping and how it rises, the last gain, the
        largest part of the gradient, and the gain still to be had.
    best: the objective of the best attempt so far.
    now, gradient, info, kept: the current point, the derivatives there, and the mean's coefficients.
    step, before, free, C: the next step, the gradient before it, the parameters that are free, and scratch memory.
    steps, changes, pairs: the last steps, how they changed the gradient, and how many there were.
"""


STATES = Layout(LaneStates, "i1 i1 i1 i1 i1 b1 b1 b1 b1 f1 f1 f1 f1 f1 f1 f1 f2 f2 f2 f2 f3 f3 f3 b2 f2 f2")


def make_states(P: int, Q: int) -> Lent:
    """Memory for them, for P parameters and Q coefficients of the mean."""
    one, each, pairs = (WIDTH,), (WIDTH, P), (WIDTH, P + 2, P)
    return STATES.make((*[one] * 16, *[each] * 4, (WIDTH, P, P), pairs, pairs, each, (WIDTH, Q), (P + 2, P + 2)))


@inlined
def _bfgs_update(info, steps, changes, pairs, Bs):
    """Corrects the information by BFGS updates, so that it maps the last steps to the changes of the gradient."""
    P = len(info)
    for k in range(larger(0, pairs - len(steps)), pairs):
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
def _begin(states, workspace, lane, data, settings, starts, theta):
    """Sets a lane to the next of its task's starts."""
    t, start = states.task[lane], starts[states.position[lane], states.attempt[lane]]
    for p in range(len(start)):
        bounded = smaller(larger(start[p], data.low[t, p]), data.high[t, p])
        workspace.theta[p, lane] = theta[t, p] if settings.fixed[p] else bounded
    states.done[lane] = states.pairs[lane] = 0
    states.begun[lane] = states.fresh[lane] = states.ended[lane] = states.converged[lane] = False
    states.objective[lane] = states.gain[lane] = states.norm[lane] = states.left[lane] = np.inf
    states.damping[lane], states.rise[lane] = 1e-3, 4.0


@compiled
def _accept(states, workspace, lane, data, settings, theta):
    """Accepts the point just evaluated if it is better. True where its derivatives are needed."""
    t, P = states.task[lane], len(workspace.theta)
    now, trial = states.now[lane], workspace.theta[:, lane]
    reached = nlml(workspace, lane) + prior_penalty(trial, data.center[t], settings.precision)
    states.fresh[lane] = False
    if not states.begun[lane]:
        states.begun[lane] = True
        states.objective[lane] = reached
        copy(now, trial)
        states.fresh[lane] = reached < np.inf
        states.ended[lane] = not states.fresh[lane]
    elif not reached < states.objective[lane]:
        states.damping[lane] = larger(states.damping[lane], 1e-3) * states.rise[lane]
        states.rise[lane] *= 2.0
        if states.damping[lane] > 1e8:
            states.ended[lane] = True
            states.converged[lane] = states.left[lane] < 1e3 * settings.tolerance
    else:
        predicted, distance = 0.0, 0.0
        moved = states.steps[lane, states.pairs[lane] % (P + 2)]
        for p in range(P):
            moved[p] = trial[p] - now[p] if states.free[lane, p] else 0.0
            if not settings.fixed[p]:
                apart = abs(trial[p] - theta[t, p])
                if settings.periods[p]:  # in cycles
                    apart *= 10.0 * math.exp(-theta[t, p])
                distance = larger(distance, apart)
        for p in range(P):
            predicted -= states.gradient[lane, p] * moved[p]
            for o in range(P):
                predicted -= 0.5 * moved[p] * states.info[lane, p, o] * moved[o]
        states.gain[lane] = states.objective[lane] - reached
        ratio = states.gain[lane] / larger(predicted, 1e-300)
        beyond = 2.0 * ratio - 1.0
        calmer = states.damping[lane] * smaller(larger(1.0 - beyond * beyond * beyond, 0.1), 2.0)
        states.damping[lane], states.rise[lane] = larger(calmer, 1e-7), 4.0
        states.objective[lane] = reached
        copy(now, trial)
        states.pairs[lane] += 1
        known = reached > states.best[lane] and (distance < 0.2 or states.done[lane] >= settings.patience)
        states.ended[lane], states.fresh[lane] = known, not known
    if states.fresh[lane]:
        copy(states.kept[lane], workspace.beta[:, lane])
    return states.fresh[lane]


@compiled
def _derive(states, workspace, lane, data, settings):
    """Takes the gradient and the information at a new point, the largest part of the gradient, and the gain still to be
    had."""
    t, P, pairs = states.task[lane], len(workspace.theta), states.pairs[lane]
    now, gradient, info, free = states.now[lane], states.gradient[lane], states.info[lane], states.free[lane]
    for p in range(P):
        gradient[p] = workspace.gradient[p, lane]
        for o in range(P):
            info[p, o] = workspace.info[p, o, lane]
        if settings.precision[p] > 0.0:
            gradient[p] += settings.precision[p] * (now[p] - data.center[t, p])
            info[p, p] += settings.precision[p]
    if pairs > 0:
        for p in range(P):
            states.changes[lane, (pairs - 1) % (P + 2), p] = gradient[p] - states.before[lane, p]
        _bfgs_update(info, states.steps[lane], states.changes[lane], pairs, states.step[lane])
    norm = 0.0
    for p in range(P):
        states.before[lane, p] = gradient[p]
        against = (now[p] <= data.low[t, p] and gradient[p] > 0) or (now[p] >= data.high[t, p] and gradient[p] < 0)
        free[p] = not settings.fixed[p] and not against
        if free[p]:
            norm = larger(norm, abs(gradient[p]))
    left = np.inf
    if solve_small(P, info, gradient, free, 1e-6, 1e-12, states.step[lane], states.C):
        left = 0.0
        for p in range(P):
            left += 0.5 * states.step[lane, p] * gradient[p]
    states.norm[lane], states.left[lane] = norm, left


@compiled
def _next_trial(states, workspace, lane, data, settings):
    """Makes the next trial of a lane; True where its attempt is over."""
    if states.fresh[lane]:
        _derive(states, workspace, lane, data, settings)
        left, objective = states.left[lane], states.objective[lane]
        if left < settings.tolerance:
            states.ended[lane] = states.converged[lane] = True
        elif states.gain[lane] < 1e-13 * (1.0 + abs(objective)):
            states.ended[lane] = True
            states.converged[lane] = left < 1e3 * settings.tolerance
        elif objective - settings.optimism * left > states.best[lane] + 0.2:
            states.ended[lane] = True
    if states.ended[lane] or states.done[lane] >= settings.steps:
        return True
    t, P, step = states.task[lane], len(workspace.theta), states.step[lane]
    while not solve_small(
        P, states.info[lane], states.gradient[lane], states.free[lane], states.damping[lane], 1e-9, step, states.C
    ):
        states.damping[lane] = larger(states.damping[lane], 1e-6) * 10.0
        if states.damping[lane] > 1e9:
            return True
    longest, now = 0.0, states.now[lane]
    for p in range(P):
        if (now[p] <= data.low[t, p] and step[p] > 0.0) or (now[p] >= data.high[t, p] and step[p] < 0.0):
            step[p] = 0.0  # it cannot go there, and must not hold up the others
        longest = larger(longest, abs(step[p]))
    for p in range(P):
        moved = now[p] - step[p] * settings.max_step / larger(settings.max_step, longest)
        bounded = smaller(larger(moved, data.low[t, p]), data.high[t, p])
        workspace.theta[p, lane] = bounded if states.free[lane, p] else now[p]
    states.done[lane] += 1
    return False


@compiled
def _record(states, lane, data, settings, results):
    """Keeps the end of an attempt, if it is the best so far."""
    t = states.task[lane]
    results.iterations[t] += states.done[lane]
    if states.objective[lane] < states.best[lane]:
        states.best[lane] = states.objective[lane]
        copy(results.theta[t], states.now[lane])
        copy(results.beta[t], states.kept[lane])
        results.nlml[t] = states.objective[lane] - prior_penalty(states.now[lane], data.center[t], settings.precision)
        results.norm[t] = states.norm[lane]
        results.ending[t] = 2 if states.converged[lane] else 1


@compiled
def descend(workspace, states, tasks, data, settings, starts, counts, results):
    """Descends from the starts of every task, and records the best local minimum of each."""
    upcoming, going = 0, 0
    for lane in range(WIDTH):
        upcoming = _next_task(states, workspace, lane, tasks, upcoming, data, settings, starts, counts, results)
        going += states.task[lane] >= 0
    while going > 0:
        call_at(workspace.evaluation, ALL, workspace, settings.factors)
        wanted = False
        for lane in range(WIDTH):
            if states.task[lane] >= 0:
                wanted = _accept(states, workspace, lane, data, settings, results.theta) or wanted
        if wanted:
            call_at(workspace.evaluation, DERIVATIVES, workspace, settings.factors)
        for lane in range(WIDTH):
            if states.task[lane] < 0 or not _next_trial(states, workspace, lane, data, settings):
                continue
            _record(states, lane, data, settings, results)
            states.attempt[lane] += 1
            if states.attempt[lane] < counts[states.position[lane]]:
                _begin(states, workspace, lane, data, settings, starts, results.theta)
                continue
            upcoming = _next_task(states, workspace, lane, tasks, upcoming, data, settings, starts, counts, results)
            going -= states.task[lane] < 0


@compiled
def _next_task(states, workspace, lane, tasks, upcoming, data, settings, starts, counts, results):
    """Gives a lane the next task that has a start, if there is one; returns the index after it."""
    states.task[lane] = -1
    while upcoming < len(tasks) and states.task[lane] < 0:
        if counts[upcoming] > 0:
            states.task[lane], states.position[lane], states.attempt[lane] = tasks[upcoming], upcoming, 0
            visited = prior_penalty(results.theta[tasks[upcoming]], data.center[tasks[upcoming]], settings.precision)
            states.best[lane] = results.nlml[tasks[upcoming]] + visited
            load_task(workspace, lane, data, tasks[upcoming])
            _begin(states, workspace, lane, data, settings, starts, results.theta)
        upcoming += 1
    return upcoming
