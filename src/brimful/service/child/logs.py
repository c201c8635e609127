"""Where the events of a job go: its log of events, thinned, and its log of metrics."""

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

from ...core.runs.events import BatchDone, EpochDone, Event, JsonLines, Metric, Sampled

_EVERY: dict[type[Event], float] = {BatchDone: 0.25, Sampled: 2.0}
"""Seconds between two events of a kind that there may be thousands of; the last is never left out."""


class EventLog:
    """Appends events to a file of lines."""

    def __init__(self, path: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self._lines, self._clock = JsonLines(path), clock
        self._last: dict[type[Event], float] = {}
        self._waiting: dict[type[Event], Event] = {}
        self._lock = threading.Lock()

    def __call__(self, event: Event) -> None:
        kind = type(event)
        with self._lock:
            if kind in _EVERY:
                if self._clock() - self._last.get(kind, -1e9) < _EVERY[kind]:
                    self._waiting[kind] = event
                    return
                self._last[kind] = self._clock()
                self._waiting.pop(kind, None)
            else:
                self._write_waiting()
            self._lines(event)

    def _write_waiting(self) -> None:
        while self._waiting:
            self._lines(self._waiting.pop(next(iter(self._waiting))))

    def close(self) -> None:
        with self._lock:
            self._write_waiting()
            self._lines.close()


class MetricLog:
    """Appends numbers to a file of lines: those of an epoch are on disk before its checkpoint is written."""

    def __init__(self, path: Path) -> None:
        self._lines, self._path = JsonLines(path), path
        self._step, self._names = -1, set[str]()

    def __call__(self, event: Event) -> None:
        if isinstance(event, Metric):
            self._write(event.metric, event.step, event.time, event.value)
        elif isinstance(event, EpochDone):
            for name, value in event.values.items():
                self._write(name, event.step, event.time, value)
            self._sync()

    def _write(self, name: str, step: int, time: float, value: float) -> None:
        if step != self._step:
            self._step, self._names = step, set()
        if name not in self._names:
            self._names.add(name)
            self._lines.write({"name": name, "step": step, "time": time, "value": float(value)})

    def _sync(self) -> None:
        handle = os.open(self._path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)

    def close(self) -> None:
        self._lines.close()
