"""What a job wrote: its log, its files, its report."""

from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import FileResponse, Response

from ..security.redact import redact_values
from .openapi import answer, content
from .parameters import JobId, ServiceOf
from .responses import json_response

router = APIRouter(tags=["files"])

NEXT = "Brimful-Next"
"""Header of a part of a log: the byte after it."""

_SHOWN = {".png": "image/png", ".json": "application/json", ".jsonl": "text/plain", ".txt": "text/plain"}
_SHOWN |= {".csv": "text/csv", ".parquet": "application/vnd.apache.parquet"}


@router.get("/{job_id}/log", responses=content("text/plain", "what the job's process wrote", NEXT))
def log(
    service: ServiceOf,
    job_id: JobId,
    after: Annotated[int, Query(description="from this byte on", ge=0, le=2**62)] = 0,
    limit: Annotated[int, Query(description="at most so many bytes", ge=1, le=2**24)] = 2**16,
) -> Response:
    """What the job's process wrote. The header `Brimful-Next` is `after` of what comes next."""
    text, following = service.log(job_id, after, limit)
    return Response(text, headers={NEXT: str(following)}, media_type="text/plain; charset=utf-8")


@router.get("/{job_id}/artifacts", responses=answer("Artifacts"))
def artifacts(service: ServiceOf, job_id: JobId) -> Response:
    """The files that the job wrote."""
    return json_response({"artifacts": [artifact.to_dict() for artifact in service.artifacts(job_id)]})


@router.get(
    "/{job_id}/artifacts/{name:path}",
    responses=content("application/octet-stream", "the file; parts of it by the header Range"),
)
def artifact(service: ServiceOf, job_id: JobId, name: str) -> Response:
    """One of the files that the job wrote."""
    path = service.artifact(job_id, name)
    kind = _SHOWN.get(path.suffix, "application/octet-stream")
    how = "inline" if kind == "image/png" else "attachment"  # a picture can do nothing where it is opened
    return FileResponse(path, filename=path.name, media_type=kind, content_disposition_type=how)


@router.get("/{job_id}/report", responses=answer("Report"))
def report(service: ServiceOf, job_id: JobId) -> Response:
    """The report of a finished job: metrics, tables, and names of pictures, which are artifacts."""
    return json_response(redact_values(service.report(job_id)))
