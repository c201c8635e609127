"""What comes of training: a model, how it went, and how good it is. Values alone; `Trained` draws and stores them."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .evaluation.scores import Scores, Shown
from .memory_table import Table
from .model.score_model import ScoreModel


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """What came of a training.

    Attributes:
        model: with the weights of the best epoch.
        scores: on held-out rows.
        shown: rows for the pictures.
        history: one dict an epoch: losses (in the model's units), likelihood, memory.
        curve: (steps, 2): loss and gradient norm of every step.
        best: the place in the history of the epoch that was chosen.
        table: the memory table, with the strategy that was chosen.
        predicted, observed: peak bytes, as planned from small measured steps before training (on a CPU: by the table),
            and as seen.
        settings: of the training.
        image: (colours, height, width) of a row that is an image.
        seconds: what the training took.
    """

    model: ScoreModel
    scores: Scores
    shown: Shown
    history: Sequence[dict[str, Any]]
    curve: np.ndarray
    best: int
    table: Table
    predicted: int
    observed: int
    settings: dict[str, Any] = field(default_factory=dict)
    image: tuple[int, int, int] | None = None
    seconds: float = 0.0

    def __str__(self) -> str:
        return f"{len(self.model.inner_Kd)} centers of {self.model.d} dimensions: {self.scores}"
