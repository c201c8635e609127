"""The order of the next epoch, sorted on a thread while this one is read."""

import contextlib
import threading

import numpy as np

from .order import Order

_WORTHWHILE = 1 << 15  # samples from which on sorting takes longer than starting a thread

Part = tuple[np.ndarray, np.ndarray]
"""Sample numbers, and the bounds of the batches among them."""


class EpochParts:
    """What a rank reads, epoch after epoch, on the host."""

    def __init__(self, order: Order, rank: int, ranks: int) -> None:
        self._order, self._part = order, (rank, ranks)
        self._ahead: tuple[int, threading.Thread, list[Part]] | None = None

    def __call__(self, epoch: int, first: int = 0) -> Part:
        """`Order.part` of an epoch, from batch `first` on."""
        numbers, bounds = self._whole(epoch)
        return numbers[bounds[first] :], bounds[first:] - bounds[first]

    def _whole(self, epoch: int) -> Part:
        ahead, self._ahead = self._ahead, None
        part = None
        if ahead is not None and ahead[0] == epoch:
            ahead[1].join()
            part = ahead[2].pop() if ahead[2] else None
        if part is None:
            part = self._order.part(epoch, *self._part)
        if self._order.shuffle and self._order.samples >= _WORTHWHILE and epoch < 2**64 - 1:
            self._begin(epoch + 1)
        return part

    def _begin(self, epoch: int) -> None:
        parts: list[Part] = []

        def sort() -> None:
            with contextlib.suppress(MemoryError):  # then it is sorted when it is needed, which says so
                parts.append(self._order.part(epoch, *self._part))

        thread = threading.Thread(target=sort, name="brimful-order")
        thread.start()
        self._ahead = (epoch, thread, parts)
