"""Loss, weight and gradient norm of every step: kept where they are computed, read many at a time."""

import torch
from torch import Tensor

StepRow = Tensor | tuple[float, float, float]
"""Sum, weight and norm of a step: (3,) on the device, or plain numbers on a CPU."""


class StepLog:
    """The rows since the last reading. Reading those on a device waits for it, so it is done every `size` steps."""

    def __init__(self, device: torch.device, dtype: torch.dtype, size: int) -> None:
        self._size = size
        self._on_device = torch.zeros(size, 3, dtype=dtype, device=device)
        self._slots = self._on_device.unbind()
        self._filled = 0
        self._plain: list[tuple[float, float, float]] = []

    @property
    def full(self) -> bool:
        return self._filled + len(self._plain) >= self._size

    def add(self, row: StepRow) -> None:
        if isinstance(row, tuple):
            self._plain.append(row)
        else:
            self._slots[self._filled].copy_(row)
            self._filled += 1

    def read(self) -> list[tuple[float, ...]]:
        """The rows since the last reading: sum, weight, norm."""
        rows = [*self._plain, *map(tuple, self._on_device[: self._filled].tolist() if self._filled else ())]
        self._plain, self._filled = [], 0
        return rows
