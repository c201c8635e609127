"""Reading ahead, on a thread of its own."""

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Self

from .items import Loaded

_PATIENCE = 2.0  # seconds


class Loader:
    """Calls functions one after the other on its thread. At the end it is waited for, but not for long, as an
    executor's would be: a source that blocks must not keep Ctrl-C from ending the run. A thread that is in the middle
    of its work when the interpreter ends would bring the process down."""

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[tuple[Callable[[], Loaded], Future[Loaded]] | None] = queue.SimpleQueue()
        self._stopped = False
        self._thread = threading.Thread(target=self._work, name="brimful-loader", daemon=True)
        self._thread.start()

    def submit(self, load: Callable[[], Loaded]) -> Future[Loaded]:
        """What the function will have returned, or raised."""
        future: Future[Loaded] = Future()
        self._queue.put((load, future))
        return future

    def _work(self) -> None:
        while (order := self._queue.get()) is not None and not self._stopped:
            load, future = order
            try:
                future.set_result(load())
            except BaseException as error:
                future.set_exception(error)
            del order, load, future  # what was loaded is not to be held while waiting for the next

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._stopped = True  # what is still queued is not wanted
        self._queue.put(None)
        self._thread.join(_PATIENCE)
