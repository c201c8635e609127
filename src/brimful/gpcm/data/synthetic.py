"""Students drawn from the generalised partial credit model, with the parameters they were drawn from.

Legend: B students, T steps of all, Q questions, K categories, H = K-1 thresholds.

theta ~ N(0, 1); alpha ~ LogNormal(0, 0.3); beta = sorted draws of N(b, 0.5), b ~ N(0, 1); length ~ N(Q/2, Q/10),
rounded and kept between Q/4 and Q; questions at random, with repeats. The first 80% of the students are for training.
"""

import json
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ...core.base.errors import ConfigError
from ...core.runs.files import write_atomic
from ..model.partial_credit import probabilities
from . import three_line
from . import true_parameters as truths
from .files import Folder
from .raw import MOST_CATEGORIES
from .students import Students
from .true_parameters import Truth

KINDS = ("OC", "PC")
"""OC: ordered categories, whole numbers in the file. PC: partial credit, scores r / (K-1) in the file."""

_USUAL = (200, 30, 4)
_TRAINING = 0.8


@dataclass(frozen=True, slots=True, eq=False)
class Synthetic:
    """Synthetic students, and what is true of them."""

    name: str
    students: Students
    truth: Truth

    def folder(self) -> Folder:
        """The same as it would be read from a folder: the first 80% for training, the rest for testing."""
        count = int(len(self.students) * _TRAINING)
        every = np.arange(len(self.students))
        return Folder(
            self.name, self.students.select(every[:count]), self.students.select(every[count:]), None, self.truth
        )


def synthetic(students: int, questions: int, categories: int, *, kind: str = "OC", seed: int = 0) -> Synthetic:
    """Draws students; the same for the same sizes and seed, whichever the kind.

    Example:
        >>> drawn = synthetic(200, 30, 4, seed=1)
        >>> drawn.name, len(drawn.students), drawn.truth.beta_QH.shape
        ('synthetic_OC_200_30_4', 200, (30, 3))
    """
    if students < 1 or questions < 1 or not 2 <= categories <= MOST_CATEGORIES or kind not in KINDS:
        raise ConfigError(
            f"{students} students, {questions} questions, {categories} categories of kind {kind!r}; give at least one "
            f"student and question, 2 to {MOST_CATEGORIES} categories, and a kind of {' or '.join(KINDS)}"
        )
    generator = np.random.Generator(np.random.PCG64([seed, students, questions, categories]))
    theta_B = generator.normal(size=students)
    alpha_Q = generator.lognormal(0.0, 0.3, questions)
    centre_Q = generator.normal(size=questions)
    beta_QH = np.sort(generator.normal(centre_Q[:, None], 0.5, (questions, categories - 1)), axis=1)
    length_B = np.rint(generator.normal(questions / 2, questions / 10, students))
    length_B = np.clip(length_B, max(1, questions // 4), questions).astype(np.int64)
    offsets = np.concatenate([[0], np.cumsum(length_B)])
    question_T = generator.integers(questions, size=offsets[-1])
    p_TK = probabilities(np.repeat(theta_B, length_B), alpha_Q[question_T], beta_QH[question_T])
    uniform_T = generator.random(offsets[-1])
    response_T = (uniform_T[:, None] > np.cumsum(p_TK, axis=1)[:, :-1]).sum(1)
    found = Students(
        question_T.astype(np.int32),
        response_T.astype(np.int32),
        offsets,
        np.arange(students).astype(str),
        np.arange(questions).astype(str),
        categories,
        kind == "PC",
    )
    name = f"synthetic_{kind}_{students}_{questions}_{categories}"
    return Synthetic(name, found, Truth(theta_B, alpha_Q, beta_QH))


def named(name: str, *, seed: int = 0) -> Synthetic:
    """Students by the name of a dataset: 5000_200_4, synthetic_5000_200_4 and synthetic_PC_5000_200_4 have 5,000
    students, 200 questions and 4 categories; synthetic_OC and synthetic_PC alone have 200, 30 and 4."""
    match = re.fullmatch(r"(?:synthetic_?)?(OC|PC)?_?(?:(\d+)_(\d+)_(\d+))?", name, flags=re.IGNORECASE)
    if match is None or not (match[1] or match[2]):
        raise ConfigError(
            f"{name!r} is not the name of synthetic data; write synthetic_OC_5000_200_4 for 5,000 students, 200 "
            f"questions and 4 categories, with PC for partial credit"
        )
    students, questions, categories = (int(match[each]) for each in (2, 3, 4)) if match[2] else _USUAL
    return synthetic(students, questions, categories, kind=(match[1] or "OC").upper(), seed=seed)


def write(folder: str | Path, drawn: Synthetic) -> Path:
    """Writes a training and a test file in the three-line format, metadata.json and true_irt_parameters.json."""
    path = Path(folder)
    path.mkdir(parents=True, exist_ok=True)
    parts, everyone = drawn.folder(), drawn.students
    assert parts.test is not None
    three_line.write(path / f"{drawn.name}_train.txt", parts.train, everyone.scores)
    if len(parts.test):
        three_line.write(path / f"{drawn.name}_test.txt", parts.test, everyone.scores)
    about = {
        "dataset_name": drawn.name,
        "n_students": len(everyone),
        "n_questions": len(everyone.questions),
        "n_cats": everyone.categories,
        "response_type": "partial_credit" if everyone.scores else "ordered_categorical",
        "format": "PC" if everyone.scores else "OC",
        "train_students": len(parts.train),
        "test_students": len(parts.test),
        "seq_len_range": [int(everyone.lengths.min()), int(everyone.lengths.max())],
    }
    write_atomic(path / "metadata.json", json.dumps(about, indent=2).encode())
    truths.write(path, drawn.truth)
    return path
