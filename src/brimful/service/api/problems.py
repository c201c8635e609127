"""Every error as problem+json."""

import logging
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import Response

from ...core.base.errors import (
    BrimfulError,
    BudgetError,
    ConfigError,
    DeviceError,
    InputError,
    RunDirError,
    StorageError,
)
from ..errors import Invalid, ServiceError, Unavailable
from ..problem import MEDIA_TYPE, Problem
from ..security.redact import redact

_log = logging.getLogger("brimful.service.api")

_STATUS: tuple[tuple[type[BrimfulError], int], ...] = (
    (ConfigError, 422),
    (InputError, 422),
    (BudgetError, 422),
    (DeviceError, 422),
    (RunDirError, 409),
    (StorageError, 507),
)
"""What errors of the layers below are, where the service passes them on."""


class MalformedError(Exception):
    """A request that cannot be read at all."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.detail)
        self.problem = problem


def install(app: FastAPI) -> None:
    """Has the application answer every error with a problem."""
    app.add_exception_handler(MalformedError, _on_malformed)
    app.add_exception_handler(BrimfulError, _on_brimful_error)
    app.add_exception_handler(RequestValidationError, _on_validation_error)
    app.add_exception_handler(HTTPException, _on_http_exception)
    app.add_exception_handler(ClientDisconnect, _on_disconnect)
    app.add_exception_handler(Exception, _on_unexpected)


def problem_response(problem: Problem) -> Response:
    return Response(problem.body(), problem.status, dict(problem.headers), MEDIA_TYPE)


def problem_of(error: BrimfulError) -> Problem:
    """The problem that an error is."""
    detail = redact(str(error))
    if isinstance(error, Invalid):
        errors = [{"path": field.path, "message": redact(field.message)} for field in error.problems]
        return Problem(422, detail, "invalid", tuple(errors))
    if isinstance(error, ServiceError):
        headers = {"retry-after": "5"} if isinstance(error, Unavailable) else {}
        return Problem(error.status, detail, headers=headers)
    status = next((status for kind, status in _STATUS if isinstance(error, kind)), 500)
    return Problem(status, detail, "invalid" if status == 422 else "")


def _on_malformed(request: Request, error: Any) -> Response:
    return problem_response(error.problem)


def _on_brimful_error(request: Request, error: Any) -> Response:
    problem = problem_of(error)
    if problem.status >= 500:
        _log.error("%s %s: %s", request.method, ascii(request.url.path), problem.detail)
    return problem_response(problem)


def _on_validation_error(request: Request, error: Any) -> Response:
    """A parameter of the path or the query that is wrong."""
    errors = []
    for fault in error.errors():
        name = ".".join(str(part) for part in fault["loc"][1:])
        given = "" if fault["type"] == "missing" else f" is {str(fault.get('input'))[:100]!r}"
        errors.append({"path": name, "message": f"{name}{given}: {fault['msg'][0].lower()}{fault['msg'][1:]}"})
    return problem_response(Problem(422, "; ".join(fault["message"] for fault in errors), "invalid", tuple(errors)))


def _on_http_exception(request: Request, error: Any) -> Response:
    path = request.url.path[:200]
    detail = {
        404: f"there is nothing at {path!r}; the paths there are, are listed in /api/openapi.json",
        405: f"{request.method} is not possible at {path!r}; see /api/openapi.json for what is",
    }.get(error.status_code, str(error.detail))
    return problem_response(Problem(error.status_code, detail, headers=dict(error.headers or {})))


def _on_disconnect(request: Request, error: Exception) -> Response:
    """Nobody reads it; the log does not call it a mistake."""
    return problem_response(Problem(400, "the connection ended before the whole body had come; send it again"))


def _on_unexpected(request: Request, error: Exception) -> Response:
    """A mistake of ours: the log has it, the answer does not."""
    return problem_response(
        Problem(500, "the service made a mistake, which its log describes. Try again, or report it with that log")
    )
