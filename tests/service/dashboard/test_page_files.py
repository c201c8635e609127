"""The scripts and styles of the pages, as they are sent; no browser is needed."""

import gzip
from pathlib import Path
from typing import Any

import nicegui
import pytest
from nicegui import __version__
from nicegui.dependencies import esm_modules

from brimful.service.dashboard.preload import large_files, preloads
from brimful.service.dashboard.stored_files import StoredFiles

from ...helpers.asynchronous import run_apart

FILES = f"/_nicegui/{__version__}/"
SCRIPT = b"let a = 1;\n" * 1000


class Answering:
    """An application that gives one answer to every request, and counts them."""

    def __init__(self, status: int = 200, kind: bytes = b"text/javascript") -> None:
        self.status, self.kind, self.count, self.interrupted = status, kind, 0, False

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.count += 1
        headers = [(b"content-type", self.kind), (b"content-length", str(len(SCRIPT)).encode())]
        await send({"type": "http.response.start", "status": self.status, "headers": headers})
        await send({"type": "http.response.body", "body": SCRIPT[:100], "more_body": True})
        if not self.interrupted:
            await send({"type": "http.response.body", "body": SCRIPT[100:]})


def ask(app: Any, path: str, query: bytes = b"", **headers: str) -> tuple[int, dict[str, str], bytes]:
    given = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    scope = {"type": "http", "method": "GET", "path": path, "query_string": query, "headers": given}
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    run_apart(app(scope, None, send))
    sent[0]["headers"].append((b"cache-control", b"as others do, further out"))
    named = {name.decode().lower(): value.decode() for name, value in sent[0]["headers"]}
    return sent[0]["status"], named, b"".join(message.get("body", b"") for message in sent[1:])


def test_a_file_is_compressed_once():
    inner = Answering()
    app = StoredFiles(inner)
    answers = [ask(app, f"{FILES}static/vue.js", accept_encoding="gzip, br") for _ in range(3)]
    assert inner.count == 1
    for status, headers, body in answers:
        assert status == 200 and gzip.decompress(body) == SCRIPT
        assert headers["content-encoding"] == "gzip" and headers["content-length"] == str(len(body))
    assert answers[0] == answers[2]
    assert ask(app, f"{FILES}static/vue.js")[2] == SCRIPT  # by someone who cannot read it compressed


def test_large_files_are_compressed_and_pages_made_once_when_the_server_has_started():
    class Starting(Answering):
        async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
            if scope["type"] == "lifespan":
                return await send({"type": "lifespan.startup.complete"})
            return await super().__call__(scope, receive, send)

    inner = Starting()

    async def pages() -> list[str]:
        return ["/", "/jobs/1"]

    app = StoredFiles(inner, [f"{FILES}esm/large.js", f"{FILES}esm/other.js"], pages)
    sent: list[Any] = []

    async def started() -> None:
        async def send(message: Any) -> None:
            sent.append(message)

        await app({"type": "lifespan"}, None, send)  # pyright: ignore[reportArgumentType]
        assert app._preparing is not None
        await app._preparing

    run_apart(started())
    assert sent == [{"type": "lifespan.startup.complete"}]
    assert inner.count == 4
    assert gzip.decompress(ask(app, f"{FILES}esm/large.js", accept_encoding="gzip")[2]) == SCRIPT
    assert inner.count == 4


def test_the_dashboards_own_files_are_compressed_once_whatever_their_version():
    inner = Answering()
    app = StoredFiles(inner)
    for _ in range(2):
        assert gzip.decompress(ask(app, "/dashboard/dashboard.css", b"0.1.0", accept_encoding="gzip")[2]) == SCRIPT
    assert inner.count == 1


def test_of_a_visitor_who_leaves_no_half_a_file_stays():
    inner = Answering()
    inner.interrupted, app = True, StoredFiles(inner)
    ask(app, f"{FILES}static/vue.js", accept_encoding="gzip")
    inner.interrupted = False
    assert gzip.decompress(ask(app, f"{FILES}static/vue.js", accept_encoding="gzip")[2]) == SCRIPT


@pytest.mark.parametrize(
    ("path", "query", "headers"),
    [
        ("/jobs/1", b"", {}),
        (f"{FILES}static/./vue.js", b"", {}),
        ("/dashboard//dashboard.css", b"", {}),
        (f"{FILES}dynamic_resources/a.css", b"", {}),
        (f"{FILES}static/vue.js", b"v=1", {}),
        (f"{FILES}static/vue.js", b"", {"range": "bytes=0-9"}),
        (f"{FILES}static/vue.js", b"", {"if_none_match": "a"}),
    ],
)
def test_what_may_change_is_made_anew(path: str, query: bytes, headers: dict[str, str]):
    inner = Answering()
    app = StoredFiles(inner)
    for _ in range(2):
        ask(app, path, query, accept_encoding="gzip", **headers)
    assert inner.count == 2


@pytest.mark.parametrize("inner", [Answering(status=404), Answering(kind=b"font/woff2")])
def test_errors_and_what_is_compressed_already_pass_as_they_are(inner: Answering):
    app = StoredFiles(inner)
    for _ in range(2):
        status, headers, body = ask(app, f"{FILES}static/a", accept_encoding="gzip")
        assert (status, body) == (inner.status, SCRIPT) and "content-encoding" not in headers
    assert inner.count == 2


def test_the_library_of_the_plots_is_asked_for_at_the_top_of_a_page():
    assert "/esm/" not in preloads(plots=False)
    links = preloads(plots=True).split('href="')[1:]
    names = [link.split('"')[0].rpartition("/esm/")[2] for link in links if "/esm/" in link]
    assert len(names) >= 2
    for key, name in (name.split("/") for name in names):
        assert (esm_modules[key].path / name).is_file()


def test_the_files_that_a_first_visit_waits_for_are_there():
    static = Path(nicegui.__file__).parent / "static"
    for url in large_files():
        name = url.removeprefix(f"{FILES}static/")
        found = static / name if name != url else _library() / url.rpartition("/")[2]
        assert found.is_file()


def _library() -> Path:
    return next(module.path for module in esm_modules.values() if module.name == "nicegui-echart")
