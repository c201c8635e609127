"""Collecting finished batches in memory (`Shards` is the collector on disk), and the thread that does it."""

import contextlib
import functools
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Any

import numpy as np

from ....core.base import pytree
from ....core.base.background import BackgroundThread
from ....core.base.gather import Gatherer, assemble
from ..batch import BatchResult


def unpinned(values: pytree.Tree) -> pytree.Tree:
    """Values to be kept: pinned memory is scarce, and goes back for the next batch."""
    return pytree.apply(values, lambda tensor: tensor.clone() if tensor.is_pinned() else tensor)


class MemoryCollector:
    """Results gathered in host memory: in place where the number of items is known, in a list where not."""

    def __init__(self, length: int | None) -> None:
        self._length = length
        self._whole: pytree.Tree | None = None
        self._gatherer: Gatherer | None = None
        self._parts: list[pytree.Tree] = []
        self._index: list[np.ndarray] = []
        self._missing: list[np.ndarray] = []

    def write(self, done: BatchResult, index: np.ndarray) -> None:
        """Takes a finished batch."""
        if done.values is None:
            self._missing.append(index)
        elif self._length is None:
            self._parts.append(unpinned(done.values))
            self._index.append(index)
        else:
            self._gatherer = self._gatherer or Gatherer(done.values, self._length)
            self._gatherer.put(index, done.values)

    def values(self, count: int | None = None) -> pytree.Tree | None:
        """All values in the order of the items, of which there are so many."""
        if self._parts:
            self._whole = assemble(self._parts, self._index, self._missing)
        elif self._gatherer is not None:
            for index in self._missing:
                self._gatherer.blank(index)
            self._whole, self._gatherer = self._gatherer.whole(), None
        self._missing = []
        return self._whole

    def parts(self) -> Iterator[tuple[np.ndarray, pytree.Tree | None]]:
        """The values, all in one part, with the indices of the items."""
        whole = self.values()
        if whole is not None:
            yield np.arange(pytree.rows(whole)), whole


class BackgroundWriter:
    """Calls a function on a thread of its own, in order, with a few calls waiting at most.

    An exception there is raised here, at the next call or at the end.
    """

    def __init__(self, write: Callable[..., None], waiting: int = 2) -> None:
        self._write, self._most = write, waiting + 1  # and one that is being written
        self._thread: BackgroundThread | None = None
        self._calls: deque[Future[None]] = deque()

    def __call__(self, *arguments: Any) -> None:
        self._thread = self._thread or BackgroundThread()
        while self._calls and (len(self._calls) == self._most or self._calls[0].done()):
            self._calls.popleft().result()
        self._calls.append(self._thread.submit(functools.partial(self._write, *arguments)))

    def drain(self) -> None:
        """Waits until all that was handed over is written."""
        while self._calls:
            self._calls.popleft().result()

    def close(self) -> None:
        """Waits until all is written, ends the thread, and lets go of the function: what that belongs to often holds
        this writer, and all results, which would stay in memory until a garbage collection."""
        try:
            with self._thread or contextlib.nullcontext():
                self.drain()
        finally:
            self._write, self._thread = _closed, None


def _closed(*arguments: Any) -> None:
    raise RuntimeError("the writer is closed")
