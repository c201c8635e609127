"""Jobs, events and files from the JSON that the server sends."""

import datetime
import math
from typing import Any

from ..jobs.job import Artifact, Job, JobPage, JobRequest, Progress, StoredEvent, Upload, Webhook
from ..jobs.state import JobState

Series = dict[str, list[tuple[int, float, float]]]
"""Metrics by name: (step, seconds since 1970, value)."""


def seconds(text: str | None) -> float | None:
    """A time in UTC as seconds since 1970.

    Example:
        >>> seconds("1970-01-01T00:01:00.500000Z")
        60.5
    """
    return None if text is None else datetime.datetime.fromisoformat(text).timestamp()


def job(data: dict[str, Any]) -> Job:
    webhook = data["webhook"]
    return Job(
        id=data["id"],
        request=JobRequest(
            name=data["job_name"],
            workload=data["workload"],
            command=data["command"],
            config=data["config"],
            priority=data["priority"],
            budget=data["budget"],
            webhook=None if webhook is None else Webhook(url=webhook["url"]),
        ),
        state=JobState(data["state"]),
        attempt=data["attempt"],
        message=data["message"],
        progress=Progress(**data["progress"]),
        lease=data["lease"],
        summary=data["summary"],
        exit_code=data["exit_code"],
        created=seconds(data["created"]) or 0.0,
        started=seconds(data["started"]),
        ended=seconds(data["ended"]),
    )


def page(data: dict[str, Any]) -> JobPage:
    return JobPage(jobs=tuple(job(entry) for entry in data["jobs"]), next=data["next"], total=data["total"])


def event(data: dict[str, Any]) -> StoredEvent:
    return StoredEvent(id=data["id"], time=seconds(data["time"]) or 0.0, kind=data["kind"], data=data["data"])


def artifact(data: dict[str, Any]) -> Artifact:
    return Artifact(
        name=data["name"],
        bytes=data["bytes"],
        modified=seconds(data["modified"]) or 0.0,
        media_type=data["media_type"],
    )


def upload(data: dict[str, Any]) -> Upload:
    return Upload(
        id=data["id"],
        name=data["name"],
        bytes=data["bytes"],
        sha256=data["sha256"],
        created=seconds(data["created"]) or 0.0,
    )


def series(data: dict[str, Any]) -> Series:
    """JSON has no number for what is not finite: null is a NaN."""
    return {
        name: [
            (step, seconds(time) or 0.0, math.nan if value is None else value)
            for step, time, value in zip(columns["step"], columns["time"], columns["value"], strict=True)
        ]
        for name, columns in data["metrics"].items()
    }
