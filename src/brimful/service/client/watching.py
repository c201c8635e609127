"""A job's events as the progress of a run: what a terminal shows is what a run on this machine shows."""

from collections.abc import Callable, Iterable
from typing import TextIO

from ...core.runs.events import BatchDone, EpochDone, Event, Finished, Sink, Started, Warned, from_dict
from ...core.runs.progress import sink_for
from ...core.runs.progress_lines import Lines
from ..jobs.job import Job, StoredEvent
from ..jobs.state import JobState

STATE = "state"
"""The kind of an event that says that the job went to another state."""

EXIT_CODES: dict[JobState, int] = {
    JobState.FINISHED: 0,
    JobState.FAILED: 3,
    JobState.CANCELLED: 4,
    JobState.PAUSED: 5,
}
"""Of `brimful jobs watch`, by how the job ended. 1 is an error of the command itself, 2 a wrong option, 130 Ctrl-C."""


def run_event(stored: StoredEvent) -> Event | None:
    """The event as the run emitted it; None where it is of another kind, or of a later version."""
    return from_dict({"time": stored.time, **stored.data, "event": stored.kind})


def settled(job: Job) -> bool:
    """Whether nothing more happens to a job by itself."""
    return job.state in EXIT_CODES


def recent(history: Iterable[StoredEvent]) -> list[StoredEvent]:
    """What there is to show of the past: all but the steps of progress that later ones replace."""
    shown: list[StoredEvent] = []
    progress: dict[type, StoredEvent] = {}
    for stored in history:
        event = run_event(stored)
        if isinstance(event, BatchDone | EpochDone):
            progress[type(event)] = stored
        elif stored.kind == STATE or isinstance(event, Started | Warned | Finished):
            shown.append(stored)
            if isinstance(event, Started | Finished):
                progress.clear()
    return sorted([*shown, *progress.values()], key=lambda stored: stored.id)


class EventClock:
    """The time at which the last event happened: rates are those of the job, however late it is watched."""

    def __init__(self) -> None:
        self._time = 0.0

    def set(self, stored: StoredEvent) -> None:
        self._time = max(self._time, stored.time)

    def __call__(self) -> float:
        return self._time


class Display:
    """Passes a job's events on to a sink of progress, and its states to a function for a line of text."""

    def __init__(self, sink: Sink | None, clock: EventClock, note: Callable[[str], None]) -> None:
        self._sink, self._clock, self._note = sink, clock, note
        self._shown = ""

    @classmethod
    def open(cls, progress: bool | Sink | None, stream: TextIO | None = None) -> "Display":
        """The display that a `progress=` argument asks for, as `sink_for`; a callable gets no lines of text."""
        clock = EventClock()
        sink = sink_for(progress, stream, clock)
        return cls(sink, clock, sink.note if isinstance(sink, Lines) else lambda line: None)

    def show(self, stored: StoredEvent) -> None:
        self._clock.set(stored)
        if stored.kind == STATE:
            self._show_state(stored.data.get("state", ""), stored.data.get("message", ""))
        elif self._sink is not None and (event := run_event(stored)) is not None:
            self._sink(event)

    def _show_state(self, state: str, message: str) -> None:
        line = f"{state}: {message}" if message else state
        if line != self._shown:
            self._shown = line
            self._note(line)

    def close(self) -> None:
        if self._sink is not None:
            getattr(self._sink, "close", lambda: None)()
