"""`brimful serve` in a process of its own, with the tests' workload, that can be killed and started again."""

import json
import os
import socket
import sys
import time
from pathlib import Path
from typing import Any

import httpx

from brimful.data.database.connection import Database
from brimful.service.jobs.job import new_id
from brimful.service.runner import processes
from brimful.service.security import tokens
from brimful.service.store import Store
from brimful.service.store.jobs import add_events
from brimful.service.store.metric_ranges import ADD, LEVELS

from . import forking, job_workload
from .driver_library import GB, Card, driver_library
from .service_processes import ForkedForkServer
from .stopping import wait_for

CARD = "card"
"""While there is a file of that name in the state's folder, the machine has a GPU."""


def _serve(values: dict[str, Any]) -> None:
    from brimful.service.options import ServeOptions
    from brimful.service.runner import inventory
    from brimful.service.server import serve

    card = Path(values["state"]) / CARD
    library = driver_library([Card("GPU-a", 80 * GB)])
    library.nvmlDeviceGetCount = lambda: int(card.exists())
    sys.modules["pynvml"] = library  # pyright: ignore[reportArgumentType]
    inventory._uses_cuda = lambda: True
    job_workload.register()
    processes.launch = ForkedForkServer  # pyright: ignore[reportAttributeAccessIssue]
    forking.begin()
    serve(ServeOptions(**values))


class DashboardServer:
    """A server that requires a token.

    Attributes:
        url: where it listens, also after it was started again.
        state: its folder.
        token, reader: tokens to write, and to read.
        api: a client that may write.
        store: its database.
    """

    def __init__(self, database: str, state: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        self.state = state
        self._options = {"port": port, "state": state, "database": database, "require_token": True}
        self._options |= {"cores": 4, "budget": "8GB", "grace": 5.0}
        self.store = Store(Database.at(database))
        self.token, self.reader = self._token(["read", "write"]), self._token(["read"])
        self.api = httpx.Client(base_url=self.url, headers={"authorization": f"Bearer {self.token}"}, timeout=60)
        self.start()
        self.api.get("/api/workloads")  # the first time it imports all of them

    @property
    def cookie(self) -> dict[str, str]:
        """Of a browser that may write."""
        return {"name": "brimful_token", "value": self.token, "url": self.url}

    def _token(self, scopes: list[str]) -> str:
        made = tokens.generate()
        self.store.tokens.add(made.id, "tests", scopes, made.digest)
        return made.text

    def start(self) -> None:
        with Path(os.environ.get("BRIMFUL_TEST_LOG", os.devnull)).open("ab") as log:
            self._process = forking.serving().start(_serve, self._options, stderr=log.fileno())
        wait_for(self._ready, 100, 0.05)

    def _ready(self) -> bool:
        assert self._process.poll() is None, "the server has ended"
        try:
            return httpx.get(f"{self.url}/readyz").status_code == 200
        except httpx.TransportError:
            return False

    def kill(self) -> None:
        self._process.kill()
        self._process.wait(60)

    def end(self) -> None:
        """Nothing of it is wanted any more."""
        self.kill()
        self.api.close()
        self.store.close()

    def upload(self, name: str, text: str) -> str:
        """Uploads a file; its id."""
        return self.api.post("/api/uploads", params={"name": name}, content=text.encode()).json()["id"]

    def submit(self, name: str, command: str = "train", budget: str = "1GB", **config: Any) -> str:
        """Submits a job of the tests' workload; its id."""
        body = {"job_name": name, "workload": "steps", "command": command, "budget": budget, "cores": 1}
        answer = self.api.post("/api/jobs", json={**body, "config": config})
        assert answer.status_code == 201, answer.text
        return answer.json()["id"]

    def add_curve(self, name: str, steps: int, metric: str = "loss", **job: Any) -> str:
        """A finished job with a long curve, written into the database; its id."""
        id = self.add_finished(name, **job)
        names, values = [metric] * steps, [1 / (1 + step) for step in range(steps)]
        given = {"job": id, "names": names, "steps": list(range(steps)), "times": values, "values": values}

        self.store.pool.call(lambda connection: connection.execute(ADD, {**given, "levels": list(LEVELS)}))
        return id

    def add_events(self, id: str, kind: str, *data: dict[str, Any]) -> None:
        """Events of a job, written into the database."""
        new = [(None, time.time(), kind, one) for one in data]
        self.store.pool.call(lambda connection: add_events(connection, id, new))

    def add_finished(
        self, name: str, count: int = 1, *, config: dict[str, Any] | None = None, summary: dict[str, Any] | None = None
    ) -> str:
        """Finished jobs that never ran, written into the database at once; the id of the first."""
        query = """
            INSERT INTO job (id, name, workload, command, config, priority, state, created, queued, summary)
            SELECT %(id)s || CASE number WHEN 0 THEN '' ELSE '-' || number END,
                %(name)s || CASE number WHEN 0 THEN '' ELSE ' ' || number END,
                'steps', 'train', %(config)s, 0, 'finished', %(now)s, %(now)s, %(summary)s
            FROM generate_series(0, %(count)s - 1) AS number
        """
        given = {"id": new_id(), "name": name, "count": count, "now": time.time()}
        given |= {"config": json.dumps(config or {}), "summary": json.dumps(summary)}
        self.store.pool.call(lambda connection: connection.execute(query, given))
        return given["id"]

    def delete_all(self) -> None:
        """Deletes all jobs, once those that are about to end have."""
        active = "SELECT count(*) FROM job WHERE state IN ('queued', 'running', 'pausing', 'cancelling')"
        wait_for(lambda: self.store.pool.call(lambda connection: connection.execute(active).fetchone()) == (0,), 100)
        self.store.pool.call(lambda connection: connection.execute("DELETE FROM job"))

    def job(self, id: str) -> dict[str, Any]:
        return self.api.get(f"/api/jobs/{id}").json()

    def wait(self, id: str, *states: str) -> None:
        wanted = states or ("finished", "failed", "cancelled")
        wait_for(lambda: self.job(id)["state"] in wanted, 100, 0.05)
