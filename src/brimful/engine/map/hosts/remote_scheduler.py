"""The scheduler of a map as a worker sees it."""

import functools
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ...distributed.workers import Channel
from ..batch import BatchResult
from ..batch_spans import BatchSpan
from ..size_search import BatchMeasurement, SizerState
from ..sources import ItemSource, LoadedBatch
from ..store.collectors import BackgroundWriter
from ..store.worker_shards import WorkerShards
from ..timeouts import overwritten
from .blocks import Block, BlockRun, FinishedBatches

TOLD = frozenset({"done", "finished"})
"""What a worker tells the parent without waiting for an answer: there is none, and messages arrive in order."""


class RemoteScheduler:
    """The scheduler as a worker sees it: every call goes to the parent, and waits for its answer where there is one;
    those apart that the worker can answer from its block.

    Args:
        channel: to the parent.
        items: read here; None: they are sent with every batch.
        timeout: seconds that an item may take.
        shards: writes results here, on a thread of its own; None: they are sent to the parent.
    """

    def __init__(
        self,
        channel: Channel,
        items: ItemSource | None,
        timeout: float | None = None,
        shards: WorkerShards | None = None,
    ) -> None:
        self._channel, self._items, self._timeout, self._lock = channel, items, timeout, threading.Lock()
        self._blocks, self._shards = BlockRun(), shards
        self._writer = BackgroundWriter(self._write_finished)

    def _ask(self, name: str, *arguments: Any) -> Any:
        with self._lock:
            self._channel.send((name, arguments))
            return None if name in TOLD else self._channel.receive()

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return functools.partial(self._ask, name)

    def next(self, available: int) -> BatchSpan | None:
        if (span := self._blocks.next()) is not None:
            return span
        self.hand_in()
        self._writer.drain()  # the parent must know that this worker has nothing to do
        given = self._ask("next", available)
        if not isinstance(given, Block):
            return given
        self._blocks.add(given)
        return self._blocks.next()

    def begin(self, start: int, stop: int) -> SizerState:
        known = self._blocks.state(start, stop)
        return self._ask("begin", start, stop) if known is None else known

    def done(self, done: BatchResult, measurement: BatchMeasurement) -> None:
        if not self._blocks.keep(done, measurement):
            self._ask("done", self._written(done), measurement)
        elif self._blocks.due:
            self.hand_in()

    def hand_in(self) -> None:
        """Sends the results that wait."""
        if not (finished := self._blocks.take()):
            return
        if self._shards is None:
            self._ask("finished", finished)
        else:
            self._writer(finished)

    def flush(self) -> None:
        """Waits until what was handed in has been written, here and by the parent."""
        self._writer.drain()
        self._ask("flush")

    def close(self) -> None:
        """Hands in the rest."""
        self.hand_in()
        self._writer.close()

    def _write_finished(self, finished: list[FinishedBatches]) -> None:
        self._ask("finished", [replace(group, done=self._written(group.done)) for group in finished])

    def _written(self, done: BatchResult) -> BatchResult:
        if self._shards is None or self._items is None:  # the items say which they are
            return done
        return self._shards.write(done, self._items.index(done.start, done.start + done.count))

    def load(self, span: BatchSpan) -> LoadedBatch | None:
        loaded = span.loaded if self._items is None else self._items.load(span.start, span.stop)
        if loaded is None or not span.slow:
            return loaded
        return overwritten(loaded, span.slow, self._timeout or 0.0, span.crash)
