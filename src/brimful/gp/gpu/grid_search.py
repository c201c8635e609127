"""The grid search of many tasks as Triton kernels: the grid is scored, and the starts of each task are selected.

The twin of `initialization.grid_search`, where the method is explained, for a grid of lengthscales, by dimensions that
start longer, by noises (or variances, where the noise is known). What torch does in many small operations is two
kernels here, around the evaluation; the profile of a grid of lengthscales by noises is refined by those of
`profile.py`. The evaluation is bound by memory, so where a grid point has enough noise the stored factor is rounded to
float32: that amounts to another noise, of 1e-7, in a value that only decides where to start. Grid points that a bound
has stopped are scored again where they ended, by the same rule.

Legend: T tasks, P parameters, G grid points, S starts, L evaluations.
"""

# pyright: reportArgumentType=false, reportCallIssue=false, reportOperatorIssue=false, reportAttributeAccessIssue=false
# pyright: reportGeneralTypeIssues=false, reportIndexIssue=false
import functools
import math
from collections.abc import Callable

import torch
import triton
import triton.language as tl
from torch import Tensor

from ..model.kernels import Kernel
from ..model.priors import Limits
from ..optimize.initialization import NOISES, Starts, best_rows, grid, has_profile, scales_all
from ..optimize.scoring import ScoringOptions
from . import likelihood, profile
from .layout import TaskLayout

_TOGETHER = 1 << 19  # initial values scored at a time: a grid takes many times what its task does
_WIDTH = 256  # evaluations of a program
Score = Callable[[Tensor, Tensor, bool], Tensor]
"""From an index of tasks, their parameters, and whether factors may be rounded: the quadratic form and the log
determinant of every evaluation."""
_SURE = 3e-5  # of the variance: the noise from which on rounding does not matter


@triton.jit(do_not_specialize=["first", "T"])
def _initialize(
    initial_grid, low, high, fixed, theta, index, first, T, G: tl.constexpr, P: tl.constexpr, W: tl.constexpr
):
    """Every initial value for every task, inside its bounds."""
    slot = tl.program_id(0).to(tl.int64) * W + tl.arange(0, W)
    here = slot < G * T
    task = first + slot % T
    tl.store(index + slot, task.to(tl.int32), mask=here)
    for p in tl.static_range(P):
        value = tl.load(initial_grid + slot // T * P + p, mask=here, other=0.0)
        least = tl.load(low + task * P + p, mask=here, other=0.0)
        most = tl.load(high + task * P + p, mask=here, other=0.0)
        bounded = tl.minimum(tl.maximum(value, least), most)
        tl.store(theta + slot * P + p, tl.where(tl.load(fixed + p) != 0, value, bounded), mask=here)


@triton.jit(do_not_specialize=["wide", "L"], do_not_specialize_on_alignment=["value", "theta", "index"])
def _score(
    value, theta, index, points, low, high, center, precision, fixed, scales, score, again, counts, wide, L,
    P: tl.constexpr, SCALED: tl.constexpr, SURE: tl.constexpr, W: tl.constexpr,
):  # fmt: skip
    """The score of every evaluation, priors and all. Where parameters scale the covariance, they are moved to the best
    common factor first, which has a closed form; `again` is 1 where a bound was in the way of it, and 2 if there is too
    little noise to round where it came to. From `wide` on, evaluations were rounded: where a bound had left too little
    noise for that, `again` is 3, and there is no score. `counts`: how many are 1, 2 and 3."""
    slot = tl.program_id(0).to(tl.int64) * W + tl.arange(0, W)
    here = slot < L
    task = tl.load(index + slot, mask=here, other=0).to(tl.int64)
    quadratic = tl.load(value + 2 * slot, mask=here, other=0.0)
    count = tl.load(points + task, mask=here, other=1.0)
    nats = 0.5 * (quadratic + tl.load(value + 2 * slot + 1, mask=here, other=0.0) + 1.8378770664093453 * count)
    noise = tl.load(theta + slot * P + P - 1, mask=here, other=0.0) - tl.load(theta + slot * P, mask=here, other=0.0)
    lost = (tl.abs(nats) < float("inf")) == 0
    unsure = (slot >= wide) & (noise < SURE)
    lost = lost | unsure
    shift = tl.log(tl.maximum(tl.where(lost, 1.0, quadratic / tl.maximum(count, 1.0)), 1e-30))
    off = slot < 0
    penalty = count * 0.0
    bare = penalty  # the noise, less the variance, where it came to
    for p in tl.static_range(P):
        wanted = tl.load(theta + slot * P + p, mask=here, other=0.0)
        now = wanted
        if SCALED:
            wanted += tl.where(tl.load(scales + p) != 0, shift, 0.0)
            least = tl.load(low + task * P + p, mask=here, other=0.0)
            most = tl.load(high + task * P + p, mask=here, other=0.0)
            now = tl.where(tl.load(fixed + p) != 0, wanted, tl.minimum(tl.maximum(wanted, least), most))
            off = off | (~lost & (now != wanted))
            tl.store(theta + slot * P + p, now, mask=here)
        if p == 0:
            bare -= now
        if p == P - 1:
            bare += now
        prior_precision = tl.load(precision + p)
        apart = tl.where(prior_precision > 0.0, now - tl.load(center + task * P + p, mask=here, other=0.0), 0.0)
        penalty += prior_precision * apart * apart
    if SCALED:
        nats += 0.5 * (count * (1.0 + shift) - tl.where(lost, 0.0, quadratic))
    tl.store(score + slot, tl.where(lost, float("inf"), nats + 0.5 * penalty), mask=here)
    code = tl.where(here, tl.where(unsure, 3, tl.where(off, tl.where(bare < SURE, 2, 1), 0)), 0)
    tl.store(again + slot, code.to(tl.int8), mask=here)
    for number in tl.static_range(1, 4):
        tl.atomic_add(counts + number - 1, tl.sum((code == number).to(tl.int32), axis=0))


def grid_search(kernel: Kernel, layout: TaskLayout, limits: Limits, options: ScoringOptions) -> Starts:
    """Where to start, best first, and from how many of them each task descends."""

    def score(index_L: Tensor, theta_LP: Tensor, narrow: bool) -> Tensor:
        return likelihood.evaluate(kernel, layout, index_L, theta_LP, False, narrow).value_L2

    return search(kernel, limits, options, layout.count_T, score)


def search(
    kernel: Kernel,
    limits: Limits,
    options: ScoringOptions,
    points_T: Tensor,
    score: Score,
) -> Starts:
    """`grid_search` by any score of tasks that have so many points."""
    (T, P), device = limits.low_TP.shape, limits.low_TP.device
    rows_GP, axes = grid(kernel, limits)
    across, middle, levels = axes
    grid_GP = rows_GP.view(across * middle, levels, P).transpose(0, 1).reshape(-1, P)  # the least noise first
    scales_P = scales_all(kernel, limits)
    unsure = sum(level < _SURE for level in NOISES)
    scales_P = scales_P.to(device, torch.int8) if scales_P.any() else None
    rounds = scales_P is not None  # else the noise is known, and there may be none
    if not rounds:
        unsure = levels
    starts = min(options.starts, len(grid_GP) if has_profile(axes) else across * middle)
    starts_TSP = torch.empty(T, starts, P, dtype=torch.float64, device=device)
    count_T = torch.empty(T, dtype=torch.int32, device=device)
    bounds = limits.low_TP, limits.high_TP, limits.fixed_P.view(torch.int8)
    scored = functools.partial(_scored, score, points_T, limits, scales_P)
    at_once = max(1, _TOGETHER // len(grid_GP))
    for first in range(0, T, at_once):
        active = min(at_once, T - first)
        wide = unsure * across * middle * active
        theta_LP, index_L = _initial(limits, grid_GP, first, active)
        score_L = scored(index_L, theta_LP, wide)
        if has_profile(axes):
            profile.refine(
                theta_LP, score_L, rows_GP.view(across, levels, P), bounds, first, active,
                lambda index_L, theta_LP: scored(index_L, theta_LP, 0 if rounds else len(index_L)), starts_TSP, count_T,
            )  # fmt: skip
            continue
        theta_TRNP = theta_LP.view(levels, -1, active, P).permute(2, 1, 0, 3)
        begin = best_rows(theta_TRNP, score_L.view(levels, -1, active).permute(2, 1, 0), starts)
        starts_TSP[first : first + active], count_T[first : first + active] = begin
    return starts_TSP, count_T


def _initial(limits: Limits, grid_GP: Tensor, first: int, active: int) -> tuple[Tensor, Tensor]:
    """The points of the grid for some tasks, inside their bounds, point by point; and an index of the tasks."""
    (G, P), device, run = grid_GP.shape, grid_GP.device, _initialize
    L, fixed_P = G * active, limits.fixed_P.view(torch.int8)
    theta_LP = torch.empty(L, P, dtype=torch.float64, device=device)
    index_L = torch.empty(L, dtype=torch.int32, device=device)
    run[(-(-L // _WIDTH),)](
        grid_GP, limits.low_TP, limits.high_TP, fixed_P, theta_LP, index_L, first, active, G=G, P=P, W=_WIDTH
    )  # fmt: skip
    return theta_LP, index_L


def _scored(
    evaluated: Score, points_T: Tensor, limits: Limits, scales_P: Tensor | None, index_L: Tensor, theta_LP: Tensor,
    wide: int,
) -> Tensor:  # fmt: skip
    """The scores of points, which are moved to the best common factor of the parameters `scales_P`; from the evaluation
    `wide` on rounded."""
    fixed_P, device = limits.fixed_P.view(torch.int8), theta_LP.device

    def score(
        index_L: Tensor, theta_LP: Tensor, scales_P: Tensor | None, wide: int
    ) -> tuple[Tensor, Tensor, list[int]]:
        parts = [
            evaluated(index_L[which], theta_LP[which], narrow)
            for which, narrow in ((slice(wide), False), (slice(wide, None), True))
            if len(index_L[which])
        ]
        value_L2, run = torch.cat(parts) if len(parts) > 1 else parts[0], _score
        score_L = torch.empty(len(index_L), dtype=torch.float64, device=device)
        again_L = torch.empty(len(index_L), dtype=torch.int8, device=device)
        counts = torch.zeros(3, dtype=torch.int32, device=device)
        run[(-(-len(index_L) // _WIDTH),)](
            value_L2, theta_LP, index_L, points_T, limits.low_TP, limits.high_TP, limits.center_TP,
            limits.precision_P, fixed_P, fixed_P if scales_P is None else scales_P, score_L, again_L, counts, wide,
            len(index_L), P=theta_LP.shape[1], SCALED=scales_P is not None, SURE=math.log(_SURE), W=_WIDTH,
        )  # fmt: skip
        return score_L, again_L, counts.tolist()  # for this the card is waited for, as a rule once in a round

    score_L, again_L, (sure, bare, lost) = score(index_L, theta_LP, scales_P, wide)
    if lost:
        unsure = _indices(again_L, 3, lost)
        some_LP = theta_LP[unsure]
        score_L[unsure], again_L[unsure], (more_sure, more_bare, _) = score(index_L[unsure], some_LP, scales_P, lost)
        theta_LP[unsure] = some_LP
        sure, bare = sure + more_sure, bare + more_bare
    if sure or bare:
        stopped = torch.cat([_indices(again_L, 2, bare), _indices(again_L, 1, sure)])
        score_L[stopped] = score(index_L[stopped], theta_LP[stopped], None, bare)[0]
    return score_L


def _indices(again_L: Tensor, code: int, count: int) -> Tensor:
    return torch.nonzero_static(again_L == code, size=count)[:, 0]
