"""Rows of the database as values, and values as JSON that PostgreSQL takes."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from ..jobs.admission import Waiting
from ..jobs.job import Job, JobRequest, Progress, Webhook
from ..jobs.lease import Demand, Lease
from ..jobs.state import JobState

COLUMNS = (
    "id, name, workload, command, config, priority, budget, cores, webhook_url, webhook_secret, state, message, "
    "attempt, demand, devices, lease_since, progress, summary, exit_code, created, queued, started, ended"
)
_NAMES = COLUMNS.split(", ")


def plain(value: Any) -> Any:
    """As JSON that PostgreSQL takes: a number that is not finite is null, and a text has no null character."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, str):
        return value.replace("\x00", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace").decode()
    if isinstance(value, Mapping):
        return {plain(str(key)): plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    return value if value is None or isinstance(value, bool | int) else str(value)


def job_of(row: Sequence[Any]) -> Job:
    """A job from the columns of `COLUMNS`."""
    values = dict(zip(_NAMES, row, strict=True))
    webhook = None
    if values["webhook_url"] is not None:
        webhook = Webhook(url=values["webhook_url"], secret=values["webhook_secret"])
    request = JobRequest(
        name=values["name"],
        workload=values["workload"],
        command=values["command"],
        config=values["config"],
        priority=values["priority"],
        budget=values["budget"],
        cores=values["cores"],
        webhook=webhook,
    )
    lease = lease_of(values["id"], values["devices"], values["demand"], values["lease_since"])
    return Job(
        id=values["id"],
        request=request,
        state=JobState(values["state"]),
        attempt=values["attempt"],
        message=values["message"],
        progress=Progress(**values["progress"]),
        lease=lease.to_dict() if lease else None,
        summary=values["summary"],
        exit_code=values["exit_code"],
        created=values["created"],
        started=values["started"],
        ended=values["ended"],
    )


def lease_of(id: str, devices: Sequence[str] | None, demand: Mapping[str, Any] | None, since: Any) -> Lease | None:
    if devices is None or demand is None:
        return None
    return Lease(job=id, devices=tuple(devices), demand=Demand.from_dict(demand), since=float(since))


def waiting_of(id: str, demand: Mapping[str, Any], priority: int, since: float) -> Waiting:
    return Waiting(job=id, demand=Demand.from_dict(demand), priority=priority, since=since)
