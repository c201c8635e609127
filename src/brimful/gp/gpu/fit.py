"""Fitting on a GPU: the loop of scoring.py, each step two kernels over the tasks that are still going.

The first evaluates (`_kernels.py`), the second judges and makes the next trial (`_advance.py`); all else is a list of
tasks that grows shorter. The few that need many steps make the rest of them in one go (`_late.py`).
"""

import math

import torch

from ..model.kernels import Kernel
from ..model.priors import Limits
from ..model.tasks import Tasks
from ..optimize import scoring
from . import grid_search, likelihood, scoring_step, stragglers
from .layout import Laid, lay
from .likelihood import Some

_INDEXED = 2**31 - 1  # numbers of all tasks along one dimension of the inputs, and of all of them
_SOON = 8  # steps by many at once, for each parameter: few tasks need more
_GIVEN = 3  # the same in all, where starts are given: most tasks need none


def fit(
    kernel: Kernel, tasks: Tasks, limits: Limits, rules: scoring.Rules, starts: scoring.Starts | None = None
) -> scoring.Fitted:
    """Fits every task, from the starts given, or else from the hollows of the grid of first guesses."""
    most = max(1, _INDEXED // (tasks.x_TND.shape[2] * (tasks.x_TND.shape[1] + 4)))
    if len(tasks) == 0 or len(tasks) > most:
        return _in_parts(kernel, tasks, limits, rules, starts, most)
    laid = lay(tasks, seldom=starts is not None)
    if starts is not None or bool(laid.last_T.min() == laid.last_T.max()):
        return _fit(kernel, laid, limits, rules, starts)
    order = torch.argsort(laid.last_T, stable=True)  # lanes that work side by side have as many points as each other
    laid = laid.pick(order)
    found = _fit(kernel, laid, limits.pick(order), rules, None)
    return found.pick(torch.argsort(order))


def _in_parts(
    kernel: Kernel, tasks: Tasks, limits: Limits, rules: scoring.Rules, starts: scoring.Starts | None, most: int
) -> scoring.Fitted:
    """More tasks than a kernel's whole numbers can tell apart, or none."""
    if len(tasks) == 0:
        P, like = limits.low_TP.shape[1], {"dtype": torch.float64, "device": tasks.y_TN.device}
        whole = torch.zeros(0, dtype=torch.int64, device=tasks.y_TN.device)
        number = torch.zeros(0, **like)
        return scoring.Fitted(
            torch.zeros(0, P, **like), number, whole, number, whole, torch.zeros(0, tasks.coefficients, **like)
        )
    parts = []
    for index in torch.arange(len(tasks), device=tasks.y_TN.device).split(most):
        begin = None if starts is None else (starts[0][index], starts[1][index])
        parts.append(fit(kernel, tasks.pick(index), limits.pick(index), rules, begin))
    return scoring.Fitted.joined(parts)


def _fit(
    kernel: Kernel, laid: Laid, limits: Limits, rules: scoring.Rules, starts: scoring.Starts | None
) -> scoring.Fitted:
    laid.reserve(len(laid), likelihood.room(laid, limits.low_TP.shape[1], True))  # first what takes the most memory
    begin = starts or grid_search.survey(kernel, laid, limits, rules)
    descent = scoring_step.begin(begin, limits, laid.regressors)
    some = _follow(kernel, laid, descent, limits, rules, _GIVEN if starts else _SOON * limits.low_TP.shape[1])
    large = len(laid.y_NT) > stragglers.MOST_POINTS  # some tasks may be; which, the card must say
    if large:
        index = some.index_L[: int(some.count)]
        some = Some.listed(index[laid.last_T[index] * 4 <= stragglers.MOST_POINTS])
    stragglers.descend(kernel, laid, descent, some, limits, rules)
    if large:
        _follow(kernel, laid, descent, limits, rules)
    best_T3 = descent.best_T3
    return scoring.Fitted(
        descent.best_TP, best_T3[:, 1], descent.iterations_T.long(), best_T3[:, 2], descent.ending_T.long(),
        descent.best_TQ,
    )  # fmt: skip


def _follow(
    kernel: Kernel,
    laid: Laid,
    descent: scoring_step.Descent,
    limits: Limits,
    rules: scoring.Rules,
    most: float = math.inf,
) -> Some:
    """Steps tasks until they have ended, or made so many; those that have not ended.

    The card is not waited for: it lists those that go on, and a step is launched for as many of them as there were one
    step before, a number that has come by then."""
    P, made, left, coming = limits.low_TP.shape[1], 0, len(laid), None
    room = likelihood.room(laid, P, True)
    some = descent.going(left)
    out = likelihood.unwritten(min(laid.most(room), left), P, laid, True)  # of one launch after the other
    while left and made < most:
        for part in some.parts(laid, room):
            likelihood.derive(kernel, laid, part, descent.trial_TP, out)
            scoring_step.advance(descent, part, out, limits, rules, laid.count_T)
        made += 1
        left = left if coming is None else coming.wait()
        some = descent.going(left)
        coming = _Coming(some.count)
    return some


class _Coming:
    """A whole number on its way from a device."""

    def __init__(self, number: torch.Tensor) -> None:
        self._number = number.to("cpu", non_blocking=True)
        self._event = torch.cuda.current_stream(number.device).record_event() if number.is_cuda else None

    def wait(self) -> int:
        if self._event is not None:
            self._event.synchronize()
        return int(self._number)
