"""Supervises the process of one job, from its start to its end: takes in what it writes, stops it when that is asked
for, and starts it again where it died without a word."""

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from enum import IntEnum
from pathlib import Path
from typing import Any

from ...core.base.errors import BrimfulError, StorageError, WorkerError
from ..child.job_dir import LOG, ExitCode, JobResult
from ..errors import Unavailable
from ..jobs.job import Job
from ..store import Store
from ..store.ingest import ingest, ingest_all
from .processes import Child

_LOG = logging.getLogger("brimful.service")
_EVERY = 0.2  # seconds between two looks at a process and its files
_MOST_DEATHS = 8
_LONGEST_PAUSE = 10.0


class Stop(IntEnum):
    """Why a job is to stop; a greater one overrides a smaller."""

    NO = 0
    SERVER = 1
    PAUSE = 2
    CANCEL = 3


GRACE = {Stop.PAUSE: 120.0, Stop.CANCEL: 2.0}
"""Seconds until a process that was asked to stop is killed; that of the server is an option."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How the supervision ended: "finished", "failed" or "stopped"."""

    state: str
    message: str = ""
    summary: dict[str, Any] | None = None
    exit_code: int | None = None

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


class Control:
    """What is wanted of a running job, set from any thread."""

    def __init__(self) -> None:
        self._changed = threading.Event()
        self.stop = Stop.NO
        self.deadline = float("inf")

    def request(self, stop: Stop, grace: float) -> None:
        if stop > self.stop:
            self.stop = stop
            self.deadline = min(self.deadline, time.monotonic() + grace)
            self._changed.set()

    def wake(self) -> None:
        """Something has happened: `wait` ends."""
        self._changed.set()

    def wait(self, seconds: float) -> None:
        """Until something else is wanted, or has happened, or that long."""
        self._changed.wait(seconds)
        self._changed.clear()


class Supervisor:
    """Runs one job.

    Args:
        start: starts its process.
    """

    def __init__(self, store: Store, job: Job, folder: Path, control: Control, start: Callable[[], Child]) -> None:
        self._store, self._job, self._folder = store, job, folder
        self._control, self._start = control, start
        self._deaths, self._progress = 0, job.progress

    def run(self) -> Outcome:
        while True:
            if self._control.stop is not Stop.NO:
                return Outcome(state="stopped")
            lost = self._store.pool.lost
            try:
                code = self._run_process()
            except (OSError, WorkerError) as error:
                return Outcome(state="failed", message=f"its process could not be started: {error}")
            ingest_all(self._store.pool, self._job.id, self._folder)
            outcome = self._outcome(code, lost)
            if outcome is not None:
                return outcome
            self._control.wait(min(_LONGEST_PAUSE, 0.1 * 2**self._deaths))

    def _run_process(self) -> int:
        """Its exit code."""
        child = self._start()
        child.notify = self._control.wake
        asked = False
        try:
            while (code := child.poll()) is None:
                if self._control.stop is not Stop.NO:
                    if not asked:
                        asked = True
                        child.stop()
                    if time.monotonic() > self._control.deadline:
                        child.kill()
                self._take_in()
                self._control.wait(_EVERY)
            return code
        finally:
            child.kill()  # and what it left behind

    def _take_in(self) -> None:
        try:
            ingest(self._store.pool, self._job.id, self._folder)
        except Unavailable:
            pass  # the files stay: they are taken in when the database is back
        except BrimfulError as error:
            _LOG.error("job %s: its events cannot be stored: %s", self._job.id, error)

    def _outcome(self, code: int, lost: int) -> Outcome | None:
        """How it ended; None where it is to be started again."""
        result = JobResult.read(self._folder)
        if result is not None and result.state == "finished":
            return Outcome(state="finished", summary=result.summary, exit_code=int(ExitCode.FINISHED))
        if self._control.stop is not Stop.NO:
            return Outcome(state="stopped", exit_code=code)
        away = self._store.pool.lost > lost
        if result is not None and result.state == "failed":
            if not (away and result.error == StorageError.__name__):  # else it was the database that was away
                return Outcome(state="failed", message=result.message, exit_code=code)
        elif code == ExitCode.FAILED:
            return Outcome(state="failed", message=self._last_line(), exit_code=code)
        return self._died(code)

    def _died(self, code: int) -> Outcome | None:
        progress = self._store.jobs.get(self._job.id, always=True).progress
        self._deaths = 1 if progress != self._progress else self._deaths + 1
        self._progress = progress
        how = f"was killed by signal {-code}" if code < 0 else f"ended with code {code} and no result"
        if self._deaths < _MOST_DEATHS:
            _LOG.warning("job %s: its process %s; it is started again", self._job.id, how)
            return None
        message = (
            f"its process {how}, {_MOST_DEATHS} times in a row without progress; host memory may be short. See the "
            "log, give it a smaller budget, or free memory, and retry"
        )
        return Outcome(state="failed", message=message, exit_code=code)

    def _last_line(self) -> str:
        try:
            lines = (self._folder / LOG).read_bytes()[-4096:].decode(errors="replace").strip().splitlines()
        except OSError:
            lines = []
        return lines[-1] if lines else "its process failed and said nothing"
