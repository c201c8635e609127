"""The application over a service in memory."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi import FastAPI

from brimful.service.api.app import create_app
from brimful.service.api.event_feed import EventFeed
from brimful.service.security.policy import SecurityPolicy

from ...helpers.fake_service import FakeService
from ...helpers.web import TestClient


@pytest.fixture
def service(tmp_path: Path) -> FakeService:
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "a.txt").write_text("a")
    (folder / "page.html").write_text("<script>alert(1)</script>")
    (folder / "picture.png").write_bytes(b"\x89PNG")
    (tmp_path / "secret.txt").write_text("secret")
    (folder / "link.txt").symlink_to(tmp_path / "secret.txt")
    return FakeService(folder)


@pytest.fixture(scope="package")
def app(tmp_path_factory: pytest.TempPathFactory) -> FastAPI:
    policy = SecurityPolicy.for_host("127.0.0.1", body_bytes=10_000, upload_bytes=100_000, burst=10**9)
    return create_app(FakeService(tmp_path_factory.mktemp("nothing")), policy)


@pytest.fixture
def client(app: FastAPI, service: FakeService) -> Iterator[TestClient]:
    """One application for all tests, with a service for each."""
    app.state.service, app.state.feed = service, EventFeed(service)
    with TestClient(app, base_url="http://localhost:8000") as client:
        yield client
