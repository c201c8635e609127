"""Rows into the database, and chunks from the rows.

The chunks of an import are written from what is imported, in the transaction that writes the rows. Those of rows that
changed later are made from the rows: several connections read them, all in one snapshot, and one writes.
"""

import struct
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ...core.base.errors import CancelledError, InputError, StorageError
from ...core.base.extras import require
from ...core.runs.context import RunContext
from ...core.runs.events import BatchDone, Finished, Started
from ..dataset import Dataset, Fields
from . import catalogue, chunk_format
from .catalogue import ChunkSet, Entry
from .column_types import ROW, to_rows
from .connection import Database
from .copy_stream import copy_in
from .row_reader import read_rows

if TYPE_CHECKING:
    from psycopg import Connection

_PART = 4 * 2**20  # bytes of rows that are converted at once
_CHUNK_ROW = struct.Struct(">hiiiiiqi16si")  # a row of a table of chunks, up to its bytes, in binary format


@dataclass(slots=True)
class Progress:
    """Events of a long piece of work, and its end when it is cancelled."""

    work: str
    items: int
    context: RunContext = field(default_factory=RunContext)
    done: int = 0
    started: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        self.context.events.emit(Started(work=self.work, items=self.items, done=0, budget=0))

    def add(self, items: int) -> None:
        if self.context.cancel.is_set():
            raise CancelledError(f"{self.work} was cancelled; the database is as it was before")
        self.done += items
        seconds = time.monotonic() - self.started
        self.context.events.emit(BatchDone(items=items, bad=0, done=self.done, seconds=seconds, peak=0, budget=0))

    def finish(self) -> None:
        seconds = time.monotonic() - self.started
        self.context.events.emit(Finished(state="finished", done=self.done, bad=0, seconds=seconds))


def import_rows(connection: "Connection[Any]", rows: Dataset, name: str, origin: str, progress: Progress) -> Entry:
    """A new dataset with its chunks, in one transaction: all of it is there, or nothing.

    Raises:
        InputError: there is a dataset of that name, a field cannot be stored, or a row has a null.
    """
    sql = require("postgres", "psycopg").sql
    catalogue.set_up(connection)
    with connection.transaction():
        made = catalogue.create(connection, name, {_named(name): form for name, form in rows.fields.items()}, origin)
        copy = sql.SQL("COPY {} ({}) FROM STDIN (FORMAT binary)").format(
            made.rows_table, sql.SQL(", ").join([sql.Identifier(ROW), catalogue.select_list(made)])
        )
        copy_in(connection, copy, _numbered(made, _parts(rows)), progress.add)
        catalogue.watch(connection, made)
        write_chunks(connection, made, made.version, _parts(rows), len(rows))
    return catalogue.entry(connection, name)


def _numbered(made: Entry, parts: Iterable[Fields]) -> Iterator[tuple[Any, int]]:
    """Rows in binary format, numbered from 0."""
    start = 0
    for part in parts:
        content = to_rows(made.columns, part, start)
        start += len(content)
        yield content, len(content)


def _parts(rows: Dataset) -> Iterator[Fields]:
    """All rows, some megabytes at a time."""
    step = max(1, _PART * len(rows) // max(1, rows.nbytes))
    for start in range(0, len(rows), step):
        part, bad = rows.load(slice(start, min(len(rows), start + step)))
        for row in sorted(bad):
            raise rows.row_error(bad[row], start + row)
        yield {_named(name): tensor.cpu() for name, tensor in part.items()}


def _named(field: str) -> str:
    """A single array has no name; its column is called `value`."""
    return field or "value"


def write_chunks(
    connection: "Connection[Any]",
    made: Entry,
    version: int,
    parts: Iterable[Fields],
    rows: int,
    progress: Progress | None = None,
) -> ChunkSet:
    """A set of chunks from all rows in order, inside the caller's transaction."""
    sql = require("postgres", "psycopg").sql
    table, chunk_rows = made.chunk_table(version), chunk_format.rows_per_chunk(made.fields)
    connection.execute(
        sql.SQL(
            "CREATE TABLE {} (chunk integer PRIMARY KEY, rows integer NOT NULL, checksum bigint NOT NULL, "
            "digest bytea NOT NULL, data bytea NOT NULL)"
        ).format(table)
    )
    connection.execute(sql.SQL("ALTER TABLE {} ALTER data SET STORAGE EXTERNAL").format(table))
    digests: list[bytes] = []
    encoded = _encoded(made, chunk_format.regroup(parts, chunk_rows), digests)
    copy = sql.SQL("COPY {} FROM STDIN (FORMAT binary)").format(table)
    copy_in(connection, copy, encoded, progress.add if progress is not None else lambda rows: None)
    full, rest = divmod(rows, chunk_rows)
    total = sum(chunk_format.chunk_bytes(made.fields, size) * count for size, count in ((chunk_rows, full), (rest, 1)))
    known = chunk_format.fingerprint(made.fields, rows, digests)
    chunks = ChunkSet(version, chunk_format.FORMAT, chunk_rows, len(digests), rows, total, known)
    connection.execute(
        "INSERT INTO brimful.chunk_set (dataset, version, format, chunk_rows, chunks, rows, bytes, fingerprint) "
        "VALUES (%s, %s, %s, %s, %s, %s, %s, %s)",
        (made.id, version, chunks.format, chunk_rows, chunks.chunks, rows, total, known),
    )
    return chunks


def _encoded(made: Entry, parts: Iterable[Fields], digests: list[bytes]) -> Iterator[tuple[Any, int]]:
    """Chunks as rows in binary format; their digests are added to a list."""
    align = chunk_format.ALIGNMENT
    for number, part in enumerate(parts):
        count, buffer = len(next(iter(part.values()))), chunk_format.encode(made.fields, part, before=align)
        content, start = memoryview(buffer)[align:], align - _CHUNK_ROW.size
        digests.append(chunk_format.digest(content))
        checked = chunk_format.checksum(content)
        _CHUNK_ROW.pack_into(buffer, start, 5, 4, number, 4, count, 8, checked, 16, digests[-1], len(content))
        yield memoryview(buffer)[start:], count


def build_chunks(database: Database, name: str, anew: bool = False, context: RunContext | None = None) -> ChunkSet:
    """The chunks of the rows as they are now; built unless they are there, or `anew`. Where another process is building
    them it is waited for.

    Raises:
        InputError: there is no such dataset, it has no rows, or its rows no longer have the dataset's columns.
        StorageError: a run reads the chunks that are to be built anew.
    """
    with database.session() as connection:
        made = catalogue.entry(connection, name)
        with catalogue.builder_lock(connection, made.id):
            made = catalogue.entry(connection, name)  # another builder may just have finished
            if made.chunks is not None and not anew:
                return made.chunks
            catalogue.check_schema(connection, made)
            with connection.transaction():
                connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
                version = catalogue.version_of(connection, made.id)
                if version is None:
                    raise InputError(f"dataset {name!r} was deleted while its chunks were to be built")
                if not catalogue.drop_chunks(connection, made, version):
                    raise StorageError(f"a run is reading the chunks of {name!r}; build them anew when it has ended")
                rows = count_rows(connection, made)
                if not rows:
                    raise InputError(f"dataset {name!r} has no rows; insert some into its table, or delete it")
                progress = Progress(f"chunks of {name}", rows, context or RunContext())
                parts = read_rows(database, connection, made, rows)
                chunks = write_chunks(connection, made, version, parts, rows, progress)
                progress.finish()
            _drop_others(connection, made, version)
    return chunks


def _drop_others(connection: "Connection[Any]", made: Entry, version: int) -> None:
    """Drops the sets of other versions, but for those that runs are reading; the next build tries again."""
    for other in catalogue.versions_with_chunks(connection, made.id):
        if other != version:
            with connection.transaction():
                catalogue.drop_chunks(connection, made, other)


def count_rows(connection: "Connection[Any]", made: Entry) -> int:
    """How many rows a dataset has now."""
    sql = require("postgres", "psycopg").sql
    row = connection.execute(sql.SQL("SELECT count(*) FROM {}").format(made.rows_table)).fetchone()
    return row[0] if row else 0
