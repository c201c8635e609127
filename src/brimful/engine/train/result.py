"""What a training run gives back."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from torch import nn

from ...core.declare.pictures import draw_training, figure_of, save
from ...core.declare.result import Result, ResultRecord

_TIMES = ("epoch", "step", "seconds", "data_seconds")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class TrainResult(Result):
    """A trained model, and how it came about.

    Attributes:
        model: the model that was given, with the best weights (or the last, with `best=False`), averaged where `ema` is
            on; in evaluation mode.
        history: one dict per epoch: epoch, step, train_loss, valid_loss, lr, grad_norm, weight_norm, seconds,
            data_seconds, skipped, and the metrics.
        curve: (steps, 2) float32: loss and gradient norm of every step.
        best: the row of `history` with the best monitored number; None where none was a number.
        epochs, steps: done in all, earlier runs of the same directory included.
        seconds: wall time without compiling, likewise.
        plan: what was decided before the first step, and why.
        micro_batches: how many a batch was split into at the end; more than planned where memory ran out.
        observed: peak bytes, beside `predicted`.
        stopped: "finished", or "early" where the monitored number stopped improving.
        weights: which weights the model has, in words.
        out: the run directory, if there is one.
    """

    model: nn.Module
    history: list[dict[str, Any]]
    curve: np.ndarray
    best: dict[str, Any] | None
    epochs: int
    steps: int
    micro_batches: int
    stopped: str
    weights: str
    out: Path | None

    def measured_as(self, before: ResultRecord) -> "TrainResult":
        """The same, with what was measured when the run finished."""
        return replace(
            self, plan=before.plan, observed=before.observed, seconds=before.seconds, compiling=before.compiling
        )

    def table(self) -> pa.Table:
        """The history as an Arrow table, one row per epoch."""
        names = dict.fromkeys(name for row in self.history for name in row)
        return pa.table({name: [row.get(name) for row in self.history] for name in names})

    def draw(self, path: str | Path) -> Path:
        """Draws the curves: losses, metrics, learning rate and gradient norm."""
        figure = figure_of(12, 7)
        draw_training(figure, self.history, self.curve)
        figure.suptitle(f"{self.epochs} epochs, {self.steps} steps ({self.stopped})", fontsize=11)
        return save(figure, Path(path))

    def summary(self) -> dict[str, Any]:
        """The best row of the history is in it too."""
        row = {"epochs": self.epochs, "steps": self.steps, "stopped": self.stopped, "weights": self.weights}
        best = {name: value for name, value in (self.best or {}).items() if name not in _TIMES}
        return {**row, **best, **Result.summary(self)}
