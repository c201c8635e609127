"""Progress as a person sees it: a live bar on a terminal, plain lines in a pipe or in CI."""

import sys
import time
from collections.abc import Callable
from typing import TextIO

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn

from ..base.formatting import format_bytes, format_count, format_seconds
from .events import BatchDone, EpochDone, Event, Finished, Sink, Started, Warned


def sink_for(progress: bool | Sink | None, stream: TextIO | None = None) -> Sink | None:
    """The sink that a `progress=` argument asks for.

    Args:
        progress: None shows progress where it fits (a bar on a terminal, lines elsewhere), True likewise,
            False is silent, and any callable gets the events themselves.
        stream: where to show it; by default standard error.
    """
    if progress is False:
        return None
    if callable(progress):
        return progress
    where = stream or sys.stderr
    return Bar(where) if where.isatty() else Lines(where)


class _Tally:
    """Rate and time left, from what the events say."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self.work, self.items, self.done = "", None, 0
        self._first, self._started = 0, clock()

    def start(self, event: Started) -> None:
        self.work, self.items, self.done = event.work, event.items, event.done
        self._first, self._started = event.done, self._clock()

    @property
    def rate(self) -> float:
        passed = self._clock() - self._started
        return (self.done - self._first) / passed if passed > 0 else 0.0

    @property
    def share(self) -> str:
        count = format_count(self.done)
        if self.items is None:
            return count
        return f"{count} of {format_count(self.items)} ({self.done / self.items:.0%})" if self.items else "nothing"

    @property
    def left(self) -> str:
        if self.items is None or self.rate == 0:
            return "? left"
        return format_seconds((self.items - self.done) / self.rate) + " left"


def _memory(event: BatchDone) -> str:
    return f"{format_bytes(event.peak)} of {format_bytes(event.budget)}"


class Lines:
    """Plain lines without control codes, at most one every few seconds."""

    def __init__(self, stream: TextIO, every: float = 5.0, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream, self._every, self._clock = stream, every, clock
        self._tally, self._last = _Tally(clock), clock()

    def __call__(self, event: Event) -> None:
        match event:
            case Started():
                self._tally.start(event)
                what = "a stream" if event.items is None else f"{format_count(event.items)} items"
                resumed = f", {format_count(event.done)} done before" if event.done else ""
                self._print(f"{event.work}: {what}{resumed}, budget {format_bytes(event.budget)}")
            case BatchDone():
                self._tally.done = event.done
                if self._clock() - self._last >= self._every:
                    tally = self._tally
                    self._print(
                        f"{tally.work}: {tally.share}, {format_count(tally.rate)}/s, {tally.left}, {_memory(event)}"
                    )
            case EpochDone():
                if event.epoch in (1, event.epochs) or self._clock() - self._last >= self._every:
                    self._print(f"{self._tally.work}: {_epoch(event)}, {self._tally.left}")
            case Warned():
                self._print(f"warning: {event.message}")
            case Finished():
                self._print(f"{self._tally.work}: {_ending(event)}")

    def _print(self, line: str) -> None:
        self._last = self._clock()
        print(line, file=self._stream, flush=True)


class Bar:
    """A live bar: done, rate, time left, memory against budget."""

    def __init__(self, stream: TextIO) -> None:
        self._console = Console(file=stream)
        self._tally = _Tally()
        self._bar = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TextColumn("{task.fields[status]}", markup=False),
            console=self._console,
            transient=True,
        )
        self._task = self._bar.add_task("", total=None, status="")

    def __call__(self, event: Event) -> None:
        match event:
            case Started():
                self._tally.start(event)
                self._bar.update(
                    self._task,
                    description=event.work,
                    total=event.items,
                    completed=event.done,
                    status="starting",
                )
                self._bar.start()
            case BatchDone():
                self._tally.done = event.done
                tally = self._tally
                status = f"{tally.share}  {format_count(tally.rate)}/s  {tally.left}  {_memory(event)}"
                self._bar.update(self._task, completed=event.done, status=status)
            case EpochDone():
                self._bar.update(self._task, description=f"{self._tally.work}: {_epoch(event)}")
            case Warned():
                self._console.print(f"[yellow]warning:[/] {escape(event.message)}", highlight=False)
            case Finished():
                self.close()
                self._console.print(f"{self._tally.work}: {_ending(event)}", highlight=False, markup=False)

    def close(self) -> None:
        self._bar.stop()


def _epoch(event: EpochDone) -> str:
    hidden = ("lr", "grad_norm", "grad_norm_max", "weight_norm", "skipped")
    shown = (f"{name} {value:.4g}" for name, value in event.values.items() if name not in hidden)
    return f"epoch {event.epoch} of {event.epochs}: {', '.join(shown)}"


def _ending(event: Finished) -> str:
    bad = f", {format_count(event.bad)} flagged" if event.bad else ""
    text = f"{event.state}, {format_count(event.done)} items{bad} in {format_seconds(event.seconds)}"
    return f"{text}. {event.message}" if event.message else text
