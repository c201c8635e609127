"""A plain table, or a query, as a source: read whole, by columns (ADBC), when the first row is needed.

What its columns hold, how many rows there are and what that takes is asked of the server before anything is loaded. For
data that is read more than once a dataset with chunks is the better way: some twenty times as fast.
"""

import math
import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from ...core.base.errors import BrimfulWarning, InputError, StorageError
from ...core.base.extras import require
from ...core.base.formatting import format_bytes
from ..array_dataset import DeferredDataset
from ..arrow_tables import table_dataset
from ..dataset import Field, Fields, chosen
from .connection import Database

if TYPE_CHECKING:
    from psycopg import Connection

_NUMBERS = {
    "bool": torch.bool,
    "int2": torch.int16,
    "int4": torch.int32,
    "int8": torch.int64,
    "float4": torch.float32,
    "float8": torch.float64,
    "numeric": torch.float64,
    "date": torch.int32,  # days
    "timestamp": torch.int64,  # microseconds
    "timestamptz": torch.int64,
}
_CAST = {"numeric": "::float8", "_numeric": "::float8[]"}


@dataclass(frozen=True, slots=True)
class _Selected:
    """A column of a query: its name, quoted, its type, and its dtype."""

    name: str
    quoted: str
    kind: str

    @property
    def dtype(self) -> torch.dtype:
        return _NUMBERS[self.kind.removeprefix("_")]

    @property
    def listed(self) -> bool:
        return self.kind.startswith("_")


class QueryDataset(DeferredDataset):
    """The rows of a query, in its order."""

    sequential = on_disk = True

    def __init__(self, database: Database, query: str, columns: Sequence[str] | None = None) -> None:
        self._database, self._query, self._chosen = database, query, None if columns is None else list(columns)
        with database.session() as connection:
            selected = _columns(connection, query, columns)
            rows, shapes = _measure(connection, query, selected)
        fields = {column.name: Field(column.dtype, shapes[column.name]) for column in selected}
        flat = {column.name: len(shapes[column.name]) > 1 for column in selected}
        parts = (
            f"ARRAY(SELECT unnest({column.quoted})) AS {column.quoted}"
            if flat[column.name]
            else f"{column.quoted}{_CAST.get(column.kind, '')} AS {column.quoted}"
            for column in selected
        )
        self._select = f"SELECT {', '.join(parts)} FROM ({query}) AS query"
        super().__init__(fields, rows, self._read_all)

    def __reduce__(self) -> tuple[Any, ...]:
        return QueryDataset, (self._database, self._query, self._chosen)

    def __repr__(self) -> str:
        return f"QueryDataset({self._query!r}: {len(self):,} samples, {format_bytes(self.nbytes)})"

    def load(self, rows: Any) -> tuple[Fields, dict[int, str]]:
        return self._open().load(rows)

    def _read_all(self) -> Fields:
        adbc = require("postgres", "adbc_driver_postgresql.dbapi")
        try:
            with adbc.connect(self._database.uri()) as connection, connection.cursor() as cursor:
                cursor.execute(self._select)
                table = cursor.fetch_arrow_table()
        except adbc.Error as error:
            raise StorageError(f"{self._database} did not answer the query: {error}. Try again") from error
        read = table_dataset(table, list(self.fields))
        if table.num_rows != len(self) or read.bad:
            raise StorageError(
                f"the query gave {table.num_rows:,} rows where {len(self):,} were counted before, or new nulls: the "
                "table was changed meanwhile. Start again, or import it as a dataset, which stays as it is"
            )
        return {name: read.column(name).reshape(len(self), *field.shape) for name, field in self.fields.items()}


def _columns(connection: "Connection[Any]", query: str, columns: Sequence[str] | None) -> list[_Selected]:
    """The columns of a query that hold numbers."""
    sql = require("postgres", "psycopg").sql
    cursor = connection.execute(f"SELECT * FROM ({query}) AS query LIMIT 0".encode())
    described = {column.name: column.type_code for column in cursor.description or ()}
    if len(described) < len(cursor.description or ()):
        raise InputError(f"{query!r} has two columns of one name; name them apart with AS")
    kinds = dict(
        connection.execute("SELECT oid::int8, typname FROM pg_type WHERE oid = ANY(%s)", (list(described.values()),))
    )
    selected, skipped = [], []
    for name in chosen(described, columns, "the query"):
        kind = kinds[described[name]]
        if kind == "bytea":
            raise InputError(
                f"column {name!r} is bytea: bytes, of which nothing says what numbers they are. Leave it out with "
                "columns=, or import the numbers themselves as a dataset, which stores them as fast to read as bytes"
            )
        if kind.removeprefix("_") in _NUMBERS:
            selected.append(_Selected(name, sql.Identifier(name).as_string(connection), kind))
        else:
            skipped.append(f"{name} ({kind})")
    if skipped and (columns is not None or not selected):
        raise InputError(f"the columns {', '.join(skipped)} hold no numbers; cast them to numbers in the query")
    if skipped:
        warnings.warn(
            f"columns that are not numbers are left out of the batch: {', '.join(skipped)}",
            BrimfulWarning,
            stacklevel=4,
        )
    return selected


def _measure(
    connection: "Connection[Any]", query: str, selected: list[_Selected]
) -> tuple[int, dict[str, tuple[int, ...]]]:
    """The number of rows and the shape of a sample of each column, in one pass on the server."""
    parts = ["count(*)"]
    for column in selected:
        name = column.quoted
        no_nan = not column.dtype.is_floating_point
        null = f"{name} IS NULL" if column.listed or no_nan else "false"
        if column.listed and no_nan:
            null += f" OR (SELECT bool_or(value IS NULL) FROM unnest({name}) AS value)"
        parts.append(f"count(*) FILTER (WHERE {null})")
        parts += [f"min(array_dims({name}))", f"max(array_dims({name}))"] if column.listed else ["''", "''"]
    row = connection.execute(f"SELECT {', '.join(parts)} FROM ({query}) AS query".encode()).fetchone()
    assert row is not None
    rows, shapes = row[0], {}
    if not rows:
        raise InputError(f"{query!r} gives no rows; check its conditions")
    for column, (nulls, least, most) in zip(selected, zip(row[1::3], row[2::3], row[3::3], strict=True), strict=True):
        if nulls:
            raise InputError(
                f"column {column.name!r} is null in {nulls:,} of {rows:,} rows, and its numbers have no NaN; fill the "
                "nulls with coalesce, or leave those rows out"
            )
        if least != most or (column.listed and least is None):
            raise InputError(
                f"the arrays of column {column.name!r} are of unequal length ({least or 'empty'} to {most}); a sample "
                "has one shape: pad or cut them in the query"
            )
        shapes[column.name] = tuple(
            int(stop) - int(start) + 1 for start, stop in re.findall(r"\[(-?\d+):(-?\d+)]", least)
        )
        if column.listed and not math.prod(shapes[column.name]):
            raise InputError(f"the arrays of column {column.name!r} are empty; leave it out")
    return rows, shapes


def table_query(connection: "Connection[Any]", table: str) -> str | None:
    """All rows of a table in the order of its primary key, or as they lie in it; None where there is no such table."""
    psycopg = require("postgres", "psycopg")
    try:
        row = connection.execute(
            "SELECT c.oid::regclass::text, c.relkind, "
            "array(SELECT quote_ident(a.attname) FROM pg_index i, pg_attribute a "
            "WHERE i.indrelid = c.oid AND i.indisprimary AND a.attrelid = c.oid AND a.attnum = ANY(i.indkey) "
            "ORDER BY array_position(i.indkey::int2[], a.attnum)) FROM pg_class c WHERE c.oid = to_regclass(%s)",
            (table,),
        ).fetchone()
    except psycopg.Error:
        return None
    if row is None:
        return None
    name, kind, key = row
    if isinstance(kind, bytes):
        kind = kind.decode()
    if kind not in ("r", "p", "m") or (kind == "p" and not key):
        raise InputError(f"{table} has no order of its own; give a query: SELECT * FROM {table} ORDER BY ...")
    return f"SELECT * FROM {name} ORDER BY {', '.join(key) or 'ctid'}"


def check_query(query: str) -> str:
    """A query, which must say the order of its rows: samples are known by their numbers."""
    text = query.strip().rstrip(";").strip()
    if not re.match(r"(?is)(select|with|table|values)\b", text):
        raise InputError(f"{query!r} is neither the name of a dataset, nor of a table, nor a query; begin with SELECT")
    if not re.search(r"(?is)\border\s+by\b", text):
        raise InputError(
            f"{query!r} does not say the order of its rows, and a server gives them in any; add ORDER BY with columns "
            "that tell all rows apart"
        )
    return text
