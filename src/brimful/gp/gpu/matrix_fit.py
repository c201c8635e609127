"""Fitting tasks of many points on a GPU: the loop of `scoring.descend` over whole matrices (`matrices.py`), from starts
that subsets of the points have found (`subsets.py`)."""

import torch
from torch import Tensor

from ..model.kernels import Kernel
from ..model.priors import Limits
from ..model.tasks import TaskBatch
from ..optimize import initialization, scoring, subsets
from . import scoring_step
from .layout import ActiveTasks
from .likelihood import Evaluations
from .matrices import MatrixEvaluator
from .subsets import search

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
