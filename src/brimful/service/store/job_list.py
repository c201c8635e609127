"""Lists of jobs: filtered, sorted, a page at a time by a cursor that stays right while jobs come and go."""

import base64
import json
import math
from typing import TYPE_CHECKING, Any

from ..errors import FieldProblem, Invalid
from ..jobs.job import LARGEST_PAGE, SORTS, JobFilter, JobPage
from .rows import COLUMNS, job_of

if TYPE_CHECKING:
    from .pool import Connection, Pool

_EXPRESSIONS = {
    "created": "created",
    "name": "lower(name)",
    "priority": "priority",
    "state": "state",
    "started": "coalesce(started, 0)",
    "ended": "coalesce(ended, 0)",
}
_TEXT = ("name", "state")


def list_jobs(pool: "Pool", filter: JobFilter) -> JobPage:
    """A page of jobs.

    Raises:
        Invalid: there is no such order, or the cursor is of another one.
    """
    column = filter.sort.removeprefix("-")
    if column not in SORTS:
        raise Invalid(FieldProblem("sort", f"sort is {filter.sort[:50]!r}; choose one of {', '.join(SORTS)}"))
    expression, down = _EXPRESSIONS[column], filter.sort.startswith("-")
    where, values = _where(filter)
    page_where, page_values = list(where), list(values)
    if filter.cursor is not None:
        page_where.append(f"({expression}, id) {'<' if down else '>'} (%s, %s)")
        page_values += _decode(filter.cursor, filter.sort)
    limit = max(1, min(LARGEST_PAGE, filter.limit))
    order = "DESC" if down else "ASC"
    chosen = f"SELECT {COLUMNS}, {expression} FROM job{_clause(page_where)}"
    query = f"{chosen} ORDER BY {expression} {order}, id {order} LIMIT %s"

    def read(connection: "Connection") -> tuple[list[Any], int]:
        rows = connection.execute(query.encode(), (*page_values, limit + 1)).fetchall()
        total = connection.execute(f"SELECT count(*) FROM job{_clause(where)}".encode(), values).fetchone()
        return rows, total[0] if total else 0

    rows, total = pool.call(read)
    jobs = tuple(job_of(row[:-1]) for row in rows[:limit])
    last = _encode(filter.sort, rows[limit - 1][-1], jobs[-1].id) if len(rows) > limit else None
    return JobPage(jobs=jobs, next=last, total=total)


def _where(filter: JobFilter) -> tuple[list[str], list[Any]]:
    conditions, values = [], []
    if filter.states:
        conditions.append("state = ANY(%s)")
        values.append([state.value for state in filter.states])
    if filter.workload is not None:
        conditions.append("workload = %s")
        values.append(filter.workload.replace("\x00", ""))
    if filter.text is not None:
        conditions.append("(position(lower(%s) in lower(name)) > 0 OR position(lower(%s) in id) > 0)")
        values += [filter.text.replace("\x00", "\N{REPLACEMENT CHARACTER}")] * 2
    return conditions, values


def _clause(conditions: list[str]) -> str:
    return f" WHERE {' AND '.join(conditions)}" if conditions else ""


def _encode(sort: str, value: Any, id: str) -> str:
    return base64.urlsafe_b64encode(json.dumps([sort, value, id]).encode()).decode().rstrip("=")


def _decode(cursor: str, sort: str) -> list[Any]:
    try:
        made_for, value, id = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
        text = sort.removeprefix("-") in _TEXT
        right = isinstance(value, str) if text else isinstance(value, int | float) and not isinstance(value, bool)
        right = right and (text or (math.isfinite(value) and abs(value) < 1e15))
        if made_for == sort and right and isinstance(id, str) and "\x00" not in f"{value}{id}":
            f"{value}{id}".encode()  # a lone surrogate is no text
            return [value, id]
    except (ValueError, TypeError, RecursionError):
        pass
    raise Invalid(FieldProblem("cursor", f"cursor is {cursor[:50]!r}, which is no `next` of a list sorted by {sort!r}"))
