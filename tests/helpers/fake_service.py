"""A service in memory, for tests of the routes: what it is told, it gives back. It runs nothing."""

import hashlib
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO

from brimful.core.declare import registry
from brimful.service.errors import FieldProblem, Invalid, NotFound
from brimful.service.jobs.job import Artifact, Job, JobFilter, JobPage, JobRequest, StoredEvent, Upload, new_id
from brimful.service.jobs.request import job_commands, job_schema, parse
from brimful.service.jobs.state import JobState, requested
from brimful.service.options import ServeOptions
from brimful.service.security import names, tokens
from brimful.service.security.uploads import check_file
from brimful.service.service import Series, Service


class FakeService(Service):
    """Jobs in a dictionary. `emit` adds an event, `move` changes a state."""

    offered: tuple[str, ...] = ("locate", "gp", "nets")

    def __init__(self, folder: Path) -> None:
        super().__init__(ServeOptions())
        self.folder = folder
        self.stored: dict[str, Job] = {}
        self.emitted: dict[str, list[StoredEvent]] = {}
        self.series: dict[str, Series] = {}
        self.files: dict[str, Upload] = {}
        self.tokens: dict[str, tuple[bytes, frozenset[str]]] = {}
        self.sets: dict[str, dict[str, Any]] = {"night": {"name": "night", "rows": 3}}
        self.budget: str | None = None
        self.lock = threading.RLock()

    def add(self, name: str = "one", state: JobState = JobState.QUEUED, **config: Any) -> Job:
        with self.lock:
            job = Job(id=new_id(), request=JobRequest(name=name, config=config), state=state, created=1.0)
            self.stored[job.id], self.emitted[job.id] = job, []
            return job

    def emit(self, id: str, kind: str = "metric", **data: Any) -> None:
        with self.lock:
            events = self.emitted[id]
            events.append(StoredEvent(id=len(events) + 1, time=float(len(events)), kind=kind, data=data))

    def move(self, id: str, state: JobState) -> Job:
        with self.lock:
            self.stored[id] = replace(self.stored[id], state=state)
            self.emit(id, "state", state=state.value)
            return self.stored[id]

    def submit(self, request: Mapping[str, Any]) -> Job:
        checked = parse(request).request
        job = self.add(checked.name)
        self.stored[job.id] = replace(job, request=checked)
        return self.stored[job.id]

    def plan(self, request: Mapping[str, Any]) -> dict[str, Any]:
        parse(request)
        return {"plan": {"strategy": "whole"}, "text": "whole", "lease": {"cores": 1}, "warnings": []}

    def job(self, id: str) -> Job:
        with self.lock:
            if id not in self.stored:
                raise NotFound(f"there is no job {id!r}")
            return self.stored[id]

    def jobs(self, filter: JobFilter = JobFilter()) -> JobPage:
        self.filter = filter
        if filter.cursor is not None and not filter.cursor.isdigit():
            raise Invalid(FieldProblem("cursor", f"cursor is {filter.cursor!r}; use `next` of a page"))
        chosen = [job for job in self.stored.values() if not filter.states or job.state in filter.states]
        start = int((filter.cursor or "0")[:6])
        page = tuple(chosen[start : start + filter.limit])
        more = start + len(page) < len(chosen)
        return JobPage(jobs=page, next=str(start + len(page)) if more else None, total=len(chosen))

    def _request(self, id: str, request: str) -> Job:
        return self.move(id, requested(request, self.job(id).state))

    def cancel(self, id: str) -> Job:
        return self._request(id, "cancel")

    def pause(self, id: str) -> Job:
        return self._request(id, "pause")

    def resume(self, id: str) -> Job:
        return self._request(id, "resume")

    def retry(self, id: str) -> Job:
        return self._request(id, "retry")

    def delete(self, id: str) -> None:
        self.job(id)
        with self.lock:
            del self.stored[id], self.emitted[id]

    def curves(
        self,
        id: str,
        names: Sequence[str] | None = None,
        points: int = 1000,
        first: int | None = None,
        last: int | None = None,
    ) -> tuple[Series, dict[str, int]]:
        self.job(id)
        self.asked = (names, points, first, last)
        series = self.series.get(id, {})
        return series, {name: len(curve) for name, curve in series.items()}

    def events(self, id: str, after: int = 0, limit: int = 1000) -> list[StoredEvent]:
        self.job(id)
        return [event for event in self.emitted[id] if event.id > after][:limit]

    def recent_events(self, id: str, limit: int) -> list[StoredEvent]:
        return self.events(id)[-limit:]

    def job_plan(self, id: str) -> dict[str, Any] | None:
        self.job(id)
        plans = [event.data["plan"] for event in self.emitted[id] if event.kind == "planned"]
        return plans[-1] if plans else None

    def latest_event(self, id: str) -> int:
        self.job(id)
        return len(self.emitted[id])

    def log(self, id: str, after: int = 0, limit: int = 65_536) -> tuple[bytes, int]:
        self.job(id)
        text = "grüße\n".encode()[after : after + limit]
        return text, after + len(text)

    def artifacts(self, id: str) -> list[Artifact]:
        self.job(id)
        return [Artifact(name="a.txt", bytes=1, modified=0.0, media_type="text/plain")]

    def artifact(self, id: str, name: str) -> Path:
        self.job(id)
        if (path := names.inside(self.folder, name)) is None:
            raise NotFound(f"there is no file {name!r}")
        return path

    def report(self, id: str) -> dict[str, Any]:
        self.job(id)
        return {"metrics": {"loss": float("nan")}, "tables": {}, "rows": {}, "pictures": [], "captions": {}}

    def datasets(self) -> list[dict[str, Any]]:
        return list(self.sets.values())

    def dataset(self, name: str) -> dict[str, Any]:
        if name not in self.sets:
            raise NotFound(f"there is no dataset {name!r}; there are {', '.join(self.sets)}")
        return self.sets[name]

    def import_dataset(self, name: str, upload: str, columns: Sequence[str] | None = None) -> Job:
        if upload.removeprefix("upload:") not in self.files:
            raise Invalid(FieldProblem("upload", f"there is no upload {upload!r}"))
        return self.add(f"import {name}", columns=list(columns or []))

    def verify_dataset(self, name: str) -> Job:
        self.dataset(name)
        return self.add(f"verify {name}")

    def delete_dataset(self, name: str) -> None:
        self.dataset(name)
        del self.sets[name]

    def upload(self, name: str, stream: BinaryIO) -> Upload:
        path = self.folder / "sent"
        path.write_bytes(stream.read())
        check_file(path, name, 10**6)
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        upload = Upload(id=new_id(), name=name, bytes=path.stat().st_size, sha256=digest, created=0.0)
        self.files[upload.id] = upload
        return upload

    def uploads(self) -> list[Upload]:
        return list(self.files.values())

    def delete_upload(self, id: str) -> None:
        if self.files.pop(id, None) is None:
            raise NotFound(f"there is no upload {id!r}")

    def devices(self) -> list[dict[str, Any]]:
        number = {"memory_bytes": 8, "free_bytes": 8, "budget_bytes": 7, "leased_bytes": 0}
        return [{"device": "cpu", "name": "CPU", **number, "utilisation": None, "watts": None, "jobs": []}]

    def workloads(self) -> list[dict[str, Any]]:
        shown = []
        for name in self.offered:
            workload = registry.load(name)
            commands = [
                {
                    "command": command.name,
                    "help": command.help,
                    "schema": job_schema(command),
                    "plans": bool(command.plan),
                    "stores": command.stores,
                }
                for command in job_commands(name)
            ]
            shown.append({"workload": name, "help": workload.help, "commands": commands})
        return shown

    def health(self) -> dict[str, Any]:
        return {"ok": True, "version": "0"}

    def ready(self) -> dict[str, Any]:
        return {"ok": True, "database": True, "scheduler": True, "message": ""}

    def create_token(self, scopes: Sequence[str], name: str = "") -> str:
        token = tokens.generate()
        self.tokens[token.id] = (token.digest, frozenset(scopes))
        return token.text

    def check_token(self, text: str) -> frozenset[str] | None:
        digest, scopes = self.tokens.get(tokens.id_of(text) or "", (None, None))
        return scopes if tokens.matches(text, digest) else None

    def set_budget(self, budget: str | None) -> None:
        self.budget = budget
