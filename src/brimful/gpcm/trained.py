"""What training gives: a model with the vocabulary it was trained on, how it went, and how good it is.

Legend: B students, T steps of all, Q questions, K categories.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from jaxtyping import Float

from ..errors import InputError
from . import data
from .inference import Knowledge, Predicted, knowledge_state, predict_after, predict_next
from .items import Items
from .metrics import Scores, predicted, score
from .model import DeepGPCM
from .quantize import Quantized, quantize
from .recovery import Recovery
from .students import Students
from .truth import Truth


@dataclass(frozen=True, slots=True, eq=False)
class Held:
    """Students that training did not see, and what the model said of each of their answers before it saw it."""

    students: Students
    probability_TK: Float[np.ndarray, "T K"]
    theta_T: Float[np.ndarray, " T"]
    alpha_T: Float[np.ndarray, " T"]

    @classmethod
    def of(cls, students: Students, found: Predicted) -> "Held":
        return cls(students, found.probability_TK, found.theta_T, found.alpha_T)

    def table(self, predict_by: str) -> pa.Table:
        """As a table, a row an answer: see `Trained.predict`."""
        students = self.students
        names = np.append(students.questions, "")
        step = np.arange(students.steps) - np.repeat(students.offsets[:-1], students.lengths) + 1
        return pa.table(
            {
                "student": pa.array(np.repeat(students.ids, students.lengths).tolist(), pa.string()),
                "step": step,
                "question": pa.array(names[students.question].tolist(), pa.string()),
                "known": students.question < len(students.questions),
                "response": students.response,
                "theta": self.theta_T,
                "alpha": self.alpha_T,
                **_probabilities(self.probability_TK, predict_by),
            }
        )


@dataclass(frozen=True, slots=True, eq=False)
class Rounded:
    """The model with 8-bit weights, and what they cost.

    Attributes:
        model: to be called like the other.
        bytes: of its weights.
        lost_qwk: the quadratic weighted kappa of the full model less its own, on the held-out students.
    """

    model: Quantized
    bytes: int
    lost_qwk: float


@dataclass(frozen=True, slots=True, eq=False)
class Trained:
    """A trained model.

    Attributes:
        model: with the weights of the best epoch on the validation students.
        train: students without steps, that carry the vocabulary and the categories.
        items: the questions as the model sees them, over the training students.
        scores: on the held-out students.
        held: those students and the predictions, which the pictures are drawn from.
        history: one dict an epoch (`epoch` is from 1): losses, and scores on the validation students.
        best: the place in the history of the epoch that was chosen, by the validation students alone.
        settings: the options of the training.
        recovery: for synthetic data, how near the truth it has come.
        truth: that truth.
        rounded: the model with 8-bit weights, where it was asked for.
        predict_by: how a category is made of probabilities, see `metrics.score`.
        seconds: what the training took.
    """

    model: DeepGPCM
    train: Students
    items: Items
    scores: Scores
    held: Held
    history: Sequence[dict[str, Any]] = ()
    best: int = 0
    settings: dict[str, Any] = field(default_factory=dict)
    recovery: Recovery | None = None
    truth: Truth | None = None
    rounded: Rounded | None = None
    predict_by: str = "argmax"
    seconds: float = 0.0

    def read(self, source: Any, **options: Any) -> Students:
        """Students of a file or table, in the model's vocabulary. A question that training never asked is the unknown
        one, a category that the model does not have is an error. Options are those of `data.read`."""
        found = source if isinstance(source, Students) else data.read(source, like=self.train, **options)
        if found.categories != self.train.categories or not np.array_equal(found.questions, self.train.questions):
            raise InputError(
                f"these students have {len(found.questions)} questions and {found.categories} categories of their own; "
                f"read them with read(...) of the trained model"
            )
        return unlearned(found, self.items)

    def predict(self, source: Any, **options: Any) -> pa.Table:
        """What the model says of each answer, from those before it: a row an answer, in the order of the students.

        Returns:
            student, step (from 1), question, known (whether training asked it), response, predicted (the category),
            expected (the mean category), theta, alpha, and p_0, p_1, ... of each category.
        """
        students = self.read(source, **options)
        return Held.of(students, predict_next(self.model, students)).table(self.predict_by)

    def predict_question(self, source: Any, question: str, **options: Any) -> pa.Table:
        """What each student would answer to a question now, after all of its answers: a row a student."""
        students = self.read(source, **options)
        place = np.flatnonzero(self.train.questions == str(question))
        if not len(place):
            raise InputError(f"training knew no question {question!r}; the vocabulary begins with {_some(self.train)}")
        p_BK = predict_after(self.model, students, int(place[0]))
        return pa.table(
            {
                "student": pa.array(students.ids.tolist(), pa.string()),
                "steps": students.lengths,
                "question": pa.array([str(question)] * len(students), pa.string()),
                **_probabilities(p_BK, self.predict_by),
            }
        )

    def knowledge(self, source: Any, student: str | int = 0, **options: Any) -> Knowledge:
        """What one student knows over time; the student by name, or by place."""
        students = self.read(source, **options)
        places = np.flatnonzero(students.ids == student) if isinstance(student, str) else np.array([student])
        if not len(places) or not 0 <= places[0] < len(students):
            raise InputError(f"there is no student {student!r} among these {len(students)}; {_some_ids(students)}")
        return knowledge_state(self.model, students.select(places[:1]))

    def score(self, source: Any, **options: Any) -> Scores:
        """How good the model is on other students."""
        students = self.read(source, **options)
        return score(predict_next(self.model, students).probability_TK, students.response, self.predict_by)

    def report(self, folder: str | Path) -> list[Path]:
        """Draws the pictures into a folder."""
        from .report import draw

        path = Path(folder)
        path.mkdir(parents=True, exist_ok=True)
        return draw(self, path)

    def save(self, folder: str | Path) -> Path:
        """Writes all of it, so that `load` and the commands work without the original data."""
        from .store import write

        return write(Path(folder), self)

    def item_table(self) -> pa.Table:
        """The questions: how often training asked each, its discrimination and its thresholds."""
        thresholds = {f"beta_{place + 1}": each for place, each in enumerate(self.items.beta_QH.T)}
        return pa.table(
            {
                "question": pa.array(self.train.questions.tolist(), pa.string()),
                "asked": self.items.count_Q,
                "alpha": self.items.alpha_Q,
                **thresholds,
            }
        )

    def __str__(self) -> str:
        config = self.model.config
        return f"gpcm of {config.questions} questions and {config.categories} categories: {self.scores}"


def vocabulary(students: Students) -> Students:
    """No students, of the same questions and categories."""
    return students.select(np.zeros(0, np.int64))


def unlearned(students: Students, items: Items) -> Students:
    """The same, with every question that training never asked made the unknown one."""
    asked = Students(
        np.flatnonzero(items.count_Q).astype(np.int32),
        np.zeros(int((items.count_Q > 0).sum()), np.int32),
        np.array([0, int((items.count_Q > 0).sum())]),
        np.array(["0"]),
        students.questions,
        students.categories,
    )
    return students.masked(asked)


def rounded(model: DeepGPCM, held: Held, scores: Scores, predict_by: str) -> Rounded:
    """The model with 8-bit weights, scored on the same students."""
    small = quantize(model)
    found = score(predict_next(small, held.students).probability_TK, held.students.response, predict_by)
    return Rounded(small, small.bytes, scores.qwk - found.qwk)


def _probabilities(p_TK: np.ndarray, predict_by: str) -> dict[str, np.ndarray]:
    return {
        "predicted": predicted(p_TK, predict_by),
        "expected": p_TK @ np.arange(p_TK.shape[1], dtype=p_TK.dtype),
        **{f"p_{category}": np.ascontiguousarray(each) for category, each in enumerate(p_TK.T)},
    }


def _some(students: Students) -> str:
    return ", ".join(students.questions[:5].tolist()) or "nothing"


def _some_ids(students: Students) -> str:
    return f"the first are {', '.join(students.ids[:5].tolist())}" if len(students) else "there are none"
