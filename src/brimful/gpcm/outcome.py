"""What comes of training: a model with the vocabulary it was trained on, how it went, and how good it is. Values alone;
`Trained` predicts, draws and stores.

Legend: T steps of all, Q questions, K categories.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from jaxtyping import Float

from .data.students import Students
from .data.true_parameters import Truth
from .evaluation.inference import Predicted
from .evaluation.item_parameters import Items
from .evaluation.metrics import Scores, predicted
from .evaluation.parameter_recovery import Recovery
from .model.deep_gpcm import DeepGPCM
from .model.quantize import Quantized


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
                **probabilities(self.probability_TK, predict_by),
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
class Outcome:
    """What came of a training.

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


def probabilities(p_TK: np.ndarray, predict_by: str) -> dict[str, np.ndarray]:
    """The columns of a table of predictions."""
    return {
        "predicted": predicted(p_TK, predict_by),
        "expected": p_TK @ np.arange(p_TK.shape[1], dtype=p_TK.dtype),
        **{f"p_{category}": np.ascontiguousarray(each) for category, each in enumerate(p_TK.T)},
    }
