"""What is sent to a server and what comes back, without sending it: both clients are made of these."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar
from urllib.parse import quote

import httpx

from ..jobs.job import Artifact, Job, JobPage, Upload
from . import values
from .values import Series

T = TypeVar("T")

JOBS = "/api/training/jobs"
DATASETS = "/api/datasets"
UPLOADS = "/api/uploads"
NEXT = "brimful-next"
"""The header with the byte that a log goes on from."""


@dataclass(frozen=True, slots=True)
class Request(Generic[T]):
    """A request, and the function that reads its response.

    Attributes:
        query: parameters; those that are None are left out.
        repeatable: sent again where no response came, it does no harm.
    """

    method: str
    path: str
    parse: Callable[[httpx.Response], T]
    query: Mapping[str, Any] = field(default_factory=dict)
    body: Any = None
    repeatable: bool = True


def submission(
    workload: str | None,
    command: str | None,
    config: Mapping[str, Any] | None,
    job_name: str | None,
    priority: int | None,
    budget: str | None,
    webhook: str | Mapping[str, Any] | None,
    cores: int | None = None,
) -> dict[str, Any]:
    """The body of a job's request; what is None is left to the server."""
    given = {
        "job_name": job_name or " ".join(filter(None, (workload, command))) or "job",
        "workload": workload,
        "command": command,
        "config": dict(config or {}),
        "priority": priority,
        "budget": budget,
        "cores": cores,
        "webhook": {"url": webhook} if isinstance(webhook, str) else webhook,
    }
    return {name: value for name, value in given.items() if value is not None}


def submit(body: Mapping[str, Any]) -> Request[Job]:
    return Request("POST", JOBS, _job, body=body, repeatable=False)


def plan(body: Mapping[str, Any]) -> Request[dict[str, Any]]:
    return Request("POST", "/api/plans", _object, body=body)


def job(id: str) -> Request[Job]:
    return Request("GET", _of(id), _job)


def jobs(
    state: Sequence[str], workload: str | None, text: str | None, sort: str, limit: int, cursor: str | None
) -> Request[JobPage]:
    query = {"state": list(state), "workload": workload, "text": text, "sort": sort, "limit": limit, "cursor": cursor}
    return Request("GET", JOBS, lambda response: values.page(response.json()), query)


def change(id: str, request: str) -> Request[Job]:
    """cancel, pause, resume or retry: asked for twice, each is as if it were once."""
    return Request("POST", _of(id, request), _job)


def delete(id: str) -> Request[None]:
    return Request("DELETE", _of(id), _nothing)


def metrics(id: str, names: Sequence[str] | None, points: int, first: int | None, last: int | None) -> Request[Series]:
    query = {"name": None if names is None else list(names), "points": points, "first": first, "last": last}
    return Request("GET", _of(id, "metrics"), lambda response: values.series(response.json()), query)


def log(id: str, after: int, limit: int) -> Request[tuple[bytes, int]]:
    def parse(response: httpx.Response) -> tuple[bytes, int]:
        return response.content, int(response.headers[NEXT])

    return Request("GET", _of(id, "log"), parse, {"after": after, "limit": limit})


def events_path(id: str) -> str:
    return _of(id, "events")


def artifacts(id: str) -> Request[list[Artifact]]:
    return Request("GET", _of(id, "artifacts"), _list("artifacts", values.artifact))


def artifact_path(id: str, name: str) -> str:
    return f"{_of(id, 'artifacts')}/{quote(name)}"


def report(id: str) -> Request[dict[str, Any]]:
    return Request("GET", _of(id, "report"), _object)


def job_plan(id: str) -> Request[dict[str, Any] | None]:
    return Request("GET", _of(id, "plan"), lambda response: response.json()["plan"])


def datasets() -> Request[list[dict[str, Any]]]:
    return Request("GET", DATASETS, _list("datasets"))


def dataset(name: str) -> Request[dict[str, Any]]:
    return Request("GET", f"{DATASETS}/{quote(name, safe='')}", _object)


def import_dataset(name: str, upload: str, columns: Sequence[str] | None) -> Request[Job]:
    body = {"name": name, "upload": upload, **({} if columns is None else {"columns": list(columns)})}
    return Request("POST", DATASETS, _job, body=body, repeatable=False)


def verify_dataset(name: str) -> Request[Job]:
    return Request("POST", f"{DATASETS}/{quote(name, safe='')}/verify", _job, repeatable=False)


def delete_dataset(name: str) -> Request[None]:
    return Request("DELETE", f"{DATASETS}/{quote(name, safe='')}", _nothing)


def uploads() -> Request[list[Upload]]:
    return Request("GET", UPLOADS, _list("uploads", values.upload))


def delete_upload(id: str) -> Request[None]:
    return Request("DELETE", f"{UPLOADS}/{quote(id, safe='')}", _nothing)


def devices() -> Request[list[dict[str, Any]]]:
    return Request("GET", "/api/devices", _list("devices"))


def set_budget(budget: str | None) -> Request[list[dict[str, Any]]]:
    return Request("PUT", "/api/devices/budget", _list("devices"), body={"budget": budget})


def workloads() -> Request[list[dict[str, Any]]]:
    return Request("GET", "/api/workloads", _list("workloads"))


def ready() -> Request[dict[str, Any]]:
    return Request("GET", "/readyz", _object)


def _of(id: str, *parts: str) -> str:
    return "/".join((JOBS, quote(id, safe=""), *parts))


def _object(response: httpx.Response) -> dict[str, Any]:
    return response.json()


def _job(response: httpx.Response) -> Job:
    return values.job(response.json())


def _list(key: str, of: Callable[[dict[str, Any]], Any] = lambda entry: entry) -> Callable[[httpx.Response], Any]:
    return lambda response: [of(entry) for entry in response.json()[key]]


def _nothing(response: httpx.Response) -> None:
    return None


def json_of(response: httpx.Response) -> Any:
    """The response as JSON; None where it is none."""
    try:
        return response.json()
    except (json.JSONDecodeError, UnicodeDecodeError):
        return None
