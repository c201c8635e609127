"""Working ahead, on a thread of its own."""

import contextlib
import os
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")

_PATIENCE = 2.0  # seconds


class BackgroundThread(contextlib.AbstractContextManager["BackgroundThread"]):
    """Calls functions one after the other on its thread. At the end it is waited for, but not for long, as an
    executor's would be: a source that blocks must not keep Ctrl-C from ending the run. A thread that is in the middle
    of its work when the interpreter ends would bring the process down."""

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[tuple[Callable[[], Any], Future[Any]] | None] = queue.SimpleQueue()
        self._stopped = False
        self._thread = threading.Thread(target=self._work, name="brimful-ahead", daemon=True)
        self._thread.start()

    def submit(self, call: Callable[[], T]) -> Future[T]:
        """What the function will have returned, or raised."""
        future: Future[T] = Future()
        self._queue.put((call, future))
        return future

    def _work(self) -> None:
        while (order := self._queue.get()) is not None and not self._stopped:
            call, future = order
            try:
                future.set_result(call())
            except BaseException as error:
                future.set_exception(error)
            del order, call, future  # what was made is not to be held while waiting for the next

    def __exit__(self, *error: object) -> None:
        self._stopped = True  # what is still queued is not wanted
        self._queue.put(None)
        self._thread.join(_PATIENCE)


def cores() -> int:
    """The processor cores this process may run on, which can be fewer than the machine has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
