"""A model's buffers as they were before a step."""

import torch
from torch import Tensor, nn

from ....core.base import foreach


class BufferBackup:
    """What a forward pass changes beside gradients, such as running means: saved before each step, so that a step
    that is repeated does not count twice. Which buffers change is seen in the first step."""

    def __init__(self, model: nn.Module) -> None:
        self._buffers = list(model.buffers())
        self._saved: list[tuple[Tensor, Tensor, int]] = []
        self._steps = 0

    def save(self) -> None:
        if self._steps == 0:
            self._saved = [(buffer, buffer.clone(), buffer._version) for buffer in self._buffers]
        elif self._steps == 1:
            # Batch normalization changes its means without a new version.
            self._saved = [
                (buffer, saved, version)
                for buffer, saved, version in self._saved
                if buffer._version != version or not torch.equal(buffer, saved)
            ]
        if self._steps and self._saved:
            foreach.copy([saved for _, saved, _ in self._saved], [buffer for buffer, _, _ in self._saved])
        self._steps += 1

    def restore(self, where: Tensor | None = None) -> None:
        """As they were before the step; with `where`, only if that is not 0, without waiting."""
        with torch.no_grad():
            for buffer, saved, _ in self._saved:
                buffer.copy_(saved if where is None else torch.where(where != 0, saved, buffer))
