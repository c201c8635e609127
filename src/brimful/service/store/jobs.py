"""Jobs in the database: made, listed, and taken from one state to another, each change with its event."""

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from psycopg.types.json import Jsonb

from ..errors import NotFound
from ..jobs.admission import Waiting
from ..jobs.job import Job, JobRequest, new_id
from ..jobs.lease import Demand, Lease
from ..jobs.references import references
from ..jobs.state import ACTIVE, JobState, may, requested
from .rows import COLUMNS, job_of, lease_of, plain, waiting_of

if TYPE_CHECKING:
    from .pool import Connection, Pool

_CHANGES = (
    "message",
    "summary",
    "exit_code",
    "ended",
    "started",
    "queued",
    "attempt",
    "devices",
    "lease_since",
    "progress",
)


class Jobs:
    """The table of jobs."""

    def __init__(self, pool: "Pool") -> None:
        self._pool = pool

    def add(self, request: JobRequest, demand: Demand | None) -> Job:
        now, id, webhook = time.time(), new_id(), request.webhook

        def insert(connection: "Connection") -> Job:
            row = connection.execute(
                "INSERT INTO job (id, name, workload, command, config, priority, budget, cores, webhook_url, "
                "webhook_secret, state, demand, created, queued) "
                f"VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, 'queued', %s, %s, %s) RETURNING {COLUMNS}".encode(),
                (
                    id,
                    request.name,
                    request.workload,
                    request.command,
                    Jsonb(plain(request.config)),
                    request.priority,
                    request.budget,
                    request.cores,
                    webhook and webhook.url,
                    webhook and webhook.secret,
                    None if demand is None else Jsonb(demand.to_dict()),
                    now,
                    now,
                ),
            ).fetchone()
            assert row is not None
            add_state_event(connection, id, JobState.QUEUED, "", now)
            return job_of(row)

        return self._pool.call(insert)

    def get(self, id: str, always: bool = False) -> Job:
        """One job.

        Raises:
            NotFound: there is none.
        """
        call = self._pool.call_always if always else self._pool.call
        return call(lambda connection: fetch(connection, id))

    def in_states(self, states: Iterable[JobState]) -> list[Job]:
        names = [state.value for state in states]
        query = f"SELECT {COLUMNS} FROM job WHERE state = ANY(%s) ORDER BY created, id".encode()
        return self._pool.call(lambda connection: [job_of(row) for row in connection.execute(query, (names,))])

    def request(self, id: str, what: str) -> tuple[Job, JobState]:
        """Does what a user asks for; the job, and the state that it was in."""

        def change(connection: "Connection") -> tuple[Job, JobState]:
            job = fetch(connection, id, lock=True)
            after = requested(what, job.state)
            if after is job.state:
                return job, job.state
            changes: dict[str, Any] = {"message": ""}
            if after is JobState.QUEUED:
                changes |= {"queued": time.time(), "ended": None, "exit_code": None, "summary": None}
            if after.ended:
                changes["ended"] = time.time()
            return update(connection, job, after, **changes), job.state

        return self._pool.call(change)

    def move(self, id: str, after: JobState, among: Iterable[JobState], **changes: Any) -> Job | None:
        """Takes a job to another state, if it is in one of those; None where it is not. It is recorded, however long
        the database is away."""
        allowed = frozenset(among)

        def change(connection: "Connection") -> Job | None:
            job = fetch(connection, id, lock=True)
            return update(connection, job, after, **changes) if job.state in allowed else None

        return self._pool.call_always(change)

    def start(self, lease: Lease) -> Job | None:
        """Gives a job that waits its lease; None where it does not wait any more."""

        def change(connection: "Connection") -> Job | None:
            job = fetch(connection, lease.job, lock=True)
            if job.state is not JobState.QUEUED:
                return None
            changes = {
                "message": "",
                "attempt": job.attempt + 1,
                "devices": list(lease.devices),
                "lease_since": lease.since,
                "started": job.started or lease.since,
            }
            return update(connection, job, JobState.RUNNING, **changes)

        return self._pool.call(change)

    def leases(self) -> list[Lease]:
        query = "SELECT id, devices, demand, lease_since FROM job WHERE devices IS NOT NULL"
        rows = self._pool.call(lambda connection: connection.execute(query).fetchall())
        return [lease for row in rows if (lease := lease_of(*row)) is not None]

    def queue(self) -> list[Waiting]:
        """Those that wait and whose needs are known."""
        query = "SELECT id, demand, priority, queued FROM job WHERE state = 'queued' AND demand IS NOT NULL"
        return [waiting_of(*row) for row in self._pool.call(lambda connection: connection.execute(query).fetchall())]

    def without_demand(self) -> list[Job]:
        """Those that wait and whose needs are not known yet, the first to plan first."""
        query = f"SELECT {COLUMNS} FROM job WHERE state = 'queued' AND demand IS NULL ORDER BY priority DESC, queued"
        rows = self._pool.call(lambda connection: connection.execute(f"{query} LIMIT 20".encode()).fetchall())
        return [job_of(row) for row in rows]

    def set_demand(self, id: str, demand: Demand) -> None:
        values = (Jsonb(demand.to_dict()), id)
        self._pool.call(lambda connection: connection.execute("UPDATE job SET demand = %s WHERE id = %s", values))

    def set_reasons(self, reasons: Mapping[str, str]) -> None:
        """Why jobs wait; no event is made of it."""
        query = (
            "UPDATE job SET message = r.message FROM unnest(%s::text[], %s::text[]) AS r(id, message) "
            "WHERE job.id = r.id AND state = 'queued' AND job.message <> r.message"
        )
        values = (list(reasons), list(reasons.values()))
        self._pool.call(lambda connection: connection.execute(query, values))

    def delete(self, id: str) -> None:
        self._pool.call(lambda connection: connection.execute("DELETE FROM job WHERE id = %s", (id,)))

    def users_of(self, reference: str) -> list[str]:
        """Jobs that have not ended and name an upload, another job or a dataset in their config."""
        query = (
            "SELECT id, config FROM job WHERE state NOT IN ('cancelled', 'failed', 'finished') "
            "AND position(%s in config::text) > 0 ORDER BY created"
        )
        rows = self._pool.call(lambda connection: connection.execute(query, (reference,)).fetchall())
        return [id for id, config in rows if reference in references(config)]

    def ids(self) -> set[str]:
        """Those of all jobs."""
        return {
            row[0] for row in self._pool.call(lambda connection: connection.execute("SELECT id FROM job").fetchall())
        }

    def ended_before(self, moment: float) -> list[str]:
        query = "SELECT id FROM job WHERE state IN ('cancelled', 'failed', 'finished') AND ended < %s ORDER BY ended"
        return [row[0] for row in self._pool.call(lambda connection: connection.execute(query, (moment,)).fetchall())]


def fetch(connection: "Connection", id: str, lock: bool = False) -> Job:
    query = f"SELECT {COLUMNS} FROM job WHERE id = %s{' FOR UPDATE' if lock else ''}"
    row = connection.execute(query.encode(), (id,)).fetchone()
    if row is None:
        raise NotFound(f"there is no job {id!r}; it may have been deleted")
    return job_of(row)


def update(connection: "Connection", job: Job, after: JobState, **changes: Any) -> Job:
    """Takes a job that is locked to another state; a state without a process has no lease."""
    if not may(job.state, after):
        raise AssertionError(f"a job cannot go from {job.state} to {after}")
    now = time.time()
    if after not in ACTIVE:
        changes |= {"devices": None, "lease_since": None}
        if job.lease is not None:
            wall = job.progress.wall + max(0.0, now - job.lease["since"])
            changes["progress"] = Jsonb(replace(job.progress, wall=wall, began=None).to_dict())
    if unknown := set(changes) - set(_CHANGES):
        raise AssertionError(f"no columns: {unknown}")
    if changes.get("summary") is not None:
        changes["summary"] = Jsonb(plain(changes["summary"]))
    if "message" in changes:
        changes["message"] = plain(changes["message"])
    columns = "".join(f", {name} = %s" for name in changes)
    query = f"UPDATE job SET state = %s{columns} WHERE id = %s RETURNING {COLUMNS}"
    row = connection.execute(query.encode(), (after.value, *changes.values(), job.id)).fetchone()
    assert row is not None
    moved = job_of(row)
    add_state_event(connection, job.id, after, moved.message, now)
    return moved


def add_state_event(connection: "Connection", id: str, state: JobState, message: str, now: float) -> None:
    add_events(connection, id, [(None, now, "state", {"state": state.value, "message": message})])


def add_events(connection: "Connection", id: str, events: Sequence[tuple[int | None, float, str, Any]]) -> None:
    """Events with the next ids: (line, time, kind, data). Those whose line is there already are left out."""
    lines = [line for line, *_ in events if line is not None]
    there = set()
    if lines:
        query = "SELECT line FROM event WHERE job = %s AND line BETWEEN %s AND %s"
        there = {row[0] for row in connection.execute(query, (id, min(lines), max(lines)))}
    new = [event for event in events if event[0] is None or event[0] not in there]
    if not new:
        return
    row = connection.execute(
        "UPDATE job SET events = events + %s WHERE id = %s RETURNING events", (len(new), id)
    ).fetchone()
    assert row is not None
    first = row[0] - len(new) + 1
    with connection.cursor() as cursor:
        cursor.executemany(
            "INSERT INTO event (job, id, line, time, kind, data) VALUES (%s, %s, %s, %s, %s, %s)",
            [
                (id, first + index, line, moment, kind, Jsonb(plain(data)))
                for index, (line, moment, kind, data) in enumerate(new)
            ],
        )
