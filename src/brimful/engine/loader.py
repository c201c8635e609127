"""Reading ahead, on a thread of its own."""

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Self

from .items import Loaded


class Loader:
    """Calls functions one after the other on its thread. The process does not wait for it at its end, as it would for
    an executor's: a source that blocks must not keep Ctrl-C from ending the run."""

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[tuple[Callable[[], Loaded], Future[Loaded]] | None] = queue.SimpleQueue()
        threading.Thread(target=self._work, name="brimful-loader", daemon=True).start()

    def submit(self, load: Callable[[], Loaded]) -> Future[Loaded]:
        """What the function will have returned, or raised."""
        future: Future[Loaded] = Future()
        self._queue.put((load, future))
        return future

    def _work(self) -> None:
        while (order := self._queue.get()) is not None:
            load, future = order
            try:
                future.set_result(load())
            except BaseException as error:
                future.set_exception(error)
            del order, load, future  # what was loaded is not to be held while waiting for the next

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._queue.put(None)
