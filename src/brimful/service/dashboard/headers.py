"""The security headers of the pages: where scripts, styles and connections may come from.

The scripts of NiceGUI's own template carry a number used once, and no others, so that markup which got into a page by
mistake runs nothing. What NiceGUI does not work without: `unsafe-eval`, because Vue compiles templates in the browser,
and inline styles.
"""

import re
import secrets
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from jinja2 import BaseLoader, Environment

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

_SCRIPT = re.compile(r"<script\b")
_MARK = secrets.token_urlsafe(24)
"""Stands for the number in the template, until an answer has one; nobody else knows it, and it is never sent."""


class _MarkedScripts(BaseLoader):
    """Templates whose own scripts are marked, before any value is put into them."""

    def __init__(self, inner: BaseLoader) -> None:
        self._inner = inner

    def get_source(self, environment: Environment, template: str) -> Any:
        source, *rest = self._inner.get_source(environment, template)
        return _SCRIPT.sub(f'<script nonce="{_MARK}"', source), *rest


def mark_scripts(environment: Environment) -> None:
    """Has scripts in the templates of an environment carry the number of each answer."""
    if not isinstance(environment.loader, _MarkedScripts):
        assert environment.loader is not None
        environment.loader = _MarkedScripts(environment.loader)
        if environment.cache is not None:
            environment.cache.clear()


def content_policy(nonce: str) -> str:
    """The content security policy of a page."""
    return "; ".join(
        (
            "default-src 'none'",
            f"script-src 'self' 'nonce-{nonce}' 'unsafe-eval'",
            "style-src 'self' 'unsafe-inline'",
            "img-src 'self' data: blob:",
            "font-src 'self'",
            "connect-src 'self'",
            "form-action 'self'",
            "frame-ancestors 'none'",
            "base-uri 'none'",
        )
    )


class PageHeaders:
    """Wraps the application of the pages; files and websockets pass as they are."""

    def __init__(self, app: App) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        start: Message | None = None
        body = bytearray()

        async def buffered(message: Message) -> None:
            nonlocal start
            if message["type"] == "http.response.start" and _is_page(message):
                start = message
            elif start is None:
                await send(message)
            elif message["type"] == "http.response.body":
                body.extend(message.get("body", b""))
                if not message.get("more_body"):
                    await _send_page(send, start, bytes(body))

        await self._app(scope, receive, buffered)
        return None


def _is_page(message: Message) -> bool:
    return any(name.lower() == b"content-type" and value.startswith(b"text/html") for name, value in message["headers"])


async def _send_page(send: Send, start: Message, body: bytes) -> None:
    nonce = secrets.token_urlsafe(16)
    body = body.replace(_MARK.encode(), nonce.encode())
    headers = [(name, value) for name, value in start["headers"] if name.lower() != b"content-length"]
    headers += [
        (b"content-length", str(len(body)).encode()),
        (b"content-security-policy", content_policy(nonce).encode()),
        (b"referrer-policy", b"same-origin"),
        (b"permissions-policy", b"camera=(), microphone=(), geolocation=(), usb=()"),
    ]
    await send({**start, "headers": headers})
    await send({"type": "http.response.body", "body": body})
