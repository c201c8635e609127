"""What routes take: the service, and parameters that several of them have."""

import re
from typing import Annotated, Any

from fastapi import Depends, Path, Request

from ..errors import FieldProblem, Invalid, NotFound
from ..service import Service

_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_INVISIBLE = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")


def _service(request: Request) -> Service:
    return request.app.state.service


def _job_id(job_id: Annotated[str, Path(description="of the job")]) -> str:
    if not _ID.fullmatch(job_id):
        raise NotFound(f"there is no job {job_id[:100]!r}; GET /api/training/jobs lists those there are")
    return job_id


def _upload_id(upload_id: Annotated[str, Path(description="of the upload")]) -> str:
    if not _ID.fullmatch(upload_id):
        raise NotFound(f"there is no upload {upload_id[:100]!r}; GET /api/uploads lists those there are")
    return upload_id


def _dataset_name(name: Annotated[str, Path(description="of the dataset")]) -> str:
    if len(name) > 200 or _INVISIBLE.search(name):
        raise NotFound(f"there is no dataset {name[:100]!r}; GET /api/datasets lists those there are")
    return name


ServiceOf = Annotated[Service, Depends(_service)]
JobId = Annotated[str, Depends(_job_id)]
UploadId = Annotated[str, Depends(_upload_id)]
DatasetName = Annotated[str, Depends(_dataset_name)]


def check_query(request: Request) -> None:
    """Refuses a parameter of the query that the route does not have, and text that no name has: for every route."""
    route: Any = request.scope["route"]
    known = {field.alias for field in route.dependant.query_params}
    problems = []
    for name, value in request.query_params.multi_items():
        if name not in known:
            there = f"there are {', '.join(sorted(known))}" if known else "there are none here"
            problems.append(FieldProblem(name, f"there is no parameter {name[:100]!r}; {there}"))
        elif _INVISIBLE.search(value):
            problems.append(FieldProblem(name, f"{name} is {value[:100]!r}; leave out characters that cannot be seen"))
    if problems:
        raise Invalid(*problems)
