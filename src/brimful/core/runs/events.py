"""What happens in a run, as typed values on one stream.

The progress display, the JSON-lines log and any callable all read the same events; none has a channel of its
own. Adding an event is adding a dataclass here.
"""

import contextlib
import json
import re
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from ..base.errors import BrimfulError, BrimfulWarning
from ..base.field_types import fits
from .files import storage_error, truncate_torn_line


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Base of all events. `time` is seconds since the epoch."""

    time: float = field(default_factory=time.time)

    def to_dict(self) -> dict[str, Any]:
        """As JSON values; "event" is the name of the class in lower case, such as "batch_done"."""
        return {"event": event_name(type(self)), **asdict(self)}


def event_name(kind: type) -> str:
    """Its name in a log: that of the class in lower case, such as "batch_done"."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", kind.__name__).lower()


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned(Event):
    """A plan was made. `plan` is `Plan.to_dict()`."""

    plan: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Started(Event):
    """Work begins, or goes on after `done` items that earlier parts of the run finished, in `seconds`."""

    work: str
    items: int | None
    done: int
    budget: int
    seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchDone(Event):
    """A batch was finished: `items` of it, `bad` among them flagged; `done` and `flagged` so far in all. `kept` of them
    a resumed run would not do again; None: all."""

    items: int
    bad: int
    done: int
    seconds: float
    peak: int
    budget: int
    flagged: int = 0
    kept: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodesDone(Event):
    """How many items each node of a cluster has done since the run was started or resumed, by its name."""

    nodes: dict[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochDone(Event):
    """An epoch of training was finished, the `epoch`-th of `epochs`, after `step` steps in all. `values` has its loss,
    learning rate, norms and metrics by name; `data_seconds` of its `seconds` passed without a batch."""

    epoch: int
    epochs: int
    step: int
    seconds: float
    values: dict[str, float]
    data_seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric(Event):
    """A number that was measured, after `step` steps."""

    metric: str
    value: float
    step: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampled(Event):
    """A look at the device while it works: bytes in use of it and of the process, the share of it that is busy (of a
    CPU, that of its cores which the process uses), and power."""

    used: int
    process: int
    utilisation: float | None
    watts: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryMeasured(Event):
    """Bytes that parts of the plan have taken, by name: the most so far, of those that are known exactly."""

    parts: dict[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Warned(Event):
    """Something the user should know that did not stop the work."""

    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Compiled(Event):
    """Loops or kernels are compiled, for the first time on this machine: it begins where `loops` is 0, else it took
    `seconds`.
    `work` is what they are for; empty: what has started."""

    loops: int
    seconds: float
    work: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished(Event):
    """The end of a run: `state` is "finished", "interrupted" or "failed"; `seconds` are those of all its parts.
    `compiling` are seconds of the last part in which loops and kernels were compiled, which are not counted."""

    state: str
    done: int
    bad: int
    seconds: float
    message: str = ""
    compiling: float = 0.0


KINDS: dict[str, type[Event]] = {
    event_name(kind): kind
    for kind in (
        *(Planned, Started, BatchDone, NodesDone, EpochDone, Metric, Sampled, MemoryMeasured, Warned, Compiled),
        Finished,
    )
}


def from_dict(data: dict[str, Any]) -> Event | None:
    """An event from `Event.to_dict()`; None for a kind that this version does not know, with a field missing, or with a
    value of another type. `Finished.compiling` may be missing: logs of earlier versions do not have it."""
    try:
        kind = KINDS[data["event"]]
        data = {"compiling": 0.0, **data} if kind is Finished else data
        values = {field.name: data[field.name] for field in fields(kind)}
    except (KeyError, TypeError):
        return None
    return kind(**values) if fits(kind, values) else None


Sink = Callable[[Event], None]


class Events(contextlib.AbstractContextManager["Events"]):
    """The stream: every event goes to every sink, in order, from whatever thread it comes.

    A sink that raises is reported once and then left out, so that a broken progress callback cannot take hours
    of work down; Brimful's own errors (a full disk under the log) do pass.
    """

    def __init__(self, *sinks: Sink) -> None:
        self._sinks = list(sinks)
        self._lock = threading.RLock()

    def add(self, sink: Sink) -> None:
        with self._lock:
            self._sinks.append(sink)

    def emit(self, event: Event) -> None:
        with self._lock:
            for sink in list(self._sinks):
                try:
                    sink(event)
                except BrimfulError:
                    raise
                except Exception as error:
                    self._sinks.remove(sink)
                    warnings.warn(
                        f"a sink of events failed and is left out from here on: {error!r}", BrimfulWarning, stacklevel=2
                    )

    def close(self) -> None:
        """Closes the sinks that can be closed."""
        with self._lock:
            while self._sinks:
                try:
                    getattr(self._sinks.pop(0), "close", lambda: None)()
                except Exception as error:
                    warnings.warn(f"a sink of events could not be closed: {error!r}", BrimfulWarning, stacklevel=2)

    def __exit__(self, *error: object) -> None:
        self.close()


class JsonLines:
    """A file of JSON objects, one per line; as a sink, it appends each event.

    A line torn by a crash is removed when the file is opened again, so that what follows stays readable.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            truncate_torn_line(path)
            self._file = path.open("a", encoding="utf-8")
        except OSError as error:
            raise storage_error(path, error) from error

    def __call__(self, event: Event) -> None:
        self.write(event.to_dict())

    def write(self, *records: dict[str, Any]) -> None:
        """Appends objects, in one write."""
        try:
            self._file.write("".join(json.dumps(record) + "\n" for record in records))
            self._file.flush()
        except OSError as error:
            raise storage_error(self.path, error) from error

    def close(self) -> None:
        with contextlib.suppress(OSError):  # each line was flushed: what is still unwritten was reported then
            self._file.close()


def read_log(path: Path) -> Iterator[Event]:
    """The events of a log, oldest first. A torn or foreign line is passed over."""
    return _parse(path.read_bytes().splitlines())


def read_log_end(path: Path, most: int = 65_536) -> list[Event]:
    """The last events of a log, however long it is, by reading only its end."""
    with path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(0, size - most))
        lines = file.read().splitlines()
    return list(_parse(lines if size <= most else lines[1:]))


def _parse(lines: list[bytes]) -> Iterator[Event]:
    for line in lines:
        try:
            data = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(data, dict) and (event := from_dict(data)):
            yield event
