"""Small made-up students for the tests."""

from dataclasses import replace
from typing import Any

import numpy as np

from brimful.gpcm.data.students import Students
from brimful.gpcm.model.deep_gpcm import DeepGPCM, DeepGPCMConfig


def students(
    lengths: list[int], questions: int = 7, categories: int = 4, seed: int = 0, unknown: bool = False
) -> Students:
    """Sequences of the given lengths, at random; with `unknown`, some steps ask a question that is not known."""
    generator = np.random.default_rng(seed)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    return Students(
        generator.integers(questions + unknown, size=offsets[-1]).astype(np.int32),
        generator.integers(categories, size=offsets[-1]).astype(np.int32),
        offsets,
        np.array([f"s{number}" for number in range(len(lengths))], dtype=str),
        np.array([f"q{number}" for number in range(questions)], dtype=str),
        categories,
    )


def first_steps(whole: Students, count: int) -> Students:
    """The first steps of every sequence."""
    if not count:
        return replace(whole, question=whole.question[:0], response=whole.response[:0], offsets=0 * whole.offsets)
    parts = whole.segments(count)
    return parts.select(np.append(True, parts.ids[1:] != parts.ids[:-1]))


def small(questions: int = 7, categories: int = 4, **options: Any) -> DeepGPCM:
    """A small model in double precision, for evaluation."""
    sizes = {"slots": 5, "key_size": 4, "value_size": 6, "hidden": 3, **options}
    return DeepGPCM(DeepGPCMConfig(questions=questions, categories=categories, **sizes)).double().eval()
