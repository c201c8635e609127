"""The application over a service in memory."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from brimful.service.api.app import create_app
from brimful.service.security.policy import SecurityPolicy

from ...helpers.fake_service import FakeService
from ...helpers.web import TestClient


@pytest.fixture
def service(tmp_path: Path) -> FakeService:
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "a.txt").write_text("a")
    (folder / "page.html").write_text("<script>alert(1)</script>")
    (tmp_path / "secret.txt").write_text("secret")
    (folder / "link.txt").symlink_to(tmp_path / "secret.txt")
    return FakeService(folder)


@pytest.fixture
def client(service: FakeService) -> Iterator[TestClient]:
    app = create_app(service, SecurityPolicy.for_host("127.0.0.1", body_bytes=10_000, upload_bytes=100_000))
    with TestClient(app, base_url="http://localhost:8000") as client:
        yield client
