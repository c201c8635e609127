"""What a training run holds in memory, by the plan's names for its parts."""

from collections.abc import Iterable
from typing import Any

from torch import Tensor

from ...data.loading import Loader
from .checkpoints import Checkpointer


def held_bytes(trained: Checkpointer, data: Loader, valid: Loader | None) -> dict[str, int]:
    """Bytes by part, of those that are in memory now. What the plan calls working memory is the rest of its peak.

    Args:
        trained: has the model, and what is kept beside it.
    """
    model, optimizer = trained.model, trained.optimizer
    state = (value for values in optimizer.state.values() for value in values.values())
    held = {
        "parameters": _bytes([*model.parameters(), *model.buffers()]),
        "gradients": _bytes(parameter.grad for parameter in model.parameters()),
        "optimizer": _bytes(state),
        "moving average": _bytes(trained.average.values),
        "best weights": _bytes((trained.best_weights or {}).values()),
        "data": data.resident_bytes,
        "validation data": 0 if valid is None else valid.resident_bytes,
    }
    return {name: size for name, size in held.items() if size}


def _bytes(values: Iterable[Any]) -> int:
    return sum(value.numel() * value.element_size() for value in values if isinstance(value, Tensor))
