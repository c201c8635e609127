"""Progress as plain lines; the other forms of it build on what they say."""

import time
from collections.abc import Callable
from typing import TextIO

from ..base.formatting import format_bytes, format_count, format_seconds
from .events import BatchDone, Compiled, EpochDone, Event, Finished, NodesDone, Started, Warned

_NODES = 4  # of a cluster, whose rates are shown one by one


class Lines:
    """Plain lines without control codes, at most one every few seconds."""

    def __init__(self, stream: TextIO, every: float = 5.0, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream, self._every, self._clock = stream, every, clock
        self._run, self._done = Started(work="", items=None, done=0, budget=0), 0
        self._started = self._last = clock()
        self._nodes: tuple[str, ...] = ()

    def __call__(self, event: Event) -> None:
        match event:
            case Started():
                self._run, self._done, self._started = event, event.done, self._clock()
                self._start(event)
            case BatchDone():
                self._done = event.done
                memory = (f"{format_bytes(event.peak)} of {format_bytes(event.budget)}",) if event.budget else ()
                rate = f"{format_count(self._rate())}/s"
                self._update((self._share(), rate, *self._left(), *memory, *self._nodes))
            case NodesDone():
                self._nodes = (_by_node(event.nodes, max(self._clock() - self._started, 1e-9)),)
            case EpochDone():
                self._epoch(_epoch(event), event.epoch == 1, event.epoch == event.epochs)
            case Warned():
                self._print(f"warning: {event.message}")
            case Compiled():
                self._print(f"{event.work or self._run.work}: {_compiling(event)}")
            case Finished():
                self.close()
                self._finish(f"{self._run.work}: {_ending(event)}")

    def close(self) -> None:
        pass

    def note(self, line: str) -> None:
        """Shows a line that is no event of the run."""
        self._print(line)

    def _start(self, event: Started) -> None:
        what = "a stream" if event.items is None else f"{format_count(event.items)} items"
        resumed = f", {format_count(event.done)} done before" if event.done else ""
        budget = f", budget {format_bytes(event.budget)}" if event.budget else ""
        self._print(f"{event.work}: {what}{resumed}{budget}")

    def _update(self, parts: tuple[str, ...]) -> None:
        if self._clock() - self._last >= self._every:
            self._print(f"{self._run.work}: {', '.join(parts)}")

    def _epoch(self, text: str, first: bool, last: bool) -> None:
        if first or last or self._clock() - self._last >= self._every:
            left = self._left() if self._rate() > 0 and not last else ()
            self._print(f"{self._run.work}: {', '.join((text, *left))}")

    def _print(self, line: str) -> None:
        self._last = self._clock()
        print(line, file=self._stream, flush=True)

    def _finish(self, line: str) -> None:
        self._print(line)

    def _rate(self) -> float:
        passed = self._clock() - self._started
        return (self._done - self._run.done) / passed if passed > 0 else 0.0

    def _share(self) -> str:
        share = f" of {format_count(self._run.items)} ({self._done / self._run.items:.0%})" if self._run.items else ""
        return "nothing" if self._run.items == 0 else f"{format_count(self._done)}{share}"

    def _left(self) -> tuple[str, ...]:
        """The time left; nothing once all is done."""
        items, rate = self._run.items, self._rate()
        if items is not None and self._done >= items:
            return ()
        return (f"{'?' if items is None or rate <= 0 else format_seconds((items - self._done) / rate)} left",)


def _by_node(done: dict[str, int], seconds: float) -> str:
    """Items per second of every node; of many, of the slowest and the fastest."""
    rates = {node: format_count(count / seconds) for node, count in sorted(done.items(), key=lambda item: item[1])}
    if len(rates) > _NODES:
        slowest, *_, fastest = rates
        return f"{len(rates)} nodes, {slowest} {rates[slowest]}/s to {fastest} {rates[fastest]}/s"
    return ", ".join(f"{node} {rate}/s" for node, rate in sorted(rates.items()))


def _epoch(event: EpochDone) -> str:
    hidden = ("lr", "grad_norm", "grad_norm_max", "weight_norm", "skipped")
    shown = (f"{name} {value:.4g}" for name, value in event.values.items() if name not in hidden)
    return f"epoch {event.epoch} of {event.epochs}: {', '.join(shown)}"


def _compiling(event: Compiled) -> str:
    if not event.loops:
        return "compiling, once on this machine, which may take half a minute; the next run finds it compiled"
    return f"compiled {event.loops} functions in {format_seconds(event.seconds)}"


def _ending(event: Finished) -> str:
    bad = f", {format_count(event.bad)} flagged" if event.bad else ""
    text = f"{event.state}, {format_count(event.done)} items{bad} in {format_seconds(event.seconds)}"
    text += f" after compiling for {format_seconds(event.compiling)}" if event.compiling >= 1 else ""
    return f"{text}. {event.message}" if event.message else text
