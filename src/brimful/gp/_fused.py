"""Fitting on a GPU: the loop of scoring.py, each step two kernels over the tasks that are still going.

The first evaluates (`_kernels.py`), the second judges and makes the next trial (`_advance.py`); all else is a list of
tasks that grows shorter.
"""

from dataclasses import fields

import torch

from . import _advance, _kernels, _survey, scoring
from ._lay import Laid, last, lay
from .kernels import Kernel
from .priors import Limits
from .tasks import Tasks

_FEW = 1 << 12  # tasks that a card steps in the time of one
_BLINDLY = 4  # steps of so few between two looks at which of them are done: a look is a third of a step


def fit(
    kernel: Kernel, tasks: Tasks, limits: Limits, rules: scoring.Rules, starts: scoring.Starts | None = None
) -> scoring.Fitted:
    """Fits every task, from the starts given, or else from the hollows of the grid of first guesses."""
    last_T = last(tasks)
    if starts is not None or len(tasks) == 0 or bool(last_T.min() == last_T.max()):
        return _fit(kernel, lay(tasks), limits, rules, starts)
    order = torch.argsort(last_T, stable=True)  # lanes that work side by side have as many points as each other
    found = _fit(kernel, lay(tasks).pick(order), limits.pick(order), rules, None)
    back = torch.argsort(order)
    return scoring.Fitted(*(getattr(found, each.name)[back] for each in fields(found)))


def _fit(
    kernel: Kernel, laid: Laid, limits: Limits, rules: scoring.Rules, starts: scoring.Starts | None
) -> scoring.Fitted:
    room = _kernels.room(laid, limits.low_TP.shape[1], True)
    laid.rounds(len(laid), room)  # first what takes the most memory
    begin = starts or _survey.survey(kernel, laid, limits, rules)
    descent = _advance.begin(begin, limits, laid.regressors)
    active = torch.nonzero(descent.going_T)[:, 0].int()
    while len(active):
        for _ in range(1 if len(active) > _FEW else _BLINDLY):
            for some in active.split(laid.at_once(room)):
                evaluated = _kernels.launch(kernel, laid, some, descent.trial_TP[some], True)
                _advance.advance(descent, some, evaluated, limits, rules, laid.count_T)
        active = active[descent.going_T[active] != 0]
    best_T3 = descent.best_T3
    return scoring.Fitted(
        descent.best_TP, best_T3[:, 1], descent.iterations_T.long(), best_T3[:, 2], descent.ending_T.long(),
        descent.best_TQ,
    )  # fmt: skip
