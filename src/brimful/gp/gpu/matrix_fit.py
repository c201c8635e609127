"""Fitting tasks of many points on a GPU: the loop of `scoring.descend` over whole matrices (`matrices.py`), from starts
that subsets of the points have found (`optimize/subsets.py`), by the kernels of small tasks."""

import torch
from torch import Tensor

from ..model.kernels import Kernel
from ..model.priors import Limits
from ..model.tasks import TaskBatch
from ..optimize import initialization, scoring, subsets
from ..optimize.subsets import COUNT, SubsetSearch, looser, of_task, summed
from . import grid_search, likelihood, scoring_step
from .layout import ActiveTasks, lay_out
from .likelihood import Evaluations
from .matrices import MatrixEvaluator

FEWEST = 65
"""Points from which on whole matrices are faster than one lane per task."""
_WIDER = 1.25  # times the points of the smallest task of a part, that its largest may have


def fit(
    kernel: Kernel,
    tasks: TaskBatch,
    limits: Limits,
    options: scoring.ScoringOptions,
    starts: initialization.Starts | None = None,
) -> scoring.Optima:
    """Fits every task, from the starts given, or else from those of subsets of its points."""
    if len(tasks) == 0:
        return scoring.Optima.unfitted(limits, tasks.coefficients)
    whole = MatrixEvaluator(kernel, tasks)
    begin = starts or subsets.starts(limits, options, search(kernel, tasks), whole)
    descent = scoring_step.begin(begin, limits, tasks.coefficients)
    while len(index_L := torch.nonzero(descent.going_T)[:, 0].int()):
        for part_L in parts(index_L, whole.last_T, whole.at_once):
            out = Evaluations(*whole.evaluate(part_L, descent.trial_TP[part_L]))
            scoring_step.advance(descent, ActiveTasks.all_of(part_L), out, limits, options, whole.count_T)
    return descent.optima()


def search(kernel: Kernel, tasks: TaskBatch) -> SubsetSearch:
    """The search of the likelihood of subsets of the points; every subset has a lane."""
    layout = lay_out(subsets.subsets(tasks))
    points_T = summed(layout.count_T)

    def score(index_L: Tensor, theta_LP: Tensor, narrow: bool) -> Tensor:
        theta_LP = theta_LP.repeat_interleave(COUNT, 0)
        return summed(likelihood.evaluate(kernel, layout, of_task(index_L), theta_LP, False, narrow).value_L2)

    def grid(limits: Limits, options: scoring.ScoringOptions) -> initialization.Starts:
        return grid_search.search(kernel, limits, options, points_T, score)

    def descend(task_V: Tensor, begin_VP: Tensor, limits: Limits, options: scoring.ScoringOptions) -> Tensor:
        lanes, points_V = layout.select(of_task(task_V)), points_T[task_V]
        ones_V = torch.ones(len(task_V), dtype=torch.int32, device=task_V.device)
        descent = scoring_step.begin((begin_VP[:, None], ones_V), limits, layout.regressors)
        while len(index_L := torch.nonzero(descent.going_T)[:, 0].int()):
            theta_LP = descent.trial_TP.repeat_interleave(COUNT, 0)
            parts = likelihood.evaluate(kernel, lanes, of_task(index_L), theta_LP)
            out = Evaluations(*(summed(part) for part in parts))
            scoring_step.advance(descent, ActiveTasks.all_of(index_L), out, limits, looser(options), points_V)
        return descent.best_TP

    return SubsetSearch(grid, descend)


def parts(index_L: Tensor, last_T: Tensor, most: int) -> list[Tensor]:
    """Tasks of about as many points as each other, so that none pays for a much larger one; at most so many."""
    points_L, order_L = torch.sort(last_T[index_L], stable=True)
    sizes, counts = (value.tolist() for value in torch.unique_consecutive(points_L, return_counts=True))
    ends, least = list[int](), 0.0
    for size, count in zip(sizes, counts, strict=True):
        if ends and size <= _WIDER * least + 8:
            ends[-1] += count
        else:
            ends.append(count)
            least = size
    return [part_L for group_L in index_L[order_L].split(ends) for part_L in group_L.split(most)]
