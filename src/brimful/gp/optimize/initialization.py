"""Where descents start: a grid of initial values is scored, refined where it pays, and its local minima are selected.

Legend: T tasks, P parameters (logarithms, the noise variance last), G grid points, U points along the lengthscale, N
levels of the noise, L evaluations, S starts.

Every point is scored with the best common factor for all its variances, which has a closed form. Where the grid is one
of lengthscales by noises, what counts is the profile: the lowest score at each lengthscale. Its local minima may lie a
fifth of an octave apart, closer than any grid of a few dozen points is spaced. So parabolas through the noises give the
profile at the lengthscales of the grid; there and halfway between it is evaluated, where it is within some nats of the
best. The noises of the best of these are corrected by parabolas through two more, near by, and between neighbors the
profile is evaluated again, twice as densely each time. Elsewhere the local minima of the grid itself (points without a
better neighbor) are taken; those of waves are looked at more closely first (`wave_search.py`). But a grid of the
lengthscales of several dimensions or terms is so coarse that a point beside a better one may lead elsewhere: of such a
grid the best rows are taken, each at its best noise, whatever is beside them.
"""

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from ..model.initial_grid import FREQUENCIES, initial_grid
from ..model.kernels import Kernel
from ..model.priors import Limits
from . import wave_search

NOISES = (1e-6, 4e-5, 1.6e-3, 6.4e-2, 2.56)
"""Initial values of the noise variance, where that of the signal is 1."""
_NOISES_OF_WAVES = (1e-6, 1e-4, 1e-3, 1e-2, 0.1, 0.6)  # closer: their local minima are narrow
_VARIANCES = (0.002, 0.02, 0.2, 2.0, 20.0)  # and of the signal's, where the noise is known
NO_NOISE = -690.0
"""The logarithm of a noise variance that is as good as none."""
SECOND_START = 3.0
"""Nats above the only local minimum at which another grid point, not beside it, still starts a descent."""
WINDOWS = (12.0, 6.0, 1.0)
"""Nats above the best: how near a neighbor must be for the profile to be evaluated beside it, round by round."""
CORRECTED, NEAR_BY = 3.0, 0.25
"""Nats above the best within which noises are corrected, and how near by, of the distance between two of the grid."""
WORTH = 3.0
"""Nats: a local minimum of the profile this much above the best starts no descent."""
_WORTH_OF_ROWS = 10.0  # the same of a row of a grid: at a lengthscale of the grid it may be far above its minimum
BEYOND = 0.3
"""Of the distance between two noises, that one may lie beyond the first or the last."""
_AT_ONCE = 1 << 18  # grid points scored at a time: a grid takes many times the memory of its task

Starts = tuple[Float[Tensor, "T S P"], Int[Tensor, " T"]]
"""Where to start, best first, and how many of them to use."""
Score = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]
"""From an index of tasks, those of one task side by side, and their parameters: the negative log likelihood, and the
quadratic form in it."""
Scored = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]
"""From an index of tasks, those of one task side by side, and points: these inside the bounds and at their best
factors, and the scores there, with the priors."""


def grid(kernel: Kernel, limits: Limits) -> tuple[Float[Tensor, "G P"], list[int]]:
    """The initial values, and the lengths of the axes of their grid."""
    rows, axes = initial_grid(kernel)
    known = bool(limits.fixed_P[-1])
    levels = _VARIANCES if known else _NOISES_OF_WAVES if kernel.periods else NOISES
    grid = []
    for row, level in itertools.product(rows, levels):
        scaled = [value + math.log(level) * (kind == "variance") for value, kind in zip(row, kernel.kinds, strict=True)]
        grid.append([*scaled, NO_NOISE] if known else [*row, math.log(level)])
    return torch.tensor(grid, dtype=limits.low_TP.dtype, device=limits.low_TP.device), [*axes, len(levels)]


def scales_all(kernel: Kernel, limits: Limits) -> Any:
    """Which parameters multiply all of the covariance; none, where the noise is known."""
    known = bool(limits.fixed_P[-1])
    return torch.tensor([*((kind == "variance" and not known) for kind in kernel.kinds), not known])


def clamp_to_bounds(theta_TP: Tensor, limits: Limits) -> Tensor:
    return torch.where(limits.fixed_P, theta_TP, torch.minimum(torch.maximum(theta_TP, limits.low_TP), limits.high_TP))


def grid_search(kernel: Kernel, limits: Limits, most: int, scored: Scored, periods_TFW: Tensor | None = None) -> Starts:
    """Where to start, best first, and how many of them to use, at most so many. `periods_TFW` are each task's initial
    values of periods, in place of the grid's."""
    every = torch.arange(len(limits.low_TP), device=limits.low_TP.device)
    some = max(1, _AT_ONCE // len(grid(kernel, limits)[0]))
    parts = [
        _grid_search(kernel, limits, most, index, scored, None if periods_TFW is None else periods_TFW[index])
        for index in every.split(some)
    ]
    return torch.cat([part[0] for part in parts]), torch.cat([part[1] for part in parts])


def _grid_search(
    kernel: Kernel, limits: Limits, most: int, index_T: Tensor, scored: Scored, periods_TFW: Tensor | None
) -> Starts:
    (grid_GP, axes), waves = grid(kernel, limits), bool(kernel.periods)
    T, (G, P) = len(index_T), grid_GP.shape
    grid_TGP = grid_GP.expand(T, G, P)
    if periods_TFW is not None and waves:
        spacing_GF = grid_GP[:, kernel.periods[:1]] + grid_GP.new_tensor(FREQUENCIES).log()
        frequency_G = spacing_GF.abs().argmin(1)
        grid_TGP = grid_TGP.clone()
        grid_TGP[:, :, kernel.periods] = periods_TFW.to(grid_GP.dtype)[:, frequency_G]
    theta_LP, score_L = scored(index_T.repeat_interleave(G), grid_TGP.reshape(T * G, P))
    theta_TGP, score_TG = theta_LP.view(T, G, P), score_L.view(T, G)
    if has_profile(axes):
        return profile_minima(theta_TGP, score_TG, grid_GP, axes, index_T, scored, most)
    if not waves and axes[1] > 1:
        return best_rows(theta_TGP.view(T, -1, axes[-1], P), score_TG.view(T, -1, axes[-1]), most)
    begin_TSP, score_TS = _local_minima(theta_TGP, score_TG, axes, max(most, wave_search.CANDIDATES * waves))
    if waves:
        begin_TSP, score_TS = wave_search.refined(kernel, begin_TSP, score_TS, index_T, scored)
    return begin_TSP[:, :most], torch.isfinite(score_TS[:, :most]).sum(1)


def has_profile(axes: list[int]) -> bool:
    """Whether a grid is one of lengthscales by noises."""
    return axes[0] > 1 and axes[1] == 1


def best_rows(theta_TRNP: Tensor, score_TRN: Tensor, most: int) -> Starts:
    """The best rows of a grid, each at its best noise, that are not much worse than the best."""
    profile_TR, level_TR = torch.where(torch.isfinite(score_TRN), score_TRN, math.inf).min(2)
    top_TS, row_TS = profile_TR.topk(min(most, score_TRN.shape[1]), dim=1, largest=False)
    theta_TSNP = theta_TRNP.take_along_dim(row_TS[:, :, None, None], 1)
    theta_TSP = theta_TSNP.take_along_dim(level_TR.gather(1, row_TS)[:, :, None, None], 2)[:, :, 0]
    near_TS = (top_TS <= top_TS[:, :1] + _WORTH_OF_ROWS) & torch.isfinite(top_TS)
    return theta_TSP, near_TS.sum(1)


def scored_by(kernel: Kernel, limits: Limits, count_T: Tensor, score: Score) -> Scored:
    """Scores by a likelihood of tasks that have so many points."""
    scales_P = scales_all(kernel, limits).to(count_T.device)

    def scored(index_L: Tensor, theta_LP: Tensor) -> tuple[Tensor, Tensor]:
        own, count_L = limits.select(index_L), count_T[index_L]
        theta_LP = clamp_to_bounds(theta_LP, own)
        score_L, quadratic_L = score(index_L, theta_LP)
        if scales_P.any():
            shift_L = torch.log((quadratic_L / count_L.clamp(min=1)).clamp(min=1e-30))
            wanted_LP = torch.where(scales_P, theta_LP + shift_L[:, None], theta_LP)
            theta_LP = clamp_to_bounds(wanted_LP, own)
            score_L = score_L + 0.5 * (count_L * (1 + shift_L) - quadratic_L)
            score_L = torch.where(torch.isfinite(score_L), score_L, math.inf)
            stopped = torch.nonzero((theta_LP != wanted_LP).any(1) & torch.isfinite(score_L))[:, 0]
            if len(stopped):  # a bound was in the way of the best factor
                score_L[stopped] = score(index_L[stopped], theta_LP[stopped])[0]
        score_L = score_L + own.prior_penalty(theta_LP)
        return theta_LP, torch.where(torch.isfinite(score_L), score_L, math.inf)

    return scored


def profile_minima(
    theta_TGP: Tensor, score_TG: Tensor, grid_GP: Tensor, axes: list[int], index_T: Tensor, scored: Scored, most: int
) -> Starts:
    """The local minima of the profile, refined; of a grid of lengthscales by noises, in units of which `at_TU` are the
    lengthscales and `level_TU` the noises."""
    T, U, N, P = len(score_TG), axes[0], axes[2], grid_GP.shape[1]
    grid_UNP, score_TUN = grid_GP.view(U, N, P), score_TG.view(T, U, N)
    at_TU = torch.arange(U, dtype=grid_GP.dtype, device=grid_GP.device).expand(T, U)
    lowest_TU, nearest_TU = score_TUN.min(2)
    theta_TUP = theta_TGP.view(T, U, N, P).gather(2, nearest_TU[:, :, None, None].expand(T, U, 1, P))[:, :, 0]
    profile_TU, level_TU = _lowest_between(score_TUN)

    def evaluated(wanted_TU: Tensor, at_TU: Tensor, level_TU: Tensor) -> tuple[Tensor, Tensor]:
        index_L = index_T[torch.nonzero(wanted_TU)[:, 0]]
        theta_LP, score_L = scored(index_L, _interpolated(grid_UNP, at_TU[wanted_TU], level_TU[wanted_TU]))
        score_TU = torch.full_like(at_TU, math.inf).masked_scatter(wanted_TU, score_L)
        theta_TUP = theta_LP.new_zeros(*at_TU.shape, P)
        return score_TU, theta_TUP.masked_scatter(wanted_TU[:, :, None].expand_as(theta_TUP), theta_LP)

    # At the lengthscales of the grid, and between them.
    wanted_TU = profile_TU < profile_TU.amin(1, keepdim=True) + WINDOWS[0]
    middle_TU, between_TU = ((item[:, :-1] + item[:, 1:]) / 2 for item in (at_TU, level_TU))
    beside_TU = wanted_TU[:, :-1] | wanted_TU[:, 1:]
    score_TU, there_TUP = evaluated(
        torch.cat([wanted_TU, beside_TU], 1), torch.cat([at_TU, middle_TU], 1), torch.cat([level_TU, between_TU], 1)
    )
    better_TU = score_TU[:, :U] < lowest_TU
    theta_TUP = torch.where(better_TU[:, :, None], there_TUP[:, :U], theta_TUP)
    profile_TU = torch.where(wanted_TU, torch.minimum(score_TU[:, :U], lowest_TU), profile_TU)
    level_TU = torch.where(wanted_TU & ~better_TU, nearest_TU.to(level_TU.dtype), level_TU)
    points = _merged(
        (at_TU, profile_TU, level_TU, theta_TUP),
        (torch.where(beside_TU, middle_TU, math.inf), score_TU[:, U:], between_TU, there_TUP[:, U:]),
    )
    points = _with_better_noises(points, evaluated)
    for window in WINDOWS[1:]:
        at_TU, profile_TU, level_TU, _ = points
        beside_TU = torch.minimum(profile_TU[:, :-1], profile_TU[:, 1:])
        wanted_TU = (beside_TU < profile_TU.amin(1, keepdim=True) + window) & torch.isfinite(at_TU[:, 1:])
        middle_TU, between_TU = ((item[:, :-1] + item[:, 1:]) / 2 for item in (at_TU, level_TU))
        score_TU, there_TUP = evaluated(wanted_TU, middle_TU, between_TU)
        points = _merged(points, (torch.where(wanted_TU, middle_TU, math.inf), score_TU, between_TU, there_TUP))
    _, profile_TU, _, theta_TUP = points
    edge_T1 = torch.full_like(profile_TU[:, :1], math.inf)
    before_TU, after_TU = torch.cat([edge_T1, profile_TU[:, :-1]], 1), torch.cat([profile_TU[:, 1:], edge_T1], 1)
    minimum_TU = (profile_TU < before_TU) & (profile_TU <= after_TU)
    top_TS, index_TS = torch.where(minimum_TU, profile_TU, math.inf).topk(
        min(most, profile_TU.shape[1]), dim=1, largest=False
    )
    near_TS = (top_TS <= top_TS[:, :1] + WORTH) & torch.isfinite(top_TS)
    return theta_TUP.gather(1, index_TS[:, :, None].expand(-1, -1, P)), near_TS.sum(1)


def _with_better_noises(
    points: tuple[Tensor, ...], evaluated: Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]
) -> tuple[Tensor, ...]:
    """Points along the lengthscale at the lowest of parabolas through three noises."""
    at_TU, here_TU, level_TU, theta_TUP = points
    wanted_TU = (here_TU < here_TU.amin(1, keepdim=True) + CORRECTED) & torch.isfinite(at_TU)
    levels = torch.cat([level_TU - NEAR_BY, level_TU + NEAR_BY], 1)
    score_TU, there_TUP = evaluated(torch.cat([wanted_TU] * 2, 1), torch.cat([at_TU] * 2, 1), levels)
    (below_TU, above_TU), (below_TUP, above_TUP) = score_TU.chunk(2, 1), there_TUP.chunk(2, 1)
    curvature_TU = below_TU - 2 * here_TU + above_TU
    known_TU, lowest_TU = wanted_TU & torch.isfinite(curvature_TU), torch.minimum(below_TU, above_TU)
    off_TU = torch.where(curvature_TU > 1e-9, (below_TU - above_TU) / (2 * curvature_TU), _side(below_TU, above_TU))
    off_TU = off_TU.clamp(-2, 2)
    least_TU = torch.minimum(here_TU, lowest_TU)
    inner_TU = here_TU + 0.5 * off_TU * (above_TU - below_TU) + 0.5 * off_TU.square() * curvature_TU
    value_TU = torch.where(off_TU.abs() <= 1, torch.minimum(inner_TU, least_TU), least_TU)
    other_TUP = torch.where((below_TU <= above_TU)[:, :, None], below_TUP, above_TUP)
    takes_TU = known_TU & (lowest_TU < here_TU)
    return (
        at_TU,
        torch.where(known_TU, value_TU, here_TU),
        torch.where(known_TU, level_TU + NEAR_BY * off_TU, level_TU),
        torch.where(takes_TU[:, :, None], other_TUP, theta_TUP),
    )


def _side(before: Tensor, after: Tensor) -> Tensor:
    """Where it goes down: 1 after, -1 before."""
    return torch.sign(before - after)


def _merged(points: tuple[Tensor, ...], others: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """Points along the lengthscale, with what belongs to them, in their order."""
    both = [torch.cat(pair, 1) for pair in zip(points, others, strict=True)]
    order_TU = torch.argsort(both[0], dim=1, stable=True)
    row_T1 = torch.arange(len(order_TU), device=order_TU.device)[:, None]
    return tuple(item[row_T1, order_TU] for item in both)


def _lowest_between(score_TUN: Tensor) -> tuple[Tensor, Tensor]:
    """The lowest scores along the noises by parabolas through three of them, and where."""
    N = score_TUN.shape[2]
    middle_TU = score_TUN.argmin(2).clamp(1, N - 2)
    before, here, after = (score_TUN.gather(2, (middle_TU + move)[:, :, None])[:, :, 0] for move in (-1, 0, 1))
    curvature_TU = before - 2 * here + after
    finite_TU = torch.isfinite(curvature_TU)
    off_TU = torch.where(curvature_TU > 1e-9, (before - after) / (2 * curvature_TU), _side(before, after))
    off_TU = torch.where(finite_TU, off_TU, 0.0).clamp(-1 - BEYOND, 1 + BEYOND)
    lowest_TU = here + 0.5 * off_TU * (after - before) + 0.5 * off_TU.square() * curvature_TU
    lowest_TU = torch.where(finite_TU, lowest_TU, score_TUN.amin(2))
    return lowest_TU, torch.where(finite_TU, middle_TU + off_TU, score_TUN.argmin(2).to(off_TU.dtype))


def _interpolated(grid_UNP: Tensor, at_L: Tensor, level_L: Tensor) -> Float[Tensor, "L P"]:
    """Points between those of a grid, whose axes add."""
    U, N, _ = grid_UNP.shape
    first_L, under_L = at_L.long().clamp(0, U - 2), level_L.long().clamp(0, N - 2)
    along_LP = torch.lerp(grid_UNP[first_L, 0], grid_UNP[first_L + 1, 0], (at_L - first_L)[:, None])
    step_LP = grid_UNP[0, under_L + 1] - grid_UNP[0, under_L]
    return along_LP + grid_UNP[0, under_L] - grid_UNP[0, 0] + step_LP * (level_L - under_L)[:, None]


def _local_minima(theta_TGP: Tensor, score_TG: Tensor, axes: list[int], most: int) -> tuple[Tensor, Tensor]:
    """The points of a grid that have no better neighbor along any axis, best first, and their scores, which are
    infinite where there are no more."""
    minimum_TG = torch.isfinite(score_TG)
    cube = score_TG.reshape(-1, *axes)
    for axis in range(1, len(axes) + 1):
        edge = torch.full_like(cube.narrow(axis, 0, 1), math.inf)
        inner = cube.shape[axis] - 1
        before = torch.cat([edge, cube.narrow(axis, 0, inner)], axis)
        after = torch.cat([cube.narrow(axis, 1, inner), edge], axis)
        minimum_TG = minimum_TG & ((cube < before) & (cube <= after)).reshape(minimum_TG.shape)
    minimum_TG = minimum_TG | _second_starts(score_TG, minimum_TG, axes)
    S, P = min(most, score_TG.shape[1]), theta_TGP.shape[2]
    score_TS, order_TS = torch.where(minimum_TG, score_TG, math.inf).topk(S, dim=1, largest=False)
    return theta_TGP.gather(1, order_TS[:, :, None].expand(-1, -1, P)), score_TS


def _second_starts(score_TG: Tensor, minimum_TG: Tensor, axes: list[int]) -> Tensor:
    """For tasks with one local minimum: the best point that is not beside it, where it is not much worse."""
    # By NumPy: torch's own imports a system of computer algebra first, which takes seconds.
    grids = np.unravel_index(np.arange(score_TG.shape[1]), axes)
    positions = [torch.from_numpy(grid).to(score_TG.device) for grid in grids]
    first_T1 = torch.where(minimum_TG, score_TG, math.inf).argmin(1, keepdim=True)
    apart_TG = torch.stack([(value[first_T1] - value).abs() > 1 for value in positions]).any(0)
    least_T1 = torch.gather(score_TG, 1, first_T1)
    far_TG = apart_TG & (score_TG <= least_T1 + SECOND_START) & (minimum_TG.sum(1, keepdim=True) == 1)
    second_T1 = torch.where(far_TG, score_TG, math.inf).argmin(1, keepdim=True)
    return torch.zeros_like(minimum_TG).scatter(1, second_T1, True) & far_TG
