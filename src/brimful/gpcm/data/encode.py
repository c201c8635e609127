"""The steps of a file as they were read, and their encoding: questions as numbers, responses as categories.

Legend: T steps of all students, B students, Q questions, K categories.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ...core.base.errors import ConfigError, InputError
from .students import Students

MAX_CATEGORIES = 256
"""More suggest a column that holds something else."""

_MAX_LEVELS = 11  # scores in tenths are the finest that are recognized without categories=
_TOLERANCE = 2e-3  # scores are often written with three decimals


@dataclass(frozen=True, slots=True, eq=False)
class ParsedSteps:
    """The steps of a file.

    Attributes:
        names: the distinct questions, as text.
        code: (T,) which of them each step asks.
        value: (T,) the responses as numbers: categories, or scores between 0 and 1.
        offsets: (B+1,) where each student begins, and the end.
        ids: (B,) the students.
        locate: describes where in the file a step is.
    """

    names: np.ndarray
    code: np.ndarray
    value: np.ndarray
    offsets: np.ndarray
    ids: np.ndarray
    locate: Callable[[int], str]


def encode(
    parsed: ParsedSteps,
    like: Students | None = None,
    categories: int | None = None,
    partial_credit: bool | None = None,
    vocabulary: np.ndarray | None = None,
) -> Students:
    """Numbers the questions and makes the responses categories.

    Args:
        like: students whose vocabulary, categories and kind of response are used (the training data); a question they
            do not have becomes the unknown one, a category they do not have is an error.
        categories: K, where it is known.
        partial_credit: whether the responses are scores between 0 and 1; by default inferred.
        vocabulary: all questions, where they are known; by default those that occur.
    """
    if like is not None:
        vocabulary, categories, partial_credit = like.questions, like.categories, like.partial_credit
    questions = vocabulary if vocabulary is not None else sort_names(parsed.names)
    number = {name: index for index, name in enumerate(questions.tolist())}
    index = np.array([number.get(name, len(questions)) for name in parsed.names.tolist()], dtype=np.int32)
    question = index[parsed.code] if len(parsed.code) else np.zeros(0, np.int32)
    if like is None and bool((index == len(questions)).any()):
        step = int(np.flatnonzero(question == len(questions))[0])
        raise InputError(
            f"{parsed.locate(step)}: question {parsed.names[parsed.code[step]]} is not one of the {len(questions)} "
            f"that are declared; correct n_questions in metadata.json, or remove the file"
        )
    response, categories, partial_credit = to_categories(parsed.value, parsed.locate, categories, partial_credit)
    asked = parsed.names[parsed.code] if bool((question == len(questions)).any()) else None
    return Students(question, response, parsed.offsets, parsed.ids, questions, categories, partial_credit, asked)


def sort_names(names: np.ndarray) -> np.ndarray:
    """Names sorted: as numbers where all are whole numbers, else as text."""
    texts = names.tolist()
    numbers = all(text.isascii() and text.isdigit() and len(text) < 19 for text in texts)
    return np.array(sorted(texts, key=lambda text: (int(text) if numbers else 0, text)), dtype=str)


def to_categories(
    value: np.ndarray, locate: Callable[[int], str], categories: int | None, partial_credit: bool | None
) -> tuple[np.ndarray, int, bool]:
    """Responses as categories 0 to K-1, K, and whether they were scores.

    Whole numbers are categories. As soon as one is not whole, all are scores between 0 and 1, and score s is category
    floor(s (K-1) + 1/2), the nearest of the levels 0, 1/(K-1), ..., 1. By default K is, for categories, the largest
    plus one (at least 2), and for scores the smallest number of levels, up to 11, that fits all of them.
    """
    if categories is not None and not 2 <= categories <= MAX_CATEGORIES:
        raise ConfigError(f"categories is {categories}; give between 2 and {MAX_CATEGORIES}")

    def refuse(invalid: np.ndarray, why: str) -> None:
        if bool(invalid.any()):
            step = int(np.flatnonzero(invalid)[0])
            raise InputError(f"{locate(step)}: the response {value[step]:g} {why}")

    refuse(~np.isfinite(value), "is missing or not a number; remove that step")
    refuse(value < 0, "is negative; categories start at 0, and a step without an answer is left out")
    fraction = value != np.floor(value)
    if partial_credit or (partial_credit is None and bool(fraction.any())):
        refuse(value > 1, "is more than 1, and there are fractions, so the responses are scores from 0 to 1")
        levels = categories or _levels(value, locate)
        return np.floor(value * (levels - 1) + 0.5).astype(np.int32), levels, True
    refuse(fraction, "is not a whole number; categories are, and partial_credit=True reads scores from 0 to 1")
    top = int(min(value.max(initial=0), 2.0**31 - 1))
    if categories is None and top >= MAX_CATEGORIES:
        refuse(value == value.max(), f"would make {top + 1} categories; is this the response?")
    K = categories or max(2, top + 1)
    refuse(
        value >= K, f"is not one of the {K} categories (0 to {K - 1}); train with categories={top + 1}, or remove it"
    )
    return value.astype(np.int32), K, False


def _levels(value: np.ndarray, locate: Callable[[int], str]) -> int:
    distinct = np.unique(value)
    for levels in range(2, _MAX_LEVELS + 1):
        scaled = distinct * (levels - 1)
        if bool((np.abs(scaled - np.round(scaled)) <= _TOLERANCE * (levels - 1)).all()):
            return levels
    raise InputError(
        f"the scores of {locate(0).split(',')[0]} do not fit {_MAX_LEVELS} levels or fewer, such as "
        f"{distinct[:4].tolist()}; give the number of categories to round them to, with categories=4"
    )
