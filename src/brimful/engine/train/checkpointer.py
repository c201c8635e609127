"""What a training run keeps, and how it comes back: checkpoints of all that changes, and the best weights."""

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
from .checkpoint_dir import Checkpoints, Saved
from .optim import optimizers
from .optim.ema import Average, averaged
from .state import Position
from .step.precision import Scale


@dataclass(slots=True, eq=False)
class Parts:
    """All that changes while a model trains, beside the position."""

    model: nn.Module
    optimizer: torch.optim.Optimizer
    average: Average | None
    scale: Scale | None
    loader: Loader

    def capture(self, position: Position, facts: dict[str, Any]) -> Saved:
        """As a checkpoint."""
        moments, rest = optimizers.capture(self.optimizer)
        tensors = {f"model/{name}": value for name, value in self.model.state_dict().items()}
        tensors |= {f"optimizer/{name}": value for name, value in moments.items()}
        if self.average is not None:
            tensors |= {f"average/{name}": value for name, value in self.average.state().items()}
        if self.scale is not None:
            tensors |= {f"scale/{name}": value for name, value in self.scale.state().items()}
        tensors["curve"] = position.curve_tensor()
        own = {"position": position.facts(), "optimizer": rest, "loader": self.loader.state()}
        return Saved(tensors, {**own, **facts})

    def restore(self, saved: Saved) -> Position:
        """Puts a checkpoint back, and says where it was."""
        position = Position.of(saved.facts["position"], saved.tensors["curve"])
        self.load(saved.under("model/"))
        optimizers.restore(self.optimizer, saved.under("optimizer/"), saved.facts["optimizer"])
        if self.average is not None:
            self.average.restore(saved.under("average/"))
        if self.scale is not None:
            self.scale.restore(saved.under("scale/"))
        if position.batch < len(self.loader):
            self.loader.restore(saved.facts["loader"])
        return position

    def load(self, weights: dict[str, Tensor]) -> None:
        try:
            self.model.load_state_dict(weights)
        except RuntimeError as error:
            raise CorruptError(f"the checkpoint does not fit the model: {error}") from error

    def put_average(self) -> None:
        """The average for good, where there is one."""
        if self.average is not None:
            self.average.settle()


class Keeping:
    """Saves and brings back, on the first rank; the others are given what it has.

    Args:
        parts: what changes.
        checkpoints: where to keep them; None keeps the best weights in memory alone.
        group: the ranks.
        best: whether the best weights are wanted at the end.
        warn: tells the user.
    """

    def __init__(
        self,
        parts: Parts,
        checkpoints: Checkpoints | None,
        group: Group,
        best: bool,
        warn: Callable[[str], None],
    ) -> None:
        self._parts, self._checkpoints, self._group = parts, checkpoints, group
        self._wanted, self._warn = best, warn
        self._number: int | None = None
        self._weights: dict[str, Tensor] | None = None

    @property
    def on_disk(self) -> bool:
        return self._checkpoints is not None

    def begin(self) -> Saved | None:
        """The last checkpoint, on all ranks; without one, all ranks have the first one's weights."""
        saved = self._checkpoints.last() if self._checkpoints is not None else None
        if self._group.ranks > 1:
            saved = _shared(self._group, saved)
            weights = _shared(self._group, Saved(self._parts.model.state_dict(), {}) if self._group.first else None)
            assert weights is not None
            self._parts.load(weights.tensors)
            if self._parts.average is not None:
                self._parts.average.begin()
        if saved is not None:
            self._number = saved.facts.get("best")
        return saved

    def save(self, position: Position, facts: dict[str, Any], is_best: bool = False) -> None:
        """A checkpoint, where they are kept; otherwise the weights, if they are the best."""
        if self._checkpoints is not None:
            number = self._checkpoints.save(self._parts.capture(position, facts), self._number, is_best)
            self._number = number if is_best else self._number
        elif is_best and self._wanted and self._group.first:
            with averaged(self._parts.average):
                state = self._parts.model.state_dict()
                self._weights = {name: value.detach().cpu().clone() for name, value in state.items()}

    def finish(self) -> None:
        """Leaves the model with the weights that were asked for, on every rank."""
        self._take_best()
        if self._group.ranks > 1:
            state = Saved(self._parts.model.state_dict(), {}) if self._group.first else None
            shared = _shared(self._group, state)
            assert shared is not None
            self._parts.load(shared.tensors)

    def _take_best(self) -> None:
        parts = self._parts
        if self._wanted and self._weights is not None:
            parts.load(self._weights)
            return
        if self._wanted and self._checkpoints is not None and self._number is not None:
            try:
                saved = self._checkpoints.read(self._number)
            except CorruptError as error:
                self._warn(f"the best checkpoint cannot be read, so the model has its last weights: {error}")
            else:
                parts.load(saved.under("model/"))
                if parts.average is not None:
                    parts.average.restore(saved.under("average/"))
        parts.put_average()


def _shared(group: Group, saved: Saved | None) -> Saved | None:
    """The first rank's, on all."""
    tensors = b""
    if saved is not None:
        plain = {name: value.detach().cpu().clone().contiguous() for name, value in saved.tensors.items()}
        tensors = safetensors.torch.save(plain)
    tensors = group.share(tensors)
    facts = group.share(json.dumps(saved.facts).encode() if saved is not None else b"")
    if not tensors:
        return None
    return saved if saved is not None else Saved(safetensors.torch.load(tensors), json.loads(facts))
