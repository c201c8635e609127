"""Answer sequences of many students, one after another in flat arrays, and padded batches of them.

Legend: B students, S steps of the longest, T steps of all students, Q questions, K categories.

Questions are numbered 0 to Q-1. Q stands for every question that is not in the vocabulary: the model has a row for it,
as for any other. Padding is not a question: it is -1 in questions and responses alike, so that it cannot be mistaken
for a real step; `length_B` decides.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from ...core.base.errors import ConfigError
from ...core.base.formatting import plural

PADDING = -1
"""Fills questions and responses after the end of a sequence."""


@dataclass(frozen=True, slots=True, eq=False)
class Students:
    """The answers of some students.

    Attributes:
        question: (T,) which question each step asks; Q where it is not in the vocabulary.
        response: (T,) the category of each answer, 0 to K-1.
        offsets: (B+1,) where each sequence begins, and the end.
        ids: (B,) the students' ids, as text; segments of one student share it.
        questions: (Q,) the questions' names, as text: the vocabulary.
        categories: K.
        partial_credit: whether the responses were given as scores between 0 and 1.
        asked: (T,) the question's name of each step, as text, where some are not in the vocabulary; otherwise None.
    """

    question: np.ndarray
    response: np.ndarray
    offsets: np.ndarray
    ids: np.ndarray
    questions: np.ndarray
    categories: int
    partial_credit: bool = False
    asked: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __repr__(self) -> str:
        vocabulary = f"{plural(len(self.questions), 'question')}, {self.categories} categories"
        return f"Students({plural(self.distinct, 'student')}, {plural(self.steps, 'answer')}, {vocabulary})"

    @property
    def steps(self) -> int:
        """T, the number of answers of all students."""
        return len(self.question)

    @property
    def lengths(self) -> np.ndarray:
        return np.diff(self.offsets)

    @property
    def distinct(self) -> int:
        """How many students there are; segments of one count once."""
        return len(np.unique(self.ids))

    @property
    def names(self) -> np.ndarray:
        """(T,) the question's name of each step."""
        return np.append(self.questions, "")[self.question] if self.asked is None else self.asked

    @property
    def unknown(self) -> int:
        """How many steps ask a question that is not in the vocabulary."""
        return int((self.question == len(self.questions)).sum())

    @property
    def counts(self) -> np.ndarray:
        """(K,) how often each category was given."""
        return np.bincount(self.response, minlength=self.categories)

    def select(self, index: Any) -> "Students":
        """Some of the sequences, by position or mask, in the order given."""
        rows = np.asarray(index)
        rows = np.flatnonzero(rows) if rows.dtype == bool else rows.astype(np.int64).reshape(-1)
        return self._slice(rows, self.offsets[rows], self.lengths[rows])

    def segments(self, length: int) -> "Students":
        """Sequences split into consecutive segments of at most `length` steps, each of which starts from the initial
        memory, as in DKVMN and pyKT (at 200); 0 leaves them whole."""
        if length < 0:
            raise ConfigError(f"segments of {length} steps; give at least 1, or 0 for whole sequences")
        if length == 0:
            return self
        count = np.maximum(1, -(-self.lengths // length))
        row = np.repeat(np.arange(len(self)), count)
        done = length * (np.arange(len(row)) - np.repeat(np.cumsum(count) - count, count))
        return self._slice(row, self.offsets[row] + done, np.minimum(self.lengths[row] - done, length))

    def mask_unseen(self, seen: np.ndarray) -> "Students":
        """The same, with every question outside `seen` (numbers of questions) made the unknown one: its own row was
        never learned."""
        known = np.isin(self.question, seen)
        if known.all():
            return self
        question = np.where(known, self.question, len(self.questions)).astype(np.int32)
        return replace(self, question=question, asked=self.names)

    def _slice(self, rows: np.ndarray, start: np.ndarray, steps: np.ndarray) -> "Students":
        """Sequences of so many steps from `start` on, of the students in `rows`."""
        offsets = np.concatenate([[0], np.cumsum(steps)]).astype(np.int64)
        index = np.repeat(start - offsets[:-1], steps) + np.arange(offsets[-1])
        return replace(
            self,
            question=self.question[index],
            response=self.response[index],
            offsets=offsets,
            ids=self.ids[rows],
            asked=None if self.asked is None else self.asked[index],
        )


def batch(students: Students, index: Any) -> dict[str, Tensor]:
    """Some sequences as padded tensors: `question_BS`, `response_BS` (-1 after the end) and `length_B`, under the names
    of the model's arguments."""
    rows = np.asarray(index)
    length_B = students.lengths[rows]
    step_S = np.arange(length_B.max(initial=0))
    real_BS = step_S < length_B[:, None]
    index_BS = np.where(real_BS, students.offsets[:-1][rows][:, None] + step_S, 0)
    values = {"question_BS": students.question, "response_BS": students.response}
    padded = {name: np.where(real_BS, flat[index_BS], PADDING).astype(np.int64) for name, flat in values.items()}
    return {name: torch.from_numpy(array) for name, array in (padded | {"length_B": length_B}).items()}


def flatten(padded_BS: Tensor, length_B: Int[Tensor, " B"]) -> Tensor:
    """The real steps of a padded tensor, one sequence after another, whatever axes follow."""
    real_BS = torch.arange(padded_BS.shape[1], device=padded_BS.device) < length_B[:, None]
    return padded_BS[real_BS]
