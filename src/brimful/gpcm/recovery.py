"""Whether the model has found the parameters that synthetic data was drawn from.

Legend: B students, Q questions, H = K-1 thresholds, T steps of all students.

The model's alpha depends on the student's state too, so a question's is the mean over the training steps that ask it;
beta depends on the question alone. The scale of ability is the model's own: theta may be stretched and shifted if alpha
and beta follow. So parameters are compared by correlation, which does not mind, and, after linking (the model's
thresholds given the mean and spread of the true ones, alpha the inverse stretch, theta the same line), by their
distance. Abilities are those of test students, each against its own truth.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float

from ..errors import InputError
from .inference import STEPS, batches, check, evaluating, predict_next
from .memory import run
from .model import DeepGPCM
from .students import Students, batch
from .truth import Truth


@dataclass(frozen=True, slots=True, eq=False)
class Items:
    """The questions as the model sees them; NaN for one that the students were never asked."""

    alpha_Q: Float[np.ndarray, " Q"]
    beta_QH: Float[np.ndarray, "Q H"]
    count_Q: np.ndarray


@dataclass(frozen=True, slots=True, eq=False)
class Recovery:
    """How near the truth the model has come.

    Attributes:
        alpha_r, beta_r, theta_r: correlations; beta over all thresholds together.
        beta_each_H: the correlation of each threshold by itself.
        alpha_rmse, beta_rmse, theta_rmse: root mean squared distances, after linking.
        slope, shift: of the link: true = slope * model + shift, on the scale of ability.
        questions, students: how many were compared.
    """

    alpha_r: float
    beta_r: float
    theta_r: float
    beta_each_H: np.ndarray
    alpha_rmse: float
    beta_rmse: float
    theta_rmse: float
    slope: float
    shift: float
    questions: int
    students: int


def items(model: Any, students: Students, **options: Any) -> Items:
    """The parameters of the questions, as means over the steps that ask them (the training students')."""
    found = predict_next(model, students, **options)
    Q = len(students.questions)
    known = students.question < Q
    question_T = students.question[known]
    count_Q = np.bincount(question_T, minlength=Q)
    with np.errstate(invalid="ignore"):
        alpha_Q = np.bincount(question_T, weights=found.alpha_T[known], minlength=Q) / count_Q
        columns = [np.bincount(question_T, weights=each, minlength=Q) / count_Q for each in found.beta_TH[known].T]
    return Items(alpha_Q, np.stack(columns, axis=1), count_Q)


def abilities(model: DeepGPCM, students: Students, *, steps: int = STEPS) -> Float[np.ndarray, " B"]:
    """The ability of each student after its last answer; NaN for one without answers.

    The model reads ability through the question that is asked, so that what it reads at one step has much of the
    question in it. Here every question is asked of the memory at the end, and the mean over all of them is taken.
    """
    check(model, students)
    Q, device = model.config.questions, model.value_memory.device
    theta_B = np.full(len(students), np.nan)
    with evaluating(model):
        items, every_Q = model.items(), torch.arange(Q, device=device)
        for rows in batches(np.where(students.lengths, np.maximum(students.lengths, Q), 0), steps):
            question_BS, response_BS, length_B = (each.to(device) for each in batch(students, rows).values())
            real_BS = question_BS >= 0
            question_BS, response_BS = torch.where(real_BS, question_BS, 0), torch.where(real_BS, response_BS, 0)
            row_BS, e_RD, a_RD = model.answers(question_BS, response_BS)
            _, M_BND = run(items.w_QN, e_RD, a_RD, model.value_memory, question_BS, row_BS, length_B)
            output = model.predict(items.w_QN[:Q] @ M_BND, items, every_Q.expand(len(rows), -1))
            theta_B[rows] = output.theta_BS.mean(1).double().cpu().numpy()
    return theta_B


def recovery(found: Items, theta_B: np.ndarray, test: Students, truth: Truth) -> Recovery:
    """Compares what was found with the truth.

    Args:
        found: the questions, from `items` on the training students.
        theta_B: the abilities of the test students, from `abilities`.
        test: those students; the truth of each is found by its name.
        truth: what they were drawn from.
    """
    if found.beta_QH.shape != truth.beta_QH.shape or len(theta_B) != len(test):
        raise InputError(
            f"found thresholds of shape {found.beta_QH.shape} and {len(theta_B)} abilities; the truth has "
            f"{truth.beta_QH.shape}, and there are {len(test)} test students"
        )
    asked = found.count_Q > 0
    beta, true_beta = found.beta_QH[asked], truth.beta_QH[asked]
    alpha, true_alpha = found.alpha_Q[asked], truth.alpha_Q[asked]
    true_theta = truth.theta(test.ids)
    there = np.isfinite(theta_B) & np.isfinite(true_theta)
    theta, true_theta = theta_B[there], true_theta[there]
    slope, shift = link(beta, true_beta)
    return Recovery(
        correlation(alpha, true_alpha),
        correlation(beta, true_beta),
        correlation(theta, true_theta),
        np.array([correlation(beta[:, each], true_beta[:, each]) for each in range(beta.shape[1])]),
        _rmse(alpha / slope, true_alpha),
        _rmse(slope * beta + shift, true_beta),
        _rmse(slope * theta + shift, true_theta),
        slope,
        shift,
        int(asked.sum()),
        int(there.sum()),
    )


def link(found: np.ndarray, true: np.ndarray) -> tuple[float, float]:
    """Mean/sigma linking: the line that gives the found thresholds the mean and the spread of the true ones."""
    if found.size < 2 or not found.std() > 0:
        return float("nan"), float("nan")
    slope = float(true.std() / found.std())
    return slope, float(true.mean() - slope * found.mean())


def correlation(first: np.ndarray, second: np.ndarray) -> float:
    """Pearson's correlation; NaN where it cannot be said."""
    first, second = first.reshape(-1) - first.mean() if first.size else first, second.reshape(-1)
    if first.size < 2:
        return float("nan")
    second = second - second.mean()
    below = float(np.sqrt((first @ first) * (second @ second)))
    return float(first @ second) / below if below > 0 else float("nan")


def _rmse(found: np.ndarray, true: np.ndarray) -> float:
    return float(np.sqrt(np.mean((found - true) ** 2))) if found.size else float("nan")
