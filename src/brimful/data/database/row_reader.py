"""The rows of a dataset, in order, in one snapshot, on several connections: chunks are built from them.

The server spends about 100 ns on every value that it sends, so that one connection gives some 40 MB/s; they are read on
as many as there are cores.
"""

import itertools
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from ...core.base.background import cores
from ...core.base.extras import require
from ..dataset import Fields
from .catalogue import Entry, select_list
from .column_types import ROW, from_rows
from .connection import Database
from .copy_stream import copy_out

if TYPE_CHECKING:
    from psycopg import Connection

_PART = 4 * 2**20  # bytes
_READERS = 4


def read_rows(database: Database, connection: "Connection[Any]", made: Entry, rows: int) -> Iterator[Fields]:
    """All rows, some megabytes at a time, as the caller's transaction sees them. What is asked of the caller's
    connection is asked now; the rows are read on others while the iterator is used."""
    sql = require("postgres", "psycopg").sql
    step = max(1, _PART // max(1, sum(field.unit_bytes for field in made.fields.values())))
    snapshot = (connection.execute("SELECT pg_export_snapshot()").fetchone() or ("",))[0]
    numbered = "SELECT {row}, row_number() OVER (ORDER BY {row}) AS n FROM {table}"
    query = sql.SQL(f"SELECT {{row}} FROM ({numbered}) AS numbered WHERE mod(n - 1, {{step}}) = 0 ORDER BY 1")
    firsts = connection.execute(
        query.format(row=sql.Identifier(ROW), table=made.rows_table, step=sql.Literal(step))
    ).fetchall()
    return _read(database, snapshot, made, rows, [first[0] for first in firsts], step)


def _read(database: Database, snapshot: str, made: Entry, rows: int, firsts: list[int], step: int) -> Iterator[Fields]:
    sql = require("postgres", "psycopg").sql
    query = sql.SQL("SELECT {} FROM {} WHERE {row} >= {} {} ORDER BY {row}")
    copy = sql.SQL("COPY ({}) TO STDOUT (FORMAT binary)")
    row = sql.Identifier(ROW)

    def read(part: int) -> Fields:
        end = sql.SQL("")
        if part + 1 < len(firsts):
            end = sql.SQL("AND {} < {}").format(row, sql.Literal(firsts[part + 1]))
        text = query.format(select_list(made), made.rows_table, sql.Literal(firsts[part]), end, row=row)
        reader = free.pop()
        try:
            content = copy_out(reader, copy.format(text))
        finally:
            free.append(reader)
        count = min(step, rows - part * step)
        return from_rows(made.columns, content, count, part * step, f"dataset {made.name!r}")

    free: list[Any] = []
    count = max(1, min(_READERS, cores(), len(firsts)))
    pool = ThreadPoolExecutor(count, thread_name_prefix="brimful-rows")
    try:
        for _ in range(count):
            free.append(database.connect())
            free[-1].execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            free[-1].execute(sql.SQL("SET TRANSACTION SNAPSHOT {}").format(sql.Literal(snapshot)))
        numbers = iter(range(len(firsts)))
        coming: deque[Future[Fields]] = deque(pool.submit(read, part) for part in itertools.islice(numbers, 2 * count))
        while coming:
            yield coming.popleft().result()
            coming.extend(pool.submit(read, part) for part in itertools.islice(numbers, 1))
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
        for reader in free:
            reader.close()
