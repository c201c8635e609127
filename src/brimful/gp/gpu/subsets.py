"""The search of the likelihood of subsets of the points (`optimize/subsets.py`) by the kernels of small tasks."""

import torch
from torch import Tensor

from ..model.kernels import Kernel
from ..model.priors import Limits
from ..model.tasks import TaskBatch
from ..optimize.initialization import Starts
from ..optimize.scoring import ScoringOptions
from ..optimize.subsets import COUNT, SubsetSearch, looser, of_task, subsets, summed
from . import grid_search, likelihood, scoring_step
from .layout import ActiveTasks, lay_out
from .likelihood import Evaluations


def search(kernel: Kernel, tasks: TaskBatch) -> SubsetSearch:
    """The search by kernels; every subset has a lane."""
    layout = lay_out(subsets(tasks))
    points_T = summed(layout.count_T)

    def score(index_L: Tensor, theta_LP: Tensor, narrow: bool) -> Tensor:
        theta_LP = theta_LP.repeat_interleave(COUNT, 0)
        return summed(likelihood.evaluate(kernel, layout, of_task(index_L), theta_LP, False, narrow).value_L2)

    def grid(limits: Limits, options: ScoringOptions) -> Starts:
        return grid_search.search(kernel, limits, options, points_T, score)

    def descend(task_V: Tensor, begin_VP: Tensor, limits: Limits, options: ScoringOptions) -> Tensor:
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
