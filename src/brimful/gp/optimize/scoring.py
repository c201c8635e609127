"""Fitting many tasks by damped average-information scoring, in plain torch: each stops by itself, and a task that has
stopped leaves the batch.

Legend: T tasks, P parameters (logarithms, the noise variance last), G grid points, R remembered steps.

A step solves (A + lambda diag A) step = gradient. A is the average information, which costs no product of matrices,
corrected by BFGS updates for the last steps and the changes of the gradient along them: near the optimum that makes it
the true Hessian. A task has converged when the gain still to be had, 0.5 g A^-1 g, is below a tolerance in nats: a rule
that does not depend on units. The initialization matters more than the method: a grid of initial values is scored, each
with the best common factor for all its variances, and each of its local minima (points without a better neighbor)
starts a descent, which is given up when it approaches a visited optimum or has too little to gain.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from ..model import likelihood, periods
from ..model.kernels import Kernel
from ..model.priors import Limits
from ..model.tasks import TaskBatch

NOISES = (1e-6, 1e-4, 1e-2, 0.4)
"""Initial values of the noise variance, where that of the targets is 1."""
_VARIANCES = (0.01, 0.1, 1.0, 10.0)  # and of the signal's, where the noise is known
SECOND_START = 3.0
"""Nats above the only local minimum at which another grid point, not beside it, still starts a descent."""
NO_NOISE = -690.0
"""The logarithm of a noise variance that is as good as none."""
_GRID_AT_ONCE = 1 << 18  # grid points scored at a time: a grid takes many times the memory of its task
_NEAR = 0.2  # from a visited optimum in every logarithm: a descent that comes so near leads to the same
_OPTIMISM = 3  # times the predicted gain that a descent may still have
_WORSE = 0.2  # nats: a descent that cannot come closer to the best than that is given up
_MOST_DAMPING = 1e8  # no step is short enough to be a gain
_STUCK_TOLERANCE = 1e3  # times the tolerance: a descent that is stuck so near to its end has converged
FAILED, UNFINISHED, CONVERGED = range(3)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoringOptions:
    """When to stop, and how far to go.

    Attributes:
        steps: the most steps from one start.
        tolerance: nats still to be gained at which a task has converged.
        max_step: the most a logarithm may change in one step.
        starts: the most local minima of the grid to descend from.
        patience: steps after which a further start that is still worse than what is known is given up.
    """

    steps: int = 100
    tolerance: float = 1e-4
    max_step: float = 2.0
    starts: int = 2
    patience: int = 12


class Optima(NamedTuple):
    """The result, one row per task. `nlml_T` is the plain negative log marginal likelihood, without any prior."""

    theta_TP: Float[Tensor, "T P"]
    nlml_T: Float[Tensor, " T"]
    iterations_T: Int[Tensor, " T"]
    gradient_T: Float[Tensor, " T"]
    ending_T: Int[Tensor, " T"]
    beta_TQ: Float[Tensor, "T Q"]

    @staticmethod
    def unfitted(limits: Limits, coefficients: int) -> "Optima":
        """Of tasks for which nothing has been reached yet."""
        low_TP = limits.low_TP
        infinite_T, whole_T = torch.full_like(low_TP[:, 0], math.inf), torch.zeros_like(low_TP[:, 0], dtype=torch.int64)
        theta_TP, beta_TQ = torch.full_like(low_TP, math.nan), low_TP.new_zeros(len(low_TP), coefficients)
        return Optima(theta_TP, infinite_T, whole_T, infinite_T.clone(), whole_T + FAILED, beta_TQ)

    def select(self, index: Tensor) -> "Optima":
        return Optima(*(values[index] for values in self))

    def scattered(self, index: Tensor, count: int) -> "Optima":
        """The rows at their places among so many; the others are 0."""
        return Optima(*(rows.new_zeros(count, *rows.shape[1:]).index_copy(0, index, rows) for rows in self))

    @staticmethod
    def concatenated(parts: "Sequence[Optima]") -> "Optima":
        return Optima(*(torch.cat(values) for values in zip(*parts, strict=True)))


def grid(kernel: Kernel, limits: Limits) -> tuple[Float[Tensor, "G P"], list[int]]:
    """The initial values, and the lengths of the axes of their grid."""
    rows, axes = kernel.initial_grid()
    known = bool(limits.fixed_P[-1])
    grid = []
    for row, level in itertools.product(rows, _VARIANCES if known else NOISES):
        scaled = [value + math.log(level) * (kind == "variance") for value, kind in zip(row, kernel.kinds, strict=True)]
        grid.append([*scaled, NO_NOISE] if known else [*row, math.log(level)])
    return torch.tensor(grid, dtype=limits.low_TP.dtype, device=limits.low_TP.device), [*axes, len(NOISES)]


def scales_all(kernel: Kernel, limits: Limits) -> Any:
    """Which parameters multiply all of the covariance; none, where the noise is known."""
    known = bool(limits.fixed_P[-1])
    return torch.tensor([*((kind == "variance" and not known) for kind in kernel.kinds), not known])


Starts = tuple[Float[Tensor, "T S P"], Int[Tensor, " T"]]
"""Where to start, best first, and how many of them to use."""
Evaluation = tuple[Float[Tensor, " T"], Float[Tensor, "T Q"], Float[Tensor, "T P"], Float[Tensor, "T P P"]]
"""The likelihood of some tasks, the mean's coefficients, the gradient, and the average information."""
Evaluate = Callable[[Tensor, Tensor], Evaluation]
"""From an index of tasks and their parameters."""


def fit(
    kernel: Kernel, tasks: TaskBatch, limits: Limits, options: ScoringOptions, starts: Starts | None = None
) -> Optima:
    """Fits every task, from the given starts, or from the local minima of the grid of initial values."""

    def score(index_L: Tensor, theta_LP: Tensor) -> tuple[Tensor, Tensor]:
        parts = zip(index_L.split(max(1, len(tasks))), theta_LP.split(max(1, len(tasks))), strict=True)
        result = [likelihood.score(kernel, tasks.select(index), theta_TP) for index, theta_TP in parts]
        return torch.cat([value[0] for value in result]), torch.cat([value[1] for value in result])

    count_T = tasks.mask_TN.sum(1).to(tasks.y_TN.dtype)
    starts_TSP, starts_T = starts or grid_search(
        kernel, limits, options, count_T, score, periods.initial_periods(kernel, tasks, limits)
    )

    def evaluate(index: Tensor, theta_TP: Tensor) -> Evaluation:
        return likelihood.evaluate(kernel, tasks.select(index), theta_TP)

    return descend(evaluate, limits, options, (starts_TSP, starts_T), tasks.coefficients)


def descend(evaluate: Evaluate, limits: Limits, options: ScoringOptions, starts: Starts, coefficients: int) -> Optima:
    """The best end of descents from each start of every task."""
    starts_TSP, starts_T = starts
    best = Optima.unfitted(limits, coefficients)
    objective_T = best.nlml_T.clone()
    for attempt in range(int(starts_T.max()) if len(starts_T) else 0):
        index = torch.nonzero(starts_T > attempt)[:, 0]
        result, reached_T = _descend(
            evaluate, index, limits.select(index), options, starts_TSP[index, attempt], objective_T[index],
            best.theta_TP[index],
        )  # fmt: skip
        best.iterations_T[index] += result.iterations_T
        takes_T = reached_T < objective_T[index]
        to = index[takes_T]
        objective_T[to] = reached_T[takes_T]
        for name in ("theta_TP", "nlml_T", "gradient_T", "ending_T", "beta_TQ"):
            getattr(best, name)[to] = getattr(result, name)[takes_T]
    return best


def grid_search(
    kernel: Kernel,
    limits: Limits,
    options: ScoringOptions,
    count_T: Tensor,
    score: Any,
    periods_TFW: Tensor | None = None,
) -> Starts:
    """The local minima of the grid, best first, and from how many each task descends. `score` takes an index of tasks
    and their parameters; it gives the likelihood, and the quadratic form in it. `periods_TFW` are each task's initial
    values of periods, in place of the grid's."""
    every = torch.arange(len(count_T), device=count_T.device, dtype=torch.int32)
    some = max(1, _GRID_AT_ONCE // len(grid(kernel, limits)[0]))
    parts = [
        _grid_search(
            kernel, limits.select(index), options, count_T[index], index, score,
            None if periods_TFW is None else periods_TFW[index],
        )
        for index in every.split(some)
    ]  # fmt: skip
    return torch.cat([part[0] for part in parts]), torch.cat([part[1] for part in parts])


def _grid_search(
    kernel: Kernel, limits: Limits, options: ScoringOptions, count_T: Tensor, index_T: Tensor, score: Any,
    periods_TFW: Tensor | None,
) -> Starts:  # fmt: skip
    grid_GP, axes = grid(kernel, limits)
    scales_P = scales_all(kernel, limits).to(count_T.device)
    (T, P), G = limits.low_TP.shape, len(grid_GP)
    index_GT = index_T.repeat(G)
    grid_GTP = grid_GP[:, None].expand(G, T, P)
    if periods_TFW is not None and kernel.periods:
        row_G = torch.arange(G, device=count_T.device) // axes[-1] % periods_TFW.shape[1]
        grid_GTP = grid_GTP.clone()
        grid_GTP[:, :, kernel.periods] = periods_TFW.to(grid_GP.dtype)[:, row_G].transpose(0, 1)
    theta_GTP = clamp_to_bounds(grid_GTP, limits)
    score_GT, quadratic_GT = (value.reshape(G, T) for value in score(index_GT, theta_GTP.reshape(G * T, P)))
    if scales_P.any():
        shift_GT = torch.log((quadratic_GT / count_T.clamp(min=1)).clamp(min=1e-30))
        wanted_GTP = torch.where(scales_P, theta_GTP + shift_GT[:, :, None], theta_GTP)
        theta_GTP = clamp_to_bounds(wanted_GTP, limits)
        score_GT = score_GT + 0.5 * (count_T * (1 + shift_GT) - quadratic_GT)
        score_GT = torch.where(torch.isfinite(score_GT), score_GT, math.inf)
        stopped = torch.nonzero(((theta_GTP != wanted_GTP).any(2) & torch.isfinite(score_GT)).flatten())[:, 0]
        if len(stopped):  # a bound was in the way of the best factor
            score_GT.flatten()[stopped] = score(index_GT[stopped], theta_GTP.reshape(G * T, P)[stopped])[0]
    score_TG = (score_GT + limits.prior_penalty(theta_GTP)).mT
    minimum_TG = torch.isfinite(score_TG)
    cube = score_TG.reshape(-1, *axes)
    for axis in range(1, len(axes) + 1):
        edge = torch.full_like(cube.narrow(axis, 0, 1), math.inf)
        inner = cube.shape[axis] - 1
        before = torch.cat([edge, cube.narrow(axis, 0, inner)], axis)
        after = torch.cat([cube.narrow(axis, 1, inner), edge], axis)
        minimum_TG = minimum_TG & ((cube < before) & (cube <= after)).reshape(minimum_TG.shape)
    minimum_TG = minimum_TG | _second_starts(score_TG, minimum_TG, axes)
    order_TS = torch.where(minimum_TG, score_TG, math.inf).topk(min(options.starts, G), dim=1, largest=False).indices
    picked_TSP = theta_GTP[order_TS, torch.arange(T, device=count_T.device)[:, None]]
    return picked_TSP, minimum_TG.sum(1).clamp(max=options.starts)


def _second_starts(score_TG: Tensor, minimum_TG: Tensor, axes: list[int]) -> Tensor:
    """For tasks with one local minimum: the best point that is not beside it, where it is not much worse."""
    # By NumPy: torch's own imports a system of computer algebra first, which takes seconds.
    grids = np.unravel_index(np.arange(score_TG.shape[1]), axes)
    positions = [torch.from_numpy(grid).to(score_TG.device) for grid in grids]
    apart_GG = torch.stack([(value[:, None] - value[None]).abs() > 1 for value in positions]).any(0)
    first_T1 = torch.where(minimum_TG, score_TG, math.inf).argmin(1, keepdim=True)
    least_T1 = torch.gather(score_TG, 1, first_T1)
    far_TG = apart_GG[first_T1[:, 0]] & (score_TG <= least_T1 + SECOND_START) & (minimum_TG.sum(1, keepdim=True) == 1)
    second_T1 = torch.where(far_TG, score_TG, math.inf).argmin(1, keepdim=True)
    return torch.zeros_like(minimum_TG).scatter(1, second_T1, True) & far_TG


def clamp_to_bounds(theta_TP: Tensor, limits: Limits) -> Tensor:
    return torch.where(limits.fixed_P, theta_TP, torch.minimum(torch.maximum(theta_TP, limits.low_TP), limits.high_TP))


def _descend(
    evaluate: Evaluate,
    index_T: Tensor,
    limits: Limits,
    options: ScoringOptions,
    theta_TP: Tensor,
    best_T: Tensor,
    best_TP: Tensor,
) -> tuple[Optima, Tensor]:
    """From one start each of the tasks `index_T` down to a minimum, and the objective there. A task that comes near
    `best_TP`, or cannot get below `best_T`, is given up."""
    T, P = theta_TP.shape
    now_TP = clamp_to_bounds(theta_TP, limits)
    objective_T, beta_TQ, gradient_TP, info_TPP = _objective(evaluate, index_T, limits, now_TP)
    plain_T = objective_T - limits.prior_penalty(now_TP)
    steps_TRP, changes_TRP = now_TP.new_zeros(2, T, P + 2, P)
    damping_T, rise_T = torch.full_like(objective_T, 1e-3), torch.full_like(objective_T, 4.0)
    ending_T = torch.where(torch.isfinite(objective_T), UNFINISHED, FAILED)
    iterations_T = torch.zeros_like(ending_T)
    left_T = _remaining_gain(info_TPP, gradient_TP, free_parameters(now_TP, gradient_TP, limits))
    ending_T = torch.where((ending_T == UNFINISHED) & (left_T < options.tolerance), CONVERGED, ending_T)
    active = torch.nonzero((ending_T == UNFINISHED) & ~(objective_T - _OPTIMISM * left_T > best_T + _WORSE))[:, 0]
    for _ in range(options.steps):
        if len(active) == 0:
            break
        bounds = limits.select(active)
        now, gradient, info = now_TP[active], gradient_TP[active], info_TPP[active]
        free = free_parameters(now, gradient, bounds)
        step = _solve(info, gradient, free, damping_T[active], 1e-9)
        outward = ((now <= bounds.low_TP) & (step > 0)) | ((now >= bounds.high_TP) & (step < 0))
        step = torch.where(outward, 0.0, step)  # it cannot go there, and must not hold up the others
        step = step * (options.max_step / step.abs().amax(1, keepdim=True).clamp(min=options.max_step))
        trial = torch.where(free, clamp_to_bounds(now - step, bounds), now)
        reached, beta, gradient_there, info_there = _objective(evaluate, index_T[active], bounds, trial)
        iterations_T[active] += 1
        better = reached < objective_T[active]
        moved = torch.where(free, trial - now, 0.0)
        predicted = -(gradient * moved).sum(1) - 0.5 * torch.einsum("tp,tpq,tq->t", moved, info, moved)
        gain = objective_T[active] - reached
        ratio = gain / predicted.clamp(min=1e-30)
        damping, rise = damping_T[active], rise_T[active]
        calmer = (damping * (1 - (2 * ratio - 1) ** 3).clamp(0.1, 2.0)).clamp(min=1e-7)
        damping_T[active] = torch.where(better, calmer, damping.clamp(min=1e-3) * rise)
        rise_T[active] = torch.where(better, 4.0, rise * 2)
        to = active[better]
        now_TP[to], objective_T[to] = trial[better], reached[better]
        plain_T[to] = reached[better] - bounds.prior_penalty(trial)[better]
        beta_TQ[to] = beta[better]
        steps_TRP[to] = torch.cat([steps_TRP[to][:, 1:], moved[better][:, None]], 1)
        change = gradient_there[better] - gradient[better]
        changes_TRP[to] = torch.cat([changes_TRP[to][:, 1:], change[:, None]], 1)
        gradient_TP[to] = gradient_there[better]
        info_TPP[to] = _bfgs_update(info_there[better], steps_TRP[to], changes_TRP[to])
        free = free_parameters(now_TP[active], gradient_TP[active], bounds)
        left = _remaining_gain(info_TPP[active], gradient_TP[active], free)
        level = better & (gain < 1e-13 * (1 + objective_T[active].abs()))
        stuck = (~better & (damping_T[active] > _MOST_DAMPING)) | level
        done = (better & (left < options.tolerance)) | (stuck & (left < _STUCK_TOLERANCE * options.tolerance))
        apart = torch.where(limits.fixed_P, 0.0, (now_TP[active] - best_TP[active]).abs())
        near = apart.amax(1) < _NEAR  # False against NaN
        patience = (iterations_T[active] >= options.patience) & (objective_T[active] > best_T[active])
        beaten = objective_T[active] - _OPTIMISM * left > best_T[active] + _WORSE
        hopeless = better & (patience | (near & (reached > best_T[active])) | beaten)
        ending_T[active[done]] = CONVERGED
        active = active[~(done | stuck | hopeless)]
    free_TP = free_parameters(now_TP, gradient_TP, limits)
    norm_T = torch.where(free_TP, gradient_TP.abs(), 0.0).amax(1)
    return Optima(now_TP, plain_T, iterations_T, norm_T, ending_T, beta_TQ), objective_T


def _objective(
    evaluate: Evaluate, index_T: Tensor, limits: Limits, theta_TP: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """What is made small, the mean's coefficients, and the derivatives with the priors' part."""
    nlml_T, beta_TQ, gradient_TP, information_TPP = evaluate(index_T, theta_TP)
    apart_TP = torch.where(limits.precision_P > 0, theta_TP - limits.center_TP, 0.0)
    gradient_TP = gradient_TP + limits.precision_P * apart_TP
    return (
        nlml_T + limits.prior_penalty(theta_TP),
        beta_TQ,
        gradient_TP,
        information_TPP + torch.diag(limits.precision_P),
    )


def free_parameters(theta_TP: Tensor, gradient_TP: Tensor, limits: Limits) -> Tensor:
    """Parameters that are fitted, and not pushed against a bound."""
    against = ((theta_TP <= limits.low_TP) & (gradient_TP > 0)) | ((theta_TP >= limits.high_TP) & (gradient_TP < 0))
    return ~limits.fixed_P & ~against


def _solve(info_TPP: Tensor, gradient_TP: Tensor, free_TP: Tensor, damping_T: Tensor, floor: float) -> Tensor:
    both_TPP = free_TP[:, :, None] & free_TP[:, None, :]
    diagonal_TP = info_TPP.diagonal(dim1=1, dim2=2)
    added_TP = torch.where(free_TP, diagonal_TP * damping_T[:, None] + floor, 1.0)
    A_TPP = torch.where(both_TPP, info_TPP, 0.0) + torch.diag_embed(added_TP)
    step_TP, bad_T = torch.linalg.solve_ex(A_TPP, torch.where(free_TP, gradient_TP, 0.0))
    fallback_TP = torch.where(free_TP, gradient_TP / diagonal_TP.clamp(min=floor), 0.0)
    return torch.where((bad_T == 0)[:, None] & torch.isfinite(step_TP), step_TP, fallback_TP)


def _remaining_gain(info_TPP: Tensor, gradient_TP: Tensor, free_TP: Tensor) -> Tensor:
    """The gain still to be had, in nats, according to the derivatives."""
    damping_T = torch.full_like(gradient_TP[:, 0], 1e-6)
    step_TP = _solve(info_TPP, gradient_TP, free_TP, damping_T, 1e-12)
    left_T = 0.5 * (step_TP * torch.where(free_TP, gradient_TP, 0.0)).sum(1)
    return torch.where(left_T >= 0, left_T, math.inf)


def _bfgs_update(info_TPP: Tensor, steps_TRP: Tensor, changes_TRP: Tensor) -> Tensor:
    """Corrects the information by BFGS updates, so that it maps the last steps to the changes of the gradient."""
    for s_TP, y_TP in zip(steps_TRP.unbind(1), changes_TRP.unbind(1), strict=True):
        Bs_TP = (info_TPP @ s_TP[:, :, None])[:, :, 0]
        sBs_T, sy_T = (s_TP * Bs_TP).sum(1), (s_TP * y_TP).sum(1)
        use_T = (sy_T > 1e-3 * sBs_T) & (sBs_T > 0)
        gained = y_TP[:, :, None] * y_TP[:, None, :] / torch.where(use_T, sy_T, 1.0)[:, None, None]
        lost = Bs_TP[:, :, None] * Bs_TP[:, None, :] / torch.where(use_T, sBs_T, 1.0)[:, None, None]
        info_TPP = torch.where(use_T[:, None, None], info_TPP + gained - lost, info_TPP)
    return info_TPP
