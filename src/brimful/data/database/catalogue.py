"""What is in the database: the catalogue of datasets, the tables of their rows, and the tables of their chunks.

    brimful.dataset        one row per dataset: its name, its fields, and the version of its rows
    brimful.chunk_set      one row per complete set of chunks: of which dataset and version
    brimful.chunks_I_V     the chunks of dataset I made from version V of its rows; they never change
    brimful_data."NAME"    the rows of a dataset, which are the truth: typed columns, numbered by row_id

Every statement that changes the rows raises the version of the dataset, by a trigger and in the same transaction: so a
set of chunks of the dataset's version is one of its rows, whatever others are doing. (A sequence would be raised before
the change is visible, and comparing transaction numbers needs a pass over all rows.) What is done with triggers
disabled is seen by `verify` alone.
"""

import contextlib
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from ...core.base.errors import InputError, StorageError
from ...core.base.extras import require
from ..dataset import Field
from .chunk_format import FORMAT
from .column_types import ROW, Column, columns_of

if TYPE_CHECKING:
    from psycopg import Connection
    from psycopg.sql import Composed, Identifier

_BUILD = 0x6272_696D  # the first key of the locks of builders; the second is the dataset's number
_SETUP = (_BUILD, 0)

_TABLES = """
CREATE SCHEMA IF NOT EXISTS brimful;
CREATE SCHEMA IF NOT EXISTS brimful_data;
CREATE TABLE IF NOT EXISTS brimful.dataset (
    id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text NOT NULL UNIQUE,
    format integer NOT NULL,
    fields jsonb NOT NULL,
    origin text NOT NULL,
    created timestamptz NOT NULL DEFAULT now(),
    version integer NOT NULL DEFAULT 1
);
CREATE TABLE IF NOT EXISTS brimful.chunk_set (
    dataset integer NOT NULL REFERENCES brimful.dataset ON DELETE CASCADE,
    version integer NOT NULL,
    format integer NOT NULL,
    chunk_rows integer NOT NULL,
    chunks integer NOT NULL,
    rows bigint NOT NULL,
    bytes bigint NOT NULL,
    fingerprint text NOT NULL,
    built timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (dataset, version)
);
CREATE OR REPLACE FUNCTION brimful.rows_changed() RETURNS trigger LANGUAGE plpgsql
    SECURITY DEFINER SET search_path = pg_catalog AS
    $$BEGIN UPDATE brimful.dataset SET version = version + 1 WHERE id = TG_ARGV[0]::integer; RETURN NULL; END$$;
"""


@dataclass(frozen=True, slots=True)
class ChunkSet:
    """A complete set of chunks."""

    version: int
    format: int
    chunk_rows: int
    chunks: int
    rows: int
    bytes: int
    fingerprint: str


@dataclass(frozen=True, slots=True)
class Entry:
    """A dataset of the catalogue. `chunks` is the set made from the present version of the rows, if there is one."""

    id: int
    name: str
    fields: dict[str, Field]
    origin: str
    created: float
    version: int
    chunks: ChunkSet | None

    @property
    def columns(self) -> list[Column]:
        return columns_of(self.fields, f"dataset {self.name!r}")

    @property
    def rows_table(self) -> "Identifier":
        return require("postgres", "psycopg").sql.Identifier("brimful_data", self.name)

    def chunk_table(self, version: int) -> "Identifier":
        return require("postgres", "psycopg").sql.Identifier("brimful", f"chunks_{self.id}_{version}")


def set_up(connection: "Connection[Any]") -> None:
    """Makes the catalogue, unless it is there."""
    if not exists(connection):
        with connection.transaction():
            connection.execute("SELECT pg_advisory_xact_lock(%s, %s)", _SETUP)  # two at once would collide
            connection.execute(_TABLES)


def exists(connection: "Connection[Any]") -> bool:
    row = connection.execute("SELECT to_regclass('brimful.chunk_set') IS NOT NULL").fetchone()
    return bool(row and row[0])


def check_name(name: Any) -> str:
    if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.\-]{0,62}", name):
        raise InputError(
            f"a dataset cannot be called {name!r}; use 1 to 63 letters, digits, '_', '-' and '.', the first a letter "
            "or digit"
        )
    return name


def fields_to_json(fields: dict[str, Field]) -> list[dict[str, Any]]:
    return [
        {"name": name, "dtype": str(field.dtype).removeprefix("torch."), "shape": list(field.shape)}
        for name, field in fields.items()
    ]


def _fields(stored: list[dict[str, Any]]) -> dict[str, Field]:
    return {part["name"]: Field(getattr(torch, part["dtype"]), tuple(part["shape"])) for part in stored}


_COLUMNS = "d.id, d.name, d.fields, d.origin, extract(epoch FROM d.created)::float8, d.version, d.format"
_CHUNKS = "c.version, c.format, c.chunk_rows, c.chunks, c.rows, c.bytes, c.fingerprint"
_ENTRIES = f"""SELECT {_COLUMNS}, {_CHUNKS} FROM brimful.dataset d
    LEFT JOIN brimful.chunk_set c ON c.dataset = d.id AND c.version = d.version"""


def entries(connection: "Connection[Any]") -> list[Entry]:
    """All datasets, by name."""
    if not exists(connection):
        return []
    return [_entry(row) for row in connection.execute(f"{_ENTRIES} ORDER BY d.name".encode()).fetchall()]


def entry(connection: "Connection[Any]", name: str) -> Entry:
    """The dataset of that name.

    Raises:
        InputError: there is none; the message names those there are.
    """
    check_name(name)
    if exists(connection):
        row = connection.execute(f"{_ENTRIES} WHERE d.name = %s".encode(), (name,)).fetchone()
        if row is not None:
            return _entry(row)
    names = ", ".join(other.name for other in entries(connection)[:20])
    raise InputError(
        f"there is no dataset {name!r}; there {f'are {names}' if names else 'is none at all'}. "
        f"Import one: brimful data import FILE --dataset {name}"
    )


def _entry(row: tuple[Any, ...]) -> Entry:
    if row[6] > FORMAT:
        raise StorageError(
            f"dataset {row[1]!r} has format {row[6]}, and this version of brimful knows up to {FORMAT}; install "
            "a later one"
        )
    chunks = ChunkSet(*row[7:]) if row[7] is not None and row[8] == FORMAT else None
    return Entry(row[0], row[1], _fields(row[2]), row[3], row[4], row[5], chunks)


def version_of(connection: "Connection[Any]", id: int) -> int | None:
    """The version of the rows; None where the dataset has been deleted."""
    row = connection.execute("SELECT version FROM brimful.dataset WHERE id = %s", (id,)).fetchone()
    return None if row is None else row[0]


def create(connection: "Connection[Any]", name: str, fields: dict[str, Field], origin: str) -> Entry:
    """A dataset without rows, inside the caller's transaction; the trigger is to be added after the rows are."""
    psycopg = require("postgres", "psycopg")
    sql, jsonb = psycopg.sql, require("postgres", "psycopg.types.json").Jsonb
    values = (name, FORMAT, jsonb(fields_to_json(fields)), origin)
    try:
        with connection.transaction():
            connection.execute(
                "INSERT INTO brimful.dataset (name, format, fields, origin) VALUES (%s, %s, %s, %s)", values
            )
    except psycopg.errors.UniqueViolation as error:
        raise InputError(
            f"there is a dataset {name!r} already; delete it first (brimful data delete {name}), or choose another name"
        ) from error
    made = entry(connection, name)
    parts = [sql.SQL("{} bigint PRIMARY KEY").format(sql.Identifier(ROW))]
    for column in made.columns:
        quoted = sql.Identifier(column.name)
        check = column.check(quoted.as_string(connection))
        line = sql.SQL("{} " + column.sql_type + " NOT NULL" + (f" CHECK ({check})" if check else "")).format(quoted)
        parts.append(line)
    connection.execute(sql.SQL("CREATE TABLE {} ({})").format(made.rows_table, sql.SQL(", ").join(parts)))
    for column in made.columns:
        if column.field.shape:  # compression would cost more than it saves
            connection.execute(
                sql.SQL("ALTER TABLE {} ALTER {} SET STORAGE EXTERNAL").format(
                    made.rows_table, sql.Identifier(column.name)
                )
            )
    return made


def watch(connection: "Connection[Any]", made: Entry) -> None:
    """From here on every change of the rows raises the version."""
    sql = require("postgres", "psycopg").sql
    connection.execute(
        sql.SQL(
            "CREATE TRIGGER brimful_rows_changed AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON {} "
            "FOR EACH STATEMENT EXECUTE FUNCTION brimful.rows_changed({})"
        ).format(made.rows_table, sql.Literal(str(made.id)))
    )


def check_schema(connection: "Connection[Any]", made: Entry) -> None:
    """Whether the table of the rows still has the columns of the catalogue.

    Raises:
        InputError: it has others, or is gone.
    """
    rows = connection.execute(
        "SELECT attname, format_type(atttypid, atttypmod), attnotnull FROM pg_attribute WHERE attrelid = "
        "to_regclass(%s) AND attnum > 0 AND NOT attisdropped ORDER BY attnum",
        (made.rows_table.as_string(connection),),
    ).fetchall()
    there = {name: kind + ("" if required else ", may be NULL") for name, kind, required in rows if name != ROW}
    wanted = {column.name: column.sql_type for column in made.columns}
    if there != wanted:
        raise InputError(
            f"the rows of dataset {made.name!r} have the columns {_listed(there)}, and the dataset was imported with "
            f"{_listed(wanted)}. Change the table back, or import it anew as another dataset"
        )


def _listed(columns: dict[str, str]) -> str:
    return ", ".join(f"{name} ({kind})" for name, kind in columns.items()) or "none (the table is gone)"


@contextlib.contextmanager
def builder_lock(connection: "Connection[Any]", id: int) -> Iterator[None]:
    """One builder of a dataset's chunks at a time; others wait. The server frees it with the connection."""
    connection.execute("SELECT pg_advisory_lock(%s, %s)", (_BUILD, id))
    try:
        yield
    finally:
        if not connection.closed:
            connection.execute("SELECT pg_advisory_unlock(%s, %s)", (_BUILD, id))


def pin_key(id: int, version: int) -> int:
    """The key of the lock that readers of a set of chunks share, so that nobody drops it under them."""
    return (id << 32) | version


def drop_chunks(connection: "Connection[Any]", made: Entry, version: int) -> bool:
    """Drops a set of chunks, inside the caller's transaction; False where a run is reading it."""
    sql = require("postgres", "psycopg").sql
    if not _taken(connection, pin_key(made.id, version)):
        return False
    connection.execute("DELETE FROM brimful.chunk_set WHERE dataset = %s AND version = %s", (made.id, version))
    connection.execute(sql.SQL("DROP TABLE IF EXISTS {}").format(made.chunk_table(version)))
    return True


def _taken(connection: "Connection[Any]", key: int) -> bool:
    """Whether nobody else has a lock, and this transaction does now."""
    for _ in range(10):  # the server may not have noticed yet that a reader has gone
        row = connection.execute("SELECT pg_try_advisory_xact_lock(%s)", (key,)).fetchone()
        if row and row[0]:
            return True
        time.sleep(0.02)
    return False


def versions_with_chunks(connection: "Connection[Any]", id: int) -> list[int]:
    found = connection.execute("SELECT version FROM brimful.chunk_set WHERE dataset = %s ORDER BY 1", (id,)).fetchall()
    return [row[0] for row in found]


def delete(connection: "Connection[Any]", made: Entry) -> None:
    """Removes a dataset, its rows and its chunks.

    Raises:
        StorageError: a run is reading it.
    """
    sql = require("postgres", "psycopg").sql
    with builder_lock(connection, made.id), connection.transaction():
        for version in versions_with_chunks(connection, made.id):
            if not drop_chunks(connection, made, version):
                raise StorageError(
                    f"dataset {made.name!r} is being read by a run; end the run first, then delete the dataset"
                )
        connection.execute(sql.SQL("DROP TABLE IF EXISTS {}").format(made.rows_table))
        connection.execute("DELETE FROM brimful.dataset WHERE id = %s", (made.id,))


def select_list(made: Entry) -> "Composed":
    """The columns of the rows, for a query."""
    sql = require("postgres", "psycopg").sql
    return sql.SQL(", ").join(sql.Identifier(column.name) for column in made.columns)
