"""What a run says when loops and kernels are compiled: the first use of each takes seconds, once on a machine."""

import contextlib
import threading
import time
from collections.abc import Iterator

from ..base.compilers.activity import listening
from .events import Compiled, Events
from .log_state import RunClock

_SHORTEST = 1.0  # seconds of compiling that are worth a word
_DELAY = 1.5  # seconds after which what may be read from disk is taken to be compiled


@contextlib.contextmanager
def watch_compiling(events: Events, work: str = "", clock: RunClock | None = None) -> Iterator[None]:
    """Emits `Compiled` when numba, Triton or torch.compile begin to compile, and again with how many functions and how
    long, at the end of the block. What is on disk already is not compiled.

    Args:
        events: where to.
        work: what it is for.
        clock: does not count the seconds of compiling among those of the run.
    """
    watcher = _Watcher(events, work, clock)
    with contextlib.closing(watcher), listening(watcher):
        yield


class _Watcher:
    def __init__(self, events: Events, work: str, clock: RunClock | None) -> None:
        self._events, self._work, self._clock = events, work, clock
        self._lock, self._timer = threading.Lock(), None
        self._depth, self._functions, self._seconds, self._started = 0, 0, 0.0, 0.0
        self._compiled = self._announced = False

    def begin(self, certain: bool) -> None:
        with self._lock:
            self._depth += 1
            if self._depth == 1:
                self._started, self._compiled = time.perf_counter(), False
                if not certain and not self._announced:
                    self._timer = threading.Timer(_DELAY, self._announce)
                    self._timer.daemon = True
                    self._timer.start()
        if certain:
            self._announce()

    def end(self, compiled: bool) -> None:
        with self._lock:
            if self._depth == 0:  # it began before the block
                return
            self._depth -= 1
            self._functions += compiled
            self._compiled |= compiled
            if self._depth:
                return
            if self._timer is not None:
                self._timer.cancel()
            if self._compiled:
                seconds = time.perf_counter() - self._started
                self._seconds += seconds
                if self._clock is not None:
                    self._clock.compiling += seconds

    def _announce(self) -> None:
        with self._lock:
            if self._announced or not self._depth:
                return
            self._announced = True
        self._events.emit(Compiled(loops=0, seconds=0.0, work=self._work))

    def close(self) -> None:
        """Says how many and how long."""
        if self._timer is not None:
            self._timer.cancel()
        if self._seconds >= _SHORTEST:
            self._events.emit(Compiled(loops=self._functions, seconds=self._seconds, work=self._work))
