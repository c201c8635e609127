"""One server and one browser for all tests of the pages."""

import shutil
import tempfile
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from brimful.data.database.connection import Database

from ...helpers.dashboard_server import DashboardServer

CHROMIUM = Path("/usr/bin/chromium")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if CHROMIUM.exists():
        return
    skip = pytest.mark.skip(reason=f"needs {CHROMIUM}: apt-get install chromium")
    for item in items:
        if item.get_closest_marker("browser"):
            item.add_marker(skip)


@pytest.fixture(scope="session")
def server(postgres_home: Path) -> Iterator[DashboardServer]:
    home, name = Database.at(home=postgres_home).uri(), f"t{uuid.uuid4().hex[:12]}"
    state = Path(tempfile.mkdtemp(prefix="bf-"))
    with psycopg.connect(home, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())
        started = DashboardServer(home.replace("/postgres?", f"/{name}?"), state)
        yield started
        started.stop()
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())
    shutil.rmtree(state, ignore_errors=True)


@pytest.fixture(scope="package")
def browser() -> Iterator[Any]:
    """For this folder alone: while it is there, an event loop runs in the tests' thread, and others cannot."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=str(CHROMIUM), args=["--no-sandbox"])
        yield launched
        launched.close()


Open = Callable[..., Any]


@pytest.fixture
def open_page(server: DashboardServer, browser: Any) -> Iterator[Open]:
    """Opens a page of the server, logged in unless `token` is None. Errors of scripts, and requests that leave this
    machine, fail the test."""
    contexts, faults = [], []

    def watch(page: Any) -> None:
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on("request", lambda request: faults.append(request.url) if not _own(request.url) else None)
        page.on("console", lambda line: faults.append(line.text) if "Content Security" in line.text else None)

    def _own(url: str) -> bool:
        return url.startswith((server.url, "data:", "blob:"))

    def opened(path: str = "/", token: str | None = "", width: int = 1280, **options: Any) -> Any:
        context = browser.new_context(viewport={"width": width, "height": 900}, **options)
        context.set_default_timeout(30_000)
        contexts.append(context)
        if token is not None:
            cookie = {"name": "brimful_token", "value": token or server.token, "url": server.url}
            context.add_cookies([cookie])
        page = context.new_page()
        watch(page)
        page.goto(server.url + path)
        return page

    yield opened
    for context in contexts:
        context.close()
    assert faults == []
