"""What the service refuses, and why.

BrimfulError
└── ServiceError         base; the REST API turns each into problem+json
    ├── NotFound         there is no such job, file, dataset, upload          404
    ├── Conflict         it does not go with the state the job is in          409
    ├── Forbidden        a token is missing, wrong, or does not allow it      401, 403
    ├── Invalid          fields of a request are wrong; each is named         422
    └── Unavailable      the database or the server cannot be used now        503
"""

from dataclasses import dataclass
from typing import ClassVar

from ..core.base.errors import BrimfulError


@dataclass(frozen=True, slots=True)
class FieldProblem:
    """One field that is wrong: its path, such as "config.epochs", and a sentence that says what is allowed."""

    path: str
    message: str

    def to_dict(self) -> dict[str, str]:
        return {"path": self.path, "message": self.message}


class ServiceError(BrimfulError):
    """Base of what the service refuses; `status` is the HTTP status."""

    status: ClassVar[int] = 500
    title: ClassVar[str] = "Error"


class NotFound(ServiceError):
    """There is no such thing."""

    status = 404
    title = "Not found"


class Conflict(ServiceError):
    """It does not go with the state that the job, or the server, is in."""

    status = 409
    title = "Conflict"


class Forbidden(ServiceError):
    """The request has no token where one is needed, or one that does not allow it."""

    status = 403
    title = "Forbidden"


class Invalid(ServiceError):
    """A request with wrong fields.

    Attributes:
        problems: every wrong field.
    """

    status = 422
    title = "Invalid request"

    def __init__(self, *problems: FieldProblem) -> None:
        self.problems = problems
        super().__init__("; ".join(problem.message for problem in problems))


class Unavailable(ServiceError):
    """The database cannot be reached, or the server is stopping; the same request may succeed later."""

    status = 503
    title = "Unavailable"
