"""Jobs: submitted, listed, shown, and what can be asked of one."""

from typing import Annotated, Any

from fastapi import APIRouter, Query
from starlette.responses import Response

from ..jobs.job import LARGEST_PAGE, PAGE_SIZE, SORTS, JobFilter, utc
from ..jobs.state import JobState
from .json_body import JsonObject
from .openapi import answer, body
from .parameters import JobId, ServiceOf
from .responses import job_response, job_values, json_response

PREFIX = "/api/training/jobs"

router = APIRouter(tags=["jobs"])

_SORTS = "|".join(SORTS)
_LAST = 2**62


@router.post("", status_code=201, openapi_extra=body("JobRequest"), responses=answer("Job", 201))
def submit(service: ServiceOf, request: JsonObject) -> Response:
    """Queue a job. `workload` is `locate` by default, and `command` is `train`; `GET /api/workloads` has the options of
    each."""
    return job_response(service.submit(request), PREFIX, 201)


@router.get("", responses=answer("JobPage"))
def listed(
    service: ServiceOf,
    state: Annotated[list[JobState], Query(description="only jobs in one of these states")] = [],  # noqa: B006
    workload: Annotated[str | None, Query(description="only jobs of this workload", max_length=100)] = None,
    text: Annotated[str | None, Query(description="that occurs in the name or the id", max_length=200)] = None,
    sort: Annotated[
        str, Query(description=f"{', '.join(SORTS)}; with a leading - downwards", pattern=f"^-?({_SORTS})$")
    ] = "-created",
    limit: Annotated[int, Query(description="jobs of a page", ge=1, le=LARGEST_PAGE)] = PAGE_SIZE,
    cursor: Annotated[str | None, Query(description="`next` of the page before", max_length=1000)] = None,
) -> Response:
    """The jobs there are, a page at a time."""
    chosen = JobFilter(
        states=tuple(state), workload=workload, text=text or None, sort=sort, limit=limit, cursor=cursor or None
    )
    page = service.jobs(chosen)
    return json_response({"jobs": [job_values(job) for job in page.jobs], "next": page.next, "total": page.total})


@router.get("/{job_id}", responses=answer("Job"))
def show(service: ServiceOf, job_id: JobId) -> Response:
    """One job: its state, its progress and, once it has finished, its result."""
    return job_response(service.job(job_id), PREFIX)


@router.delete("/{job_id}", status_code=204)
def delete(service: ServiceOf, job_id: JobId) -> Response:
    """Remove a job that has ended or is paused, with its metrics, events and files."""
    service.delete(job_id)
    return Response(status_code=204)


@router.post("/{job_id}/cancel", status_code=202, responses=answer("Job", 202))
def cancel(service: ServiceOf, job_id: JobId) -> Response:
    """End a job. What it has finished stays until it is deleted."""
    return job_response(service.cancel(job_id), PREFIX, 202)


@router.post("/{job_id}/pause", status_code=202, responses=answer("Job", 202))
def pause(service: ServiceOf, job_id: JobId) -> Response:
    """Have a job write a checkpoint and stop; `resume` lets it go on."""
    return job_response(service.pause(job_id), PREFIX, 202)


@router.post("/{job_id}/resume", status_code=202, responses=answer("Job", 202))
def resume(service: ServiceOf, job_id: JobId) -> Response:
    """Queue a paused job again; it goes on from its checkpoint."""
    return job_response(service.resume(job_id), PREFIX, 202)


@router.post("/{job_id}/retry", status_code=202, responses=answer("Job", 202))
def retry(service: ServiceOf, job_id: JobId) -> Response:
    """Queue a failed or cancelled job again; it goes on from what it had finished."""
    return job_response(service.retry(job_id), PREFIX, 202)


@router.get("/{job_id}/metrics", responses=answer("Metrics"))
def metrics(
    service: ServiceOf,
    job_id: JobId,
    name: Annotated[list[str] | None, Query(description="only these metrics", max_length=100)] = None,
    points: Annotated[int, Query(description="at most so many points per metric", ge=2, le=100_000)] = 1000,
    first: Annotated[int | None, Query(description="from this step on", ge=0, le=_LAST)] = None,
    last: Annotated[int | None, Query(description="up to this step", ge=0, le=_LAST)] = None,
) -> Response:
    """Metrics by name, down-sampled on the server; the extremes stay. `total` is how many points there are between
    those steps: where fewer are given, ask for fewer steps at a time to have all."""
    series, totals = service.curves(job_id, name or None, points, first, last)
    return json_response({"metrics": {name: _columns(points, totals[name]) for name, points in series.items()}})


def _columns(points: list[tuple[int, float, float]], total: int) -> dict[str, Any]:
    return {
        "total": total,
        "step": [step for step, _, _ in points],
        "time": [utc(time) for _, time, _ in points],
        "value": [value for _, _, value in points],
    }


@router.get("/{job_id}/plan", responses=answer("JobPlan"))
def plan(service: ServiceOf, job_id: JobId) -> Response:
    """The plan that the job made, or made last; null where it has made none yet. `POST /api/plans` plans ahead."""
    return json_response({"plan": service.job_plan(job_id)})
