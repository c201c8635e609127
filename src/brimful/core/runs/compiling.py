"""What a run says when loops are compiled: the first use of each takes seconds, once on a machine."""

import contextlib
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

from .events import Compiled, Events

_SHORTEST = 1.0  # seconds of compiling that are worth a word
_lock = threading.Lock()


@contextlib.contextmanager
def watch_compiling(events: Events, work: str = "") -> Iterator[None]:
    """Emits `Compiled` when numba begins to compile loops, and again with how many and how long, at the end of the
    block. Loops that are on disk already are not compiled. Where numba is not imported, nothing is watched."""
    numba = sys.modules.get("numba")
    if numba is None:
        yield
        return
    from numba.core import event as numba_events

    class Listener(numba_events.Listener):
        def __init__(self) -> None:
            self.depth, self.loops, self.seconds, self.started = 0, 0, 0.0, 0.0

        def on_start(self, event: Any) -> None:
            with _lock:
                self.depth += 1
                self.loops += 1
                first = self.loops == 1
                self.started = time.monotonic() if self.depth == 1 else self.started
            if first:
                events.emit(Compiled(loops=0, seconds=0.0, work=work))

        def on_end(self, event: Any) -> None:
            with _lock:
                self.depth -= 1
                self.seconds += time.monotonic() - self.started if self.depth == 0 else 0.0

    listener = Listener()
    numba_events.register("numba:compile", listener)
    try:
        yield
    finally:
        numba_events.unregister("numba:compile", listener)
        if listener.seconds >= _SHORTEST:
            events.emit(Compiled(loops=listener.loops, seconds=listener.seconds, work=work))
