"""Messages of jobs' ends in the database: each is made once, and stays until it was accepted or given up."""

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..jobs.job import new_id, utc
from ..security.redact import redact_values
from ..webhooks.schedule import Outcome
from .rows import COLUMNS, job_of, plain

if TYPE_CHECKING:
    from .pool import Connection, Pool

_SENDING = 60.0
"""Seconds after which a message is sent again whose sender has not said how it went: it was killed."""

_MOST = 100


@dataclass(frozen=True, slots=True)
class Message:
    """A message that is to be sent now, for the `attempts`-th time. Its id stays the same, so that a receiver knows one
    that it has had. Without a secret of the job's own it is signed with the server's."""

    id: str
    job: str
    url: str
    secret: str | None
    body: bytes
    attempts: int


class Webhooks:
    """The table of messages."""

    def __init__(self, pool: "Pool") -> None:
        self._pool = pool

    def add_ended(self, now: float) -> int:
        """Makes the messages of jobs that have ended and have none yet; how many."""

        def add(connection: "Connection") -> int:
            query = (
                f"SELECT {COLUMNS} FROM job WHERE webhook_url IS NOT NULL AND ended IS NOT NULL "
                "AND state IN ('cancelled', 'failed', 'finished') "
                "AND NOT EXISTS (SELECT 1 FROM webhook WHERE webhook.job = job.id AND webhook.ended = job.ended) "
                "ORDER BY ended LIMIT %s"
            )
            added = 0
            for job in [job_of(row) for row in connection.execute(query.encode(), (_MOST,)).fetchall()]:
                assert job.request.webhook is not None
                data = plain(redact_values(job.to_dict()))
                body = {"type": f"job.{job.state.value}", "timestamp": utc(job.ended), "data": data}
                webhook = job.request.webhook
                done = connection.execute(
                    "INSERT INTO webhook (id, job, ended, url, secret, body, due) VALUES (%s, %s, %s, %s, %s, %s, %s) "
                    "ON CONFLICT DO NOTHING",
                    (new_id(), job.id, job.ended, webhook.url, webhook.secret, json.dumps(body), now),
                )
                added += done.rowcount
            return added

        return self._pool.call(add)

    def take(self, now: float, most: int = 8) -> list[Message]:
        """Messages to send now; no other sender gets them meanwhile."""
        query = (
            "UPDATE webhook SET attempts = attempts + 1, due = %s WHERE id IN "
            "(SELECT id FROM webhook WHERE due <= %s ORDER BY due LIMIT %s FOR UPDATE SKIP LOCKED) "
            "RETURNING id, job, url, secret, body, attempts"
        )
        values = (now + _SENDING, now, most)
        rows = self._pool.call(lambda connection: connection.execute(query, values).fetchall())
        return [Message(row[0], row[1], row[2], row[3], row[4].encode(), row[5]) for row in rows]

    def record(self, message: Message, outcome: Outcome, due: float | None, now: float) -> None:
        """How an attempt went, and when the next one is; None: it was the last. The secret is then forgotten."""
        query = (
            "UPDATE webhook SET status = %s, error = %s, due = %s, sent = %s, "
            "secret = CASE WHEN %s::float8 IS NULL THEN NULL ELSE secret END WHERE id = %s AND sent IS NULL"
        )
        values = (outcome.status, plain(outcome.error), due, now if outcome.accepted else None, due, message.id)
        self._pool.call_always(lambda connection: connection.execute(query, values))

    def next_due(self) -> float | None:
        """When the next message is to be sent."""
        query = "SELECT min(due) FROM webhook"
        row = self._pool.call(lambda connection: connection.execute(query).fetchone())
        return None if row is None else row[0]

    def forget(self, before: float) -> None:
        """Removes messages of ends before that time which are done with, and whose jobs are gone."""
        query = (
            "DELETE FROM webhook WHERE due IS NULL AND ended < %s "
            "AND NOT EXISTS (SELECT 1 FROM job WHERE job.id = webhook.job)"
        )
        self._pool.call(lambda connection: connection.execute(query, (before,)))
