"""Jobs that run: their processes, and what happens when one ends."""

import logging
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..child.job_dir import RUN, JobFile
from ..errors import NotFound, Unavailable
from ..jobs.job import Job
from ..jobs.references import Locate, resolve
from ..jobs.state import ACTIVE, JobState
from ..path_names import named_values
from ..store import Store
from .inventory import Inventory
from .processes import Child, Spawner
from .scheduler import Needs, Scheduler
from .supervisor import GRACE, Control, Outcome, Stop, Supervisor
from .workflow import Workflows
from .workloads import Workloads

_LOG = logging.getLogger("brimful.service")
_STOPPED = {
    JobState.RUNNING: JobState.QUEUED,
    JobState.PAUSING: JobState.PAUSED,
    JobState.CANCELLING: JobState.CANCELLED,
}
_MESSAGES = {JobState.CANCELLED: "cancelled", JobState.PAUSED: "paused", JobState.QUEUED: "the server was stopped"}


class Runner:
    """Runs the jobs that are admitted.

    Args:
        spawner: starts their processes; it is closed by whoever made it.
        folders: the directory of a job, by its id.
        locate: the path of a reference in a config.
        url: of the database, for jobs that use it.
        notify: called when a job has ended.
        named: a text with what clients call files in place of the server's paths.
    """

    def __init__(
        self,
        store: Store,
        inventory: Inventory,
        spawner: Spawner,
        workloads: Workloads,
        folders: Callable[[str], Path],
        locate: Locate,
        needs: Needs,
        url: str,
        notify: Callable[[str], None] | None = None,
        named: Callable[[str], str] = str,
    ) -> None:
        self._store, self._inventory, self._folder, self._locate, self._url = store, inventory, folders, locate, url
        self._spawner, self._workloads, self._named = spawner, workloads, named
        self._controls: dict[str, Control] = {}
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._grace = 0.0
        self._workflows = Workflows(url, self, notify)
        self.scheduler = Scheduler(store, inventory, needs, self._begin)

    def start(self) -> None:
        """Goes on with jobs that were interrupted, then admits others."""
        self._workflows.launch()
        for job in self._store.jobs.in_states(ACTIVE):
            if not self._workflows.known(job.id, job.attempt):  # killed between two writes
                self._begin(job)
        self.scheduler.start()

    def stop(self, grace: float) -> None:
        """Running jobs keep what they have and end; those that take longer than that are killed."""
        self.scheduler.stop()
        self._grace = grace
        self._stopping.set()
        for control in self._running():
            control.request(Stop.SERVER, grace)
        ends = time.monotonic() + grace + 10
        while self._controls and time.monotonic() < ends:
            time.sleep(0.02)
        self._workflows.close()

    def request(self, id: str, stop: Stop) -> None:
        """Asks the process of a job to stop."""
        with self._lock:
            control = self._controls.get(id)
        if control is not None:
            control.request(stop, GRACE[stop])

    def forget(self, job: Job) -> None:
        """Removes what is recorded of the runs of a job that was deleted."""
        try:
            self._workflows.forget(job.id, job.attempt)
        except Exception as error:  # the database went away; `forget_others` does it later
            _LOG.warning("what is recorded of the runs of job %s is removed later: %s", job.id, error)

    def forget_others(self) -> None:
        """Removes what is recorded of the runs of jobs that there are not any more."""
        self._workflows.forget_others(self._store.jobs.ids())

    @property
    def children(self) -> int:
        """How many jobs run."""
        return len(self._controls)

    def _running(self) -> list[Control]:
        with self._lock:
            return list(self._controls.values())

    def _begin(self, job: Job) -> None:
        self._workflows.start(job.id, job.attempt)

    # The steps of a workflow.

    def supervise(self, id: str, attempt: int) -> dict[str, Any]:
        """Runs the process of a job until it ends or is stopped."""
        control = Control()
        with self._lock:
            self._controls[id] = control
        try:
            return named_values(self._named, self._supervise(id, attempt, control).to_dict())
        except NotFound:
            return Outcome(state="stopped").to_dict()
        except Unavailable:  # the server stops, and the database is away: the next server goes on
            raise
        except Exception as error:
            _LOG.exception("job %s cannot be run", id)
            return Outcome(state="failed", message=f"the server could not run it: {error}").to_dict()
        finally:
            with self._lock:
                del self._controls[id]

    def _supervise(self, id: str, attempt: int, control: Control) -> Outcome:
        job = self._store.jobs.get(id, always=True)
        if job.attempt != attempt or not job.state.active:
            return Outcome(state="stopped")
        if job.state is not JobState.RUNNING:  # it was to stop when the server was killed: its process is gone
            control.request(Stop.CANCEL, 0.0)
        if self._stopping.is_set():
            control.request(Stop.SERVER, self._grace)
        folder = self._folder(id)
        return Supervisor(self._store, job, folder, control, lambda: self._start_process(job, folder)).run()

    def _start_process(self, job: Job, folder: Path) -> Child:
        assert job.lease is not None
        command = self._workloads.command(job.request.workload, job.request.command)
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        devices, device = self._inventory.environment(tuple(job.lease["device"].split(",")))
        cores = job.lease["cores"]
        order = JobFile(
            id=job.id,
            workload=job.request.workload,
            command=job.request.command,
            config=resolve(command, job.request.config, folder / RUN, self._locate),
            device=device,
            budget=job.lease["device_bytes"] or None,
            cores=cores,
        )
        order.write(folder)
        threads = {name: str(cores) for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")}
        environment = {**devices, **threads, "BRIMFUL_DATABASE_URL": self._url, "PYTHONUNBUFFERED": "1"}
        return self._spawner.start(folder, environment)

    def record(self, id: str, attempt: int, outcome: dict[str, Any]) -> bool:
        """Takes the job to the state that it ended in; whether it has ended for good. Doing so again changes
        nothing."""
        try:
            job = self._store.jobs.get(id, always=True)
        except NotFound:
            return False
        if job.attempt != attempt:
            return False
        moved = self._record(job, Outcome(**outcome)) if job.state.active else job
        self.scheduler.wake()
        return moved is not None and moved.state.ended

    def _record(self, job: Job, outcome: Outcome) -> Job | None:
        now = time.time()
        if outcome.state == "finished":
            changes = {"message": "", "summary": outcome.summary, "exit_code": outcome.exit_code, "ended": now}
            return self._store.jobs.move(job.id, JobState.FINISHED, ACTIVE, **changes)
        if outcome.state == "failed" and job.state is not JobState.CANCELLING:
            changes = {"message": outcome.message, "exit_code": outcome.exit_code, "ended": now}
            moved = self._store.jobs.move(job.id, JobState.FAILED, [JobState.RUNNING, JobState.PAUSING], **changes)
            if moved is not None:
                return moved
            job = self._store.jobs.get(job.id, always=True)
        while job.state.active:  # it may be cancelled while it is being paused
            after = _STOPPED[job.state]
            changes = {"message": _MESSAGES[after], "exit_code": outcome.exit_code}
            if after.ended:
                changes["ended"] = now
            moved = self._store.jobs.move(job.id, after, [job.state], **changes)
            if moved is not None:
                return moved
            job = self._store.jobs.get(job.id, always=True)
        return job
