"""A refused request as problem+json (RFC 9457): what was wrong, and what to do."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

MEDIA_TYPE = "application/problem+json"


@dataclass(frozen=True, slots=True)
class Problem:
    """One refusal.

    Attributes:
        status: of HTTP.
        detail: a sentence that says what was wrong, with the value, and what to do.
        code: what kind it is, for programs: "not-found", "invalid", ... ; by default from the status.
        errors: every field at fault, as {"path": "config.epochs", "message": ...}.
        headers: of the response, beside its type.
    """

    status: int
    detail: str
    code: str = ""
    errors: tuple[Mapping[str, str], ...] = ()
    headers: Mapping[str, str] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        title = HTTPStatus(self.status).phrase
        code = self.code or title.lower().replace(" ", "-")
        document = {
            "type": f"urn:brimful:problem:{code}",
            "title": title,
            "status": self.status,
            "detail": self.detail,
        }
        return {**document, "errors": [dict(error) for error in self.errors]} if self.errors else document

    def body(self) -> bytes:
        return json.dumps(self.to_dict()).encode()
