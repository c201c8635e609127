"""Where to start the descents of tasks of many points: from subsets of the points, which cost a hundredth.

Each task is stood in for by a few subsets of its points, taken for independent of each other: some spread over all of
them, for long lengthscales, and the neighbors of some points, for short ones. The sum of their likelihoods is scored on
the grid of initial values, and descended from its local minima; where that ends lies so near to an optimum of the whole
task that few steps remain. The ends are then scored by the likelihood of all points, and the best come first.

Legend: T tasks, C subsets of a task, M points of a subset, V starts of all tasks, S starts of a task, P parameters.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from ..model import likelihood
from ..model.kernels import Kernel
from ..model.priors import Limits
from ..model.tasks import TaskBatch
from . import initialization, scoring
from .initialization import Starts
from .matrices import MatrixEvaluator
from .scoring import Evaluation, Optima, ScoringOptions

POINTS, CENTERS = 48, (1 / 4, 3 / 4)  # of a subset; whose neighbors make one, as a share of the points in their order
COUNT = 1 + len(CENTERS)
"""Subsets of a task."""
_TOLERANCE, _STEPS = 1e-2, 10  # nats, and steps: all points have the last word
STARTS = 4
"""At the least: of the subsets they cost little."""
_APART = 0.1  # in some logarithm: a start that is closer to a better one leads to the same


class SubsetSearch(NamedTuple):
    """How the subsets' likelihood is searched.

    Attributes:
        grid: the local minima of the grid of initial values.
        descend: where descents end, of tasks by their index, each from one start and within limits of its own.
    """

    grid: Callable[[Limits, ScoringOptions], Starts]
    descend: Callable[[Tensor, Tensor, Limits, ScoringOptions], Tensor]


def subsets(tasks: TaskBatch) -> TaskBatch:
    """T * C tasks: the subsets of every task, one after the other."""
    T, N, D = tasks.x_TND.shape
    device, points = tasks.y_TN.device, min(POINTS, N)
    count_T1 = tasks.mask_TN.sum(1, keepdim=True)
    key_TN = torch.where(tasks.mask_TN, tasks.x_TND[:, :, 0], math.inf)
    order_TN = torch.argsort(key_TN, dim=1, stable=True)  # those that are missing come last
    every_M = torch.arange(points, device=device)
    spread_TM = torch.where(count_T1 <= points, every_M, ((every_M + 0.5) / points * count_T1).long())
    chosen = [order_TN.gather(1, spread_TM.clamp(max=N - 1))]
    for share in CENTERS:
        center_T1 = order_TN.gather(1, (share * count_T1).long().clamp(max=N - 1))
        gap_TND = tasks.x_TND - tasks.x_TND.gather(1, center_T1[:, :, None].expand(T, 1, D))
        apart_TN = torch.where(tasks.mask_TN, gap_TND.square().sum(2), math.inf)
        chosen.append(apart_TN.topk(points, dim=1, largest=False).indices)
    index_TM = torch.stack(chosen, 1).view(T, -1)
    rows = T * COUNT, points
    known = tasks.known_TN.gather(1, index_TM) if tasks.has_known_noise else tasks.known_TN[:1, :1]
    return TaskBatch(
        tasks.x_TND.gather(1, index_TM[:, :, None].expand(-1, -1, D)).view(*rows, D),
        tasks.y_TN.gather(1, index_TM).view(rows),
        tasks.mask_TN.gather(1, index_TM).view(rows),
        known.view(rows) if tasks.has_known_noise else known.expand(rows),
        tasks.mean,
    )


def of_task(index_L: Tensor) -> Tensor:
    """The positions of the subsets of tasks."""
    every_C = torch.arange(COUNT, device=index_L.device, dtype=index_L.dtype)
    return (index_L[:, None] * COUNT + every_C).flatten()


def summed(values: Tensor) -> Tensor:
    """Over the subsets of every task."""
    return values.view(len(values) // COUNT, COUNT, *values.shape[1:]).sum(1)


def looser(options: ScoringOptions) -> ScoringOptions:
    """When a descent of the subsets' likelihood may stop."""
    return replace(options, tolerance=max(_TOLERANCE, options.tolerance), steps=min(_STEPS, options.steps), starts=1)


class WholeTasks(Protocol):
    """What is made large, of all points."""

    count_T: Tensor

    def score(self, index_L: Tensor, theta_LP: Tensor) -> Tensor: ...


def starts(limits: Limits, options: ScoringOptions, search: SubsetSearch, whole: WholeTasks) -> Starts:
    """Where to start, best first, and how many of them to use."""
    begin_TSP, count_T = search.grid(limits, replace(options, starts=max(options.starts, STARTS)))
    S = begin_TSP.shape[1]
    used_TS = torch.arange(S, device=count_T.device) < count_T[:, None]
    task_V = torch.nonzero(used_TS)[:, 0]
    own = limits.select(task_V)
    ended_VP = search.descend(task_V, begin_TSP[used_TS], own, options)
    ended_VP = torch.where(torch.isfinite(ended_VP), ended_VP, begin_TSP[used_TS])
    nats_V = 0.5 * (whole.score(task_V, ended_VP).sum(1) + math.log(2 * math.pi) * whole.count_T[task_V])
    score_TS = torch.full_like(begin_TSP[:, :, 0], math.inf)
    score_TS = score_TS.masked_scatter(used_TS, nats_V + own.prior_penalty(ended_VP))
    theta_TSP = begin_TSP.masked_scatter(used_TS[:, :, None].expand_as(begin_TSP), ended_VP)
    order_TS = torch.argsort(score_TS, dim=1, stable=True)
    theta_TSP, used_TS = _sorted(theta_TSP, order_TS), used_TS.gather(1, order_TS)
    apart_TSS = torch.where(limits.fixed_P, 0.0, (theta_TSP[:, :, None] - theta_TSP[:, None]).abs()).amax(3)
    for later in range(1, S):
        used_TS[:, later] &= ~((apart_TSS[:, later, :later] < _APART) & used_TS[:, :later]).any(1)
    return _sorted(theta_TSP, torch.argsort((~used_TS).int(), dim=1, stable=True)), used_TS.sum(1)


def _sorted(theta_TSP: Tensor, order_TS: Tensor) -> Tensor:
    return theta_TSP.gather(1, order_TS[:, :, None].expand(-1, -1, theta_TSP.shape[2]))


def search(kernel: Kernel, tasks: TaskBatch) -> SubsetSearch:
    """The search in plain torch."""
    parts = subsets(tasks)
    points_T = summed(parts.mask_TN.sum(1).to(tasks.y_TN.dtype))

    def score(index_L: Tensor, theta_LP: Tensor) -> tuple[Tensor, Tensor]:
        some = parts.select(of_task(index_L))
        nlml, quadratic = likelihood.score(kernel, some, theta_LP.repeat_interleave(COUNT, 0))
        return summed(nlml), summed(quadratic)

    def grid(limits: Limits, options: ScoringOptions) -> Starts:
        return initialization.grid_search(
            kernel, limits, options.starts, initialization.scored_by(kernel, limits, points_T, score)
        )

    def descend(task_V: Tensor, begin_VP: Tensor, limits: Limits, options: ScoringOptions) -> Tensor:
        def evaluate(index: Tensor, theta_LP: Tensor) -> Evaluation:
            some = parts.select(of_task(task_V[index]))
            nlml, beta, gradient, info = likelihood.evaluate(kernel, some, theta_LP.repeat_interleave(COUNT, 0))
            return summed(nlml), beta[::COUNT], summed(gradient), summed(info)

        each = begin_VP[:, None], torch.ones_like(task_V)
        return scoring.descend(evaluate, limits, looser(options), each, tasks.coefficients).theta_TP

    return SubsetSearch(grid, descend)


def fit(
    kernel: Kernel, tasks: TaskBatch, limits: Limits, options: ScoringOptions, given: Starts | None = None
) -> Optima:
    """Fits every task by whole matrices, from the starts given, or else from those of subsets of its points."""
    if len(tasks) == 0:
        return Optima.unfitted(limits, tasks.coefficients)
    whole = MatrixEvaluator(kernel, tasks)

    def evaluate(index: Tensor, theta_TP: Tensor) -> Evaluation:
        value, beta, gradient, info = whole.evaluate(index, theta_TP)
        return 0.5 * (value.sum(1) + math.log(2 * math.pi) * whole.count_T[index]), beta, gradient, info

    begin = given or starts(limits, options, search(kernel, tasks), whole)
    return scoring.descend(evaluate, limits, options, begin, tasks.coefficients)
