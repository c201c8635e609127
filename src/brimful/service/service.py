"""The service: the one object that faces call. Its methods may be called from any thread, and block.

Every error is a `ServiceError`: `NotFound`, `Conflict`, `Invalid` with the fields at fault, `Unavailable`.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from .jobs.job import Artifact, Job, JobFilter, JobPage, StoredEvent, Upload
from .options import ServeOptions

Series = dict[str, list[tuple[int, float, float]]]
"""Metrics by name: (step, seconds since 1970, value)."""


class Service:
    """Jobs, their metrics, events and files, datasets, uploads, devices and tokens."""

    def __init__(self, options: ServeOptions) -> None:
        self.options = options

    def start(self) -> None:
        """Opens the database, applies migrations, recovers jobs that were interrupted, and starts to admit.

        Raises:
            Conflict: another server uses the database.
        """
        raise NotImplementedError

    def stop(self, grace: float | None = None) -> None:
        """Admits no more; running jobs checkpoint, end, and go on after the next start. Those that take longer than
        `grace` seconds (by default the option's) are killed, and go on from their last checkpoint."""
        raise NotImplementedError

    def submit(self, request: Mapping[str, Any]) -> Job:
        """Queues a job.

        Args:
            request: {"job_name": ..., "config": {...}} and, by choice, "workload" ("locate"), "command" ("train"),
                "priority", "budget", "webhook": {"url": ..., "secret": ...}.
        """
        raise NotImplementedError

    def plan(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """The plan of a request, without running it: {"plan": Plan.to_dict(), "text": Plan.explain(), "lease": {...}}.
        `plan` and `text` are None where the command has nothing to plan."""
        raise NotImplementedError

    def job(self, id: str) -> Job:
        raise NotImplementedError

    def jobs(self, filter: JobFilter = JobFilter()) -> JobPage:
        raise NotImplementedError

    def cancel(self, id: str) -> Job:
        """Ends a job; what it has finished stays on disk until the job is deleted."""
        raise NotImplementedError

    def pause(self, id: str) -> Job:
        """A running job checkpoints and ends; `resume` lets it go on."""
        raise NotImplementedError

    def resume(self, id: str) -> Job:
        raise NotImplementedError

    def retry(self, id: str) -> Job:
        """Queues a failed or cancelled job again; it goes on from what it had finished."""
        raise NotImplementedError

    def delete(self, id: str) -> None:
        """Removes a job that has ended or is paused, its metrics, events and files.

        Raises:
            Conflict: it waits or runs; cancel it first.
        """
        raise NotImplementedError

    def metrics(
        self,
        id: str,
        names: Sequence[str] | None = None,
        points: int = 1000,
        first: int | None = None,
        last: int | None = None,
    ) -> Series:
        """Metrics by name, between two steps, down-sampled to at most that many points each; the extremes stay."""
        raise NotImplementedError

    def events(self, id: str, after: int = 0, limit: int = 1000) -> list[StoredEvent]:
        """Events whose id is greater than `after`, oldest first."""
        raise NotImplementedError

    def latest_event(self, id: str) -> int:
        """The id of the newest event; 0 where there is none. Cheap: it is asked often."""
        raise NotImplementedError

    def log(self, id: str, after: int = 0, limit: int = 65_536) -> tuple[bytes, int]:
        """What the job's process wrote, from a byte on, and the byte after it."""
        raise NotImplementedError

    def artifacts(self, id: str) -> list[Artifact]:
        raise NotImplementedError

    def artifact(self, id: str, name: str) -> Path:
        """A file of the job's run directory; never one outside it, never through a symbolic link."""
        raise NotImplementedError

    def report(self, id: str) -> dict[str, Any]:
        """{"metrics": {...}, "tables": {name: [rows as objects]}, "pictures": [names of artifacts]}."""
        raise NotImplementedError

    def datasets(self) -> list[dict[str, Any]]:
        raise NotImplementedError

    def dataset(self, name: str) -> dict[str, Any]:
        raise NotImplementedError

    def import_dataset(self, name: str, upload: str, columns: Sequence[str] | None = None) -> Job:
        """Queues a job that makes a dataset from an uploaded file (`data import`)."""
        raise NotImplementedError

    def verify_dataset(self, name: str) -> Job:
        """Queues a job that verifies a dataset (`data verify`)."""
        raise NotImplementedError

    def delete_dataset(self, name: str) -> None:
        raise NotImplementedError

    def upload(self, name: str, stream: BinaryIO) -> Upload:
        """Keeps a file for jobs. Its ending and size are checked, its content is never run or unpickled."""
        raise NotImplementedError

    def uploads(self) -> list[Upload]:
        raise NotImplementedError

    def delete_upload(self, id: str) -> None:
        raise NotImplementedError

    def devices(self) -> list[dict[str, Any]]:
        """{"device": "cuda:0" or "cpu", "name", "memory_bytes", "free_bytes", "budget_bytes", "leased_bytes",
        "utilisation" (0 to 1 or None), "watts" (or None), "jobs": [{"id", "job_name", "bytes"}]}; the CPU has "cores"
        and "leased_cores" too."""
        raise NotImplementedError

    def workloads(self) -> list[dict[str, Any]]:
        """Workloads and those of their commands that can be jobs: {"workload", "help", "commands": [{"command",
        "help", "schema" (JSON schema of its config), "plans"}]}."""
        raise NotImplementedError

    def statistics(self) -> dict[str, Any]:
        """For /metrics: {"jobs": {state: count}, "leased_bytes": {device: n}, "capacity_bytes": {device: n},
        "leased_cores", "capacity_cores", "events", "metric_rows", "queue_seconds", "children"}."""
        raise NotImplementedError

    def health(self) -> dict[str, Any]:
        """Whether the process works: {"ok": True, "version": ...}; needs no database."""
        raise NotImplementedError

    def ready(self) -> dict[str, Any]:
        """Whether jobs can be submitted now: {"ok": bool, "database": bool, "scheduler": bool, "message": ""}."""
        raise NotImplementedError

    def create_token(self, scopes: Sequence[str], name: str = "") -> str:
        """A new token, shown this once and stored hashed. Scopes: "read", "write"."""
        raise NotImplementedError

    def check_token(self, text: str) -> frozenset[str] | None:
        """The scopes of a token; None for one that is not known. Compared in constant time."""
        raise NotImplementedError

    def set_budget(self, budget: str | None) -> None:
        """Changes what jobs may lease on each device. Running jobs keep their leases; none starts until all fit."""
        raise NotImplementedError
