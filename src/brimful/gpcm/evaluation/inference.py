"""A trained model at work: what students will answer, and what they know.

Legend: B students, T steps of all students, Q questions, K categories, N slots, D value size.
"""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import nn

from ...core.base.errors import InputError
from ..data.students import Students, batch, flatten
from ..model.deep_gpcm import DeepGPCM, Output
from ..model.memory import states

STEPS = 65_536
"""Steps in a batch of inference, padding included."""


@dataclass(frozen=True, slots=True, eq=False)
class Predicted:
    """What the model said of every step before it saw the answer, in the order of the students' flat arrays."""

    probability_TK: Float[np.ndarray, "T K"]
    theta_T: Float[np.ndarray, " T"]
    alpha_T: Float[np.ndarray, " T"]
    beta_TH: Float[np.ndarray, "T H"]


@dataclass(frozen=True, slots=True, eq=False)
class Knowledge:
    """What one student knows over time: row 0 before the first answer, row t after t answers.

    Attributes:
        theta_TQ: the ability the model would read for each question if it came next.
        expected_TQ: the category it would expect, from 0 to K-1.
        theta_TN: the ability by slot (the model's own concepts): the mean over questions, by how much each is about the
            slot.
    """

    theta_TQ: Float[np.ndarray, "T Q"]
    expected_TQ: Float[np.ndarray, "T Q"]
    theta_TN: Float[np.ndarray, "T N"]


@contextlib.contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Without dropout and gradients; the model is left as it was."""
    before = model.training
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        model.train(before)


def predict_next(model: Any, students: Students, *, steps: int = STEPS, engine: str = "auto") -> Predicted:
    """What the model says of each step, from the steps before it.

    Args:
        model: a `DeepGPCM`, or what `quantize` makes of one.
        steps: of how many steps, padding included, a batch is at most; a longer sequence is a batch of its own.
    """
    check(model, students)
    device = next(iter(model.state_dict().values())).device
    K = students.categories
    found = Predicted(*(np.empty((students.steps, *more), np.float32) for more in ((K,), (), (), (K - 1,))))
    parts = (found.probability_TK, found.theta_T, found.alpha_T, found.beta_TH)
    with evaluating(model):
        for rows in batches(students.lengths, steps):
            tensors = {name: each.to(device) for name, each in batch(students, rows).items()}
            output: Output = model(**tensors, engine=engine)
            p_BSK = torch.softmax(output.logits_BSK, dim=-1)
            place = np.concatenate([np.arange(*students.offsets[row : row + 2]) for row in rows])
            wholes = (p_BSK, output.theta_BS, output.alpha_BS, output.beta_BSH)
            for whole, part in zip(wholes, parts, strict=True):
                part[place] = flatten(whole, tensors["length_B"]).float().cpu().numpy()
    return found


def predict_after(model: Any, students: Students, question: Any, *, steps: int = STEPS) -> Float[np.ndarray, "B K"]:
    """The probabilities of what each student would answer next.

    Args:
        question: the number of the question that comes next, one for all or one a student.
    """
    asked_B = np.broadcast_to(np.asarray(question, dtype=np.int32), (len(students),))
    at = students.offsets[1:]
    longer = Students(
        np.insert(students.question, at, asked_B).astype(np.int32),
        np.insert(students.response, at, 0).astype(np.int32),  # an answer is never seen by its own prediction
        students.offsets + np.arange(len(students) + 1),
        students.ids,
        students.questions,
        students.categories,
        students.scores,
    )
    return predict_next(model, longer, steps=steps).probability_TK[longer.offsets[1:] - 1]


def knowledge_state(model: DeepGPCM, student: Students) -> Knowledge:
    """What one student knows over time, for every question and every slot."""
    if len(student) != 1:
        raise InputError(f"{len(student)} students; the knowledge of one is asked for: students.select([3])")
    check(model, student)
    Q, K, device = model.config.questions, model.config.categories, model.value_memory.device
    question_1S, response_1S, length_1 = (each.to(device) for each in batch(student, [0]).values())
    thetas, expected = [], []
    with evaluating(model):
        items = model.items()
        row_1S, e_RD, a_RD = model.answers(question_1S, response_1S)
        M_TND = states(items.w_QN, e_RD, a_RD, model.value_memory, question_1S, row_1S, length_1)[0]
        w_QN, every_Q = items.w_QN[:Q], torch.arange(Q, device=device)
        for M_tND in M_TND.split(64):  # so many moments at once, since each has a read of every question
            output = model.predict(w_QN @ M_tND, items, every_Q.expand(len(M_tND), -1))
            thetas.append(output.theta_BS)
            p_tQK = torch.softmax(output.logits_BSK, dim=-1)
            expected.append(p_tQK @ torch.arange(K, dtype=p_tQK.dtype, device=device))
    theta_TQ = torch.cat(thetas)
    theta_TN = theta_TQ @ (w_QN / w_QN.sum(0).clamp(min=1e-12)).to(theta_TQ.dtype)
    return Knowledge(*(each.float().cpu().numpy() for each in (theta_TQ, torch.cat(expected), theta_TN)))


def batches(lengths: np.ndarray, steps: int) -> Iterator[np.ndarray]:
    """Sequences of like length together; those without steps are left out."""
    order = np.argsort(-lengths, kind="stable")
    order = order[lengths[order] > 0]
    start = 0
    while start < len(order):
        count = max(1, steps // int(lengths[order[start]]))
        yield order[start : start + count]
        start += count


def check(model: Any, students: Students) -> None:
    config = model.config
    if config.questions != len(students.questions) or config.categories != students.categories:
        raise InputError(
            f"the model is of {config.questions} questions and {config.categories} categories, the students' "
            f"vocabulary of {len(students.questions)} and {students.categories}; read them with like=the training "
            f"students"
        )
