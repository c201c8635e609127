"""Answer sequences of many students, one after another in flat arrays, and padded batches of them.

Legend: B students, S steps of the longest, T steps of all students, Q questions, K categories.

Questions are numbered 0 to Q-1. Q stands for every question that is not in the vocabulary: the model has a row for it,
like for any other. Padding is no question at all: it is -1 in questions and responses alike, so that nothing can take
it for a real step; what counts is `length_B`.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from ...core.base.errors import ConfigError

PADDING = -1
"""What stands where a sequence has ended, in questions and in responses."""

PIECES = ("split", "first", "last")


@dataclass(frozen=True, slots=True, eq=False)
class Students:
    """The answers of some students.

    Attributes:
        question: (T,) which question each step asks; Q where it is not in the vocabulary.
        response: (T,) the category of each answer, 0 to K-1.
        offsets: (B+1,) where each sequence begins, and the end.
        ids: (B,) the students' names, as text; pieces of one student share it.
        questions: (Q,) the questions' names, as text: the vocabulary.
        categories: K.
        scores: whether the responses came as scores between 0 and 1 (partial credit).
    """

    question: np.ndarray
    response: np.ndarray
    offsets: np.ndarray
    ids: np.ndarray
    questions: np.ndarray
    categories: int
    scores: bool = False

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def steps(self) -> int:
        """T, the answers of all students together."""
        return len(self.question)

    @property
    def lengths(self) -> np.ndarray:
        return np.diff(self.offsets)

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
        places, offsets = _places(self.offsets[rows], self.lengths[rows])
        return replace(
            self, question=self.question[places], response=self.response[places], offsets=offsets, ids=self.ids[rows]
        )

    def pieces(self, length: int, how: str = "split") -> "Students":
        """Sequences of at most `length` steps.

        Args:
            length: the most steps a piece may have.
            how: "split" cuts a longer sequence into pieces one after another, each of which starts from an empty memory
                (what DKVMN and pyKT do, at 200); "first" and "last" keep one end and drop the rest.
        """
        if length < 1 or how not in PIECES:
            raise ConfigError(f"pieces of {length} steps by {how!r}; give at least 1, and one of {', '.join(PIECES)}")
        start, steps = self.offsets[:-1], self.lengths
        if how == "split":
            many = np.maximum(1, -(-steps // length))
            owner = np.repeat(np.arange(len(self)), many)
            part = np.arange(len(owner)) - np.repeat(np.cumsum(many) - many, many)
            start, steps = start[owner] + part * length, np.minimum(steps[owner] - part * length, length)
        else:
            owner, kept = np.arange(len(self)), np.minimum(steps, length)
            start, steps = (start if how == "first" else start + steps - kept), kept
        places, offsets = _places(start, steps)
        return replace(
            self, question=self.question[places], response=self.response[places], offsets=offsets, ids=self.ids[owner]
        )

    def masked(self, train: "Students") -> "Students":
        """The same, with every question that `train` never asks made the unknown one: its own row was never learned."""
        learned = np.bincount(train.question, minlength=len(self.questions) + 1)[: len(self.questions)] > 0
        known = np.append(learned, True)[self.question]
        return replace(self, question=np.where(known, self.question, len(self.questions)).astype(np.int32))


def batch(students: Students, index: Any) -> dict[str, Tensor]:
    """Some sequences as padded tensors: `question_BS`, `response_BS` (-1 after the end) and `length_B`, the names under
    which the model takes them."""
    rows = np.asarray(index)
    return pad(
        torch.from_numpy(np.ascontiguousarray(students.question)),
        torch.from_numpy(np.ascontiguousarray(students.response)),
        torch.from_numpy(students.offsets[:-1][rows]),
        torch.from_numpy(students.lengths[rows]),
    )


def pad(
    question_T: Int[Tensor, " T"],
    response_T: Int[Tensor, " T"],
    start_B: Int[Tensor, " B"],
    length_B: Int[Tensor, " B"],
    width: int | None = None,
) -> dict[str, Tensor]:
    """Sequences of flat tensors, padded; on whatever device they are.

    Args:
        question_T, response_T: the steps of all students.
        start_B, length_B: where the sequences begin, and their lengths.
        width: S, where it is known; else the longest, which waits for the device.
    """
    width = int(length_B.max()) if width is None and len(length_B) else (width or 0)
    step_S = torch.arange(width, device=question_T.device)
    there_BS = step_S < length_B[:, None]
    if len(question_T) == 0:
        empty_BS = torch.full(there_BS.shape, PADDING, dtype=torch.int64, device=question_T.device)
        return {"question_BS": empty_BS, "response_BS": empty_BS.clone(), "length_B": length_B.long()}
    place_BS = torch.where(there_BS, start_B[:, None] + step_S, 0)
    return {
        "question_BS": torch.where(there_BS, question_T[place_BS].long(), PADDING),
        "response_BS": torch.where(there_BS, response_T[place_BS].long(), PADDING),
        "length_B": length_B.long(),
    }


def flatten(padded_BS: Tensor, length_B: Int[Tensor, " B"]) -> Tensor:
    """The real steps of a padded tensor, one sequence after another: undoes `pad`, whatever axes follow."""
    there_BS = torch.arange(padded_BS.shape[1], device=padded_BS.device) < length_B[:, None]
    return padded_BS[there_BS]


def _places(start: np.ndarray, steps: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    offsets = np.concatenate([[0], np.cumsum(steps)]).astype(np.int64)
    return np.repeat(start - offsets[:-1], steps) + np.arange(offsets[-1]), offsets
