"""Where a training run is: all that changes from step to step beside weights and optimizer, as plain values."""

from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .optim.schedules import PlateauState


@dataclass(slots=True)
class Sums:
    """Of the epoch at hand, so far."""

    total: float = 0.0
    weight: float = 0.0
    norm: float = 0.0
    norm_max: float = 0.0
    steps: int = 0
    skipped: int = 0
    seconds: float = 0.0


@dataclass(slots=True)
class Position:
    """Where a run is.

    Attributes:
        epoch: whole epochs done.
        batch: batches of the next one done.
        step: steps in all.
        pieces: micro-batches of a batch.
        history: a row for each whole epoch.
        curve: loss and gradient norm of each step that was read.
        best: the best monitored number, and `best_epoch` its epoch's place in the history.
        waited: epochs since then.
        stopped: why the run ended; empty while it goes on.
    """

    epoch: int = 0
    batch: int = 0
    step: int = 0
    pieces: int = 1
    seconds: float = 0.0
    sums: Sums = field(default_factory=Sums)
    history: list[dict[str, Any]] = field(default_factory=list)
    curve: list[tuple[float, float]] = field(default_factory=list)
    best: float | None = None
    best_epoch: int | None = None
    waited: int = 0
    plateau: PlateauState = PlateauState()
    stopped: str = ""

    def facts(self) -> dict[str, Any]:
        """As JSON values, without the curve."""
        data = asdict(self)
        del data["curve"]
        return data

    @classmethod
    def of(cls, facts: dict[str, Any], curve: Tensor) -> "Position":
        parts = {**facts, "sums": Sums(**facts["sums"]), "plateau": PlateauState(**facts["plateau"])}
        return cls(**parts, curve=[(loss, norm) for loss, norm in curve.tolist()])

    def curve_tensor(self) -> Tensor:
        return torch.tensor(self.curve, dtype=torch.float64).reshape(-1, 2)

    def curve_array(self) -> np.ndarray:
        return np.asarray(self.curve, dtype=np.float32).reshape(-1, 2)
