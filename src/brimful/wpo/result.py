"""What `wpo.train` gives back, and `wpo.load`."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from ..core.declare.result import Result
from .data.datasets import ImageShape
from .evaluation.scores import ReportSamples, Scores
from .model.score_model import ScoreModel


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class WPOResult(Result):
    """A trained score model.

    Attributes:
        model: with the weights of the best epoch.
        scores: on held-out rows.
        report_samples: rows for the report.
        history: one dict per epoch: losses (in standardized units), likelihood, memory.
        curve: (steps, 2): loss and gradient norm of every step.
        best_epoch: index in the history of the epoch that was chosen.
        plan: the strategy, its memory by part, and the strategies that were not chosen.
        observed: peak bytes.
        seconds: of the training.
        settings: of the training.
        image_shape: (channels, height, width) where a row is an image.
    """

    model: ScoreModel
    scores: Scores
    report_samples: ReportSamples
    history: Sequence[dict[str, Any]]
    curve: np.ndarray
    best_epoch: int
    settings: dict[str, Any] = field(default_factory=dict)
    image_shape: ImageShape | None = None

    def summary(self) -> dict[str, Any]:
        scores = asdict(self.scores)
        return {
            "data": self.settings.get("data"),
            "centers": len(self.model.standardized_Kd),
            "dimensions": self.model.d,
            "factor": self.model.config.factor,
            "strategy": self.plan.strategy,
            "chunk_size": self.plan.batch,
            "accumulation_steps": self.settings["accumulation_steps"],
            "steps": len(self.curve),
            "best_epoch": self.best_epoch + 1,
            "score_matching_loss": scores.pop("loss"),  # beside curves of the loss that was trained by
            **scores,
            **Result.summary(self),
        }
