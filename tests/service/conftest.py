"""Services on a database of their own, on the tests' one embedded server."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from dbos import run_dbos_database_migrations

from brimful.core.declare import registry
from brimful.data.database.connection import Database
from brimful.service.jobs.job import Job
from brimful.service.jobs.state import JobState
from brimful.service.options import ServeOptions
from brimful.service.service import Service
from brimful.service.store import Store

from ..helpers import job_workload
from ..helpers.postgres import NewDatabase, new_database
from ..helpers.service_processes import ForkedForkServer
from ..helpers.stopping import wait_for

GB = 10**9


@pytest.fixture(scope="session")
def template(postgres_home: Path) -> Iterator[NewDatabase]:
    """A database with all tables, of which others are copies: making them takes ten times as long."""
    with new_database(Database.at(home=postgres_home).uri()) as database:
        made = Store(Database.at(database.url))
        made.migrate()
        made.close()
        run_dbos_database_migrations(database.url)
        yield database


@pytest.fixture
def url(template: NewDatabase) -> Iterator[str]:
    """Of a new database."""
    with template.copy() as database:
        yield database.url


@pytest.fixture(scope="module")
def module_store(template: NewDatabase) -> Iterator[Store]:
    """A store that the tests of a module share."""
    with template.copy() as database:
        made = Store(Database.at(database.url))
        yield made
        made.close()


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    made = Store(Database.at(url))
    made.migrate()
    yield made
    made.close()


@pytest.fixture
def forked_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes of jobs are forked, and there is the tests' workload."""
    monkeypatch.setitem(registry.WORKLOADS, job_workload.NAME, "tests.helpers.job_workload")
    monkeypatch.setattr("brimful.service.runner.processes.launch", ForkedForkServer)


class Running:
    """A started service, and what tests do with one."""

    def __init__(self, service: Service) -> None:
        self.service = service

    def submit(self, command: str = "train", budget: str = "1GB", **request: Any) -> Job:
        config = request.pop("config", {})
        values = {"job_name": "a job", "workload": "steps", "command": command, "budget": budget, "config": config}
        values["cores"] = 1
        return self.service.submit({**values, **request})

    def wait(self, job: Job, *states: str, seconds: float = 100.0) -> Job:
        """Waits until a job has ended, or is in one of those states."""
        wanted = {JobState(state) for state in states}

        def there() -> bool:
            state = self.service.job(job.id).state
            return state in wanted if wanted else state.ended

        wait_for(there, seconds, 0.03)
        return self.service.job(job.id)

    def wait_for_event(self, job: Job, kind: str) -> None:
        wait_for(lambda: any(event.kind == kind for event in self.service.events(job.id)), pause=0.03)

    def states(self, job: Job) -> list[str]:
        return [event.data["state"] for event in self.service.events(job.id) if event.kind == "state"]


Make = Callable[..., Running]


@pytest.fixture
def make(url: str, tmp_path: Path, forked_jobs: None) -> Iterator[Make]:
    """Starts a service; another one after it has the same database and folder."""
    started: list[Service] = []

    def start(**options: Any) -> Running:
        chosen = {"cores": 4, "budget": "8GB", "grace": 10.0, **options}
        service = Service(ServeOptions(state=tmp_path / "state", database=url, **chosen))
        started.append(service)
        service.start()
        return Running(service)

    yield start
    for service in started:
        service.stop(grace=0)


@pytest.fixture
def running(make: Make) -> Running:
    return make()
