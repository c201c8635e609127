"""Health, readiness and numbers, over a service that says what it is asked."""

import asyncio
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from brimful.service.api import operations
from brimful.service.errors import Unavailable


class FakeService:
    """The three methods that are asked here."""

    def __init__(self) -> None:
        self.database = True

    def health(self) -> dict[str, Any]:
        return {"ok": True, "version": "1"}

    def ready(self) -> dict[str, Any]:
        return {"ok": self.database, "database": self.database, "scheduler": True, "message": ""}

    def statistics(self) -> dict[str, Any]:
        if not self.database:
            raise Unavailable("the database is away")
        return {
            "jobs": {"queued": 3, "running": 1},
            "leased_bytes": {"cuda:0": 8_000_000_000},
            "capacity_bytes": {"cuda:0": 100_000_000_000},
            "leased_cores": 1,
            "capacity_cores": 16,
            "events": 12,
            "metric_rows": 34,
            "queue_seconds": 1.5,
            "children": 1,
        }


@pytest.fixture
def service() -> FakeService:
    return FakeService()


class InProcess:
    """Requests to an application, without a server."""

    def __init__(self, app: FastAPI) -> None:
        self._app = app

    def get(self, path: str) -> httpx.Response:
        async def ask() -> httpx.Response:
            transport = httpx.ASGITransport(app=self._app)
            async with httpx.AsyncClient(transport=transport, base_url="http://server") as client:
                return await client.get(path)

        return asyncio.run(ask())


@pytest.fixture
def client(service: FakeService) -> InProcess:
    app = FastAPI()
    app.state.service = service
    operations.install(app)

    @app.get("/jobs/{id}")
    def job(id: str) -> str:
        return id

    return InProcess(app)


def test_health_and_readiness(client: InProcess, service: FakeService):
    assert client.get("/healthz").json() == {"ok": True, "version": "1"}
    assert client.get("/readyz").status_code == 200
    service.database = False
    assert client.get("/healthz").status_code == 200
    refused = client.get("/readyz")
    assert (refused.status_code, refused.headers["retry-after"]) == (503, "5")
    assert refused.json()["database"] is False


def test_numbers_for_prometheus(client: InProcess):
    client.get("/jobs/1")
    client.get("/jobs/2")
    client.get("/nothing/here")
    response = client.get("/metrics")
    assert response.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    lines = response.text.splitlines()
    for line in (
        'brimful_jobs{state="queued"} 3',
        'brimful_leased_bytes{device="cuda:0"} 8000000000',
        "brimful_capacity_cores 16",
        "brimful_queue_seconds 1.5",
        "brimful_database_up 1",
        'brimful_http_request_seconds_count{method="GET",route="/jobs/{id}",status="200"} 2',
        'brimful_http_request_seconds_count{method="any",route="none",status="404"} 1',
    ):
        assert line in lines
    assert "nothing/here" not in response.text
    kinds = [line.split()[2] for line in lines if line.startswith("# TYPE")]
    assert len(kinds) == len(set(kinds))


def test_numbers_without_the_database(client: InProcess, service: FakeService):
    service.database = False
    text = client.get("/metrics").text
    assert "brimful_database_up 0" in text
    assert "process_resident_memory_bytes" in text
    assert "brimful_jobs" not in text
