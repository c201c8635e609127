"""Compressed answers. The files of NiceGUI never change, so each is compressed once and kept: some are a megabyte, and
compressing them anew for every visitor would keep all others waiting."""

import gzip
from typing import Any

import anyio.to_thread
from nicegui import __version__
from starlette.datastructures import Headers, MutableHeaders
from starlette.middleware.gzip import GZipMiddleware

from .headers import App, Message, Receive, Scope, Send

_FILES = f"/_nicegui/{__version__}/"
_MADE = f"{_FILES}dynamic_resources/"
_TEXT = ("text/", "application/javascript", "application/json", "image/svg")
_LEVEL = 6


class StoredGzip(GZipMiddleware):
    """Wraps the application of the pages."""

    def __init__(self, app: App) -> None:
        super().__init__(app, compresslevel=_LEVEL)
        self._stored: dict[str, tuple[list[tuple[bytes, bytes]], bytes]] = {}

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        if not _is_file(scope):
            return await super().__call__(scope, receive, send)
        path = scope["path"]
        if path not in self._stored:
            start, body = await _collect(self.app, scope, receive)
            headers = MutableHeaders(raw=start["headers"])
            whole = headers.get("content-length") == str(len(body))  # less where the one who asked has gone meanwhile
            if start["status"] != 200 or not whole or not headers.get("content-type", "").startswith(_TEXT):
                await send(start)
                return await send({"type": "http.response.body", "body": body})
            body = await anyio.to_thread.run_sync(gzip.compress, body, _LEVEL)
            headers["content-encoding"], headers["content-length"] = "gzip", str(len(body))
            headers.add_vary_header("accept-encoding")
            self._stored[path] = headers.raw, body
        kept, body = self._stored[path]
        await send({"type": "http.response.start", "status": 200, "headers": [*kept]})
        return await send({"type": "http.response.body", "body": body})


def _is_file(scope: Scope) -> bool:
    """Whether a request is for a whole file that never changes, by someone who can read it compressed."""
    if scope["type"] != "http" or scope["method"] != "GET" or scope["query_string"]:
        return False
    headers, path = Headers(scope=scope), scope["path"]
    named = path.startswith(_FILES) and not path.startswith(_MADE)
    return named and "range" not in headers and "gzip" in headers.get("accept-encoding", "")


async def _collect(app: App, scope: Scope, receive: Receive) -> tuple[Message, bytes]:
    start: Message = {}
    body = bytearray()

    async def collect(message: Message) -> None:
        if message["type"] == "http.response.start":
            start.update(message)
        elif message["type"] == "http.response.body":
            body.extend(message.get("body", b""))

    await app(scope, receive, collect)
    return start, bytes(body)
