"""One server and one browser for all tests of the pages."""

import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ...helpers.dashboard_server import DashboardServer
from ...helpers.postgres import NewDatabase

CHROMIUM = Path("/usr/bin/chromium")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if CHROMIUM.exists():
        return
    skip = pytest.mark.skip(reason=f"needs {CHROMIUM}: apt-get install chromium")
    for item in items:
        if item.get_closest_marker("browser"):
            item.add_marker(skip)


@pytest.fixture(scope="session")
def server(template: NewDatabase) -> Iterator[DashboardServer]:
    state = Path(tempfile.mkdtemp(prefix="bf-"))
    with template.copy() as database:
        started = DashboardServer(database.url, state)
        yield started
        started.stop()
    shutil.rmtree(state, ignore_errors=True)


@pytest.fixture
def empty_server(template: NewDatabase, tmp_path: Path) -> Iterator[DashboardServer]:
    """One that has no jobs and asks for no token, as the first time that someone starts it."""
    with template.copy() as database:
        started = DashboardServer(database.url, tmp_path, require_token=False)
        yield started
        started.stop()


@pytest.fixture(scope="package")
def browser() -> Iterator[Any]:
    """For this folder alone: while it is there, an event loop runs in the tests' thread, and others cannot."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=str(CHROMIUM), args=["--no-sandbox"])
        yield launched
        launched.close()


Open = Callable[..., Any]


@pytest.fixture(scope="package")
def logged_in(server: DashboardServer, browser: Any) -> Iterator[Any]:
    """One session of the browser for most pages: what they load is in its cache."""
    context = browser.new_context()
    context.add_cookies([server.cookie])
    yield context
    context.close()


@pytest.fixture
def open_page(server: DashboardServer, browser: Any, logged_in: Any) -> Iterator[Open]:
    """Opens a page of the server, logged in unless `token` is None. Errors of scripts, and requests that leave this
    machine, fail the test."""
    opened, faults = [], []

    def watch(page: Any) -> None:
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on("request", lambda request: faults.append(request.url) if not _own(request.url) else None)
        page.on("console", lambda line: faults.append(line.text) if "Content Security" in line.text else None)

    def _own(url: str) -> bool:
        return url.startswith((server.url, "data:", "blob:"))

    def session(token: str | None) -> Any:
        if token == "":
            return logged_in
        context = browser.new_context()
        opened.append(context)
        if token is not None:
            context.add_cookies([{**server.cookie, "value": token}])
        return context

    def open_one(path: str = "/", token: str | None = "", width: int = 1280) -> Any:
        page = session(token).new_page()
        opened.append(page)
        page.set_default_timeout(30_000)
        page.set_viewport_size({"width": width, "height": 900})
        watch(page)
        page.goto(server.url + path)
        return page

    yield open_one
    for one in reversed(opened):
        one.close()
    assert faults == []
