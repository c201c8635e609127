"""A job, and what is asked and said of it: frozen values, each with `to_dict()` in JSON values, times in UTC."""

import datetime
import os
import time
import uuid
from dataclasses import dataclass, field, fields
from typing import Any

from .state import JobState

PRIORITIES = range(-100, 101)
PAGE_SIZE = 50
LARGEST_PAGE = 500
SORTS = ("created", "name", "priority", "state", "started", "ended")
"""What a list of jobs may be sorted by; with a leading "-", downwards."""


def new_id() -> str:
    """An identifier that sorts by the time it was made: a UUID of version 7."""
    value = (time.time_ns() // 1_000_000) << 80 | int.from_bytes(os.urandom(10), "big")
    value = value & ~(0xF << 76) | 0x7 << 76
    value = value & ~(0x3 << 62) | 0x2 << 62
    return str(uuid.UUID(int=value))


def utc(seconds: float | None) -> str | None:
    """Seconds since 1970 as a time in UTC, such as "2026-01-31T12:00:00.123456Z"."""
    if seconds is None:
        return None
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


@dataclass(frozen=True, slots=True, kw_only=True)
class Webhook:
    """Where to say that the job has ended; with a secret, the message is signed. The secret is never shown."""

    url: str
    secret: str | None = None

    def to_dict(self) -> dict[str, Any]:
        return {"url": self.url, "signed": self.secret is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRequest:
    """What is asked for, checked.

    Attributes:
        name: for people.
        workload, command: what to run, as on the command line.
        config: all its options, defaults included, as JSON values.
        priority: from -100 to 100; those with more start first.
        budget: device memory to lease, such as "8GB"; None: the plan's smallest good one.
        cores: CPU cores to lease; None: one, or on a CPU half of what there are.
    """

    name: str
    workload: str = "locate"
    command: str = "train"
    config: dict[str, Any] = field(default_factory=dict)
    priority: int = 0
    budget: str | None = None
    cores: int | None = None
    webhook: Webhook | None = None

    def to_dict(self) -> dict[str, Any]:
        values = {part.name: getattr(self, part.name) for part in fields(self)}
        return values | {"webhook": self.webhook.to_dict() if self.webhook else None}


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far it is, from its last events.

    Attributes:
        items: None where nobody knows how many there are.
        seconds: of work, of parts of the run that have ended.
        peak: the most memory that it has used, in bytes.
        parts: what is known of that by part of the plan.
        began: when the work of the part at hand began (seconds since 1970), put off by what was compiled since.
        wall: seconds with a lease, imports and compiling included, up to the last time it was given back.
        compiling: seconds in which loops and kernels were compiled.
        used: memory in use of its budget when it was last looked at.
        process: memory of its process at that time.
    """

    done: int = 0
    items: int | None = None
    bad: int = 0
    epoch: int | None = None
    epochs: int | None = None
    seconds: float = 0.0
    peak: int | None = None
    parts: dict[str, int] | None = None
    began: float | None = None
    wall: float = 0.0
    compiling: float = 0.0
    used: int | None = None
    process: int | None = None

    def to_dict(self) -> dict[str, Any]:
        return {part.name: getattr(self, part.name) for part in fields(self)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A job as it is now.

    Attributes:
        id: stable, and sorts by time of creation.
        attempt: how many times it was started, resumptions included.
        message: why it waits, how it ended, or what failed, in a sentence.
        summary: the result in JSON values, once it has finished.
        lease: what it may use while it runs: {"device": "cuda:0", "device_bytes", "cores", "host_bytes"}.
        created, started, ended: seconds since 1970.
    """

    id: str
    request: JobRequest
    state: JobState = JobState.QUEUED
    attempt: int = 0
    message: str = ""
    progress: Progress = Progress()
    lease: dict[str, Any] | None = None
    summary: dict[str, Any] | None = None
    exit_code: int | None = None
    created: float = 0.0
    started: float | None = None
    ended: float | None = None

    def to_dict(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "job_name": self.request.name,
            "workload": self.request.workload,
            "command": self.request.command,
            "state": self.state.value,
            "message": self.message,
            "priority": self.request.priority,
            "budget": self.request.budget,
            "cores": self.request.cores,
            "attempt": self.attempt,
            "progress": self.progress.to_dict(),
            "lease": self.lease,
            "config": self.request.config,
            "summary": self.summary,
            "exit_code": self.exit_code,
            "webhook": self.request.webhook.to_dict() if self.request.webhook else None,
            "created": utc(self.created),
            "started": utc(self.started),
            "ended": utc(self.ended),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFilter:
    """Which jobs, in which order, which page of them.

    Attributes:
        states: any of these; none: all.
        workload: of this one only.
        text: that occurs in the name or the id, in upper or lower case.
        sort: one of `SORTS`, with a leading "-" downwards.
        cursor: `next` of the page before.
    """

    states: tuple[JobState, ...] = ()
    workload: str | None = None
    text: str | None = None
    sort: str = "-created"
    limit: int = PAGE_SIZE
    cursor: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPage:
    """A page of a list of jobs; `next` is the cursor of the page after it, None at the end."""

    jobs: tuple[Job, ...]
    next: str | None
    total: int

    def to_dict(self) -> dict[str, Any]:
        return {"jobs": [job.to_dict() for job in self.jobs], "next": self.next, "total": self.total}


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredEvent:
    """An event of a job as it is kept: `id` counts from 1 within the job, without gaps. `kind` is that of
    `core.runs.events`, such as "epoch_done", or "state" when the job went to another state; `data` are its values."""

    id: int
    time: float
    kind: str
    data: dict[str, Any]

    def to_dict(self) -> dict[str, Any]:
        return {"id": self.id, "time": utc(self.time), "kind": self.kind, "data": self.data}


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricPoint:
    """A number that was measured after `step` steps; unique by job, name and step."""

    name: str
    step: int
    time: float
    value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Artifact:
    """A file that a job wrote: `name` is its path below the job's run directory, with forward slashes."""

    name: str
    bytes: int
    modified: float
    media_type: str

    def to_dict(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "bytes": self.bytes,
            "modified": utc(self.modified),
            "media_type": self.media_type,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Upload:
    """A file that was uploaded for jobs: the value "upload:<id>" of an option names it."""

    id: str
    name: str
    bytes: int
    sha256: str
    created: float

    def to_dict(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "name": self.name,
            "bytes": self.bytes,
            "sha256": self.sha256,
            "created": utc(self.created),
        }
