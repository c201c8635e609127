"""Long curves from few rows: the extremes of ranges of steps, kept up to date as metrics come in.

There are ranges of 2^5, 2^10, 2^16 and 2^22 steps. A curve of all steps is made of the coarsest that still show it;
one of a part of the steps of the finest, and of single points at its ends, so that no extreme outside shows.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .pool import Connection

LEVELS = (5, 10, 16, 22)

MOST_ROWS = 20_000
"""Points that are down-sampled one by one; as many as are asked for are exact, however many."""

ADD = """
WITH added AS (
    INSERT INTO metric (job, name, step, time, value)
    SELECT %(job)s, * FROM unnest(%(names)s::text[], %(steps)s::bigint[], %(times)s::float8[], %(values)s::float8[])
    ON CONFLICT DO NOTHING RETURNING name, step, time, value
)
INSERT INTO metric_range AS there (job, name, level, bucket, points, low, high)
SELECT %(job)s, name, level, step >> level, count(*), min(ARRAY[value, step, time]), max(ARRAY[value, step, time])
FROM added, unnest(%(levels)s::int[]) AS level
GROUP BY name, level, step >> level
ON CONFLICT (job, name, level, bucket) DO UPDATE SET
    points = there.points + excluded.points,
    low = least(there.low, excluded.low),
    high = greatest(there.high, excluded.high)
"""
"""Adds metrics, those that are new, and widens the ranges they fall into."""

_COUNTS = """
SELECT name, level, count(*), sum(points) FROM metric_range
WHERE job = %(job)s AND (%(names)s::text[] IS NULL OR name = ANY(%(names)s))
  AND bucket BETWEEN %(first)s >> level AND %(last)s >> level
GROUP BY name, level
"""

_EXTREMES = """
WITH numbered AS (
    SELECT low, high, row_number() OVER (ORDER BY bucket) - 1 AS place, count(*) OVER () AS number FROM metric_range
    WHERE job = %(job)s AND name = %(name)s AND level = %(level)s AND bucket BETWEEN %(begin)s AND %(end)s
)
SELECT min(low), max(high) FROM numbered GROUP BY place * %(groups)s / number
"""

_ENDS = """
(SELECT step, time, value FROM metric WHERE job = %(job)s AND name = %(name)s AND step BETWEEN %(first)s AND %(last)s
 ORDER BY step LIMIT 1)
UNION ALL
(SELECT step, time, value FROM metric WHERE job = %(job)s AND name = %(name)s AND step BETWEEN %(first)s AND %(last)s
 ORDER BY step DESC LIMIT 1)
UNION ALL
(SELECT step, time, value FROM metric WHERE job = %(job)s AND name = %(name)s
   AND (step BETWEEN %(first)s AND %(inside)s - 1 OR step BETWEEN %(outside)s AND %(last)s) LIMIT 64)
"""

Points = list[tuple[int, float, float]]


def long_curves(
    connection: "Connection", values: dict[str, Any]
) -> tuple[dict[str, Points], list[str], dict[str, int]]:
    """The curves that have too many points to look at each, the names of the others, and how many points the former
    have.

    Args:
        values: job, names, points, first and last, as for a query.
    """
    counts: dict[str, dict[int, tuple[int, int]]] = {}
    for name, level, rows, points in connection.execute(_COUNTS.encode(), values).fetchall():
        counts.setdefault(name, {})[level] = (rows, int(points))
    finest = {name: levels.get(LEVELS[0], (0, 0))[1] for name, levels in counts.items()}  # none: all lie outside
    short = [name for name, points in finest.items() if points <= max(MOST_ROWS, values["points"])]
    long = [name for name in counts if name not in short]
    curves = {name: _curve(connection, name, counts[name], values) for name in long}
    return curves, short, {name: finest[name] for name in long}


def _curve(connection: "Connection", name: str, counts: dict[int, tuple[int, int]], values: dict[str, Any]) -> Points:
    first, last, groups = values["first"], values["last"], max(1, (values["points"] - 2) // 2)
    whole = first <= 0 and last >= 2**62
    fine = [level for level in LEVELS if whole and counts.get(level, (0, 0))[0] >= 2 * groups]
    level = max(fine, default=LEVELS[0])
    begin = (max(0, first) + (1 << level) - 1) >> level if not whole else 0
    end = (last + 1 >> level) - 1 if not whole else 2**62
    asked = {**values, "name": name, "level": level, "groups": groups, "begin": begin, "end": end}
    asked |= {"inside": begin << level, "outside": last + 1 if whole else (end + 1) << level}
    if whole:
        asked["inside"] = first
    points = {(int(step), time, value) for step, time, value in connection.execute(_ENDS.encode(), asked).fetchall()}
    for low, high in connection.execute(_EXTREMES.encode(), asked).fetchall():
        points |= {(int(step), time, value) for value, step, time in (low, high)}
    return sorted(points)
