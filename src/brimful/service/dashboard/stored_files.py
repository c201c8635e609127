"""The files of the pages: each is read and compressed once, and answered from memory before any route is looked for.
Some are a megabyte, and a first visit asks for sixteen of them at once."""

import asyncio
import contextlib
import gzip
import posixpath
from collections.abc import Awaitable, Callable, Sequence

import anyio.to_thread
from nicegui import __version__
from starlette.datastructures import Headers, MutableHeaders

from .headers import App, Message, Receive, Scope, Send

OWN_FILES = "/dashboard/"
_FILES = f"/_nicegui/{__version__}/"
_MADE = f"{_FILES}dynamic_resources/"
_TEXT = ("text/", "application/javascript", "application/json", "image/svg")
_LEVEL = 6


class StoredFiles:
    """Wraps the whole application; what is no file of the pages passes as it is.

    Args:
        app: the application.
        prepared: paths of large files, which are compressed as soon as the server has started.
        pages: gives paths of pages, which are then made once: what that does for the first time takes longer.
    """

    def __init__(
        self, app: App, prepared: Sequence[str] = (), pages: Callable[[], Awaitable[Sequence[str]]] | None = None
    ) -> None:
        self._app, self._prepared, self._pages = app, prepared, pages
        self._stored: dict[str, tuple[list[tuple[bytes, bytes]], bytes]] = {}
        self._preparing: asyncio.Task[None] | None = None

    async def _prepare(self) -> None:
        headers = [(b"host", b"localhost"), (b"accept-encoding", b"gzip"), (b"sec-purpose", b"prefetch")]
        paths = [*self._prepared]
        with contextlib.suppress(Exception):  # the database is away
            paths += await self._pages() if self._pages else ()
        for path in paths:
            raw = {"raw_path": path.encode(), "root_path": "", "scheme": "http", "http_version": "1.1", "client": None}
            scope = {"type": "http", "method": "GET", "path": path, "query_string": b"", "headers": headers, **raw}
            with contextlib.suppress(Exception):  # then it is compressed when it is asked for
                await self(scope, _one_request(), _dropped)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":

            async def started(message: Message) -> None:
                await send(message)
                if message["type"] == "lifespan.startup.complete":
                    self._preparing = asyncio.create_task(self._prepare())

            return await self._app(scope, receive, started)
        if not _is_file(scope):
            return await self._app(scope, receive, send)
        path = scope["path"]
        if path not in self._stored:
            start, body = await _collect(self._app, scope, receive)
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
    if scope["type"] != "http" or scope["method"] != "GET":
        return False
    headers, path = Headers(scope=scope), scope["path"]
    if posixpath.normpath(path) != path:  # one of many ways to write another: each would be kept
        return False
    named = path.startswith(_FILES) and not path.startswith(_MADE) and not scope["query_string"]
    whole = "range" not in headers and "if-none-match" not in headers
    return (named or path.startswith(OWN_FILES)) and whole and "gzip" in headers.get("accept-encoding", "")


def _one_request() -> Receive:
    """A request without a body, by someone who stays until the answer has come."""
    begun = False

    async def receive() -> Message:
        nonlocal begun
        if begun:
            await asyncio.Event().wait()
        begun = True
        return {"type": "http.request", "body": b"", "more_body": False}

    return receive


async def _dropped(message: Message) -> None:
    pass


async def _collect(app: App, scope: Scope, receive: Receive) -> tuple[Message, bytes]:
    start: Message = {}
    body = bytearray()

    async def collect(message: Message) -> None:
        if message["type"] == "http.response.start":
            start.update(message)
        elif message["type"] == "http.response.body":
            body.extend(message.get("body", b""))

    plain = [(name, value) for name, value in scope["headers"] if name.lower() != b"accept-encoding"]
    await app({**scope, "headers": plain}, receive, collect)
    return start, bytes(body)
