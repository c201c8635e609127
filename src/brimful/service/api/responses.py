"""What is sent: JSON without secrets, and without numbers that JSON does not have."""

import json
import math
from collections.abc import Mapping
from typing import Any

from starlette.responses import Response

from ..jobs.job import Job
from ..security.redact import redact_values


def to_json(content: Any) -> bytes:
    """JSON; a number that is not finite, such as a loss that diverged, is null."""
    try:
        text = json.dumps(content, allow_nan=False, separators=(",", ":"))
    except ValueError:
        text = json.dumps(_finite(content), allow_nan=False, separators=(",", ":"))
    return text.encode()


def json_response(content: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return Response(to_json(content), status, headers, "application/json")


def job_response(job: Job, prefix: str, status: int = 200) -> Response:
    """A job, and where it is found."""
    return json_response(job_values(job), status, {"location": f"{prefix}/{job.id}"} if status != 200 else None)


def job_values(job: Job) -> dict[str, Any]:
    """A job as it is shown: a password in the URL of a database or a webhook is not."""
    return redact_values(job.to_dict())


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(inner) for inner in value]
    return value
