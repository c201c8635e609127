"""Students sampled from the generalized partial credit model, with their true parameters.

Legend: B students, T steps of all, Q questions, K categories, H = K-1 thresholds.

theta ~ N(0, 1); alpha ~ LogNormal(0, 0.3); beta = sorted samples of N(b, 0.5), b ~ N(0, 1); length ~ N(Q/2, Q/10),
rounded and clipped to Q/4 and Q; questions at random, with repeats. The first 80% of the students are for training.
"""

import json
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ...core.base.arguments import as_count, check_type
from ...core.base.errors import ConfigError
from ...core.runs.files import write_atomic
from ..model.partial_credit import probabilities
from . import three_line
from .encode import MAX_CATEGORIES
from .files import Dataset
from .students import Students
from .true_parameters import FILE, TrueParameters

KINDS = ("OC", "PC")
"""OC: ordered categories, whole numbers in the file. PC: partial credit, scores r / (K-1) in the file."""

_DEFAULT_SIZES = (200, 30, 4)
_TRAIN_FRACTION = 0.8


@dataclass(frozen=True, slots=True, eq=False)
class SyntheticStudents:
    """Synthetic students, and their true parameters."""

    name: str
    students: Students
    true_parameters: TrueParameters

    def dataset(self) -> Dataset:
        """As it would be read from a folder: the first 80% for training, the rest for testing."""
        rows = np.split(np.arange(len(self.students)), [int(len(self.students) * _TRAIN_FRACTION)])
        train, test = (self.students.select(part) for part in rows)
        return Dataset(self.name, train, test, None, self.true_parameters)


def synthetic(students: int, questions: int, categories: int, *, kind: str = "OC", seed: int = 0) -> SyntheticStudents:
    """Samples students; the same for the same sizes and seed, whatever the kind.

    Example:
        >>> sample = synthetic(200, 30, 4, seed=1)
        >>> sample.name, len(sample.students), sample.true_parameters.beta_QH.shape
        ('synthetic_OC_200_30_4', 200, (30, 3))
    """
    students, questions = as_count(students, "students"), as_count(questions, "questions")
    categories = as_count(categories, "categories", 2)
    if categories > MAX_CATEGORIES or kind not in KINDS:
        raise ConfigError(
            f"{students} students, {questions} questions, {categories} categories of kind {kind!r}; give at least one "
            f"student and question, 2 to {MAX_CATEGORIES} categories, and a kind of {' or '.join(KINDS)}"
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
    sample = Students(
        question_T.astype(np.int32),
        response_T.astype(np.int32),
        offsets,
        np.arange(students).astype(str),
        np.arange(questions).astype(str),
        categories,
        kind == "PC",
    )
    name = f"synthetic_{kind}_{students}_{questions}_{categories}"
    return SyntheticStudents(name, sample, TrueParameters(theta_B, alpha_Q, beta_QH))


def synthetic_by_name(name: str, *, seed: int = 0) -> SyntheticStudents:
    """Students by the name of a dataset: 5000_200_4, synthetic_5000_200_4 and synthetic_PC_5000_200_4 have 5,000
    students, 200 questions and 4 categories; synthetic_OC and synthetic_PC alone have 200, 30 and 4."""
    check_type(name, str, "give a name such as synthetic_OC_5000_200_4")
    match = re.fullmatch(r"(?:synthetic_?)?(OC|PC)?_?(?:(\d+)_(\d+)_(\d+))?", name, flags=re.IGNORECASE)
    if match is None or not (match[1] or match[2]):
        raise ConfigError(
            f"{name!r} is not the name of synthetic data; write synthetic_OC_5000_200_4 for 5,000 students, 200 "
            f"questions and 4 categories, with PC for partial credit"
        )
    students, questions, categories = (int(match[group]) for group in (2, 3, 4)) if match[2] else _DEFAULT_SIZES
    return synthetic(students, questions, categories, kind=(match[1] or "OC").upper(), seed=seed)


def write(folder: str | Path, sample: SyntheticStudents) -> Path:
    """Writes a training and a test file in the three-line format, metadata.json and true_irt_parameters.json."""
    path = Path(folder)
    path.mkdir(parents=True, exist_ok=True)
    dataset, students, true = sample.dataset(), sample.students, sample.true_parameters
    assert dataset.test is not None
    three_line.write(path / f"{sample.name}_train.txt", dataset.train, students.partial_credit)
    if len(dataset.test):
        three_line.write(path / f"{sample.name}_test.txt", dataset.test, students.partial_credit)
    metadata = {
        "dataset_name": sample.name,
        "n_students": len(students),
        "n_questions": len(students.questions),
        "n_cats": students.categories,
        "response_type": "partial_credit" if students.partial_credit else "ordered_categorical",
        "format": "PC" if students.partial_credit else "OC",
        "train_students": len(dataset.train),
        "test_students": len(dataset.test),
        "seq_len_range": [int(students.lengths.min()), int(students.lengths.max())],
    }
    write_atomic(path / "metadata.json", json.dumps(metadata, indent=2).encode())
    parameters = {  # as deep-gpcm writes them
        "student_abilities": {"theta": true.theta_B.tolist()},
        "question_params": {
            "discrimination": {"alpha": true.alpha_Q.tolist()},
            "difficulties": {"beta": true.beta_QH.tolist()},
        },
        "model_info": {"model_type": "GPCM", "n_cats": students.categories},
    }
    write_atomic(path / FILE, json.dumps(parameters).encode())
    return path
