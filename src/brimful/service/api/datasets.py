"""Datasets in the database: imported from an upload, listed, shown, verified, deleted."""

from fastapi import APIRouter
from starlette.responses import Response

from .jobs import PREFIX as JOBS
from .json_body import JsonObject, check_fields, check_texts
from .openapi import answer, body
from .parameters import DatasetName, ServiceOf
from .responses import job_response, json_response

router = APIRouter(prefix="/api/datasets", tags=["datasets"])


@router.get("", responses=answer("Datasets"))
def listed(service: ServiceOf) -> Response:
    """The datasets there are."""
    return json_response({"datasets": service.datasets()})


@router.post("", status_code=202, openapi_extra=body("DatasetImport"), responses=answer("Job", 202))
def import_dataset(service: ServiceOf, request: JsonObject) -> Response:
    """Queue a job that makes a dataset from an uploaded file."""
    check_fields(
        request, {"name": "a text", "upload": "a text", "columns": "a list or null"}, required=("name", "upload")
    )
    columns = request.get("columns")
    if columns is not None:
        check_texts("columns", columns)
    job = service.import_dataset(request["name"], request["upload"], columns)
    return job_response(job, JOBS, 202)


@router.get("/{name}", responses=answer("Dataset"))
def show(service: ServiceOf, name: DatasetName) -> Response:
    """One dataset: fields, rows, bytes, version."""
    return json_response(service.dataset(name))


@router.post("/{name}/verify", status_code=202, responses=answer("Job", 202))
def verify(service: ServiceOf, name: DatasetName) -> Response:
    """Queue a job that reads all rows and all chunks of a dataset and compares them."""
    return job_response(service.verify_dataset(name), JOBS, 202)


@router.delete("/{name}", status_code=204)
def delete(service: ServiceOf, name: DatasetName) -> Response:
    """Remove a dataset, its rows and its chunks."""
    service.delete_dataset(name)
    return Response(status_code=204)
