"""Fitting many tasks by damped average-information scoring, in plain torch: each stops by itself, and a task that has
stopped leaves the batch.

Legend: T tasks, P parameters (logarithms, the noise variance last), S starts, R remembered steps.

A step solves (A + lambda diag A) step = gradient. A is the average information, which costs no product of matrices,
corrected by BFGS updates for the last steps and the changes of the gradient along them: near the optimum that makes it
the true Hessian. A task has converged when the gain still to be had, 0.5 g A^-1 g, is below a tolerance in nats: a rule
that does not depend on units. The initialization matters more than the method (`initialization.py`); each of its starts
begins a descent, which is given up when it approaches a visited optimum or has too little to gain.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ..model import likelihood, periods
from ..model.kernels import Kernel
from ..model.priors import Limits
from ..model.tasks import TaskBatch
from . import wave_search
from .initialization import Starts, clamp_to_bounds, grid_search, scored_by

# From a visited optimum in every logarithm, of a period in cycles: a descent that comes so near leads to the same.
_NEAR, _NEAR_CYCLES = 0.2, 0.02
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
        optimism: times the predicted gain that a further start is expected to gain at the most.
    """

    steps: int = 100
    tolerance: float = 1e-4
    max_step: float = 2.0
    starts: int = 3
    patience: int = 12
    optimism: float = 3.0


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
    scored = scored_by(kernel, limits, count_T, score)
    begin = starts or grid_search(
        kernel, limits, options.starts, scored, periods.initial_periods(kernel, tasks, limits)
    )

    def evaluate(index: Tensor, theta_TP: Tensor) -> Evaluation:
        return likelihood.evaluate(kernel, tasks.select(index), theta_TP)

    best = descend(evaluate, limits, options, begin, tasks.coefficients, kernel.periods)
    if starts is not None or not kernel.periods:
        return best
    begin = wave_search.beside(kernel, limits, best.theta_TP, best.nlml_T, options.starts, scored)
    return descend(evaluate, limits, options, begin, tasks.coefficients, kernel.periods, best)


def descend(
    evaluate: Evaluate,
    limits: Limits,
    options: ScoringOptions,
    starts: Starts,
    coefficients: int,
    waves: Sequence[int] = (),
    visited: Optima | None = None,
) -> Optima:
    """The best end of descents from each start of every task, or what was visited before, where that is better. `waves`
    are the parameters that are periods."""
    starts_TSP, starts_T = starts
    best = Optima(*(value.clone() for value in visited or Optima.unfitted(limits, coefficients)))
    objective_T = best.nlml_T + limits.prior_penalty(best.theta_TP)
    objective_T = torch.where(torch.isfinite(objective_T), objective_T, math.inf)
    for attempt in range(int(starts_T.max()) if len(starts_T) else 0):
        index = torch.nonzero(starts_T > attempt)[:, 0]
        result, reached_T = _descend(
            evaluate, index, limits.select(index), options, starts_TSP[index, attempt], objective_T[index],
            best.theta_TP[index], waves,
        )  # fmt: skip
        best.iterations_T[index] += result.iterations_T
        takes_T = reached_T < objective_T[index]
        to = index[takes_T]
        objective_T[to] = reached_T[takes_T]
        for name in ("theta_TP", "nlml_T", "gradient_T", "ending_T", "beta_TQ"):
            getattr(best, name)[to] = getattr(result, name)[takes_T]
    return best


def _descend(
    evaluate: Evaluate,
    index_T: Tensor,
    limits: Limits,
    options: ScoringOptions,
    theta_TP: Tensor,
    best_T: Tensor,
    best_TP: Tensor,
    waves: Sequence[int],
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
    beaten_T = objective_T - options.optimism * left_T > best_T + _WORSE
    active = torch.nonzero((ending_T == UNFINISHED) & ~beaten_T)[:, 0]
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
        for period in waves:
            apart[:, period] *= _NEAR / _NEAR_CYCLES * torch.exp(-best_TP[active, period])
        near = apart.amax(1) < _NEAR  # False against NaN
        patience = (iterations_T[active] >= options.patience) & (objective_T[active] > best_T[active])
        beaten = objective_T[active] - options.optimism * left > best_T[active] + _WORSE
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
