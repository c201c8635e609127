"""Fitting on a GPU: the loop of `scoring.fit`, each step two kernels over the tasks that are still active.

The first evaluates the likelihood and its derivatives (`likelihood.py`), the second accepts or rejects the step and
makes the next trial (`scoring_step.py`); the rest is a list of tasks that grows shorter. The few tasks that need many
steps make the remaining ones in a single launch (`stragglers.py`).
"""

import math

import torch

from ..model.kernels import Kernel
from ..model.priors import Limits
from ..model.tasks import TaskBatch
from ..optimize import initialization, scoring
from . import grid_search, likelihood, scoring_step, stragglers
from .layout import ActiveTasks, TaskLayout, lay_out

_INDEXED = 2**31 - 1  # numbers of all tasks along one dimension of the inputs, and of all of them
_JOINT_STEPS = 8  # steps by many tasks at once, per parameter: few tasks need more
_GIVEN = 3  # the same in total, where starts are given: most tasks need none


def fit(
    kernel: Kernel,
    tasks: TaskBatch,
    limits: Limits,
    options: scoring.ScoringOptions,
    starts: initialization.Starts | None = None,
) -> scoring.Optima:
    """Fits every task, from the starts given, or else from the local minima of the initialization grid."""
    if len(tasks) == 0:
        return scoring.Optima.unfitted(limits, tasks.coefficients)
    most = max(1, _INDEXED // (tasks.x_TND.shape[2] * (tasks.x_TND.shape[1] + 4)))
    if len(tasks) > most:
        parts = []
        for index in torch.arange(len(tasks), device=tasks.y_TN.device).split(most):
            begin = None if starts is None else (starts[0][index], starts[1][index])
            parts.append(fit(kernel, tasks.select(index), limits.select(index), options, begin))
        return scoring.Optima.concatenated(parts)
    layout = lay_out(tasks, seldom=starts is not None)
    if starts is not None or bool(layout.last_T.min() == layout.last_T.max()):
        return _fit(kernel, layout, limits, options, starts)
    order = torch.argsort(layout.last_T, stable=True)  # lanes that work side by side have as many points as each other
    result = _fit(kernel, layout.select(order), limits.select(order), options, None)
    return result.select(torch.argsort(order))


def _fit(
    kernel: Kernel,
    layout: TaskLayout,
    limits: Limits,
    options: scoring.ScoringOptions,
    starts: initialization.Starts | None,
) -> scoring.Optima:
    layout.reserve(
        len(layout), likelihood.workspace(layout, limits.low_TP.shape[1], True)
    )  # first what takes the most memory
    begin = starts or grid_search.grid_search(kernel, layout, limits, options)
    descent = scoring_step.begin(begin, limits, layout.regressors)
    active = _step_active(
        kernel, layout, descent, limits, options, _GIVEN if starts else _JOINT_STEPS * limits.low_TP.shape[1]
    )
    large = len(layout.y_NT) > stragglers.MOST_POINTS  # some tasks may be; which, the card must say
    if large:
        index = active.index_L[: int(active.count)]
        active = ActiveTasks.all_of(index[layout.last_T[index] * 4 <= stragglers.MOST_POINTS])
    stragglers.descend(kernel, layout, descent, active, limits, options)
    if large:
        _step_active(kernel, layout, descent, limits, options)
    return descent.optima()


def _step_active(
    kernel: Kernel,
    layout: TaskLayout,
    descent: scoring_step.Descent,
    limits: Limits,
    options: scoring.ScoringOptions,
    most: float = math.inf,
) -> ActiveTasks:
    """Steps tasks until they have ended, or made so many; those that have not ended.

    The card is not waited for: it lists those that go on, and a step is launched for as many of them as there were one
    step before, a number that has come by then."""
    P, made, left, pending = limits.low_TP.shape[1], 0, len(layout), None
    workspace = likelihood.workspace(layout, P, True)
    active = descent.going(left)
    out = likelihood.empty_evaluations(
        min(layout.most(workspace), left), P, layout, True
    )  # of one launch after the other
    while left and made < most:
        for part in active.parts(layout, workspace):
            likelihood.launch(kernel, layout, part, descent.trial_TP, out)
            scoring_step.advance(descent, part, out, limits, options, layout.count_T)
        made += 1
        left = left if pending is None else pending.wait()
        active = descent.going(left)
        pending = _PendingCount(active.count)
    return active


class _PendingCount:
    """An integer that is being copied from a device."""

    def __init__(self, number: torch.Tensor) -> None:
        self._number = number.to("cpu", non_blocking=True)
        self._event = torch.cuda.current_stream(number.device).record_event() if number.is_cuda else None

    def wait(self) -> int:
        if self._event is not None:
            self._event.synchronize()
        return int(self._number)
