"""Bodies of requests: at most so many bytes, whether their length is announced or not."""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from ...core.base.formatting import format_bytes
from ..problem import Problem
from .policy import SecurityPolicy
from .request_head import RequestHead

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]

UPLOADS = "/api/uploads"


def limit_of(path: str, policy: SecurityPolicy) -> int:
    """The most bytes that a body sent to that path may have."""
    return policy.upload_bytes if path.rstrip("/") == UPLOADS else policy.body_bytes


def announced_too_large(head: RequestHead, policy: SecurityPolicy) -> Problem | None:
    """Refuses a body by the length that its sender announces, before any of it is read."""
    given = head.headers.get("content-length")
    if given is None:
        return None
    if not given.isascii() or not given.isdigit():
        return Problem(400, f"Content-Length is {given[:50]!r}; it must be the number of bytes of the body")
    limit = limit_of(head.path, policy)
    return too_large(limit) if len(given) > 19 or int(given) > limit else None


def too_large(limit: int) -> Problem:
    return Problem(
        413,
        f"the body has more than {format_bytes(limit)}, the most that is taken here. Send less; a file for a job goes "
        f"to POST {UPLOADS}",
        headers={"connection": "close"},
    )


class BodyTooLarge(Exception):
    """More bytes came than are allowed."""


class LimitedBody:
    """`receive` of ASGI, which counts: after `limit` bytes it raises, and `exceeded` says so."""

    def __init__(self, receive: Receive, limit: int) -> None:
        self._receive, self._left = receive, limit
        self.exceeded = False

    async def __call__(self) -> Message:
        message = await self._receive()
        if message["type"] == "http.request":
            self._left -= len(message.get("body", b""))
            if self._left < 0:
                self.exceeded = True
                raise BodyTooLarge
        return message
