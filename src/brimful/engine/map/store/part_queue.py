"""Finished batches on their way to whoever reads a streaming map: in order of their positions, or as they complete.

What earlier runs finished stays on disk until its turn comes. Batches that were finished out of order wait here; once
they take more than a bound, no further batches are handed out (`full`) until those before them are done.
"""

import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from ....core.base import pytree
from ..batch import BatchResult, is_bad
from .collectors import unpinned
from .shards import Shards


@dataclass(frozen=True, slots=True, eq=False)
class MapPart:
    """A finished batch of a streaming map.

    Attributes:
        start, stop: the positions of its items, in the order of execution.
        index: the items' own indices: the positions, unless `weight=` put the heaviest first.
        values: the results, items along the leading axis, on the CPU; None where every item failed.
        status: one `Status` code per item.
        messages: what went wrong with an item, by its own index.
    """

    start: int
    stop: int
    index: np.ndarray
    values: pytree.Tree | None
    status: np.ndarray
    messages: dict[int, str]

    @property
    def ok(self) -> np.ndarray:
        """Which items have a good result."""
        return ~is_bad(self.status)

    def __len__(self) -> int:
        return self.stop - self.start

    def __repr__(self) -> str:
        bad = int(np.count_nonzero(is_bad(self.status)))
        flagged = f", {bad} flagged" if bad else ""
        return f"MapPart({self.start}:{self.stop}{flagged})"


class PartQueue:
    """Parts that are finished and not yet read.

    Args:
        ordered: give them in order of their positions.
        most: bytes that may wait out of order.
        shards: where they are written as well; None: nowhere.
        stored: the spans that earlier runs finished, in order.
    """

    def __init__(
        self, ordered: bool, most: int, shards: Shards | None = None, stored: Iterable[tuple[int, int]] = ()
    ) -> None:
        self._ordered, self._most, self._shards = ordered, most, shards
        self._lock = threading.Lock()
        self._stored = dict(stored)
        self._waiting: dict[int, MapPart] = {}
        self._bytes = self._position = 0

    def write(self, done: BatchResult, index: np.ndarray) -> None:
        """Takes a finished batch; with shards, once it is on disk."""
        if self._shards is not None:
            self._shards.write(done, index)
        values = None if done.values is None else unpinned(done.values)
        messages = {int(index[item]): text for item, text in done.messages.items()}
        part = MapPart(done.start, done.start + done.count, index, values, done.status, messages)
        with self._lock:
            self._waiting[part.start] = part
            self._bytes += _nbytes(part)

    @property
    def full(self) -> bool:
        """Whether more wait than may."""
        with self._lock:
            return self._bytes > self._most

    def ready(self) -> Iterator[MapPart]:
        """The parts whose turn it is. What is given is no longer kept here."""
        while (part := self._next()) is not None:
            yield part
            del part  # not to be kept while the next one is computed

    def _next(self) -> MapPart | None:
        start = self._position
        if not self._ordered:
            with self._lock:
                start = next(iter(self._stored or self._waiting), start)
        if start in self._stored:
            self._position = stop = self._stored.pop(start)
            assert self._shards is not None
            return MapPart(start, stop, *self._shards.read(start, stop))
        with self._lock:
            part = self._waiting.pop(start, None)
            if part is not None:
                self._position = part.stop
                self._bytes -= _nbytes(part)
        return part


def _nbytes(part: MapPart) -> int:
    return 0 if part.values is None else pytree.nbytes(part.values)
