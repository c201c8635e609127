"""How far a run came and how long it took, as its log tells: also of one that was killed, and resumed several times.

Every part of a run begins with `Started`, which has the seconds of the parts before, and ends with `Finished`, which
has those of all. Where a part was killed, its last event is when that was. Only the ends of a log are read, however
long it is.
"""

import json
import math
import mmap
import time
from dataclasses import dataclass
from pathlib import Path

from .events import BatchDone, Event, Finished, Started, event_name, from_dict, read_log_end


@dataclass(frozen=True, slots=True)
class LogState:
    """What a log says of its run.

    Attributes:
        state: "finished", "failed", "interrupted", or "killed" where its last part did not end.
        done: items done, as the run counted them.
        kept: those that a resumed run does not do again; of a killed run fewer than `done` where what was finished had
            not been written yet.
        bad: items flagged.
        items: how many there are, where the log has it.
        seconds: of all parts.
    """

    state: str = "killed"
    done: int = 0
    kept: int = 0
    bad: int = 0
    items: int | None = None
    seconds: float = 0.0


def read_state(log: Path) -> LogState:
    """Reads the state from a log; that of a run that has not begun where there is none that can be read."""
    try:
        with log.open("rb") as file:
            if not file.seek(0, 2):
                return LogState()
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
                began, started = _last(content, Started, 0)
                _, batch = _last(content, BatchDone, began)
                ended, finished = _last(content, Finished, began)
        last = next(reversed(read_log_end(log)), None)
    except (OSError, ValueError):
        return LogState()
    items = _count(started.items) if isinstance(started, Started) and started.items is not None else None
    if isinstance(finished, Finished) and ended >= began:
        done, state = _count(finished.done, items), finished.state
        state = state if state in ("finished", "failed", "interrupted") else "killed"
        return LogState(state, done, done, _count(finished.bad), items, _seconds(finished.seconds))
    if not isinstance(started, Started):
        return LogState()
    done = kept = _count(started.done, items)
    bad = 0
    if isinstance(batch, BatchDone):
        done, bad = _count(batch.done, items), _count(batch.flagged)
        kept = done if batch.kept is None else min(done, _count(batch.kept))
    since = 0.0 if last is None else _seconds(last.time - started.time)
    return LogState("killed", done, kept, bad, items, _seconds(started.seconds + since))


def _last(content: mmap.mmap, kind: type[Event], begin: int) -> tuple[int, Event | None]:
    """The last event of a kind from some offset on, and its offset; (0, None) where there is none that can be read."""
    mark, offset = f'{{"event": "{event_name(kind)}"'.encode(), len(content)
    while (offset := content.rfind(mark, begin, offset)) >= 0:
        end = content.find(b"\n", offset)
        try:
            data = json.loads(content[offset : end if end >= 0 else len(content)])
        except (ValueError, RecursionError):
            continue
        if isinstance(data, dict) and (event := from_dict(data)) is not None:
            return offset, event
    return 0, None


def _count(number: int, most: int | None = None) -> int:
    return max(0, number if most is None else min(number, most))


def _seconds(number: float) -> float:
    """Neither a clock that was set back nor a damaged line makes it less than nothing."""
    return number if math.isfinite(number) and number > 0 else 0.0


class RunClock:
    """The seconds of a run, those of its earlier parts among them, and those of compiling not.

    Attributes:
        earlier: seconds of earlier parts.
        compiling: seconds of this part in which loops and kernels were compiled.
    """

    def __init__(self, earlier: float = 0.0) -> None:
        self.earlier, self.compiling = earlier, 0.0
        self._started, self._stopped = time.perf_counter(), None

    def seconds(self) -> float:
        passed = time.perf_counter() - self._started - self.compiling
        return self.earlier + passed if self._stopped is None else self._stopped

    def stop(self, seconds: float | None = None) -> float:
        """The seconds, or those that are given, from here on."""
        self._stopped = self.seconds() if seconds is None else seconds
        return self._stopped
