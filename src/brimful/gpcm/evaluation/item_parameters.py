"""The questions and the students as the model sees them, on one scale of ability.

Legend: B students, T steps of all, Q questions, H = K-1 thresholds.

The heads give each step a theta, an alpha and thresholds, and only what they make together is determined by data: the
model reads ability through the question that is asked, so theta has something of the question in it, and alpha
something of the student. To compare questions, every question is asked of the memories that students have at their end.
The ability of a student is the mean over all questions of what is read; and a question's parameters are those of the
partial credit model nearest to the model's predictions, as a function of that ability:

    logit of category h+1 against h  ~  alpha (ability - beta_h)        by least squares, one alpha for all h
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float

from ...core.base.errors import ConfigError
from ..data.students import Students, batch
from ..model.deep_gpcm import DeepGPCM, Output
from ..model.memory import run
from .inference import STEPS, batches, check, evaluating, predict_next

BY = ("common", "heads")
STUDENTS = 1000
"""Students whose memories are asked, at most."""


@dataclass(frozen=True, slots=True, eq=False)
class Items:
    """The questions as the model sees them; NaN for one that the students were never asked."""

    alpha_Q: Float[np.ndarray, " Q"]
    beta_QH: Float[np.ndarray, "Q H"]
    count_Q: np.ndarray


def items(model: DeepGPCM, students: Students, by: str = "common", *, steps: int = STEPS) -> Items:
    """The parameters of the questions that some students (the training students) were asked.

    Args:
        by: "common" as above; "heads" the means of what the heads give, over the steps that ask a question.
        steps: how much is computed at once.
    """
    if by not in BY:
        raise ConfigError(f"items by {by!r}; choose one of {', '.join(BY)}")
    Q = len(students.questions)
    count_Q = np.bincount(students.question, minlength=Q + 1)[:Q]
    alpha_Q, beta_QH = (_common if by == "common" else _heads)(model, students, steps)
    never_Q = count_Q == 0
    return Items(np.where(never_Q, np.nan, alpha_Q), np.where(never_Q[:, None], np.nan, beta_QH), count_Q)


def abilities(model: DeepGPCM, students: Students, *, steps: int = STEPS) -> Float[np.ndarray, " B"]:
    """The ability of each student after its last answer; NaN for one without answers."""
    check(model, students)
    theta_B = np.full(len(students), np.nan)
    for rows, output in _asked(model, students, steps):
        theta_B[rows] = output.theta_BS.mean(1).double().cpu().numpy()
    return theta_B


def _common(model: DeepGPCM, students: Students, steps: int) -> tuple[np.ndarray, np.ndarray]:
    check(model, students)
    there = np.flatnonzero(students.lengths)
    some = students.select(there[np.unique(np.linspace(0, len(there) - 1, min(STUDENTS, len(there))).astype(int))])
    Q, H = model.config.questions, model.config.categories - 1
    # Sums over students, from which the regression follows: of ability, its square, the logits, and both together.
    count, theta, square = 0, 0.0, 0.0
    logit_QH, both_QH = np.zeros((Q, H)), np.zeros((Q, H))
    for _, output in _asked(model, some, steps):
        theta_B = output.theta_BS.double().mean(1)
        logit_BQH = (output.alpha_BS[..., None] * (output.theta_BS[..., None] - output.beta_BSH)).double()
        count += len(theta_B)
        theta, square = theta + float(theta_B.sum()), square + float(theta_B.square().sum())
        logit_QH += logit_BQH.sum(0).cpu().numpy()
        both_QH += torch.einsum("b,bqh->qh", theta_B, logit_BQH).cpu().numpy()
    mean, spread = theta / max(count, 1), square - theta**2 / max(count, 1)
    if not count or not spread > 0:
        return _heads(model, students, steps)
    alpha_Q = (both_QH - mean * logit_QH).mean(1) / spread
    with np.errstate(divide="ignore", invalid="ignore"):
        return alpha_Q, mean - logit_QH / count / alpha_Q[:, None]


def _heads(model: DeepGPCM, students: Students, steps: int) -> tuple[np.ndarray, np.ndarray]:
    found = predict_next(model, students, steps=steps)
    Q = len(students.questions)
    known = students.question < Q
    question_T = students.question[known]
    count_Q = np.bincount(question_T, minlength=Q)
    with np.errstate(invalid="ignore"):
        columns = [
            np.bincount(question_T, weights=each[known], minlength=Q) / count_Q
            for each in (found.alpha_T, *found.beta_TH.T)
        ]
    return columns[0], np.stack(columns[1:], axis=1)


def _asked(model: DeepGPCM, students: Students, steps: int) -> Iterator[tuple[np.ndarray, Output]]:
    """Every question asked of the memory that each student has at the end; those without answers are left out."""
    Q, device = model.config.questions, model.value_memory.device
    with evaluating(model):
        items, every_Q = model.items(), torch.arange(Q, device=device)
        for rows in batches(np.where(students.lengths, np.maximum(students.lengths, Q), 0), steps):
            question_BS, response_BS, length_B = (each.to(device) for each in batch(students, rows).values())
            real_BS = question_BS >= 0
            question_BS, response_BS = torch.where(real_BS, question_BS, 0), torch.where(real_BS, response_BS, 0)
            row_BS, e_RD, a_RD = model.answers(question_BS, response_BS)
            _, M_BND = run(items.w_QN, e_RD, a_RD, model.value_memory, question_BS, row_BS, length_B)
            yield rows, model.predict(items.w_QN[:Q] @ M_BND, items, every_Q.expand(len(rows), -1))
