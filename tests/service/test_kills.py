"""The server, the process of a job or the database is killed at random moments: every job ends as it would have."""

import contextlib
import json
import os
import random
import shutil
import signal
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from brimful.core.declare import registry
from brimful.data.database import server
from brimful.data.database.connection import Database
from brimful.service.child.job_dir import EVENTS, METRICS
from brimful.service.jobs.job import Job
from brimful.service.jobs.lease import Demand
from brimful.service.jobs.request import parse
from brimful.service.jobs.state import JobState
from brimful.service.store import Store

from ..helpers import job_workload
from ..helpers.service_processes import ServiceProcess
from ..helpers.stopping import wait_for

EPOCHS = 8


@pytest.fixture
def state() -> Iterator[Path]:
    """A folder with a database of its own, which may be killed."""
    folder = Path("/tmp") / f"bf-{uuid.uuid4().hex[:8]}"
    folder.mkdir(mode=0o755)
    yield folder
    home = folder / "postgres"
    if server.url_in_use(home):
        server._stop(home, "immediate")
    server.stop(home)
    shutil.rmtree(folder, ignore_errors=True)


class Machine:
    """A server in a process of its own, on a database of its own."""

    def __init__(self, state: Path, rng: random.Random) -> None:
        self.state, self.rng = state, rng
        self.home = state / "postgres"
        self.store = Store(Database.at(home=self.home))
        self.store.migrate()
        self.service = self.start()

    def start(self) -> ServiceProcess:
        return ServiceProcess(self.state, cores=4, budget="8GB", grace=5.0)

    def submit(self, seed: int, pause: float) -> Job:
        config = {"epochs": EPOCHS, "pause": pause, "seed": seed}
        request = parse({"job_name": "a job", "workload": "steps", "budget": "1GB", "cores": 1, "config": config})
        return self.store.jobs.add(request.request, Demand(device="cpu", device_bytes=10**9, host_bytes=10**8))

    def job(self, job: Job) -> Job:
        return self.store.jobs.get(job.id, always=True)

    def ended(self, jobs: list[Job]) -> bool:
        return all(self.job(job).state.ended for job in jobs)

    def kill(self, what: str, jobs: list[Job]) -> None:
        if what == "server":
            self.service.kill()
            self.service = self.start()
        elif what == "database":
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                os.kill(int((self.home / "data" / "postmaster.pid").read_text().split()[0]), signal.SIGKILL)
        else:
            lock = self.state / "jobs" / self.rng.choice(jobs).id / "lock"
            with contextlib.suppress(FileNotFoundError, ProcessLookupError, ValueError):
                pid = json.loads(lock.read_text())["pid"]
                if "brimful" in Path(f"/proc/{pid}/cmdline").read_text() or Path(f"/proc/{pid}/cwd").resolve() == (
                    lock.parent / "run"
                ):
                    os.kill(pid, signal.SIGKILL)

    def rows(self, job: Job) -> dict[tuple[str, int], float]:
        """Its metrics, all of them."""
        with self.store.pool.session() as connection:
            query = "SELECT name, step, value FROM metric WHERE job = %s"
            return {(name, step): value for name, step, value in connection.execute(query, (job.id,))}

    def check_history(self, job: Job) -> None:
        """What the process wrote is in the database, each line once; ids have no gaps."""
        folder = self.state / "jobs" / job.id
        written = [json.loads(line) for line in (folder / METRICS).read_text().splitlines()]
        assert {(row["name"], row["step"]) for row in written} == set(self.rows(job))
        with self.store.pool.session() as connection:
            query = "SELECT id, line FROM event WHERE job = %s ORDER BY id"
            stored: list[Any] = connection.execute(query, (job.id,)).fetchall()
        assert [id for id, _ in stored] == list(range(1, len(stored) + 1))
        lines = [line for _, line in stored if line is not None]
        assert lines == list(range(1, len((folder / EVENTS).read_text().splitlines()) + 1))


def check_kills(state: Path, rounds: int, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry.WORKLOADS, job_workload.NAME, "tests.helpers.job_workload")
    rng = random.Random(seed)
    machine = Machine(state, rng)
    try:
        expected = {number: machine.submit(number, pause=0.0) for number in range(2)}
        wait_for(lambda: machine.ended(list(expected.values())), 200, 0.1)
        killed = 0
        while killed < rounds:
            jobs = {number: machine.submit(number, pause=0.04) for number in range(2)}
            while killed < rounds and not machine.ended(list(jobs.values())):
                time.sleep(rng.uniform(0.0, 1.0))
                machine.kill(("server", "child", "database")[killed % 3], list(jobs.values()))
                killed += 1
            wait_for(lambda jobs=jobs: machine.ended(list(jobs.values())), 250, 0.1)
            for number, job in jobs.items():
                last, wanted = machine.job(job), machine.job(expected[number])
                assert last.state is wanted.state is JobState.FINISHED, last.message
                assert last.summary and wanted.summary and last.summary["weights"] == wanted.summary["weights"]
                machine.check_history(job)
                epochs = {key: value for key, value in machine.rows(expected[number]).items() if key[0] != "loss"}
                assert {key: value for key, value in machine.rows(job).items() if key[0] != "loss"} == epochs
                assert len([1 for name, _ in epochs if name == "train_loss"]) == EPOCHS
    finally:
        machine.service.kill()
        machine.store.close()


def test_jobs_survive_kills_of_server_process_and_database(state: Path, monkeypatch: pytest.MonkeyPatch):
    check_kills(state, 5, 0, monkeypatch)


@pytest.mark.soak
@pytest.mark.parametrize("part", range(5))
def test_jobs_survive_many_kills(state: Path, monkeypatch: pytest.MonkeyPatch, part: int):
    check_kills(state, 20, 100 + part, monkeypatch)
