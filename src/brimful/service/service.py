"""The service: the one object that faces call. Its methods may be called from any thread, and block.

Every error is a `ServiceError`: `NotFound`, `Conflict`, `Invalid` with the fields at fault, `Unavailable`.
"""

import contextlib
import functools
import logging
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from ..core.base.errors import BrimfulError, BudgetError, ConfigError
from ..core.base.formatting import parse_bytes
from ..core.base.version import __version__
from ..core.memory.budget import Budget
from .address import state_directory
from .dataset_files import DatasetFiles
from .device_list import list_devices
from .errors import Conflict, FieldProblem, Invalid, NotFound
from .files import Files
from .jobs.job import Artifact, Job, JobFilter, JobPage, StoredEvent, Upload
from .jobs.lease import total
from .jobs.references import DATASET
from .options import ServeOptions, database_of
from .path_names import named_values
from .planning import Planner
from .report_files import read_report
from .runner.inventory import Inventory
from .runner.processes import Spawner
from .runner.runner import Runner
from .runner.supervisor import Stop
from .runner.webhooks import WebhookDelivery, check_webhook
from .runner.workloads import Workloads
from .security import token_check
from .store import Store
from .store.history import Counted, Names, Series, Step
from .store.job_list import list_jobs
from .store.server_lock import ServerLock

_LOG = logging.getLogger("brimful.service")
_NOT_STARTED = "the service is not started, or stops; try again later"


class Service:
    """Jobs, their metrics, events and files, datasets, uploads, devices and tokens.

    Args:
        lost: called, from a thread, when another server has taken over the database: this one must end.
    """

    def __init__(self, options: ServeOptions, lost: Callable[[str], None] | None = None) -> None:
        self.options = options
        self.state = state_directory(options.state)
        self.database = database_of(options, self.state)
        limit = parse_bytes(options.upload_limit)
        if limit is None:
            raise ConfigError(f"upload_limit is {options.upload_limit!r}; give a size such as 10GB")
        self.files = Files(self.state, limit)
        self.store = Store(self.database)
        try:
            self.inventory = Inventory(options.budget, options.cores)
        except BudgetError as error:
            raise ConfigError(str(error)) from error
        self._lost = lost or (lambda message: _LOG.critical("%s", message))
        self._lock: ServerLock | None = None
        self._spawner: Spawner | None = None
        self._loaded: Workloads | None = None
        self._runner: Runner | None = None
        self._webhooks: WebhookDelivery | None = None
        self._changes = threading.Lock()

    @functools.cached_property
    def url(self) -> str:
        """Of the database; it stays the same when an embedded server is started again."""
        return self.database.uri()

    # Starting and stopping.

    def start(self) -> None:
        """Opens the database, applies migrations, recovers jobs that were interrupted, and starts to admit.

        Raises:
            Conflict: another server uses the database.
        """
        self.files.prepare()
        self._spawner = Spawner()  # it imports torch while the database starts
        self.store.migrate()
        self._lock = ServerLock(self.store.pool, self._lost)
        self._lock.take()
        if (budget := self.store.settings.get("budget")) is not None and self.options.budget is None:
            self.inventory.set_budget(budget)
        self._loaded = Workloads(self._spawner, lambda: self.url)
        self._runner = Runner(
            self.store,
            self.inventory,
            self._spawner,
            self._loaded,
            self.files.job,
            self._locate,
            self._planner.needs,
            self.url,
            self._notify,
            self.files.named,
        )
        self._webhooks = WebhookDelivery.of(self.store.pool, self.state, self.options.webhook_private)
        self._webhooks.start()
        self._runner.start()

    def stop(self, grace: float | None = None) -> None:
        """Admits no more; running jobs checkpoint, end, and go on after the next start. Those that take longer than
        `grace` seconds (by default the option's) are killed, and go on from their last checkpoint."""
        if self._runner is not None:
            self._runner.stop(self.options.grace if grace is None else grace)
            self._runner = None
        if self._loaded is not None:
            self._loaded.close()
        if self._spawner is not None:
            self._spawner.close()
        self._loaded = self._spawner = None
        if self._webhooks is not None:
            self._webhooks.stop()
        if self._lock is not None:
            self._lock.release()
        self.store.close()

    def _locate(self, kind: str, id: str, name: str | None) -> Path:
        """The path of a reference in a config."""
        return self._dataset_files.path(id) if kind == DATASET else self.files.locate(kind, id, name)

    @functools.cached_property
    def _dataset_files(self) -> DatasetFiles:
        return DatasetFiles(self.state / "datasets", lambda: self._workloads, self.store.jobs.users_of)

    def _notify(self, id: str) -> None:
        if self._webhooks is not None:
            self._webhooks.job_ended(id)

    @property
    def _running(self) -> Runner:
        if self._runner is None:
            raise Conflict(_NOT_STARTED)
        return self._runner

    @property
    def _workloads(self) -> Workloads:
        if self._loaded is None:
            raise Conflict(_NOT_STARTED)
        return self._loaded

    @property
    def _planner(self) -> Planner:
        return Planner(self._workloads, self.inventory, self.files, self._locate)

    # Jobs.

    def submit(self, request: Mapping[str, Any]) -> Job:
        """Queues a job.

        Args:
            request: {"job_name": ..., "config": {...}} and, by choice, "workload" ("locate"), "command" ("train"),
                "priority", "budget", "cores", "webhook": {"url": ..., "secret": ...}.
        """
        runner, parsed = self._running, self._workloads.parse(request)
        check_webhook(parsed.webhook, self.options.webhook_private)
        job = self.store.jobs.add(parsed, self._planner.demand(parsed))
        runner.scheduler.wake()
        return job

    def plan(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """The plan of a request, without running it: {"plan": Plan.to_dict(), "text": Plan.explain(), "lease": {...},
        "warnings": [{"path", "message"}]}, why it could never start. The others may be None: nothing to plan."""
        return self._planner.plan(request)

    def job(self, id: str) -> Job:
        return self.store.jobs.get(id)

    def jobs(self, filter: JobFilter = JobFilter()) -> JobPage:
        return list_jobs(self.store.pool, filter)

    def cancel(self, id: str) -> Job:
        """Ends a job; what it has finished stays on disk until the job is deleted."""
        return self._request(id, "cancel", Stop.CANCEL)

    def pause(self, id: str) -> Job:
        """A running job checkpoints and ends; `resume` lets it go on."""
        return self._request(id, "pause", Stop.PAUSE)

    def resume(self, id: str) -> Job:
        return self._request(id, "resume")

    def retry(self, id: str) -> Job:
        """Queues a failed or cancelled job again; it goes on from what it had finished."""
        return self._request(id, "retry")

    def _request(self, id: str, what: str, stop: Stop | None = None) -> Job:
        runner = self._running
        job, before = self.store.jobs.request(id, what)
        if stop is not None and job.state.active:
            runner.request(id, stop)
        if stop is Stop.CANCEL and job.state.ended and not before.ended:
            self._notify(id)  # one that waited: there is no process whose end would be reported
        runner.scheduler.wake()
        return job

    def delete(self, id: str) -> None:
        """Removes a job that has ended or is paused, its metrics, events and files.

        Raises:
            Conflict: it waits or runs, or another job that has not ended reads what it wrote; cancel that first.
        """
        job = self.store.jobs.get(id)
        if job.state.active or job.state.value == "queued":
            raise Conflict(f"the job is {job.state.value}; cancel it before you delete it")
        self._refuse_used(f"job:{id}")
        self.store.jobs.delete(id)
        self.files.delete_job(id)
        self._running.forget(job)

    def _refuse_used(self, reference: str) -> None:
        if users := self.store.jobs.users_of(reference):
            raise Conflict(f"job {users[0]} has not ended and reads {reference}; wait for it, or cancel it")

    # What jobs have said and written.

    def metrics(
        self, id: str, names: Names = None, points: int = 1000, first: Step = None, last: Step = None
    ) -> Series:
        """Metrics by name, between two steps, down-sampled to at most that many points each; the extremes stay."""
        return self.curves(id, names, points, first, last)[0]

    def curves(
        self, id: str, names: Names = None, points: int = 1000, first: Step = None, last: Step = None
    ) -> Counted:
        """The same, and how many points each metric has between those steps."""
        self.store.history.latest(id)
        return self.store.history.curves(id, names, points, first, last)

    def events(self, id: str, after: int = 0, limit: int = 1000) -> list[StoredEvent]:
        """Events whose id is greater than `after`, oldest first."""
        return self.store.history.events(id, after, limit)

    def recent_events(self, id: str, limit: int) -> list[StoredEvent]:
        """The newest events, oldest first, less those that come by the thousand (progress, metrics, all looks at the
        device but the last)."""
        return self.store.history.recent(id, limit)

    def samples(self, id: str, most: int) -> list[StoredEvent]:
        """Looks at the job's device, at most so many, evenly over the newest tens of thousands of events."""
        return self.store.history.samples(id, most)

    def latest_event(self, id: str) -> int:
        """The id of the newest event; 0 where there is none. Cheap: it is asked often."""
        return self.store.history.latest(id)

    def job_plan(self, id: str) -> dict[str, Any] | None:
        """The plan that a job made, or made last; None where it has made none yet."""
        self.store.history.latest(id)
        planned = self.store.history.last_plan(id)
        return None if planned is None else planned.data["plan"]

    def log(self, id: str, after: int = 0, limit: int = 65_536) -> tuple[bytes, int]:
        """What the job's process wrote, from a byte on, or from so many before the end where it is negative, and the
        byte after it."""
        self.store.history.latest(id)
        return self.files.log(id, after, limit)

    def artifacts(self, id: str) -> list[Artifact]:
        self.store.history.latest(id)
        return self.files.artifacts(id)

    def artifact(self, id: str, name: str) -> Path:
        """A file of the job's run directory; never one outside it, never through a symbolic link."""
        self.store.history.latest(id)
        return self.files.artifact(id, name)

    def report(self, id: str) -> dict[str, Any]:
        """Metrics, tables, and the names and captions of pictures, as `read_report` gives them."""
        report = read_report(self.files.job(id), self.store.jobs.get(id).summary)
        return report | {"metrics": named_values(self.files.named, report["metrics"])}

    # Datasets and uploads.

    def datasets(self) -> list[dict[str, Any]]:
        return named_values(self.files.named, self._workloads.datasets())

    def dataset(self, name: str) -> dict[str, Any]:
        return named_values(self.files.named, self._workloads.dataset(name))

    def import_dataset(self, name: str, upload: str, columns: Sequence[str] | None = None) -> Job:
        """Queues a job that makes a dataset from an uploaded file (`data import`)."""
        chosen = None if columns is None else ",".join(map(str, columns))
        config = {"source": f"upload:{upload.removeprefix('upload:')}", "dataset": name, "columns": chosen}
        return self._data_job("import", name, config)

    def verify_dataset(self, name: str) -> Job:
        """Queues a job that verifies a dataset (`data verify`)."""
        self.dataset(name)
        return self._data_job("verify", name, {"name": name})

    def delete_dataset(self, name: str) -> None:
        self._refuse_used(f"{DATASET}:{name}")
        self._workloads.delete_dataset(name)
        self._dataset_files.forget(name)

    def _data_job(self, command: str, name: str, config: dict[str, Any]) -> Job:
        label = f"{command} {name}"[:200]
        return self.submit({"job_name": label, "workload": "data", "command": command, "config": config})

    def upload(self, name: str, stream: BinaryIO) -> Upload:
        """Keeps a file for jobs. Its ending and size are checked, its content is never run or unpickled."""
        upload = self.files.upload(name, stream)
        try:
            self.store.uploads.add(upload)
        except BrimfulError:
            self.files.delete_upload(upload.id)
            raise
        return upload

    def uploads(self) -> list[Upload]:
        return self.store.uploads.all()

    def delete_upload(self, id: str) -> None:
        if self.store.uploads.get(id) is None:
            raise NotFound(f"there is no upload {id!r}; the list of uploads has those there are")
        self._refuse_used(f"upload:{id}")
        self.store.uploads.delete(id)
        self.files.delete_upload(id)

    # The machine, and this process.

    def devices(self) -> list[dict[str, Any]]:
        """{"device": "cuda:0" or "cpu", "name", "memory_bytes", "free_bytes", "budget_bytes", "leased_bytes",
        "utilisation" (0 to 1 or None), "watts" (or None), "jobs": [{"id", "job_name", "bytes", "used_bytes"}]}: leased,
        and in use at the last look (None before that); the CPU has "cores" and "leased_cores" too."""
        return list_devices(self.inventory, self.store)

    def workloads(self) -> list[dict[str, Any]]:
        """Workloads and those of their commands that can be jobs: {"workload", "help", "commands": [{"command",
        "help", "schema" (JSON schema of its config), "plans", "stores"}]}."""
        return self._workloads.shown()

    def statistics(self) -> dict[str, Any]:
        """For /metrics: {"jobs": {state: count}, "leased_bytes": {device: n}, "capacity_bytes": {device: n},
        "leased_cores", "capacity_cores", "events", "metric_rows", "queue_seconds", "children"}."""
        capacity = self.inventory.capacity()
        used = total(lease.amount for lease in self.store.jobs.leases())
        return {
            **self.store.counts(),
            "leased_bytes": {name: used.bytes.get(name, 0) for name in capacity.bytes},
            "capacity_bytes": dict(capacity.bytes),
            "leased_cores": used.cores,
            "capacity_cores": capacity.cores,
            "children": self._runner.children if self._runner else 0,
        }

    def health(self) -> dict[str, Any]:
        """Whether the process works: {"ok": True, "version": ...}; needs no database."""
        return {"ok": True, "version": __version__, "pid": os.getpid()}

    def ready(self) -> dict[str, Any]:
        """Whether jobs can be submitted now: {"ok": bool, "database": bool, "scheduler": bool, "message": ""}."""
        reachable = self.store.reachable()
        scheduler = self._runner is not None and self._runner.scheduler.alive
        message = ("" if scheduler else "the scheduler does not run") if reachable else "the database cannot be reached"
        return {"ok": reachable and scheduler, "database": reachable, "scheduler": scheduler, "message": message}

    def prune(self, days: float | None) -> list[str]:
        """Removes jobs that ended so many days ago, unless one reads them, and what deleted ones left; their ids."""
        removed = []
        for id in [] if days is None else self.store.jobs.ended_before(time.time() - 86_400 * days):
            with contextlib.suppress(NotFound, Conflict):
                self.delete(id)
                removed.append(id)
        self._running.forget_others()
        return removed

    # Tokens and settings.

    def create_token(self, scopes: Sequence[str], name: str = "") -> str:
        """A new token, shown this once and stored hashed. Scopes: "read", "write"."""
        return token_check.create(self.store.tokens, scopes, name)

    def check_token(self, text: str) -> frozenset[str] | None:
        """The scopes of a token; None for one that is not known."""
        return token_check.check(self.store.tokens, text)

    def set_budget(self, budget: str | None) -> None:
        """Changes what jobs may lease on each device. Running jobs keep their leases; none starts until all fit."""
        try:
            Budget.parse(budget)
        except BudgetError as error:
            raise Invalid(FieldProblem("budget", str(error))) from error
        with self._changes:
            self.store.settings.set("budget", budget)
            self.inventory.set_budget(budget)
        self._running.scheduler.wake()
