"""The state of a training run: all that changes from step to step beside weights and optimizer, as plain values."""

from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from torch import Tensor

from ...core.base.field_types import fits
from .optim.schedules import PlateauState


@dataclass(slots=True)
class EpochSums:
    """Sums over the steps of the current epoch, so far; `data_seconds` are those in which there was no batch."""

    total: float = 0.0
    weight: float = 0.0
    norm: float = 0.0
    norm_max: float = 0.0
    steps: int = 0
    skipped: int = 0
    seconds: float = 0.0
    data_seconds: float = 0.0


@dataclass(slots=True)
class TrainState:
    """How far a run is.

    Attributes:
        epoch: whole epochs done.
        batch: batches of the next one done.
        step: steps in all.
        micro_batches: per batch.
        history: one row per epoch.
        curve: loss and gradient norm of each step that was read.
        best: the best monitored number, and `best_epoch` the index of its epoch in the history.
        epochs_since_best: epochs without an improvement by more than `min_delta`.
        best_that_counted: the number of the last such improvement.
        stopped: why the run ended; empty while it goes on.
    """

    epoch: int = 0
    batch: int = 0
    step: int = 0
    micro_batches: int = 1
    seconds: float = 0.0
    sums: EpochSums = field(default_factory=EpochSums)
    history: list[dict[str, Any]] = field(default_factory=list)
    curve: list[tuple[float, float]] = field(default_factory=list)
    best: float | None = None
    best_epoch: int | None = None
    epochs_since_best: int = 0
    best_that_counted: float | None = None
    plateau: PlateauState = PlateauState()
    stopped: str = ""

    def to_json(self) -> dict[str, Any]:
        """As JSON values, without the curve."""
        return {name: value for name, value in asdict(self).items() if name != "curve"}

    @classmethod
    def from_json(cls, values: dict[str, Any], curve: Tensor) -> "TrainState":
        """What `to_json` gave.

        Raises:
            TypeError, KeyError, ValueError: these are no values of a state.
        """
        values = {"best_that_counted": values["best"], **values}  # of checkpoints that have none
        _check(values)
        nested = {"sums": EpochSums(**values["sums"]), "plateau": PlateauState(**values["plateau"])}
        return cls(**{**values, **nested}, curve=[(loss, norm) for loss, norm in curve.tolist()])

    def curve_tensor(self) -> Tensor:
        return torch.tensor(self.curve, dtype=torch.float64).reshape(-1, 2)


def _check(values: dict[str, Any]) -> None:
    own = {name: value for name, value in values.items() if name not in ("sums", "plateau")}
    kinds = (TrainState, own), (EpochSums, values["sums"]), (PlateauState, values["plateau"])
    if not all(fits(kind, of) for kind, of in kinds):
        raise ValueError("a value has another type")
    history = values["history"]
    if not all(isinstance(row, dict) for row in history) or values["best_epoch"] not in (None, *range(len(history))):
        raise ValueError("the history has another form")
    if min(values["epoch"], values["batch"], values["step"]) < 0 or values["micro_batches"] < 1:
        raise ValueError("a count is out of range")
