"""The pinned tier: rows that can be read by index, in host memory or in their file."""

import itertools
import time
from collections.abc import Generator
from typing import Any

from ..shuffle.ahead import EpochParts
from .staged import Staged
from .tier import Reading


class Pinned(Staged):
    """Rows gathered by index on a thread."""

    def __init__(self, reading: Reading) -> None:
        super().__init__(reading)
        self._rows, self._workers = reading.rows, reading.workers
        self._parts = EpochParts(reading.order, reading.rank, reading.ranks)

    def batches(self, epoch: int, first: int) -> Generator[Any, None, None]:
        """The batches of an epoch."""
        began = time.perf_counter()
        numbers, bounds = self._parts(epoch, first)
        self._clock.add(time.perf_counter() - began)
        spans = (numbers[start:stop] for start, stop in itertools.pairwise(bounds.tolist()))
        with self._rows.reading(self._workers, pin=self._pin) as gather:
            yield from self._stage(gather, spans)
