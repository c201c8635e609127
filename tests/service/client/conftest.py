"""A real server over a service in memory."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from brimful.service.api.app import create_app
from brimful.service.api.event_feed import EventFeed
from brimful.service.security.policy import SecurityPolicy

from ...helpers.fake_service import FakeService
from ...helpers.served import Served, serving


@pytest.fixture(scope="package")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    app = create_app(FakeService(tmp_path_factory.mktemp("nothing")), SecurityPolicy.for_host("127.0.0.1"))
    with serving(app) as served:
        yield served


@pytest.fixture
def service(tmp_path: Path) -> FakeService:
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "a.txt").write_text("a")
    return FakeService(folder)


@pytest.fixture
def server(running: Served, service: FakeService) -> Served:
    """One server for all tests, with a service for each."""
    running.app.state.service, running.app.state.feed = service, EventFeed(service, interval=0.01)
    return running
