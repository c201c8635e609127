"""`brimful.Client`: a server's jobs from Python."""

import contextlib
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self, TypeVar

import httpx

from ...core.runs.events import Sink
from ..errors import ServiceError
from ..jobs.job import LARGEST_PAGE, PAGE_SIZE, Artifact, Job, JobPage, StoredEvent, Upload
from . import requests
from .connection import (
    TIMEOUT,
    arguments,
    checked,
    destination,
    pause_before_retry,
    server_url,
    settings,
    unreachable,
    whole_file,
)
from .event_stream import PATIENCE, EventStream
from .retention import ENDED, removable
from .values import Series, upload
from .watching import STATE, Display, recent, settled

T = TypeVar("T")


class Client:
    """A server, over its REST API.

    Every refusal is a `ServiceError`, as in the server itself: `NotFound`, `Conflict`, `Forbidden`, `Invalid` with the
    fields at fault, `Unavailable`. Requests that do no harm are sent again where the server is away for a moment.

    Args:
        url: of the server; by default `$BRIMFUL_URL`, or the server that runs on this machine.
        token: by default `$BRIMFUL_TOKEN`.
        timeout: seconds for an answer.

    Example:
        with Client("http://127.0.0.1:8000") as client:
            job = client.submit("gp", "fit", {"synthetic": 1000})
            job = client.watch(job.id)
            print(job.state, job.summary)
    """

    def __init__(self, url: str | None = None, token: str | None = None, *, timeout: float = TIMEOUT) -> None:
        self.url = server_url(url)
        self._http = httpx.Client(**settings(self.url, token, timeout))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.url!r})"

    def submit(
        self,
        workload: str | None = None,
        command: str | None = None,
        config: Mapping[str, Any] | None = None,
        *,
        job_name: str | None = None,
        priority: int | None = None,
        budget: str | None = None,
        webhook: str | Mapping[str, Any] | None = None,
        cores: int | None = None,
    ) -> Job:
        """Queues a job. What is None is left to the server.

        Args:
            config: the command's options by name, as on the command line.
            priority: from -100 to 100; those with more start first.
            budget: device memory to lease, such as "8GB".
            webhook: a URL that is called at the end of the job, or {"url": ..., "secret": ...}.
            cores: CPU cores to lease.
        """
        body = requests.submission(workload, command, config, job_name, priority, budget, webhook, cores)
        return self._send(requests.submit(body))

    def plan(
        self,
        workload: str | None = None,
        command: str | None = None,
        config: Mapping[str, Any] | None = None,
        *,
        budget: str | None = None,
    ) -> dict[str, Any]:
        """The plan of a job, without running it: "plan", "text", "lease" and "warnings"."""
        return self._send(requests.plan(requests.submission(workload, command, config, None, None, budget, None)))

    def job(self, id: str) -> Job:
        return self._send(requests.job(id))

    def jobs(
        self,
        *,
        state: Sequence[str] = (),
        workload: str | None = None,
        text: str | None = None,
        sort: str = "-created",
        limit: int = PAGE_SIZE,
        cursor: str | None = None,
    ) -> JobPage:
        """A page of the jobs there are; its `next` is the cursor of the page after it."""
        return self._send(requests.jobs(state, workload, text, sort, limit, cursor))

    def all_jobs(self, **filter: Any) -> Iterator[Job]:
        """All jobs, page by page; the arguments are those of `jobs`."""
        cursor = None
        while True:
            page = self.jobs(**{"limit": LARGEST_PAGE, **filter, "cursor": cursor})
            yield from page.jobs
            if (cursor := page.next) is None:
                return

    def cancel(self, id: str) -> Job:
        """Ends a job; what it has finished stays until it is deleted."""
        return self._send(requests.change(id, "cancel"))

    def pause(self, id: str) -> Job:
        """Has a job write a checkpoint and stop; `resume` lets it go on."""
        return self._send(requests.change(id, "pause"))

    def resume(self, id: str) -> Job:
        return self._send(requests.change(id, "resume"))

    def retry(self, id: str) -> Job:
        """Queues a failed or cancelled job again; it goes on from what it had finished."""
        return self._send(requests.change(id, "retry"))

    def delete(self, id: str) -> None:
        """Removes a job that has ended or is paused, with its metrics, events and files."""
        self._send(requests.delete(id))

    def prune(self, days: float, state: Sequence[str] = ENDED, dry_run: bool = False) -> list[Job]:
        """Deletes jobs that ended more than so many days ago; returns those jobs.

        Args:
            state: only those that ended so: finished, failed, cancelled.
            dry_run: delete nothing.
        """
        old = removable(self.all_jobs(state=state), days, time.time())
        if not dry_run:
            for job in old:
                self.delete(job.id)
        return old

    def metrics(
        self,
        id: str,
        names: Sequence[str] | None = None,
        points: int = 1000,
        first: int | None = None,
        last: int | None = None,
    ) -> Series:
        """Metrics by name, as (step, seconds since 1970, value), down-sampled on the server; the extremes stay."""
        return self._send(requests.metrics(id, names, points, first, last))

    def events(
        self, id: str, after: int = 0, *, follow: bool = True, patience: float | None = PATIENCE
    ) -> Iterator[StoredEvent]:
        """The events of a job with ids greater than `after`, each once and in order, whatever the connection does.

        Args:
            follow: wait for more, until the job has ended.
            patience: seconds that the server may be away before `Unavailable` is raised; None: forever.
        """
        stream = EventStream(id, after, patience)
        while not stream.ended:
            try:
                with self._http.stream(**stream.request(follow)) as response:
                    if not response.is_success:
                        response.read()
                    for portion in checked(response).iter_bytes():
                        yield from stream.feed(portion)
                pause = 0.0 if stream.ended else stream.lost(EOFError("the connection was closed"))
            except (httpx.TransportError, ServiceError) as error:
                pause = stream.lost(error)
            time.sleep(pause)

    def watch(self, id: str, progress: bool | Sink | None = None, *, patience: float | None = PATIENCE) -> Job:
        """Shows a job's progress, as a run on this machine shows its own, until it has ended or is paused.

        Args:
            progress: None shows it where it fits, False is silent, and any callable gets the events of the run.
            patience: seconds that the server may be away.

        Returns:
            The job as it is then; `summary` is its result.
        """
        with contextlib.closing(Display.open(progress)) as display:
            after = 0
            for event in recent(self.events(id, follow=False, patience=patience)):
                display.show(event)
                after = event.id
            follow = not settled(self.job(id))
            for event in self.events(id, after, follow=follow, patience=patience):
                display.show(event)
                if follow and event.kind == STATE and settled(job := self.job(id)):
                    return job
            return self.job(id)

    def log(self, id: str, after: int = 0, limit: int = 65_536) -> tuple[bytes, int]:
        """What the job's process wrote, from a byte on, and the byte after it."""
        return self._send(requests.log(id, after, limit))

    def artifacts(self, id: str) -> list[Artifact]:
        """The files that the job wrote."""
        return self._send(requests.artifacts(id))

    def download(self, id: str, name: str, target: str | Path | None = None) -> Path:
        """Writes one of the job's files to a path, or by its own name below a folder; the path.

        Args:
            target: by default the current folder.
        """
        path = destination(name, target)
        try:
            with self._http.stream("GET", requests.artifact_path(id, name)) as response:
                if not response.is_success:
                    response.read()
                with whole_file(checked(response), path) as file:
                    for portion in response.iter_bytes():
                        file.write(portion)
        except httpx.TransportError as error:
            raise unreachable(self.url, error) from error
        return path

    def report(self, id: str) -> dict[str, Any]:
        """The report of a finished job: "metrics", "tables", and "pictures", which are names of artifacts."""
        return self._send(requests.report(id))

    def job_plan(self, id: str) -> dict[str, Any] | None:
        """The plan that a job made last; None where it has made none."""
        return self._send(requests.job_plan(id))

    def datasets(self) -> list[dict[str, Any]]:
        return self._send(requests.datasets())

    def dataset(self, name: str) -> dict[str, Any]:
        return self._send(requests.dataset(name))

    def import_dataset(self, name: str, upload: str, columns: Sequence[str] | None = None) -> Job:
        """Queues a job that makes a dataset from an uploaded file."""
        return self._send(requests.import_dataset(name, upload, columns))

    def verify_dataset(self, name: str) -> Job:
        """Queues a job that verifies a dataset."""
        return self._send(requests.verify_dataset(name))

    def delete_dataset(self, name: str) -> None:
        self._send(requests.delete_dataset(name))

    def upload(self, path: str | Path, name: str | None = None) -> Upload:
        """Sends a file for jobs: an option that takes a file takes "upload:" and its id."""
        source = Path(path)
        try:
            with source.open("rb") as file:
                response = self._http.post(
                    requests.UPLOADS, params={"name": name or source.name}, content=file, timeout=None
                )
        except httpx.TransportError as error:
            raise unreachable(self.url, error) from error
        return upload(checked(response).json())

    def uploads(self) -> list[Upload]:
        return self._send(requests.uploads())

    def delete_upload(self, id: str) -> None:
        self._send(requests.delete_upload(id))

    def devices(self) -> list[dict[str, Any]]:
        """The devices there are, what is leased of each, and by which jobs."""
        return self._send(requests.devices())

    def set_budget(self, budget: str | None) -> list[dict[str, Any]]:
        """Changes how much of each device jobs may use together."""
        return self._send(requests.set_budget(budget))

    def workloads(self) -> list[dict[str, Any]]:
        """The workloads there are, with the schemas of the options of those commands that can be jobs."""
        return self._send(requests.workloads())

    def ready(self) -> dict[str, Any]:
        """Whether jobs can be submitted now.

        Raises:
            Unavailable: not now.
        """
        return self._send(requests.ready())

    def _send(self, request: requests.Request[T]) -> T:
        attempt = 0
        while True:
            attempt += 1
            try:
                response = self._http.request(**arguments(request))
            except httpx.TransportError as error:
                if (pause := pause_before_retry(request, attempt, error)) is None:
                    raise unreachable(self.url, error) from error
            else:
                if response.is_success or (pause := pause_before_retry(request, attempt, response)) is None:
                    return request.parse(checked(response))
            time.sleep(pause)
