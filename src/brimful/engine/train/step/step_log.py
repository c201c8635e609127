"""Loss, weight and gradient norm of every step: kept where they are, read many at a time."""

import torch
from torch import Tensor

Row = Tensor | tuple[float, float, float]
"""Sum, weight and norm of a step: (3,) on the device, or plain numbers where they are at hand."""


class Record:
    """The rows since the last reading. Reading those on a device waits for it, so there it is done every so many."""

    def __init__(self, device: torch.device, dtype: torch.dtype, rows: int) -> None:
        self._rows = torch.zeros(rows, 3, dtype=dtype, device=device)
        self._places = self._rows.unbind()
        self._plain: list[tuple[float, float, float]] = []
        self._filled, self._most = 0, rows

    @property
    def full(self) -> bool:
        return self._filled + len(self._plain) >= self._most

    def add(self, row: Row) -> None:
        if isinstance(row, tuple):
            self._plain.append(row)
        else:
            self._places[self._filled].copy_(row)
            self._filled += 1

    def read(self) -> list[tuple[float, ...]]:
        """The rows since the last reading: sum, weight, norm."""
        found = [*self._plain, *map(tuple, self._rows[: self._filled].tolist() if self._filled else ())]
        self._plain, self._filled = [], 0
        return found
