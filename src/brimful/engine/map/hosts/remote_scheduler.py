"""The scheduler of a map as a worker sees it."""

import functools
import threading
from collections.abc import Callable
from typing import Any

from ...distributed.workers import Channel
from ..batch import BatchResult
from ..batch_spans import BatchSpan
from ..size_search import BatchMeasurement, SizerState
from ..sources import ItemSource, LoadedBatch
from ..timeouts import overwritten
from .blocks import Block, BlockRun


class RemoteScheduler:
    """The scheduler as a worker sees it: every call goes to the parent and waits for its answer, those apart that the
    worker can answer from its block."""

    def __init__(self, channel: Channel, items: ItemSource | None, timeout: float | None = None) -> None:
        self._channel, self._items, self._timeout, self._lock = channel, items, timeout, threading.Lock()
        self._blocks = BlockRun()

    def _ask(self, name: str, *arguments: Any) -> Any:
        with self._lock:
            self._channel.send((name, arguments))
            return self._channel.receive()

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return functools.partial(self._ask, name)

    def next(self, available: int) -> BatchSpan | None:
        if (span := self._blocks.next()) is not None:
            return span
        self.hand_in()
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
            self._ask("done", done, measurement)
        elif self._blocks.due:
            self.hand_in()

    def hand_in(self) -> None:
        """Sends the results that wait."""
        if finished := self._blocks.take():
            self._ask("finished", finished)

    def load(self, span: BatchSpan) -> LoadedBatch | None:
        loaded = span.loaded if self._items is None else self._items.load(span.start, span.stop)
        if loaded is None or not span.slow:
            return loaded
        return overwritten(loaded, span.slow, self._timeout or 0.0, span.crash)
