"""What would be run, and how: plans ahead, and the workloads there are."""

from fastapi import APIRouter
from starlette.responses import Response

from ..errors import NotFound
from .json_body import JsonObject
from .openapi import answer, body
from .parameters import ServiceOf
from .responses import json_response

router = APIRouter(tags=["plans"])


@router.post("/api/plans", openapi_extra=body("JobRequest"), responses=answer("Plan"))
def plan(service: ServiceOf, request: JsonObject) -> Response:
    """The plan of a job, without running it: what would be used, and why. The body is that of a job."""
    return json_response(service.plan(request))


@router.get("/api/workloads", responses=answer("Workloads"))
def workloads(service: ServiceOf) -> Response:
    """The workloads there are, and the commands of each that can be jobs, with the schemas of their configs."""
    return json_response({"workloads": service.workloads()})


@router.get("/api/workloads/{name}", responses=answer("Workload"))
def workload(service: ServiceOf, name: str) -> Response:
    """One workload."""
    there = {workload["workload"]: workload for workload in service.workloads()}
    if name not in there:
        raise NotFound(f"there is no workload {name[:100]!r}; there are {', '.join(there)}")
    return json_response(there[name])
