"""Fitting many tasks by damped average-information scoring, in plain torch: each stops by itself, and a task that has
stopped leaves the batch.

Legend: T tasks, P parameters (logarithms, the noise variance last), G first guesses, R remembered steps.

A step solves (A + lambda diag A) step = gradient. A is the average information, which costs no product of matrices,
bent by BFGS updates so that the last steps would have changed the gradient as they did: near the end that makes it the
true Hessian. A task has converged when the gain still to be had, 0.5 g A^-1 g, is below a tolerance in nats: a rule
that does not depend on units. The start matters more than the method: a grid of first guesses is scored, each with the
best factor for all its variances, and each of its hollows (points without a better neighbour) is followed, unless it
heads for a place that is known, or has too little to gain.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ..model import likelihood, periods
from ..model.kernels import Kernel
from ..model.priors import Limits
from ..model.tasks import Tasks

NOISES = (1e-6, 1e-4, 1e-2, 0.4)
"""First guesses of the noise variance, where that of the targets is 1."""
_VARIANCES = (0.01, 0.1, 1.0, 10.0)  # and of the signal's, where the noise is known
SECOND = 3.0
"""Nats above the only hollow at which another first guess, not beside it, is still followed."""
NO_NOISE = -690.0
"""The logarithm of a noise variance that is as good as none."""
_SURVEYED = 1 << 18  # first guesses scored at a time: a grid takes many times what its task does
FAILED, UNFINISHED, CONVERGED = range(3)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """When to stop, and how far to go.

    Attributes:
        iterations: the most steps from one start.
        tolerance: nats still to be gained at which a task has converged.
        reach: the most a logarithm may change in one step.
        starts: the most first guesses to follow.
        late: steps after which a further start that is still worse than what is known is given up.
    """

    iterations: int = 100
    tolerance: float = 1e-4
    reach: float = 2.0
    starts: int = 2
    late: int = 12


@dataclass(frozen=True, slots=True)
class Fitted:
    """The result, one row a task. `nlml_T` is the plain negative log marginal likelihood, without any prior."""

    theta_TP: Float[Tensor, "T P"]
    nlml_T: Float[Tensor, " T"]
    iterations_T: Int[Tensor, " T"]
    gradient_T: Float[Tensor, " T"]
    ending_T: Int[Tensor, " T"]
    beta_TQ: Float[Tensor, "T Q"]

    def pick(self, index: Tensor) -> "Fitted":
        return Fitted(*(getattr(self, each.name)[index] for each in fields(self)))

    def among(self, index: Tensor, count: int) -> "Fitted":
        """The rows at their places among so many; the others are 0."""
        found = {each.name: getattr(self, each.name) for each in fields(self)}
        wider = {name: each.new_zeros(count, *each.shape[1:]) for name, each in found.items()}
        return Fitted(**{name: each.index_copy(0, index, found[name]) for name, each in wider.items()})

    @staticmethod
    def joined(parts: "Sequence[Fitted]") -> "Fitted":
        return Fitted(*(torch.cat([getattr(part, each.name) for part in parts]) for each in fields(Fitted)))


def grid(kernel: Kernel, limits: Limits) -> tuple[Float[Tensor, "G P"], list[int]]:
    """The first guesses, and the lengths of the axes of their grid."""
    rows, axes = kernel.guesses()
    known = bool(limits.fixed_P[-1])
    variances = [place for place, kind in enumerate(kernel.kinds) if kind == "variance"]
    guesses = []
    for row in rows:
        for level in _VARIANCES if known else NOISES:
            guess = [*row, math.log(level)]
            if known:
                guess[-1] = NO_NOISE
                for place in variances:
                    guess[place] += math.log(level)
            guesses.append(guess)
    return torch.tensor(guesses, dtype=limits.low_TP.dtype, device=limits.low_TP.device), [*axes, len(NOISES)]


def scaling(kernel: Kernel, limits: Limits) -> Any:
    """Which parameters multiply all of the covariance; none, where the noise is known."""
    known = bool(limits.fixed_P[-1])
    return torch.tensor([*((kind == "variance" and not known) for kind in kernel.kinds), not known])


Starts = tuple[Float[Tensor, "T S P"], Int[Tensor, " T"]]
"""Where to begin, best first, and how many of them to follow."""


def fit(kernel: Kernel, tasks: Tasks, limits: Limits, rules: Rules, starts: Starts | None = None) -> Fitted:
    """Fits every task, from the starts given, or else from the hollows of the grid of first guesses."""

    def score(index_L: Tensor, theta_LP: Tensor) -> tuple[Tensor, Tensor]:
        parts = zip(index_L.split(max(1, len(tasks))), theta_LP.split(max(1, len(tasks))), strict=True)
        found = [likelihood.score(kernel, tasks.pick(index), theta_TP) for index, theta_TP in parts]
        return torch.cat([each[0] for each in found]), torch.cat([each[1] for each in found])

    count_T = tasks.keep_TN.sum(1).to(tasks.y_TN.dtype)
    starts_TSP, follow_T = starts or survey(
        kernel, limits, rules, count_T, score, periods.guesses(kernel, tasks, limits)
    )
    T, _, P = starts_TSP.shape
    like: dict[str, Any] = {"dtype": starts_TSP.dtype, "device": starts_TSP.device}
    best = Fitted(
        torch.full((T, P), math.nan, **like),
        torch.full((T,), math.inf, **like),
        torch.zeros(T, dtype=torch.int64, device=starts_TSP.device),
        torch.full((T,), math.inf, **like),
        torch.full((T,), FAILED, device=starts_TSP.device),
        torch.zeros(T, tasks.coefficients, **like),
    )
    objective_T = torch.full((T,), math.inf, **like)
    for attempt in range(int(follow_T.max()) if T else 0):
        index = torch.nonzero(follow_T > attempt)[:, 0]
        found, reached_T = _descend(
            kernel, tasks.pick(index), limits.pick(index), rules, starts_TSP[index, attempt], objective_T[index],
            best.theta_TP[index],
        )  # fmt: skip
        best.iterations_T[index] += found.iterations_T
        takes_T = reached_T < objective_T[index]
        to = index[takes_T]
        objective_T[to] = reached_T[takes_T]
        for name in ("theta_TP", "nlml_T", "gradient_T", "ending_T", "beta_TQ"):
            getattr(best, name)[to] = getattr(found, name)[takes_T]
    return best


def survey(
    kernel: Kernel, limits: Limits, rules: Rules, count_T: Tensor, score: Any, periods_TFW: Tensor | None = None
) -> Starts:
    """The hollows of the grid, best first, and how many each task has to follow. `score` takes an index of tasks and
    their parameters; it gives the likelihood, and the quadratic form in it. `periods_TFW` are each task's first guesses
    of periods, in place of the grid's."""
    every = torch.arange(len(count_T), device=count_T.device, dtype=torch.int32)
    some = max(1, _SURVEYED // len(grid(kernel, limits)[0]))
    parts = []
    for index in every.split(some):
        own_TFW = None if periods_TFW is None else periods_TFW[index]
        parts.append(_survey(kernel, limits.pick(index), rules, count_T[index], index, score, own_TFW))
    return torch.cat([part[0] for part in parts]), torch.cat([part[1] for part in parts])


def _survey(
    kernel: Kernel, limits: Limits, rules: Rules, count_T: Tensor, index_T: Tensor, score: Any,
    periods_TFW: Tensor | None,
) -> Starts:  # fmt: skip
    guesses_GP, axes = grid(kernel, limits)
    scales_P = scaling(kernel, limits).to(count_T.device)
    (T, P), G = limits.low_TP.shape, len(guesses_GP)
    index_GT = index_T.repeat(G)
    guesses_GTP = guesses_GP[:, None].expand(G, T, P)
    if periods_TFW is not None and kernel.periods:
        row_G = torch.arange(G, device=count_T.device) // axes[-1] % periods_TFW.shape[1]
        guesses_GTP = guesses_GTP.clone()
        guesses_GTP[:, :, kernel.periods] = periods_TFW.to(guesses_GP.dtype)[:, row_G].transpose(0, 1)
    theta_GTP = inside(guesses_GTP, limits)
    score_GT, quadratic_GT = (each.reshape(G, T) for each in score(index_GT, theta_GTP.reshape(G * T, P)))
    if scales_P.any():
        shift_GT = torch.log((quadratic_GT / count_T.clamp(min=1)).clamp(min=1e-30))
        wanted_GTP = torch.where(scales_P, theta_GTP + shift_GT[:, :, None], theta_GTP)
        theta_GTP = inside(wanted_GTP, limits)
        score_GT = score_GT + 0.5 * (count_T * (1 + shift_GT) - quadratic_GT)
        score_GT = torch.where(torch.isfinite(score_GT), score_GT, math.inf)
        stopped = torch.nonzero(((theta_GTP != wanted_GTP).any(2) & torch.isfinite(score_GT)).flatten())[:, 0]
        if len(stopped):  # a bound was in the way of the best factor
            score_GT.flatten()[stopped] = score(index_GT[stopped], theta_GTP.reshape(G * T, P)[stopped])[0]
    score_TG = (score_GT + limits.pull(theta_GTP)).mT
    hollow_TG = torch.isfinite(score_TG)
    cube = score_TG.reshape(-1, *axes)
    for axis in range(1, len(axes) + 1):
        edge = torch.full_like(cube.narrow(axis, 0, 1), math.inf)
        inner = cube.shape[axis] - 1
        before = torch.cat([edge, cube.narrow(axis, 0, inner)], axis)
        after = torch.cat([cube.narrow(axis, 1, inner), edge], axis)
        hollow_TG = hollow_TG & ((cube < before) & (cube <= after)).reshape(hollow_TG.shape)
    hollow_TG = hollow_TG | _seconds(score_TG, hollow_TG, axes)
    order_TS = torch.where(hollow_TG, score_TG, math.inf).topk(min(rules.starts, G), dim=1, largest=False).indices
    picked_TSP = theta_GTP[order_TS, torch.arange(T, device=count_T.device)[:, None]]
    return picked_TSP, hollow_TG.sum(1).clamp(max=rules.starts)


def _seconds(score_TG: Tensor, hollow_TG: Tensor, axes: list[int]) -> Tensor:
    """For tasks with one hollow: the best point that is not beside it, where it is not much worse."""
    places = torch.unravel_index(torch.arange(score_TG.shape[1], device=score_TG.device), axes)
    apart_GG = torch.stack([(each[:, None] - each[None]).abs() > 1 for each in places]).any(0)
    first_T1 = torch.where(hollow_TG, score_TG, math.inf).argmin(1, keepdim=True)
    least_T1 = torch.gather(score_TG, 1, first_T1)
    far_TG = apart_GG[first_T1[:, 0]] & (score_TG <= least_T1 + SECOND) & (hollow_TG.sum(1, keepdim=True) == 1)
    second_T1 = torch.where(far_TG, score_TG, math.inf).argmin(1, keepdim=True)
    return torch.zeros_like(hollow_TG).scatter(1, second_T1, True) & far_TG


def inside(theta_TP: Tensor, limits: Limits) -> Tensor:
    return torch.where(limits.fixed_P, theta_TP, torch.minimum(torch.maximum(theta_TP, limits.low_TP), limits.high_TP))


def _descend(
    kernel: Kernel, tasks: Tasks, limits: Limits, rules: Rules, theta_TP: Tensor, found_T: Tensor, known_TP: Tensor
) -> tuple[Fitted, Tensor]:  # fmt: skip
    """From one start each down to a minimum, and the objective there. A task that comes near `known_TP`, or cannot get
    below `found_T`, is given up."""
    T, P = theta_TP.shape
    device, dtype = theta_TP.device, theta_TP.dtype
    R = P + 2
    now_TP = inside(theta_TP, limits)
    objective_T, beta_TQ, slopes = _objective(kernel, tasks, limits, now_TP)
    gradient_TP, plain_T = slopes.gradient_TP, objective_T - limits.pull(now_TP)
    info_TPP = slopes.information_TPP
    steps_TRP = torch.zeros(T, R, P, dtype=dtype, device=device)
    changes_TRP = torch.zeros_like(steps_TRP)
    damping_T = torch.full((T,), 1e-3, dtype=dtype, device=device)
    rise_T = torch.full_like(damping_T, 4.0)
    ending_T = torch.where(torch.isfinite(objective_T), UNFINISHED, FAILED)
    iterations_T = torch.zeros(T, dtype=torch.int64, device=device)
    left_T = _left(info_TPP, gradient_TP, _free(now_TP, gradient_TP, limits))
    ending_T = torch.where((ending_T == UNFINISHED) & (left_T < rules.tolerance), CONVERGED, ending_T)
    active = torch.nonzero((ending_T == UNFINISHED) & ~(objective_T - 3 * left_T > found_T + 0.2))[:, 0]
    for _ in range(rules.iterations):
        if len(active) == 0:
            break
        part, bounds = tasks.pick(active), limits.pick(active)
        now, gradient, info = now_TP[active], gradient_TP[active], info_TPP[active]
        free = _free(now, gradient, bounds)
        step = _solve(info, gradient, free, damping_T[active], 1e-9)
        outward = ((now <= bounds.low_TP) & (step > 0)) | ((now >= bounds.high_TP) & (step < 0))
        step = torch.where(outward, 0.0, step)  # it cannot go there, and must not hold up the others
        step = step * (rules.reach / step.abs().amax(1, keepdim=True).clamp(min=rules.reach))
        trial = torch.where(free, inside(now - step, bounds), now)
        reached, beta, slopes = _objective(kernel, part, bounds, trial)
        iterations_T[active] += 1
        better = reached < objective_T[active]
        moved = torch.where(free, trial - now, 0.0)
        foretold = -(gradient * moved).sum(1) - 0.5 * torch.einsum("tp,tpq,tq->t", moved, info, moved)
        gain = objective_T[active] - reached
        ratio = gain / foretold.clamp(min=1e-30)
        damping, rise = damping_T[active], rise_T[active]
        calmer = (damping * (1 - (2 * ratio - 1) ** 3).clamp(0.1, 2.0)).clamp(min=1e-7)
        damping_T[active] = torch.where(better, calmer, damping.clamp(min=1e-3) * rise)
        rise_T[active] = torch.where(better, 4.0, rise * 2)
        to = active[better]
        now_TP[to], objective_T[to] = trial[better], reached[better]
        plain_T[to] = reached[better] - bounds.pull(trial)[better]
        beta_TQ[to] = beta[better]
        steps_TRP[to] = torch.cat([steps_TRP[to][:, 1:], moved[better][:, None]], 1)
        change = slopes.gradient_TP[better] - gradient[better]
        changes_TRP[to] = torch.cat([changes_TRP[to][:, 1:], change[:, None]], 1)
        gradient_TP[to] = slopes.gradient_TP[better]
        info_TPP[to] = _learn(slopes.information_TPP[better], steps_TRP[to], changes_TRP[to])
        left_T[active] = _left(
            info_TPP[active], gradient_TP[active], _free(now_TP[active], gradient_TP[active], bounds)
        )
        left = left_T[active]
        level = better & (gain < _EPSILON[dtype] * (1 + objective_T[active].abs()))
        stuck = (~better & (damping_T[active] > 1e8)) | level
        done = (better & (left < rules.tolerance)) | (stuck & (left < 1e3 * rules.tolerance))
        apart = torch.where(limits.fixed_P, 0.0, (now_TP[active] - known_TP[active]).abs())
        near = apart.amax(1) < 0.2  # False against NaN
        late = (iterations_T[active] >= rules.late) & (objective_T[active] > found_T[active])
        hopeless = better & (
            late | (near & (reached > found_T[active])) | (objective_T[active] - 3 * left > found_T[active] + 0.2)
        )
        ending_T[active[done]] = CONVERGED
        active = active[~(done | stuck | hopeless)]
    free_TP = _free(now_TP, gradient_TP, limits)
    norm_T = torch.where(free_TP, gradient_TP.abs(), 0.0).amax(1)
    return Fitted(now_TP, plain_T, iterations_T, norm_T, ending_T, beta_TQ), objective_T


_EPSILON = {torch.float64: 1e-13, torch.float32: 1e-7}


def _objective(
    kernel: Kernel, tasks: Tasks, limits: Limits, theta_TP: Tensor
) -> tuple[Tensor, Tensor, likelihood.Slopes]:
    """What is made small, the mean's coefficients, and the derivatives with the priors' part."""
    nlml_T, beta_TQ, slopes = likelihood.evaluate(kernel, tasks, theta_TP)
    apart_TP = torch.where(limits.precision_P > 0, theta_TP - limits.centre_TP, 0.0)
    gradient_TP = slopes.gradient_TP + limits.precision_P * apart_TP
    information_TPP = slopes.information_TPP + torch.diag(limits.precision_P)
    slopes = likelihood.Slopes(gradient_TP, information_TPP)
    return nlml_T + limits.pull(theta_TP), beta_TQ, slopes


def _free(theta_TP: Tensor, gradient_TP: Tensor, limits: Limits) -> Tensor:
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


def _left(info_TPP: Tensor, gradient_TP: Tensor, free_TP: Tensor) -> Tensor:
    """The gain still to be had, in nats, as far as the derivatives tell."""
    damping_T = torch.full_like(gradient_TP[:, 0], 1e-6)
    step_TP = _solve(info_TPP, gradient_TP, free_TP, damping_T, 1e-12)
    left_T = 0.5 * (step_TP * torch.where(free_TP, gradient_TP, 0.0)).sum(1)
    return torch.where(left_T >= 0, left_T, math.inf)


def _learn(info_TPP: Tensor, steps_TRP: Tensor, changes_TRP: Tensor) -> Tensor:
    """Bends the information so that the last steps would have changed the gradient as they did (BFGS updates)."""
    for s_TP, y_TP in zip(steps_TRP.unbind(1), changes_TRP.unbind(1), strict=True):
        Bs_TP = (info_TPP @ s_TP[:, :, None])[:, :, 0]
        sBs_T, sy_T = (s_TP * Bs_TP).sum(1), (s_TP * y_TP).sum(1)
        use_T = (sy_T > 1e-3 * sBs_T) & (sBs_T > 0)
        gained = y_TP[:, :, None] * y_TP[:, None, :] / torch.where(use_T, sy_T, 1.0)[:, None, None]
        lost = Bs_TP[:, :, None] * Bs_TP[:, None, :] / torch.where(use_T, sBs_T, 1.0)[:, None, None]
        info_TPP = torch.where(use_T[:, None, None], info_TPP + gained - lost, info_TPP)
    return info_TPP
