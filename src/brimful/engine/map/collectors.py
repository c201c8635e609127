"""Collecting finished batches, on a background thread: in memory, or on disk, where `Shards` is the collector."""

import queue
import threading
from collections.abc import Callable
from typing import Protocol

import numpy as np
import torch

from ...core.base import pytree
from .executor import BatchResult


class Collector(Protocol):
    """Where results go."""

    def write(self, done: BatchResult, index: np.ndarray) -> None:
        """Takes a finished batch."""
        ...

    def values(self) -> pytree.Tree | None:
        """All values in the order of the items."""
        ...


class MemoryCollector:
    """Results gathered in host memory: in place where the number of items is known, in a list where not."""

    def __init__(self, length: int | None) -> None:
        self._length = length
        self._whole: pytree.Tree | None = None
        self._parts: list[pytree.Tree] = []
        self._index: list[np.ndarray] = []
        self._missing: list[np.ndarray] = []

    def write(self, done: BatchResult, index: np.ndarray) -> None:
        if done.values is None:
            self._missing.append(index)
        elif self._length is None:
            self._parts.append(pytree.apply(done.values, _own))
            self._index.append(index)
        else:
            if self._whole is None:
                self._whole = _room(done.values, self._length)
            pytree.put_rows(self._whole, index, done.values)

    def values(self) -> pytree.Tree | None:
        if self._parts:
            self._whole = pytree.assemble(self._parts, self._index, self._missing)
            self._parts = []
        elif self._whole is not None and self._missing:
            for index in self._missing:
                pytree.put_rows(self._whole, index, pytree.blank_rows(self._whole, len(index)))
        self._missing = []
        return self._whole


def _room(form: pytree.Tree, count: int) -> pytree.Tree:
    return pytree.apply(form, lambda tensor: torch.empty((count, *tensor.shape[1:]), dtype=tensor.dtype))


def _own(tensor: torch.Tensor) -> torch.Tensor:
    """A copy in ordinary memory: pinned memory is scarce, and goes back for the next batch."""
    return tensor.clone() if tensor.is_pinned() else tensor


class BackgroundWriter:
    """Calls a function on a thread of its own, in order, with a few calls waiting at most.

    An exception there is raised here, at the next call or at the end.
    """

    def __init__(self, write: Callable[[BatchResult], None], waiting: int = 2) -> None:
        self._write = write
        self._queue: queue.Queue[BatchResult | None] = queue.Queue(waiting)
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._work, name="brimful-writer", daemon=True)

    def __call__(self, done: BatchResult) -> None:
        self._raise()
        if not self._thread.ident:
            self._thread.start()
        self._queue.put(done)

    def _work(self) -> None:
        while (done := self._queue.get()) is not None:
            try:
                if self._error is None:
                    self._write(done)
            except BaseException as error:
                self._error = error
            finally:
                del done  # its memory is for the next batch, not to be held while waiting for it
                self._queue.task_done()

    def drain(self) -> None:
        """Waits until all that was handed over is written."""
        self._queue.join()
        self._raise()

    def close(self) -> None:
        """Waits until all is written."""
        if self._thread.is_alive():
            self._queue.put(None)
            self._thread.join()
        self._raise()

    def _raise(self) -> None:
        if self._error is not None:
            raise self._error
