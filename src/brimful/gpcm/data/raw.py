"""What a file says, before its questions are numbered and its responses are categories; and both of these steps.

Legend: T steps of all students, B students, Q questions, K categories.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ...core.base.errors import ConfigError, InputError
from .students import Students

MOST_CATEGORIES = 256
"""More than this is taken for a column that holds something else."""

_GUESSED = 11  # scores in tenths are the finest that are recognised without being told
_ROUNDED = 2e-3  # scores are often written with three decimals


@dataclass(frozen=True, slots=True, eq=False)
class Raw:
    """The steps of a file.

    Attributes:
        names: the distinct questions, as text.
        code: (T,) which of them each step asks.
        value: (T,) the responses as numbers: categories, or scores between 0 and 1.
        offsets: (B+1,) where each student begins, and the end.
        ids: (B,) the students.
        where: says where in the file a step is.
    """

    names: np.ndarray
    code: np.ndarray
    value: np.ndarray
    offsets: np.ndarray
    ids: np.ndarray
    where: Callable[[int], str]


def understand(
    raw: Raw,
    like: Students | None = None,
    categories: int | None = None,
    scores: bool | None = None,
    vocabulary: np.ndarray | None = None,
) -> Students:
    """Numbers the questions and makes the responses categories.

    Args:
        like: students whose vocabulary, categories and kind of response are taken over (the training data); a question
            they do not have becomes the unknown one, a category they do not have is an error.
        categories: K, where it is known.
        scores: whether the responses are scores between 0 and 1; None to see.
        vocabulary: the questions there are, where that is known; else those that occur.
    """
    if like is not None:
        vocabulary, categories, scores = like.questions, like.categories, like.scores
    declared = vocabulary is not None
    questions = vocabulary if vocabulary is not None else in_order(raw.names)
    number = {name: place for place, name in enumerate(questions.tolist())}
    index = np.array([number.get(name, len(questions)) for name in raw.names.tolist()], dtype=np.int32)
    question = index[raw.code] if len(raw.code) else np.zeros(0, np.int32)
    if declared and like is None and bool((index == len(questions)).any()):
        step = int(np.flatnonzero(question == len(questions))[0])
        raise InputError(
            f"{raw.where(step)}: question {raw.names[raw.code[step]]} is not one of the {len(questions)} that are "
            f"declared ({questions[0]} to {questions[-1]}); correct n_questions in metadata.json, or take the file out"
            if len(questions)
            else f"{raw.where(step)}: no questions are declared; correct n_questions in metadata.json"
        )
    response, categories, scores = to_categories(raw.value, raw.where, categories, scores)
    return Students(question, response, raw.offsets, raw.ids, questions, categories, scores)


def in_order(names: np.ndarray) -> np.ndarray:
    """Names sorted: as numbers where all are whole numbers, else as text."""
    texts = names.tolist()
    if all(text.isascii() and text.isdigit() and len(text) < 19 for text in texts):
        return np.array(sorted(texts, key=lambda text: (int(text), text)), dtype=str)
    return np.array(sorted(texts), dtype=str)


def to_categories(
    value: np.ndarray, where: Callable[[int], str], categories: int | None, scores: bool | None
) -> tuple[np.ndarray, int, bool]:
    """Responses as categories 0 to K-1, K, and whether they were scores.

    Whole numbers are categories. As soon as one is not whole, all are scores between 0 and 1, and score s is category
    floor(s (K-1) + 1/2), the nearest of the levels 0, 1/(K-1), ..., 1. K is what was told; else, for categories, the
    largest and one (at least 2), and for scores the fewest levels, up to 11, that all of them lie on.
    """
    if categories is not None and not 2 <= categories <= MOST_CATEGORIES:
        raise ConfigError(f"categories is {categories}; give between 2 and {MOST_CATEGORIES}")
    _refuse(~np.isfinite(value), value, where, "is missing or not a number; take that step out")
    _refuse(value < 0, value, where, "is negative; categories start at 0, and a step without an answer is left out")
    broken = value != np.floor(value)
    scores = bool(broken.any()) if scores is None else scores
    if not scores:
        _refuse(broken, value, where, "is not a whole number; categories are, and scores=True reads scores from 0 to 1")
        top = int(min(value.max(initial=0), 2.0**31 - 1))
        if categories is None:
            if top >= MOST_CATEGORIES:
                _refuse(value == value.max(), value, where, f"would make {top + 1} categories; is this the response?")
            categories = max(2, top + 1)
        wrong = f"is not one of the {categories} categories (0 to {categories - 1}); say categories={top + 1} to train"
        _refuse(value >= categories, value, where, f"{wrong} with room for it, or take that step out")
        return value.astype(np.int32), categories, False
    _refuse(value > 1, value, where, "is more than 1, and there are fractions, so the responses are scores from 0 to 1")
    levels = categories or _levels(value, where)
    return np.floor(value * (levels - 1) + 0.5).astype(np.int32), levels, True


def _levels(value: np.ndarray, where: Callable[[int], str]) -> int:
    distinct = np.unique(value)
    for levels in range(2, _GUESSED + 1):
        scaled = distinct * (levels - 1)
        if bool((np.abs(scaled - np.round(scaled)) <= _ROUNDED * (levels - 1)).all()):
            return levels
    raise InputError(
        f"the scores of {where(0).split(',')[0]} lie on no {_GUESSED} levels or less, such as {distinct[:4].tolist()}; "
        f"say how many categories to round them to, with categories=4"
    )


def _refuse(bad: np.ndarray, value: np.ndarray, where: Callable[[int], str], why: str) -> None:
    if bool(bad.any()):
        step = int(np.flatnonzero(bad)[0])
        raise InputError(f"{where(step)}: the response {value[step]:g} {why}")
