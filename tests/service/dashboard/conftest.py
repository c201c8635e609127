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
FLAGS = ["--no-sandbox", "--disable-gpu-compositing", "--disable-accelerated-2d-canvas"]
"""Without a GPU, standing in for one takes a fifth of a page's time."""


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
        started.end()
    shutil.rmtree(state, ignore_errors=True)


@pytest.fixture(scope="package")
def browser() -> Iterator[Any]:
    """For this folder alone: while it is there, an event loop runs in the tests' thread, and others cannot."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=str(CHROMIUM), args=FLAGS)
        yield launched
        launched.close()


Open = Callable[..., Any]

LISTENS = "window.did_handshake || document.querySelector('form[method=post] #token')"
"""Whether a page passes on what is clicked; before, that is lost. The page to log in has no script."""


class Tabs:
    """One session of the browser for most pages. A tab is used again, since a new one is a new process."""

    def __init__(self, context: Any) -> None:
        self._context, self._free = context, []

    def take(self) -> Any:
        return self._free.pop() if self._free else self._context.new_page()

    def give_back(self, page: Any) -> None:
        page.goto("about:blank")
        page.unroute_all()
        page.emulate_media(color_scheme="null")
        self._free.append(page)


@pytest.fixture(scope="package")
def tabs(server: DashboardServer, browser: Any) -> Iterator[Tabs]:
    context = browser.new_context()
    context.add_cookies([server.cookie])
    yield Tabs(context)
    context.close()


@pytest.fixture
def open_page(server: DashboardServer, browser: Any, tabs: Tabs) -> Iterator[Open]:
    """Opens a page of the server, logged in unless `token` is None. Errors of scripts, and requests that leave this
    machine, fail the test."""
    contexts, pages, taken, faults = [], [], [], []

    def own(url: str) -> bool:
        return url.startswith((server.url, "data:", "blob:", "about:"))

    watched = {
        "pageerror": lambda error: faults.append(str(error)),
        "request": lambda request: faults.append(request.url) if not own(request.url) else None,
        "console": lambda line: faults.append(line.text) if "Content Security" in line.text else None,
    }

    def with_token(token: str | None) -> Any:
        contexts.append(browser.new_context())
        if token is not None:
            contexts[-1].add_cookies([{**server.cookie, "value": token}])
        return contexts[-1].new_page()

    def open_one(path: str = "/", token: str | None = "", width: int = 1280) -> Any:
        page = tabs.take() if token == "" else with_token(token)
        (taken if token == "" else pages).append(page)
        page.set_default_timeout(30_000)
        page.set_viewport_size({"width": width, "height": 900})
        for event, note in watched.items():
            page.on(event, note)
        page.goto(server.url + path)
        page.wait_for_function(LISTENS)
        return page

    yield open_one
    for one in (*pages, *contexts):
        one.close()
    for page in taken:
        for event, note in watched.items():
            page.remove_listener(event, note)
        tabs.give_back(page)
    assert faults == []
