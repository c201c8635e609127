"""Random transforms of batches, with a generator that is seeded anew for each."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from .order import Order
from .permutation import transform_seed

Transform = Callable[[Any, torch.Generator], Any]


class SeededTransforms:
    """Transforms of a rank's batches, one after the other.

    Args:
        transforms: each of a batch and a generator.
        device: of the generator.
        order: of the samples.
        rank, ranks: which part of each batch, of how many.
    """

    def __init__(
        self, transforms: Sequence[Transform], device: torch.device, order: Order, rank: int, ranks: int
    ) -> None:
        self._transforms, self._device, self._order, self._part = transforms, device, order, (rank, ranks)
        self._generator = torch.Generator(device) if transforms else None
        self._per_sample = all(getattr(transform, "per_sample", False) for transform in transforms)
        self._positions: tuple[int, np.ndarray] | None = None  # of an epoch

    def of(self, order: Order) -> "SeededTransforms":
        """The same for another order."""
        return SeededTransforms(self._transforms, self._device, order, *self._part)

    def __call__(self, batch: Any, epoch: int, number: int) -> Any:
        """The batch of that number in an epoch, transformed."""
        if self._generator is not None:
            position = 0 if self._per_sample else self._position(epoch, number)
            self._generator.manual_seed(transform_seed(self._order.seed, epoch, number, position))
            for transform in self._transforms:
                batch = transform(batch, self._generator)
        return batch

    def _position(self, epoch: int, number: int) -> int:
        """How many samples of a batch come before this rank's."""
        if self._positions is None or self._positions[0] != epoch:
            self._positions = epoch, self._order.positions(epoch, *self._part)
        return int(self._positions[1][number])
