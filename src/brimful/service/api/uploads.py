"""Files for jobs. The body of a request is the file itself, written as it comes, and checked before it is kept."""

import io
from collections.abc import AsyncIterator
from typing import Annotated

import anyio.from_thread
import anyio.to_thread
from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from ..errors import FieldProblem, Invalid
from ..problem import Problem
from ..security.body_limit import UPLOADS
from ..security.names import file_name_fault
from .openapi import answer, file_body
from .parameters import ServiceOf, UploadId
from .problems import MalformedError
from .responses import json_response

router = APIRouter(prefix=UPLOADS, tags=["uploads"])


@router.post("", status_code=201, openapi_extra=file_body(), responses=answer("Upload", 201))
async def upload(
    request: Request,
    service: ServiceOf,
    name: Annotated[str, Query(description="the file's name; its ending says what it is", max_length=200)],
) -> Response:
    """Send a file for jobs: `curl --data-binary @points.npy '.../api/uploads?name=points.npy'`. An option of a job that
    takes a file takes `upload:ID`."""
    if request.headers.get("content-type", "").lower().startswith("multipart/"):
        raise MalformedError(
            Problem(415, "the body is a form; send the file itself, as curl --data-binary @FILE does, with ?name=FILE")
        )
    if fault := file_name_fault(name):
        raise Invalid(FieldProblem("name", f"name {fault}"))
    stored = await anyio.to_thread.run_sync(service.upload, name, io.BufferedReader(_Body(request.stream())))
    return json_response(stored.to_dict(), 201, {"location": f"{UPLOADS}/{stored.id}"})


@router.get("", responses=answer("Uploads"))
def listed(service: ServiceOf) -> Response:
    """The files there are."""
    return json_response({"uploads": [upload.to_dict() for upload in service.uploads()]})


@router.delete("/{upload_id}", status_code=204)
def delete(service: ServiceOf, upload_id: UploadId) -> Response:
    """Remove a file."""
    service.delete_upload(upload_id)
    return Response(status_code=204)


class _Body(io.RawIOBase):
    """The body of a request as a file that a thread reads, while the event loop receives it."""

    def __init__(self, chunks: AsyncIterator[bytes]) -> None:
        self._chunks, self._left = chunks, memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # pyright: ignore[reportIncompatibleMethodOverride]
        while not self._left:
            chunk = anyio.from_thread.run(anext, self._chunks, None)
            if chunk is None:
                return 0
            self._left = memoryview(chunk)
        count = min(len(buffer), len(self._left))
        buffer[:count], self._left = self._left[:count], self._left[count:]
        return count
