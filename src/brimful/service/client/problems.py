"""Refusals of a server as the exceptions that the service itself raises."""

from typing import Any

from ...core.base.errors import BrimfulError
from ..errors import Conflict, FieldProblem, Forbidden, Invalid, NotFound, ServiceError, Unavailable

_ERRORS: dict[int, type[ServiceError]] = {
    401: Forbidden,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    429: Unavailable,
    502: Unavailable,
    503: Unavailable,
    504: Unavailable,
}


def error_of(status: int, body: Any) -> BrimfulError:
    """The exception for a response that is a refusal.

    Args:
        body: problem+json as it was read, or whatever else came.
    """
    problem = body if isinstance(body, dict) else {}
    detail = problem.get("detail") or f"the server answers {status}; check that the url is that of a brimful server"
    if status == 422 and (wrong := problem.get("errors")):
        return Invalid(*(FieldProblem(field["path"], field["message"]) for field in wrong))
    return _ERRORS.get(status, ServiceError)(detail)
