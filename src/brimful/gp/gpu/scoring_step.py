"""One scoring step for many tasks as one Triton kernel: the trial is accepted or rejected, the information corrected by
BFGS updates, and the next trial made. A task that has finished one start continues with its next while others still
descend.

The twin of the loop in `scoring.py`, where the method is explained; a test holds the two together. Vectors of P
parameters and their matrices are padded to powers of two, side by side in one program.
"""

# pyright: reportArgumentType=false, reportCallIssue=false, reportOperatorIssue=false, reportAttributeAccessIssue=false
# pyright: reportGeneralTypeIssues=false, reportIndexIssue=false
import math
from collections import namedtuple
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from ..model.priors import Limits
from ..optimize.initialization import Starts, clamp_to_bounds
from ..optimize.scoring import CONVERGED, FAILED, UNFINISHED, Optima, ScoringOptions
from .layout import ActiveTasks
from .likelihood import Evaluations

_ROWS = 64  # of the matrices of the tasks of one program


class Descent(
    namedtuple(
        "Descent",
        "starts_TSP count_T start_T made_T trial_TP now_TP gradient_TP info_TPP beta_TQ steps_TRP changes_TRP "
        "numbers_T4 best_TP best_TQ best_T3 iterations_T ending_T going_T",
    )
):
    """The state of the descents of T tasks, each from one of its starts after another, in the order that `step` takes.

    Attributes:
        starts_TSP, count_T: where to begin, best first, and how many of them to use.
        start_T, made_T: the current start, and the steps made from it; -1 before its first evaluation.
        trial_TP: what to evaluate next.
        now_TP, gradient_TP, info_TPP, beta_TQ: the best point from this start, the derivatives there, and the mean.
        steps_TRP, changes_TRP: the last steps, and how they changed the gradient.
        numbers_T4: objective, likelihood, damping, and its rise.
        best_TP, best_TQ, best_T3: the best of all starts: its parameters, mean, and objective, likelihood, and the
            largest part of the gradient.
        iterations_T, ending_T: steps made from all starts, and how the best one ended.
        going_T: 1 while there is more to do.
    """

    __slots__ = ()

    def going(self, most: int) -> ActiveTasks:
        """The tasks that have not ended, at most so many; listed without waiting for their number."""
        index_L = torch.nonzero_static(self.going_T, size=most, fill_value=0)[:, 0].int()
        return ActiveTasks(index_L, self.going_T.sum(0, keepdim=True, dtype=torch.int32))

    def optima(self) -> Optima:
        """The best of all starts of every task."""
        _, nlml_T, gradient_T = self.best_T3.unbind(1)
        iterations_T, ending_T = self.iterations_T.long(), self.ending_T.long()
        return Optima(self.best_TP, nlml_T, iterations_T, gradient_T, ending_T, self.best_TQ)


def begin(starts: Starts, limits: Limits, regressors: int) -> Descent:
    """The state before the first evaluation."""
    starts_TSP, count_T = (
        clamp_to_bounds(starts[0].transpose(0, 1), limits).transpose(0, 1).contiguous(),
        starts[1].int(),
    )
    (T, _, P), like = starts_TSP.shape, {"dtype": starts_TSP.dtype, "device": starts_TSP.device}
    whole: dict[str, Any] = {"dtype": torch.int32, "device": starts_TSP.device}
    return Descent(
        starts_TSP, count_T, torch.zeros(T, **whole), torch.full((T,), -1, **whole), starts_TSP[:, 0].contiguous(),
        torch.empty(T, P, **like), torch.empty(T, P, **like), torch.empty(T, P, P, **like),
        torch.empty(T, regressors, **like), torch.zeros(T, P + 2, P, **like), torch.zeros(T, P + 2, P, **like),
        torch.tensor([math.inf, math.inf, 1e-3, 4.0], **like).repeat(T, 1),
        torch.full((T, P), math.nan, **like), torch.zeros(T, regressors, **like), torch.full((T, 3), math.inf, **like),
        torch.zeros(T, **whole), torch.full((T,), FAILED, **whole), (count_T > 0).int(),
    )  # fmt: skip


@triton.jit
def _solve(A, g, free, damping, floor: tl.constexpr, P: tl.constexpr, PB: tl.constexpr):
    """(A + damping diag A + floor) step = g for the free parameters, by elimination; along the gradient where that
    fails."""
    i = tl.arange(0, PB)
    same = (i[:, None] == i[None, :])[None]
    diagonal = tl.sum(tl.where(same, A, 0.0), axis=2)
    added = tl.where(free, diagonal * damping[:, None] + floor, 1.0)
    M = tl.where(free[:, :, None] & free[:, None, :], A, 0.0) + tl.where(same, added[:, :, None], 0.0)
    b = tl.where(free, g, 0.0)
    good = damping == damping
    for k in range(P):
        across = tl.sum(tl.where((i == k)[None, :, None], M, 0.0), axis=1)
        pivot = tl.sum(tl.where((i == k)[None, :], across, 0.0), axis=1)
        good = good & (pivot > 0.0)
        over = 1.0 / tl.where(pivot > 0.0, pivot, 1.0)
        down = tl.sum(tl.where((i == k)[None, None, :], M, 0.0), axis=2)
        down = tl.where((i == k)[None, :], 0.0, down) * over[:, None]
        at = tl.sum(tl.where((i == k)[None, :], b, 0.0), axis=1)
        M = M - down[:, :, None] * across[:, None, :]
        b = b - down * at[:, None]
    step = b / tl.where(free, tl.sum(tl.where(same, M, 0.0), axis=2), 1.0)
    good = good & (tl.sum(tl.where(tl.abs(step) < float("inf"), 0.0, 1.0), axis=1) == 0.0)
    plain = tl.where(free, g / tl.maximum(diagonal, floor), 0.0)
    return tl.where(good[:, None], step, plain)


@triton.jit
def _remaining_gain(A, g, free, P: tl.constexpr, PB: tl.constexpr):
    """The gain still to be had, in nats."""
    damping = tl.sum(g * 0.0, axis=1) + 1e-6
    step = _solve(A, g, free, damping, 1e-12, P, PB)
    left = 0.5 * tl.sum(step * tl.where(free, g, 0.0), axis=1)
    return tl.where(left >= 0.0, left, float("inf"))


@triton.jit
def _bfgs_update(A, s, y, use):
    Bs = tl.sum(A * s[:, None, :], axis=2)
    sBs, sy = tl.sum(s * Bs, axis=1), tl.sum(s * y, axis=1)
    use = use & (sy > 1e-3 * sBs) & (sBs > 0.0)
    gained = y[:, :, None] * y[:, None, :] / tl.where(use, sy, 1.0)[:, None, None]
    lost = Bs[:, :, None] * Bs[:, None, :] / tl.where(use, sBs, 1.0)[:, None, None]
    return tl.where(use[:, None, None], A + gained - lost, A)


@triton.jit
def step(
    slot, t, here, value, beta, gradient, info, starts, counts, start, made, trial, now, kept_gradient, kept_info,
    kept_beta, steps, changes, numbers, best, best_beta, best_numbers, iterations, ending, going, low, high, center,
    precision, fixed, points, tolerance, max_step, limit,
    P: tl.constexpr, PB: tl.constexpr, Q: tl.constexpr, R: tl.constexpr, STARTS: tl.constexpr, PATIENCE: tl.constexpr,
    FAILED: tl.constexpr, UNFINISHED: tl.constexpr, CONVERGED: tl.constexpr,
):  # fmt: skip
    """Takes in what the trials of tasks t came to, which lies at `slot`; of those that are here."""
    here = here & (tl.load(going + t, mask=here, other=0) != 0)  # some may have ended since they were listed
    p = tl.arange(0, PB)
    valid = (p < P)[None, :]
    row = here[:, None] & valid
    square = row[:, :, None] & valid[:, None, :]
    at = t[:, None] * P + p[None, :]
    positions = t[:, None, None] * P * P + p[None, :, None] * P + p[None, None, :]

    # What the trial came to.
    tried = tl.load(trial + at, mask=row, other=0.0)
    least, most = tl.load(low + at, mask=row, other=0.0), tl.load(high + at, mask=row, other=0.0)
    prior_precision = tl.load(precision + p, mask=p < P, other=0.0)[None, :]
    stays = (tl.load(fixed + p, mask=p < P, other=1) != 0)[None, :]
    off = tl.where(prior_precision > 0.0, tried - tl.load(center + at, mask=row, other=0.0), 0.0)
    nats = tl.load(value + 2 * slot, mask=here, other=0.0) + tl.load(value + 2 * slot + 1, mask=here, other=0.0)
    plain = 0.5 * (nats + 1.8378770664093453 * tl.load(points + t, mask=here, other=0.0))
    reached = plain + 0.5 * tl.sum(prior_precision * off * off, axis=1)
    g = tl.load(gradient + slot[:, None] * P + p[None, :], mask=row, other=0.0) + prior_precision * off
    spot = slot[:, None, None] * P * P + p[None, :, None] * P + p[None, None, :]
    A = tl.load(info + spot, mask=square, other=0.0)
    A += tl.where((p[:, None] == p[None, :])[None], prior_precision[:, :, None], 0.0)

    # Against the best point so far, of this start.
    count = tl.load(made + t, mask=here, other=0) + 1
    fresh = count == 0
    old = ~fresh[:, None] & row
    objective = tl.load(numbers + t * 4, mask=here, other=0.0)
    damping = tl.load(numbers + t * 4 + 2, mask=here, other=1.0)
    rise = tl.load(numbers + t * 4 + 3, mask=here, other=4.0)
    kept = tl.where(old, tl.load(now + at, mask=old, other=0.0), tried)
    before = tl.load(kept_gradient + at, mask=old, other=0.0)
    A_before = tl.load(kept_info + positions, mask=square & old[:, :, None], other=0.0)
    better = here & (reached < objective)
    gain = objective - reached
    moved = tl.where(valid, tried - kept, 0.0)
    predicted = -tl.sum(before * moved, axis=1)
    predicted -= 0.5 * tl.sum(moved * tl.sum(A_before * moved[:, None, :], axis=2), axis=1)
    ratio = tl.where(fresh, 1.0, 2.0 * gain / tl.maximum(predicted, 1e-30) - 1.0)
    calmer = tl.minimum(tl.maximum(1.0 - ratio * ratio * ratio, 0.1), 2.0)
    changed = tl.where(better, tl.maximum(damping * calmer, 1e-7), tl.maximum(damping, 1e-3) * rise)
    damping = tl.where(fresh, damping, changed)
    rise = tl.where(fresh | better, 4.0, rise * 2.0)
    keeps = row & (better | fresh)[:, None]
    oldest = t[:, None] * (R * P) + p[None, :]
    for r in range(R - 1):
        s = tl.load(steps + oldest + (r + 1) * P, mask=old, other=0.0)
        change = tl.load(changes + oldest + (r + 1) * P, mask=old, other=0.0)
        tl.store(steps + oldest + r * P, s, mask=keeps)
        tl.store(changes + oldest + r * P, change, mask=keeps)
        A = _bfgs_update(A, s, change, better)
    last, turned = tl.where(old, moved, 0.0), tl.where(old, g - before, 0.0)
    tl.store(steps + oldest + (R - 1) * P, last, mask=keeps)
    tl.store(changes + oldest + (R - 1) * P, turned, mask=keeps)
    A = _bfgs_update(A, last, turned, better)
    objective = tl.where(better, reached, objective)
    kept = tl.where(better[:, None], tried, kept)
    g = tl.where(better[:, None], g, before)
    A = tl.where(better[:, None, None], A, A_before)
    against = ((kept <= least) & (g > 0.0)) | ((kept >= most) & (g < 0.0))
    free = valid & ~stays & ~against
    left = _remaining_gain(A, g, free, P, PB)
    norm = tl.max(tl.where(free, tl.abs(g), 0.0), axis=1)

    # Whether this start has come to its end.
    result = tl.load(best_numbers + t * 3, mask=here, other=0.0)
    finite = objective < float("inf")
    stuck = ~fresh & ((~better & (damping > 1e8)) | (better & (gain < 1e-13 * (1.0 + tl.abs(objective)))))
    done = finite & ((better & (left < tolerance)) | (stuck & (left < 1e3 * tolerance)))
    apart = tl.where(stays, 0.0, tl.abs(kept - tl.load(best + at, mask=row, other=0.0)))
    apart = tl.where(valid, apart, 0.0)
    near = (tl.max(apart, axis=1) < 0.2) & (tl.sum(tl.where(apart == apart, 0.0, 1.0), axis=1) == 0.0)
    known = ~fresh & (near | (count >= PATIENCE)) & (reached > result)
    hopeless = better & (known | (objective - 3.0 * left > result + 0.2))
    stop = done | stuck | hopeless | (count >= limit) | ~finite
    end = tl.where(done, CONVERGED, tl.where(finite, UNFINISHED, FAILED))

    kept_plain = tl.where(better, plain, tl.load(numbers + t * 4 + 1, mask=here, other=0.0))
    takes = here & stop & (objective < result)
    tl.store(best + at, kept, mask=row & takes[:, None])
    tl.store(best_numbers + t * 3, objective, mask=takes)
    tl.store(best_numbers + t * 3 + 1, kept_plain, mask=takes)
    tl.store(best_numbers + t * 3 + 2, norm, mask=takes)
    tl.store(ending + t, end, mask=takes)
    for q in tl.static_range(Q):
        new = tl.load(beta + slot * Q + q, mask=here, other=0.0)
        mean = tl.where(better, new, tl.load(kept_beta + t * Q + q, mask=here & ~fresh, other=0.0))
        tl.store(kept_beta + t * Q + q, mean, mask=here)
        tl.store(best_beta + t * Q + q, mean, mask=takes)
    total = tl.load(iterations + t, mask=here, other=0)
    tl.store(iterations + t, tl.where(fresh, total, total + 1), mask=here)

    # The next trial: a step further, or the next start.
    move = _solve(A, g, free, damping, 1e-9, P, PB)
    move = tl.where(((kept <= least) & (move > 0.0)) | ((kept >= most) & (move < 0.0)), 0.0, move)
    move = move * (max_step / tl.maximum(tl.max(tl.abs(move), axis=1), max_step))[:, None]
    ahead = tl.where(free, tl.minimum(tl.maximum(kept - move, least), most), kept)
    following = tl.load(start + t, mask=here, other=0)
    following = tl.where(stop, following + 1, following)
    more = following < tl.load(counts + t, mask=here, other=0)
    again = here & stop & more
    other = tl.load(starts + (t[:, None] * STARTS + following[:, None]) * P + p[None, :],
                    mask=row & again[:, None], other=0.0)  # fmt: skip
    tl.store(trial + at, tl.where(again[:, None], other, ahead), mask=row)
    tl.store(now + at, kept, mask=row)
    tl.store(kept_gradient + at, g, mask=row)
    tl.store(kept_info + positions, A, mask=square)
    tl.store(numbers + t * 4, tl.where(again, float("inf"), objective), mask=here)
    tl.store(numbers + t * 4 + 1, kept_plain, mask=here)
    tl.store(numbers + t * 4 + 2, tl.where(again, 1e-3, damping), mask=here)
    tl.store(numbers + t * 4 + 3, tl.where(again, 4.0, rise), mask=here)
    tl.store(start + t, following, mask=here)
    tl.store(made + t, tl.where(again, -1, count), mask=here)
    tl.store(going + t, tl.where(~stop | more, 1, 0), mask=here)


@triton.jit(
    do_not_specialize=["begin", "limit"],
    do_not_specialize_on_alignment=["index", "count", "value", "beta", "gradient", "info", "points"],
)
def _advance(
    index, count, value, beta, gradient, info, starts, counts, start, made, trial, now, kept_gradient, kept_info,
    kept_beta, steps, changes, numbers, best, best_beta, best_numbers, iterations, ending, going, low, high, center,
    precision, fixed, points, begin, tolerance, max_step, limit,
    P: tl.constexpr, PB: tl.constexpr, Q: tl.constexpr, R: tl.constexpr, STARTS: tl.constexpr, S: tl.constexpr,
    PATIENCE: tl.constexpr, FAILED: tl.constexpr, UNFINISHED: tl.constexpr, CONVERGED: tl.constexpr,
):  # fmt: skip
    L = tl.load(count) - begin
    first = tl.program_id(0).to(tl.int64) * S
    if first < L:
        slot = first + tl.arange(0, S)
        t = tl.load(index + slot, mask=slot < L, other=0).to(tl.int64)
        step(slot, t, slot < L, value, beta, gradient, info, starts, counts, start, made, trial, now, kept_gradient,
             kept_info, kept_beta, steps, changes, numbers, best, best_beta, best_numbers, iterations, ending, going,
             low, high, center, precision, fixed, points, tolerance, max_step, limit, P, PB, Q, R, STARTS, PATIENCE,
             FAILED,
             UNFINISHED, CONVERGED)  # fmt: skip


def advance(
    descent: Descent,
    active: ActiveTasks,
    evaluated: Evaluations,
    limits: Limits,
    options: ScoringOptions,
    count_T: Tensor,
) -> None:
    """Takes in what the trials of some tasks came to. `count_T`: the points of each task."""
    run, together = _advance, max(1, _ROWS // triton.next_power_of_2(limits.low_TP.shape[1]))  # tasks of one program
    run[(-(-len(active) // together),)](
        active.index_L, active.count, *arguments(evaluated, descent, limits), count_T, active.begin, options.tolerance,
        options.max_step, options.steps, S=together, num_warps=1, **compiled(descent, limits, options),
    )  # fmt: skip


def arguments(evaluated: Evaluations, descent: Descent, limits: Limits) -> tuple[Tensor, ...]:
    """What was evaluated, the state of the tasks, and their limits, as `step` takes them."""
    fixed_P = limits.fixed_P.view(torch.int8)
    return *evaluated, *descent, limits.low_TP, limits.high_TP, limits.center_TP, limits.precision_P, fixed_P


def compiled(d: Descent, limits: Limits, options: ScoringOptions) -> dict[str, Any]:
    """What `step` has compiled in."""
    P = limits.low_TP.shape[1]
    return {
        "P": P, "PB": triton.next_power_of_2(P), "Q": d.beta_TQ.shape[1], "R": P + 2, "STARTS": d.starts_TSP.shape[1],
        "PATIENCE": options.patience, "FAILED": FAILED, "UNFINISHED": UNFINISHED, "CONVERGED": CONVERGED,
    }  # fmt: skip
