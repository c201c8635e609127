"""A training task: what to train, on what, and how."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn

from ...core.base.errors import ConfigError, InputError
from ...core.runs import fingerprint as fingerprints
from ...core.runs.function_fingerprint import of_function
from ...data.loading import Loader
from ...data.sources import source
from .config import TrainConfig
from .optim.optimizers import trainable
from .step.optimizer_step import LossFunction

MetricsFunction = Callable[[nn.Module, Any], dict[str, float]]


@dataclass(frozen=True, slots=True, eq=False)
class TrainTask:
    """What to train, on what, and how; checked when it is made. It can be sent to other processes."""

    model: nn.Module
    loss: LossFunction
    data: Any
    valid: Any
    metrics: MetricsFunction | None
    config: TrainConfig
    fingerprint: str = "not kept"

    def __post_init__(self) -> None:
        if not isinstance(self.model, nn.Module):
            raise InputError(f"model is a {type(self.model).__name__}; give a torch.nn.Module")
        if not callable(self.loss):
            raise InputError(f"loss is a {type(self.loss).__name__}; give a function of a model and a batch")
        trainable(self.model)
        if isinstance(self.data, Loader):
            if self.config.batch_size is not None or self.config.loader:
                raise ConfigError("data is a Loader, which has its batch_size and options; leave them out here")
        elif self.config.batch_size is None:
            raise ConfigError("batch_size is missing; give the samples per batch, over all ranks")
        if self.metrics is not None and self.valid is None:
            raise ConfigError("metrics are of the validation data; give valid= too")
        if self.config.monitor == "valid_loss" and self.valid is None:
            raise ConfigError("monitor is 'valid_loss' and there is no validation data; give valid=")
        for name, value in self.model.state_dict().items():
            if not isinstance(value, torch.Tensor):
                raise InputError(f"the model's state holds a {type(value).__name__}, {name!r}; keep tensors there")

    def with_fingerprint(self, fingerprint: str | None) -> "TrainTask":
        """The same, with the fingerprint of its data: of its content, or the text that is given."""
        parts = [_fingerprint(self.data) if fingerprint is None else f"given: {fingerprint}"]
        if self.valid is not None:
            parts.append(_fingerprint(self.valid) if fingerprint is None else "")
        return replace(self, fingerprint=fingerprints.of(parts))

    def identity(self, given: str | None = None) -> dict[str, Any]:
        """What decides the result, beside the data. The initial weights do not count: a run that is resumed has its
        own.

        Args:
            given: the user's own fingerprint, which stands for functions that have no digest.
        """
        return {
            "model": of_function(self.model, self.model, given),
            "loss": of_function(self.loss, self.model, given),
            "frozen": [name for name, parameter in self.model.named_parameters() if not parameter.requires_grad],
            **self.config.identity(given),
        }


def _fingerprint(data: Any) -> str:
    return str(data.state()["fingerprint"]) if isinstance(data, Loader) else source(data).fingerprint()
