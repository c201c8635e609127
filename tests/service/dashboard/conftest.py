"""One server and one browser for all tests of the pages."""

import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ...helpers.dashboard_server import DashboardServer
from ...helpers.postgres import NewDatabase

BROWSERS = Path("/usr/bin/chromium-headless-shell"), Path("/usr/bin/chromium")
"""Debian's builds: the one without windows takes five sixths of the processor's time."""

CHROMIUM = next((browser for browser in BROWSERS if browser.exists()), BROWSERS[0])
OFF = ("WebUIOmniboxPopup", "WebUIOmniboxAimPopup", "WebUIOmniboxFullPopup")
"""What the browser's own window would do in the background: a second of the processor for every new one."""

NO_REQUESTS = ("AimEnabled", "HttpsUpgrades", "NetworkTimeServiceQuerying", "OptimizationHints", "PreconnectToSearch")
"""What Playwright turns off too, and would not any more: a list of features takes the place of its own."""

FLAGS = [
    "--no-sandbox",
    "--in-process-gpu",  # it only puts tiles together: one process less
    "--disable-gpu-compositing",  # without a GPU, standing in for one takes a fifth of a page's time
    "--disable-accelerated-2d-canvas",
    "--renderer-process-limit=1",  # tabs share what one of them has compiled
    f"--disable-features={','.join((*OFF, *NO_REQUESTS))}",
]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    # First in a run: they are then all in the share of one of its processes, from which others take the last tests, and
    # there is one server and one browser.
    items.sort(key=lambda item: item.get_closest_marker("browser") is None)
    if CHROMIUM.exists():
        return
    skip = pytest.mark.skip(reason=f"needs {CHROMIUM}: apt-get install {CHROMIUM.name}")
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
"""Whether what is clicked reaches the server at once; before, the page keeps it. The page to log in has no script."""


def until(page: Any, condition: str, arg: Any = None) -> None:
    """Waits until a page says so. It is asked now and then: once per frame takes a tenth of a core."""
    page.wait_for_function(condition, arg=arg, polling=50)


def go(page: Any, url: str) -> None:
    """Opens another page in a tab, and waits until it listens."""
    page.goto(url)
    until(page, LISTENS)


class Tabs:
    """One session of the browser. A tab is used again, from one page to the next: a new one is a new process, which
    compiles all scripts anew."""

    def __init__(self, context: Any, rest: str) -> None:
        self._context, self._rest = context, rest
        self._free: list[Any] = []

    def log_in(self, cookies: list[dict[str, str]]) -> None:
        self._context.clear_cookies()
        self._context.add_cookies(cookies)

    def take(self) -> Any:
        return self._free.pop() if self._free else self._context.new_page()

    def give_back(self, page: Any) -> None:
        page.unroute_all()
        page.emulate_media(color_scheme="null")
        if self._free:  # it may not be taken for long, and would go on asking the server
            page.goto(self._rest)
        self._free.append(page)


@pytest.fixture(scope="package")
def sessions(server: DashboardServer, browser: Any) -> Iterator[tuple[Tabs, Tabs]]:
    """The session of one who is logged in, and that of others."""
    contexts = browser.new_context(), browser.new_context()
    own, others = (Tabs(context, f"{server.url}/login") for context in contexts)
    own.log_in([server.cookie])
    yield own, others
    for context in contexts:
        context.close()


@pytest.fixture
def open_page(server: DashboardServer, sessions: tuple[Tabs, Tabs]) -> Iterator[Open]:
    """Opens a page of the server, logged in unless `token` is None. Errors of scripts, and requests that leave this
    machine, fail the test."""
    taken, faults = [], []

    def own(url: str) -> bool:
        return url.startswith((server.url, "data:", "blob:", "about:"))

    watched = {
        "pageerror": lambda error: faults.append(str(error)),
        "request": lambda request: faults.append(request.url) if not own(request.url) else None,
        "console": lambda line: faults.append(line.text) if "Content Security" in line.text else None,
    }

    def open_one(path: str = "/", token: str | None = "", width: int = 1280) -> Any:
        tabs = sessions[token != ""]
        if token != "":
            tabs.log_in([{**server.cookie, "value": token}] if token else [])
        page = tabs.take()
        taken.append((tabs, page))
        page.set_default_timeout(30_000)
        page.set_viewport_size({"width": width, "height": 900})
        for event, note in watched.items():
            page.on(event, note)
        go(page, server.url + path)
        return page

    yield open_one
    for tabs, page in taken:
        for event, note in watched.items():
            page.remove_listener(event, note)
        tabs.give_back(page)
    assert faults == []
