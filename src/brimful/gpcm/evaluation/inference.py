"""Inference with a trained model: what students will answer, and what they know.

Legend: B students, T steps of all students, Q questions, K categories, H = K-1 thresholds, N slots, D value size.
"""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from jaxtyping import Float
from torch import nn

from ...core.base.errors import InputError
from ...core.base.formatting import plural
from ..data.students import Students, batch, flatten
from ..model.deep_gpcm import DeepGPCM, ModelOutput
from ..model.memory import states
from .metrics import OrdinalScores, predict_categories, score

STEPS = 65_536
"""Steps in a batch of inference, padding included."""


@dataclass(frozen=True, slots=True, eq=False)
class Predictions:
    """The prediction of every answer from those before it, in the order of the students' flat arrays."""

    students: Students
    probability_TK: Float[np.ndarray, "T K"]
    theta_T: Float[np.ndarray, " T"]
    alpha_T: Float[np.ndarray, " T"]
    beta_TH: Float[np.ndarray, "T H"]

    def __repr__(self) -> str:
        answers = f"{plural(self.students.steps, 'answer')} of {plural(self.students.distinct, 'student')}"
        return f"Predictions({answers}, {self.probability_TK.shape[1]} categories)"

    def scores(self, predict_by: str = "argmax") -> OrdinalScores:
        """The metrics of these predictions."""
        return score(self.probability_TK, self.students.response, predict_by)

    def table(self, predict_by: str = "argmax") -> pa.Table:
        """One row per answer; see `GPCMResult.predict`."""
        students = self.students
        step = np.arange(students.steps) - np.repeat(students.offsets[:-1], students.lengths) + 1
        return pa.table(
            {
                "student": pa.array(np.repeat(students.ids, students.lengths).tolist(), pa.string()),
                "step": step,
                "question": pa.array(students.names.tolist(), pa.string()),
                "known": students.question < len(students.questions),
                "response": students.response,
                "theta": self.theta_T,
                "alpha": self.alpha_T,
                **columns("beta", self.beta_TH, 1),
                **probability_columns(self.probability_TK, predict_by),
            }
        )


@dataclass(frozen=True, slots=True, eq=False)
class Knowledge:
    """What one student knows over time: row 0 before the first answer, row t after t answers.

    Attributes:
        theta_TQ: the ability the model would read for each question if it came next.
        expected_TQ: the category it would expect, from 0 to K-1.
        theta_TN: the ability by slot (the model's own concepts): the mean over questions, weighted by their attention
            to the slot.
    """

    theta_TQ: Float[np.ndarray, "T Q"]
    expected_TQ: Float[np.ndarray, "T Q"]
    theta_TN: Float[np.ndarray, "T N"]


@contextlib.contextmanager
def evaluation_mode(model: nn.Module) -> Iterator[None]:
    """Without dropout and gradients; the model's mode is restored."""
    before = model.training
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        model.train(before)


def predict_next(model: Any, students: Students, *, steps: int = STEPS, engine: str = "auto") -> Predictions:
    """Predicts each step from the steps before it.

    Args:
        model: a `DeepGPCM`, or what `quantize` makes of one.
        steps: the most steps of a batch, padding included; a longer sequence is a batch of its own.
    """
    check_vocabulary(model, students)
    device = next(iter(model.state_dict().values())).device
    K = students.categories
    arrays = [np.empty((students.steps, *shape), np.float32) for shape in ((K,), (), (), (K - 1,))]
    with evaluation_mode(model):
        for rows in length_batches(students.lengths, steps):
            tensors = {name: tensor.to(device) for name, tensor in batch(students, rows).items()}
            output: ModelOutput = model(**tensors, engine=engine)
            p_BSK = torch.softmax(output.logits_BSK, dim=-1)
            index = np.concatenate([np.arange(*students.offsets[row : row + 2]) for row in rows])
            padded = (p_BSK, output.theta_BS, output.alpha_BS, output.beta_BSH)
            for array, values in zip(arrays, padded, strict=True):
                array[index] = flatten(values, tensors["length_B"]).float().cpu().numpy()
    return Predictions(students, *arrays)


def predict_after(model: Any, students: Students, question: Any, *, steps: int = STEPS) -> Float[np.ndarray, "B K"]:
    """The probabilities of each student's next answer.

    Args:
        question: the number of the question that comes next, one for all or one per student.
    """
    question_B = np.broadcast_to(np.asarray(question, dtype=np.int32), (len(students),))
    ends = students.offsets[1:]
    longer = replace(
        students,
        asked=None,
        question=np.insert(students.question, ends, question_B).astype(np.int32),
        response=np.insert(students.response, ends, 0).astype(np.int32),  # not seen by its own prediction
        offsets=students.offsets + np.arange(len(students) + 1),
    )
    return predict_next(model, longer, steps=steps).probability_TK[longer.offsets[1:] - 1]


def knowledge_state(model: DeepGPCM, student: Students) -> Knowledge:
    """What one student knows over time, for every question and every slot."""
    if len(student) != 1:
        raise InputError(f"{len(student)} students; give one: students.select([3])")
    check_vocabulary(model, student)
    Q, K, device = model.config.questions, model.config.categories, model.value_memory.device
    question_1S, response_1S, length_1 = (tensor.to(device) for tensor in batch(student, [0]).values())
    thetas, expected = [], []
    with evaluation_mode(model):
        tables = model.question_tables()
        row_1S, e_RD, a_RD = model.answers(question_1S, response_1S)
        M_TND = states(tables.w_QN, e_RD, a_RD, model.value_memory, question_1S, row_1S, length_1)[0]
        w_QN, question_Q = tables.w_QN[:Q], torch.arange(Q, device=device)
        for M_tND in M_TND.split(64):  # a few moments at a time, since each has a read of every question
            output = model.predict(w_QN @ M_tND, tables, question_Q.expand(len(M_tND), -1))
            thetas.append(output.theta_BS)
            p_tQK = torch.softmax(output.logits_BSK, dim=-1)
            expected.append(p_tQK @ torch.arange(K, dtype=p_tQK.dtype, device=device))
    theta_TQ = torch.cat(thetas)
    theta_TN = theta_TQ @ (w_QN / w_QN.sum(0).clamp(min=1e-12)).to(theta_TQ.dtype)
    return Knowledge(*(values.float().cpu().numpy() for values in (theta_TQ, torch.cat(expected), theta_TN)))


def columns(name: str, values: np.ndarray, first: int = 0) -> dict[str, np.ndarray]:
    """The columns of a matrix as those of a table, numbered from `first`."""
    return {f"{name}_{number}": np.ascontiguousarray(column) for number, column in enumerate(values.T, first)}


def probability_columns(p_TK: np.ndarray, predict_by: str) -> dict[str, np.ndarray]:
    """The predicted category, the expected one, and the probability of each."""
    return {
        "predicted": predict_categories(p_TK, predict_by),
        "expected": p_TK @ np.arange(p_TK.shape[1], dtype=p_TK.dtype),
        **columns("p", p_TK),
    }


def length_batches(lengths: np.ndarray, steps: int) -> Iterator[np.ndarray]:
    """Batches of sequences of similar length; those without steps are left out."""
    order = np.argsort(-lengths, kind="stable")
    order = order[lengths[order] > 0]
    start = 0
    while start < len(order):
        count = max(1, steps // int(lengths[order[start]]))
        yield order[start : start + count]
        start += count


def check_vocabulary(model: Any, students: Students) -> None:
    config = model.config
    if config.questions != len(students.questions) or config.categories != students.categories:
        raise InputError(
            f"the model has {config.questions} questions and {config.categories} categories, the students' vocabulary "
            f"{len(students.questions)} and {students.categories}; read them with like=the training students"
        )
