"""A trained model: what it says of other students, drawn, stored, and loaded again.

Legend: B students, K categories.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from ..core.base.errors import InputError
from . import store
from .data import files
from .data.students import Students
from .evaluation.inference import Knowledge, knowledge_state, predict_after, predict_next
from .evaluation.item_parameters import Items
from .evaluation.metrics import Scores, score
from .model.deep_gpcm import DeepGPCM
from .model.quantize import quantize
from .outcome import Held, Outcome, Rounded, probabilities
from .report import draw


@dataclass(frozen=True, slots=True, eq=False)
class Trained(Outcome):
    """A trained model; its values are those of `Outcome`."""

    def read(self, source: Any, **options: Any) -> Students:
        """Students of a file or table, in the model's vocabulary. A question that training never asked is the unknown
        one, a category that the model does not have is an error. Options are those of `data.read`."""
        found = source if isinstance(source, Students) else files.read(source, like=self.train, **options)
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
                **probabilities(p_BK, self.predict_by),
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
        path = Path(folder)
        path.mkdir(parents=True, exist_ok=True)
        return draw(self, path)

    def save(self, folder: str | Path) -> Path:
        """Writes all of it, so that `load` and the commands work without the original data."""
        return store.write(Path(folder), self)


def load(folder: Path) -> Trained:
    """What `save` wrote."""
    return Trained(**store.read(folder))


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


def _some(students: Students) -> str:
    return ", ".join(students.questions[:5].tolist()) or "nothing"


def _some_ids(students: Students) -> str:
    return f"the first are {', '.join(students.ids[:5].tolist())}" if len(students) else "there are none"
