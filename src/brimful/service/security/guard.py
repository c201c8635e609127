"""The middleware before everything else: pure ASGI, over HTTP and websockets alike.

It asks, in this order: is the head of the request sound, does it address this service, does it come from a page of
another site, does its address ask too often, has it a token that allows it, is its body too large? Then it adds the
headers that tell a browser to trust nothing here more than it must.
"""

import logging
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import anyio.to_thread

from ..problem import MEDIA_TYPE, Problem
from .authentication import EVERYTHING, SCOPES, Authentication, TokenCheck, to_login
from .body_limit import BodyTooLarge, LimitedBody, announced_too_large, limit_of, too_large
from .origin import foreign_host, foreign_origin
from .policy import PUBLIC, SecurityPolicy
from .rate import RateLimit, too_many
from .request_head import RequestHead

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

_log = logging.getLogger("brimful.service.security")

_ALWAYS = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
_OF_API = {
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'; sandbox",
    "cache-control": "no-store",
}


class Guard:
    """Wraps an application."""

    def __init__(self, app: App, policy: SecurityPolicy, check_token: TokenCheck) -> None:
        self._app, self._policy = app, policy
        self._authentication = Authentication(policy, check_token)
        self._rate = RateLimit(policy.requests_per_second, policy.burst)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            return await self._app(scope, receive, send)
        head = RequestHead.of(scope)
        if (problem := await self._refusal(head, scope)) is not None:
            _log.info("refused %s %s from %s: %s", head.method, _line(head.path), head.client, problem.status)
            if problem.status == 401 and head.navigates and not head.path.startswith("/api"):
                problem = to_login(head)
            return await _refuse(scope, receive, send, problem)
        if scope["type"] == "websocket":
            return await self._app(scope, receive, send)
        return await self._answer(head, scope, receive, send)

    async def _refusal(self, head: RequestHead, scope: Scope) -> Problem | None:
        if head.repeated:
            return Problem(400, f"the header {head.repeated} is given more than once; give it once")
        if problem := foreign_host(head, self._policy) or foreign_origin(head, self._policy):
            return problem
        if head.path not in PUBLIC and (problem := self._too_often(head)):
            return problem
        scope[SCOPES] = EVERYTHING
        if self._authentication.needed(head):
            allowed = await anyio.to_thread.run_sync(self._authentication.allowed, head)
            if isinstance(allowed, Problem):
                return allowed
            scope[SCOPES] = allowed
        return announced_too_large(head, self._policy)

    def _too_often(self, head: RequestHead) -> Problem | None:
        if (wait := self._rate.seconds_to_wait(head.client)) > 0:
            return too_many(wait, "requests")
        self._rate.take(head.client)
        return None

    async def _answer(self, head: RequestHead, scope: Scope, receive: Receive, send: Send) -> None:
        limit = limit_of(head.path, self._policy)
        body = LimitedBody(receive, limit)
        started = refused = False

        async def checked_send(message: Message) -> None:
            nonlocal started, refused
            if message["type"] == "http.response.start":
                refused, started = body.exceeded, True  # whatever the application made of a body that is too large
                if refused:
                    await _send_problem(send, too_large(limit))
                else:
                    _add_headers(message, head.path)
            if not refused:
                await send(message)

        try:
            await self._app(scope, body, checked_send)
        except BodyTooLarge:
            if not started:
                await _send_problem(send, too_large(limit))


def _add_headers(message: Message, path: str) -> None:
    wanted = {**_ALWAYS, **(_OF_API if path.startswith("/api") else {})}
    there = {name.lower() for name, _ in message.get("headers", ())}
    added = [(name.encode(), value.encode()) for name, value in wanted.items() if name.encode() not in there]
    message["headers"] = [*message.get("headers", ()), *added]


async def _refuse(scope: Scope, receive: Receive, send: Send, problem: Problem) -> None:
    if scope["type"] == "websocket":
        await receive()  # the request to connect, which is not accepted
        await send({"type": "websocket.close", "code": 1008, "reason": problem.detail[:100]})
    else:
        await _send_problem(send, problem)


async def _send_problem(send: Send, problem: Problem) -> None:
    body = problem.body()
    headers = {"content-type": MEDIA_TYPE, "content-length": str(len(body)), **problem.headers, **_ALWAYS, **_OF_API}
    pairs = [(name.encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": problem.status, "headers": pairs})
    await send({"type": "http.response.body", "body": body})


def _line(text: str) -> str:
    """Safe to log: a path may hold line breaks once it is decoded."""
    return ascii(text[:200])
