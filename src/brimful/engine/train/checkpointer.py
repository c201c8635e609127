"""The checkpointer: saves and restores all that changes while a model trains, and keeps the best weights."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import safetensors.torch
import torch
from torch import Tensor, nn

from ...core.base.errors import CorruptError
from ...data.loader import Loader
from ..distributed.collectives import Group
from .checkpoint_dir import Checkpoint, CheckpointDir
from .optim import optimizers
from .optim.ema import MovingAverage
from .state import TrainState
from .step.precision import LossScale


@dataclass(slots=True, eq=False)
class Checkpointer:
    """Saves and restores on the first rank; the others are given what it has.

    Attributes:
        model, optimizer, average, scale, loader: what changes, beside the `TrainState`.
        directory: where checkpoints are written; without one only the best weights are kept, in memory.
        group: the ranks.
        keep_best: whether the best weights are wanted at the end.
        warn: warns the user.
    """

    model: nn.Module
    optimizer: torch.optim.Optimizer
    average: MovingAverage
    scale: LossScale | None
    loader: Loader
    directory: CheckpointDir | None
    group: Group
    keep_best: bool
    warn: Callable[[str], None]
    _best_number: int | None = None
    _best_weights: dict[str, Tensor] | None = None

    def resume(self) -> tuple[TrainState, dict[str, Any]] | None:
        """Restores the last checkpoint on all ranks: the state, and the metadata that it was saved with. Without one,
        all ranks have the first one's weights."""
        checkpoint = self.directory.last() if self.directory is not None else None
        if self.group.ranks > 1:
            checkpoint = _broadcast(self.group, checkpoint)
            self._share_weights()
            self.average.restore({})
        if checkpoint is None:
            return None
        self._best_number = checkpoint.metadata.get("best")
        state = TrainState.from_json(checkpoint.metadata["state"], checkpoint.tensors["curve"])
        self._load(checkpoint.under("model/"))
        optimizers.restore(self.optimizer, checkpoint.under("optimizer/"), checkpoint.metadata["optimizer"])
        self.average.restore(checkpoint.under("ema/"))
        if self.scale is not None:
            self.scale.restore(checkpoint.under("loss_scale/"))
        if state.batch < len(self.loader):
            self.loader.restore(checkpoint.metadata["loader"])
        return state, checkpoint.metadata

    def save(self, state: TrainState, metadata: dict[str, Any], is_best: bool = False) -> None:
        """A checkpoint, where there is a directory; otherwise the weights, if they are the best."""
        if self.directory is not None:
            number = self.directory.save(self._capture(state, metadata), self._best_number, is_best)
            self._best_number = number if is_best else self._best_number
        elif is_best and self.keep_best and self.group.first:
            with self.average.in_place():
                weights = self.model.state_dict()
                self._best_weights = {name: value.detach().cpu().clone() for name, value in weights.items()}

    def finish(self) -> None:
        """Leaves the model with the weights that were asked for, on every rank."""
        if self.keep_best and self._best_weights is not None:
            self._load(self._best_weights)
        else:
            if self.keep_best and self.directory is not None and self._best_number is not None:
                self._load_best(self.directory, self._best_number)
            self.average.apply()
        self._share_weights()

    def _capture(self, state: TrainState, metadata: dict[str, Any]) -> Checkpoint:
        moments, optimizer = optimizers.capture(self.optimizer)
        parts = {"model": self.model.state_dict(), "optimizer": moments, "ema": self.average.state()}
        parts["loss_scale"] = self.scale.state() if self.scale is not None else {}
        tensors = {f"{part}/{name}": value for part, values in parts.items() for name, value in values.items()}
        tensors["curve"] = state.curve_tensor()
        own = {"state": state.to_json(), "optimizer": optimizer, "loader": self.loader.state()}
        return Checkpoint(tensors, {**own, **metadata})

    def _load_best(self, directory: CheckpointDir, number: int) -> None:
        try:
            checkpoint = directory.read(number)
        except CorruptError as error:
            self.warn(f"the best checkpoint cannot be read, so the model has its last weights: {error}")
            return
        self._load(checkpoint.under("model/"))
        self.average.restore(checkpoint.under("ema/"))

    def _load(self, weights: dict[str, Tensor]) -> None:
        try:
            self.model.load_state_dict(weights)
        except RuntimeError as error:
            raise CorruptError(f"the checkpoint does not fit the model: {error}") from error

    def _share_weights(self) -> None:
        """The first rank's weights, on all."""
        if self.group.ranks > 1:
            shared = _broadcast(self.group, Checkpoint(self.model.state_dict(), {}) if self.group.first else None)
            assert shared is not None
            self._load(shared.tensors)


def _broadcast(group: Group, checkpoint: Checkpoint | None) -> Checkpoint | None:
    """The first rank's, on all."""
    tensors = b""
    if checkpoint is not None:
        plain = {name: value.detach().cpu().clone().contiguous() for name, value in checkpoint.tensors.items()}
        tensors = safetensors.torch.save(plain)
    tensors = group.share(tensors)
    metadata = group.share(json.dumps(checkpoint.metadata).encode() if checkpoint is not None else b"")
    if not tensors:
        return None
    return checkpoint or Checkpoint(safetensors.torch.load(tensors), json.loads(metadata))
