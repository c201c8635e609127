"""How long a loop waited for its batches, as a share of the epoch."""

import time
from dataclasses import dataclass
from typing import Any

_MANY = 256  # pairs of events that are kept before those that have happened are added up


@dataclass(frozen=True, slots=True)
class Stall:
    """Of one epoch, or of as much of it as has been read.

    Attributes:
        waited: seconds in which nothing could be done for want of a batch. On CUDA the device's: from the end of its
            work on one batch to the arrival of the next. On a CPU the loop's.
        seconds: from the first request for a batch on.
        loading: seconds before that, in which rows were brought where they live.
    """

    waited: float
    seconds: float
    loading: float = 0.0

    @property
    def share(self) -> float:
        return self.waited / self.seconds if self.seconds > 0 else 0.0

    def __str__(self) -> str:
        return f"{self.share:.1%} of {self.seconds:.3g} s was waiting for batches"


class StallClock:
    """Measures; a tier reports to it what it waits for."""

    def __init__(self) -> None:
        self._loading = self._waited = 0.0
        self._begun = self._last = time.perf_counter()
        self._events: list[tuple[Any, Any]] = []

    def begin(self, loading: float = 0.0) -> None:
        """An epoch begins, after so many seconds of loading."""
        self._loading, self._waited, self._events = loading, 0.0, []
        self._begun = self._last = time.perf_counter()

    def mark(self) -> None:
        """The loop is here, and wants a batch or the end."""
        self._last = time.perf_counter()

    def add(self, seconds: float) -> None:
        self._waited += seconds

    def add_events(self, used: Any, arrived: Any) -> None:
        """CUDA events: the device was done with one batch, and had the next."""
        self._events.append((used, arrived))
        if len(self._events) >= _MANY:
            happened = [pair for pair in self._events if pair[1].query()]
            self._events = self._events[len(happened) :]  # they happen in order
            self._waited += _seconds(happened)

    def read(self) -> Stall:
        """Waits for the device, if there is one."""
        for _, arrived in self._events[-1:]:
            arrived.synchronize()
        self._waited, self._events = self._waited + _seconds(self._events), []
        return Stall(self._waited, self._last - self._begun, self._loading)


def _seconds(events: list[tuple[Any, Any]]) -> float:
    return sum(max(0.0, used.elapsed_time(arrived)) for used, arrived in events) / 1000
