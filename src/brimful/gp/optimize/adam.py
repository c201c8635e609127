"""First-order fitting, for custom kernels: Adam on all tasks at once, each with its own clipping and stopping, and a
few steps of scoring at the end.

Legend: T tasks, N points, P parameters (logarithms, the noise variance last), S starts, C points around the initial
value, F noises of each, K neighbors.

Adam finds the basin of a local minimum, and is slow to reach its bottom: it stops where it gains little, and `scoring`
continues from there, which also decides whether a task has converged. All is in logarithms, and the noise starts at
fractions of the variance of a task's targets, so that nothing depends on the units of the data if the initial values of
the kernel's parameters have them.
"""

import math
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from ..model import likelihood
from ..model.kernels import CustomKernel, Kernel
from ..model.priors import BOUNDS, Limits
from ..model.tasks import TaskBatch
from . import initialization, scoring

STEPS = 3
"""First-order steps for each iteration that the rules allow."""
NOISES = (0.01, 0.3, 1e-4)
"""Initial values of the noise variance, where that of the targets is 1."""
_FAR = 10 * math.log(10.0)  # how far parameters may go from their initial value, unless they have bounds
_AROUND, _WIDE, _BESIDE = 32, math.log(30.0), 8  # points around the initial value, how far away, and neighbors of each
_RATE, _WARM, _CLIP = 0.1, 10, 10.0
_PATIENCE, _GAIN = 10, 0.05  # steps, and nats to be gained in them that count as going on
_TOGETHER = 1 << 16  # numbers in the covariances of starts that descend side by side
_STRIDE = 1e-3  # of the differences


def fit(kernel: CustomKernel, tasks: TaskBatch, limits: Limits, options: scoring.ScoringOptions) -> scoring.Optima:
    """Fits every task from the best of many points around the initial value, and keeps the best end of each."""
    derived, count_T = _Derived.of(kernel), torch.ones_like(tasks.mask_TN[:, :1].sum(1))
    if len(tasks) == 0:
        return scoring.fit(derived, tasks, limits, options, (limits.low_TP[:, None], count_T))

    def down(some: TaskBatch, bounds: Limits, theta_TP: Tensor) -> tuple[Tensor, ...]:
        return _descend(kernel, some, bounds, theta_TP, STEPS * options.steps)

    begin_TSP = _starts(kernel, tasks, limits, options.starts)
    ends_TSP, lowest_TS, steps_TS = _side_by_side(down, tasks, limits, begin_TSP)
    lowest_TS, order_TS = lowest_TS.sort(1)
    ends_TSP = ends_TSP.gather(1, order_TS[:, :, None].expand_as(ends_TSP))
    result = scoring.fit(derived, tasks, limits, options, (ends_TSP, count_T * begin_TSP.shape[1]))
    result.iterations_T.add_(steps_TS.sum(1))
    return result


def default_bounds(limits: Limits, kernel: CustomKernel, tasks: TaskBatch, given: Collection[str]) -> Limits:
    """The limits, with bounds that were not given around the initial value, and the noise's around the variance of each
    task's targets."""
    low_TP, high_TP = limits.low_TP.clone(), limits.high_TP.clone()
    for position, (name, start) in enumerate(kernel.start.items()):
        if name not in given:
            low_TP[:, position], high_TP[:, position] = math.log(start) - _FAR, math.log(start) + _FAR
    if "noise" not in given:
        low_TP[:, -1], high_TP[:, -1] = (torch.log(_variance(tasks)) + math.log(item) for item in BOUNDS["noise"])
    return replace(limits, low_TP=low_TP, high_TP=high_TP)


def _side_by_side(
    work: Callable[[TaskBatch, Limits, Tensor], tuple[Tensor, ...]], tasks: TaskBatch, limits: Limits, theta_TSP: Tensor
) -> tuple[Tensor, ...]:
    """Runs a function of tasks and their parameters for several parameters of each: of small tasks, all at once."""
    T, N = tasks.y_TN.shape
    parts = []
    for part in theta_TSP.split(max(1, _TOGETHER // max(1, T * N * N)), dim=1):
        index = torch.arange(T, device=part.device).repeat_interleave(part.shape[1])
        result = work(tasks.select(index), limits.select(index), part.flatten(0, 1))
        parts.append([item.unflatten(0, part.shape[:2]) for item in result])
    return tuple(torch.cat(item, dim=1) for item in zip(*parts, strict=True))


def _starts(kernel: CustomKernel, tasks: TaskBatch, limits: Limits, count: int) -> Float[Tensor, "T S P"]:
    """The initial value, and then the best of the points around it, those first that are better than all beside
    them."""
    like: dict[str, Any] = {"dtype": limits.low_TP.dtype, "device": limits.low_TP.device}
    start_P = torch.tensor(list(kernel.start.values()), **like).log()
    # The first of Sobol's points is a corner, which is left out; the second is the middle, which is the initial value.
    unit_CP = torch.quasirandom.SobolEngine(len(start_P)).fast_forward(1).draw(_AROUND, dtype=torch.float64)
    around_CP = start_P + (2 * unit_CP.to(**like) - 1) * _WIDE
    known = bool(limits.fixed_P[-1])
    noise_F = torch.tensor([initialization.NO_NOISE] if known else [math.log(item) for item in NOISES], **like)
    F = len(noise_F)
    points_SP = torch.cat([around_CP.repeat_interleave(F, 0), noise_F.repeat(_AROUND)[:, None]], dim=1)
    beside_SK = torch.cdist(points_SP, points_SP).topk(1 + _BESIDE, dim=1, largest=False).indices
    theta_TSP = points_SP.repeat(len(tasks), 1, 1)
    if not known:
        theta_TSP[:, :, -1] += torch.log(_variance(tasks))[:, None]

    def score(some: TaskBatch, bounds: Limits, theta_TP: Tensor) -> tuple[Tensor, ...]:
        theta_TP = initialization.clamp_to_bounds(theta_TP, bounds)
        score_T = likelihood.score(kernel, some, theta_TP)[0] + bounds.prior_penalty(theta_TP)
        return theta_TP, torch.where(torch.isfinite(score_T), score_T, math.inf)

    theta_TSP, score_TS = _side_by_side(score, tasks, limits, theta_TSP)
    minimum_TS = score_TS <= score_TS[:, beside_SK].amin(2)
    start_T1 = score_TS[:, :F].argmin(1, keepdim=True)
    order_TS = score_TS.argsort(dim=1, stable=True)
    rank_TS = torch.where(minimum_TS, 1, 2).scatter(1, start_T1, 0).gather(1, order_TS)
    order_TS = order_TS.gather(1, rank_TS.argsort(dim=1, stable=True))[:, :count]
    return theta_TSP.gather(1, order_TS[:, :, None].expand(-1, -1, theta_TSP.shape[2]))


def _variance(tasks: TaskBatch) -> Float[Tensor, " T"]:
    """The mean square of each task's targets, whose level is 0 unless the mean is."""
    return (tasks.y_TN.square().sum(1) / tasks.mask_TN.sum(1).clamp(min=1)).clamp(min=1e-300)


def _descend(
    kernel: CustomKernel, tasks: TaskBatch, limits: Limits, theta_TP: Tensor, steps: int
) -> tuple[Float[Tensor, "T P"], Float[Tensor, " T"], Tensor]:
    """The lowest point of each task's path, the objective there, and how many steps it took.

    The rate rises over the first steps and then falls along a cosine. A task whose gradient is large has it scaled down
    by itself; one that has gained little for a while stops, and leaves the batch. One that has come to where there is
    no likelihood goes back to its lowest point, and on in smaller steps.
    """
    theta_TP = initialization.clamp_to_bounds(theta_TP, limits)
    first_TP, second_TP = torch.zeros_like(theta_TP), torch.zeros_like(theta_TP)
    lowest_T, lowest_TP = torch.full_like(theta_TP[:, 0], math.inf), theta_TP.clone()
    mark_T, since_T, rate_T = lowest_T.clone(), torch.zeros_like(lowest_T), torch.full_like(lowest_T, _RATE)
    made_T = torch.zeros(len(tasks), dtype=torch.int64, device=theta_TP.device)
    taken_T = torch.zeros_like(made_T)
    active = torch.arange(len(tasks), device=theta_TP.device)
    for step in range(steps):
        if len(active) == 0:
            break
        bounds = limits.select(active)
        now = theta_TP[active]
        value, gradient = _value_and_gradient(kernel, tasks.select(active), bounds, now)
        taken_T[active] += 1
        lower = torch.isfinite(value) & (value < lowest_T[active])
        to = active[lower]
        lowest_T[to], lowest_TP[to] = value[lower], now[lower]
        better = lowest_T[active] < mark_T[active] - _GAIN
        mark_T[active[better]] = lowest_T[active[better]]
        since_T[active] = torch.where(better, 0.0, since_T[active] + 1)
        good = torch.isfinite(value) & torch.isfinite(gradient).all(1)
        gradient = torch.where(good[:, None], gradient, 0.0)
        gradient = gradient * (_CLIP / gradient.norm(dim=1, keepdim=True).clamp(min=_CLIP))
        first = torch.where(good[:, None], 0.9 * first_TP[active] + 0.1 * gradient, 0.0)
        second = torch.where(good[:, None], 0.99 * second_TP[active] + 0.01 * gradient.square(), 0.0)
        made = torch.where(good, made_T[active] + 1, 0)
        rate_T[active] = torch.where(good, rate_T[active], 0.5 * rate_T[active])
        first_TP[active], second_TP[active], made_T[active] = first, second, made
        rate = rate_T[active] * (made / _WARM).clamp(max=1) * 0.5 * (1 + math.cos(math.pi * step / steps))
        past = made.clamp(min=1)[:, None]
        size = first / (1 - 0.9**past) / ((second / (1 - 0.99**past)).sqrt() + 1e-8)
        onward = initialization.clamp_to_bounds(now - rate[:, None] * size, bounds)
        theta_TP[active] = torch.where(good[:, None], onward, lowest_TP[active])
        active = active[since_T[active] < _PATIENCE]
    return lowest_TP, lowest_T, taken_T


def _value_and_gradient(
    kernel: CustomKernel, tasks: TaskBatch, limits: Limits, theta_TP: Tensor
) -> tuple[Tensor, Tensor]:
    theta_TP = theta_TP.detach().requires_grad_()
    with torch.enable_grad():  # a map runs its function without
        value_T = likelihood.score(kernel, tasks, theta_TP)[0] + limits.prior_penalty(theta_TP)
        finite_T = torch.isfinite(value_T)
        (gradient_TP,) = torch.autograd.grad(torch.where(finite_T, value_T, 0.0).sum(), theta_TP)
    free_TP = scoring.free_parameters(theta_TP, gradient_TP, limits)
    return value_T.detach(), torch.where(free_TP, gradient_TP, 0.0).detach()


@dataclass(frozen=True, slots=True)
class _Derived(Kernel):
    """A kernel defined by the user with the derivatives that scoring needs.

    They are differences of the fourth order, good to 1e-12: torch has no forward derivatives of some functions that
    kernels are made of (`torch.cdist`), and backward ones would take a pass for each pair of points. Where the function
    has no value on one side, such as beyond a bound, they are differences to the other side.
    """

    own: CustomKernel

    @staticmethod
    def of(own: CustomKernel) -> "_Derived":
        kinds = ("custom",) * len(own.names)
        return _Derived(text=own.text, names=own.names, kinds=kinds, factors=(), dimensions=0, ard=False, own=own)

    def derive(
        self, x_TND: Float[Tensor, "T N D"], theta_TP: Float[Tensor, "T P"]
    ) -> tuple[Float[Tensor, "T N N"], Float[Tensor, "T P N N"]]:
        middle_TNN, derivatives = self.own(x_TND, x_TND, theta_TP), []
        for move_P in _STRIDE * torch.eye(theta_TP.shape[1], dtype=theta_TP.dtype, device=theta_TP.device):
            at = {by: self.own(x_TND, x_TND, theta_TP + by * move_P) for by in (-2, -1, 1, 2)}
            derivative_TNN = (8 * (at[1] - at[-1]) - (at[2] - at[-2])) / (12 * _STRIDE)
            for side in (-1, 1):
                if not bool(torch.isfinite(derivative_TNN).all()):
                    aside_TNN = side * (4 * at[side] - at[2 * side] - 3 * middle_TNN) / (2 * _STRIDE)
                    derivative_TNN = torch.where(torch.isfinite(derivative_TNN), derivative_TNN, aside_TNN)
            derivatives.append(derivative_TNN)
        return middle_TNN, torch.stack(derivatives, dim=1)
