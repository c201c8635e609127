"""What jobs have said: events by their ids, and metrics, down-sampled in the database."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..errors import NotFound
from ..jobs.job import StoredEvent
from .metric_ranges import long_curves

if TYPE_CHECKING:
    from .pool import Connection, Pool

_NOTABLE = "kind NOT IN ('batch_done', 'metric', 'sampled')"  # as the index has it
_LONG_AGO = 2000  # events
_SAMPLED_IN = 50_000  # events

_POINTS = """
WITH numbered AS (
    SELECT name, step, time, value,
           row_number() OVER (PARTITION BY name ORDER BY step) AS place,
           count(*) OVER (PARTITION BY name) AS number
    FROM metric
    WHERE job = %(job)s
      AND (%(names)s::text[] IS NULL OR name = ANY(%(names)s))
      AND step BETWEEN %(first)s AND %(last)s
), bucketed AS (
    SELECT *, (place - 1) * %(buckets)s / number AS bucket FROM numbered
), ranked AS (
    SELECT *,
           row_number() OVER (PARTITION BY name, bucket ORDER BY value, step) AS least,
           row_number() OVER (PARTITION BY name, bucket ORDER BY value DESC, step) AS greatest
    FROM bucketed
)
SELECT name, step, time, value, number FROM ranked
WHERE number <= %(points)s OR least = 1 OR greatest = 1 OR place = 1 OR place = number
ORDER BY name, step
"""

Series = dict[str, list[tuple[int, float, float]]]
"""Metrics by name: (step, seconds since 1970, value)."""

Counted = tuple[Series, dict[str, int]]
Names = Sequence[str] | None
Step = int | None


class History:
    """Events and metrics of jobs."""

    def __init__(self, pool: "Pool") -> None:
        self._pool = pool

    def events(self, id: str, after: int, limit: int) -> list[StoredEvent]:
        query = "SELECT id, time, kind, data FROM event WHERE job = %s AND id > %s ORDER BY id LIMIT %s"
        rows = self._pool.call(lambda connection: connection.execute(query, (id, after, limit)).fetchall())
        return [StoredEvent(id=row[0], time=row[1], kind=row[2], data=row[3]) for row in rows]

    def recent(self, id: str, limit: int) -> list[StoredEvent]:
        """The newest events, oldest first, less those that come by the thousand; of these the last look at the device
        alone, if it is not long ago."""
        query = f"""
        (SELECT id, time, kind, data FROM event WHERE job = %(job)s AND {_NOTABLE} ORDER BY id DESC LIMIT %(limit)s)
        UNION ALL
        (SELECT id, time, kind, data FROM event
         WHERE job = %(job)s AND kind = 'sampled' AND id > (SELECT events FROM job WHERE id = %(job)s) - {_LONG_AGO}
         ORDER BY id DESC LIMIT 1)
        ORDER BY id
        """
        given = {"job": id, "limit": limit}
        rows = self._pool.call(lambda connection: connection.execute(query.encode(), given).fetchall())
        return [StoredEvent(id=row[0], time=row[1], kind=row[2], data=row[3]) for row in rows]

    def samples(self, id: str, most: int) -> list[StoredEvent]:
        """At most so many looks at the device, evenly over those of the newest events."""
        query = f"""
        WITH numbered AS (
            SELECT id, time, kind, data, row_number() OVER (ORDER BY id DESC) - 1 AS place, count(*) OVER () AS number
            FROM event
            WHERE job = %(job)s AND kind = 'sampled'
              AND id > (SELECT events FROM job WHERE id = %(job)s) - {_SAMPLED_IN}
        )
        SELECT id, time, kind, data FROM numbered WHERE place %% greatest(1, (number + %(most)s - 1) / %(most)s) = 0
        ORDER BY id
        """
        given = {"job": id, "most": most}
        rows = self._pool.call(lambda connection: connection.execute(query.encode(), given).fetchall())
        return [StoredEvent(id=row[0], time=row[1], kind=row[2], data=row[3]) for row in rows]

    def last_plan(self, id: str) -> StoredEvent | None:
        query = (
            f"SELECT id, time, kind, data FROM event WHERE job = %s AND {_NOTABLE} AND kind = 'planned' "
            "ORDER BY id DESC LIMIT 1"
        )
        row = self._pool.call(lambda connection: connection.execute(query.encode(), (id,)).fetchone())
        return None if row is None else StoredEvent(id=row[0], time=row[1], kind=row[2], data=row[3])

    def latest(self, id: str) -> int:
        query = "SELECT events FROM job WHERE id = %s"
        row = self._pool.call(lambda connection: connection.execute(query, (id,)).fetchone())
        if row is None:
            raise NotFound(f"there is no job {id!r}; it may have been deleted")
        return row[0]

    def metrics(self, id: str, names: Names, points: int, first: Step, last: Step) -> Series:
        """By name, at most so many points each: of every stretch the least and the greatest, and both ends."""
        return self.curves(id, names, points, first, last)[0]

    def curves(self, id: str, names: Names, points: int, first: Step, last: Step) -> Counted:
        """The same, and how many points each has in those steps: of a long one, up to 31 more at either end."""
        values = {
            "job": id,
            "names": None if names is None else [name.replace("\x00", "") for name in names],
            "points": max(2, points),
            "buckets": max(1, (points - 2) // 2),
            "first": -(2**62) if first is None else first,
            "last": 2**62 if last is None else last,
        }

        def read(connection: "Connection") -> Counted:
            series, short, totals = long_curves(connection, values)
            if short:
                rows = connection.execute(_POINTS, {**values, "names": short}).fetchall()
                for name, step, time, value, number in rows:
                    series.setdefault(name, []).append((step, time, value))
                    totals[name] = number
            return dict(sorted(series.items())), totals

        return self._pool.call(read)
