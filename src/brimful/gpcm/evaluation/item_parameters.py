"""The parameters of questions and students on a common scale of ability.

Legend: B students, T steps of all, Q questions, H = K-1 thresholds.

The heads give each step a theta, an alpha and thresholds, and data determine them only together: ability is read
through the question that is asked, so theta depends on the question too, and alpha on the student. To compare
questions, every question is put to the final memory of each student. The ability of a student is the mean of theta over
all questions; a question's parameters are those of the partial credit model nearest to the model's predictions, as a
function of that ability:

    logit of category h+1 against h  ~  alpha (ability - beta_h)        by least squares, one alpha for all h
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float

from ...core.base.errors import ConfigError
from ..data.students import Students, batch
from ..model.deep_gpcm import DeepGPCM, ModelOutput
from ..model.memory import run
from .inference import STEPS, check_vocabulary, evaluation_mode, length_batches, predict_next

BY = ("common", "heads")
STUDENTS = 1000
"""The most students whose memories are used."""


@dataclass(frozen=True, slots=True, eq=False)
class ItemParameters:
    """The parameters of the questions; NaN for one that the students were never asked."""

    alpha_Q: Float[np.ndarray, " Q"]
    beta_QH: Float[np.ndarray, "Q H"]
    count_Q: np.ndarray


def item_parameters(model: DeepGPCM, students: Students, by: str = "common", *, steps: int = STEPS) -> ItemParameters:
    """The parameters of the questions that some students (the training students) were asked.

    Args:
        by: "common" as above; "heads" the means of the heads' outputs over the steps that ask a question.
        steps: the most steps of a batch.
    """
    if by not in BY:
        raise ConfigError(f"item parameters by {by!r}; choose one of {', '.join(BY)}")
    Q = len(students.questions)
    count_Q = np.bincount(students.question, minlength=Q + 1)[:Q]
    alpha_Q, beta_QH = (_common if by == "common" else _heads)(model, students, steps)
    never_Q = count_Q == 0
    return ItemParameters(np.where(never_Q, np.nan, alpha_Q), np.where(never_Q[:, None], np.nan, beta_QH), count_Q)


def abilities(model: DeepGPCM, students: Students, *, steps: int = STEPS) -> Float[np.ndarray, " B"]:
    """The ability of each student after its last answer; NaN for one without answers."""
    theta_B = np.full(len(students), np.nan)
    for rows, output in _ask_all(model, students, steps):
        theta_B[rows] = output.theta_BS.mean(1).double().cpu().numpy()
    return theta_B


def _common(model: DeepGPCM, students: Students, steps: int) -> tuple[np.ndarray, np.ndarray]:
    rows = np.flatnonzero(students.lengths)
    sample = students.select(rows[np.unique(np.linspace(0, len(rows) - 1, min(STUDENTS, len(rows))).astype(int))])
    Q, H = model.config.questions, model.config.categories - 1
    # Sums over students, from which the regression follows: of ability, its square, the logits, and the products.
    count, theta, square = 0, 0.0, 0.0
    logit_QH, product_QH = np.zeros((Q, H)), np.zeros((Q, H))
    for _, output in _ask_all(model, sample, steps):
        theta_B = output.theta_BS.double().mean(1)
        logit_BQH = (output.alpha_BS[..., None] * (output.theta_BS[..., None] - output.beta_BSH)).double()
        count += len(theta_B)
        theta, square = theta + float(theta_B.sum()), square + float(theta_B.square().sum())
        logit_QH += logit_BQH.sum(0).cpu().numpy()
        product_QH += torch.einsum("b,bqh->qh", theta_B, logit_BQH).cpu().numpy()
    mean, variation = theta / max(count, 1), square - theta**2 / max(count, 1)
    if not count or not variation > 0:
        return _heads(model, students, steps)
    alpha_Q = (product_QH - mean * logit_QH).mean(1) / variation
    with np.errstate(divide="ignore", invalid="ignore"):
        return alpha_Q, mean - logit_QH / count / alpha_Q[:, None]


def _heads(model: DeepGPCM, students: Students, steps: int) -> tuple[np.ndarray, np.ndarray]:
    predictions = predict_next(model, students, steps=steps)
    Q = len(students.questions)
    known = students.question < Q
    question_T = students.question[known]
    count_Q = np.bincount(question_T, minlength=Q)
    with np.errstate(invalid="ignore"):
        columns = [
            np.bincount(question_T, weights=values_T[known], minlength=Q) / count_Q
            for values_T in (predictions.alpha_T, *predictions.beta_TH.T)
        ]
    return columns[0], np.stack(columns[1:], axis=1)


def _ask_all(model: DeepGPCM, students: Students, steps: int) -> Iterator[tuple[np.ndarray, ModelOutput]]:
    """Every question put to each student's final memory; students without answers are left out."""
    check_vocabulary(model, students)
    Q, device = model.config.questions, model.value_memory.device
    with evaluation_mode(model):
        tables, question_Q = model.question_tables(), torch.arange(Q, device=device)
        for rows in length_batches(np.where(students.lengths, np.maximum(students.lengths, Q), 0), steps):
            padded_BS, answers_BS, length_B = (tensor.to(device) for tensor in batch(students, rows).values())
            question_BS, response_BS, _ = model.prepare(padded_BS, answers_BS, length_B, None)
            row_BS, e_RD, a_RD = model.answers(question_BS, response_BS)
            _, M_BND = run(tables.w_QN, e_RD, a_RD, model.value_memory, question_BS, row_BS, length_B)
            yield rows, model.predict(tables.w_QN[:Q] @ M_BND, tables, question_Q.expand(len(rows), -1))
