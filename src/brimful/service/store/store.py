"""All that is kept in the database, in one object."""

import time
from typing import TYPE_CHECKING, Any

from psycopg.types.json import Jsonb

from ...data.database.connection import Database
from ..jobs.job import Upload
from .history import History
from .jobs import Jobs
from .migrate import migrate
from .pool import Pool

if TYPE_CHECKING:
    from .pool import Connection


class Store:
    """The service's tables.

    Attributes:
        pool: of connections.
        jobs, history, tokens, uploads, settings: the tables.
    """

    def __init__(self, database: Database) -> None:
        self.pool = Pool(database)
        self.jobs, self.history = Jobs(self.pool), History(self.pool)
        self.tokens, self.uploads, self.settings = Tokens(self.pool), Uploads(self.pool), Settings(self.pool)

    def migrate(self) -> list[int]:
        with self.pool.session() as connection:
            return migrate(connection)

    def reachable(self) -> bool:
        """Whether the database answers, at the first attempt."""
        try:
            with self.pool.session() as connection:
                connection.execute("SELECT 1")
            return True
        except Exception:
            return False

    def counts(self) -> dict[str, Any]:
        """Jobs by state, events and metrics, and how long those that wait have waited."""

        def read(connection: "Connection") -> dict[str, Any]:
            states = connection.execute("SELECT state, count(*) FROM job GROUP BY state").fetchall()
            events = connection.execute("SELECT coalesce(sum(events), 0)::bigint FROM job").fetchone()
            rows = connection.execute(
                "SELECT greatest(0, reltuples)::bigint FROM pg_class WHERE oid = 'metric'::regclass"
            ).fetchone()
            oldest = connection.execute("SELECT min(queued) FROM job WHERE state = 'queued'").fetchone()
            assert events is not None and rows is not None and oldest is not None
            waited = 0.0 if oldest[0] is None else max(0.0, time.time() - oldest[0])
            return {"jobs": dict(states), "events": events[0], "metric_rows": rows[0], "queue_seconds": waited}

        return self.pool.call(read)

    def close(self) -> None:
        self.pool.close()


class Tokens:
    """Tokens, of which only digests are kept."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    def add(self, id: str, name: str, scopes: list[str], digest: bytes) -> None:
        values = (id, name, scopes, digest, time.time())
        query = "INSERT INTO token (id, name, scopes, digest, created) VALUES (%s, %s, %s, %s, %s)"
        self._pool.call(lambda connection: connection.execute(query, values))

    def get(self, id: str) -> tuple[list[str], bytes] | None:
        """Scopes and digest."""
        query = "SELECT scopes, digest FROM token WHERE id = %s"
        row = self._pool.call(lambda connection: connection.execute(query, (id,)).fetchone())
        return None if row is None else (row[0], bytes(row[1]))

    def any(self) -> bool:
        query = "SELECT 1 FROM token LIMIT 1"
        return self._pool.call(lambda connection: connection.execute(query).fetchone()) is not None


class Uploads:
    """Files that were uploaded; they lie in the folder of the server's state."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    def add(self, upload: Upload) -> None:
        values = (upload.id, upload.name, upload.bytes, upload.sha256, upload.created)
        query = "INSERT INTO upload (id, name, bytes, sha256, created) VALUES (%s, %s, %s, %s, %s)"
        self._pool.call(lambda connection: connection.execute(query, values))

    def get(self, id: str) -> Upload | None:
        query = "SELECT id, name, bytes, sha256, created FROM upload WHERE id = %s"
        row = self._pool.call(lambda connection: connection.execute(query, (id,)).fetchone())
        return None if row is None else _upload(row)

    def all(self) -> list[Upload]:
        query = "SELECT id, name, bytes, sha256, created FROM upload ORDER BY created DESC, id LIMIT 10000"
        return [_upload(row) for row in self._pool.call(lambda connection: connection.execute(query).fetchall())]

    def delete(self, id: str) -> None:
        self._pool.call(lambda connection: connection.execute("DELETE FROM upload WHERE id = %s", (id,)))


def _upload(row: Any) -> Upload:
    return Upload(id=row[0], name=row[1], bytes=row[2], sha256=row[3], created=row[4])


class Settings:
    """What was changed while the server ran, and holds after its restart."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    def get(self, name: str) -> Any:
        query = "SELECT value FROM setting WHERE name = %s"
        row = self._pool.call(lambda connection: connection.execute(query, (name,)).fetchone())
        return None if row is None else row[0]

    def set(self, name: str, value: Any) -> None:
        query = "INSERT INTO setting VALUES (%s, %s) ON CONFLICT (name) DO UPDATE SET value = excluded.value"
        self._pool.call(lambda connection: connection.execute(query, (name, Jsonb(value))))
