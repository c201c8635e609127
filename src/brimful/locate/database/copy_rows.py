"""Rows by PostgreSQL's binary COPY, as structured NumPy arrays: nothing is converted value by value."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from ...data.database import copy_stream

if TYPE_CHECKING:
    from psycopg import Connection

_AT_ONCE = 100_000  # rows


def copy_in(connection: "Connection[Any]", table: str, columns: dict[str, np.ndarray]) -> None:
    """Adds rows to a table, of columns that hold no NULL. The dtype of each array is that of its column: bool, int16,
    int32, int64, float32 or float64."""
    statement = f"COPY {table} ({', '.join(columns)}) FROM STDIN (FORMAT binary)"
    copy_stream.copy_in(connection, statement.encode(), _rows(columns))


def _rows(columns: dict[str, np.ndarray]) -> Iterator[tuple[np.ndarray, int]]:
    kind = _row_type({name: values.dtype for name, values in columns.items()})
    count = len(next(iter(columns.values())))
    for start in range(0, count, _AT_ONCE):
        part = slice(start, min(count, start + _AT_ONCE))
        rows = np.empty(part.stop - part.start, kind)
        rows["fields"] = len(columns)
        for name, values in columns.items():
            rows[f"length {name}"], rows[name] = values.dtype.itemsize, values[part]
        yield rows, len(rows)


def _row_type(columns: dict[str, Any]) -> np.dtype:
    """A row in binary format, from the dtypes of its columns."""
    parts = [("fields", ">i2")]
    for name, dtype in columns.items():
        parts += [(f"length {name}", ">i4"), (name, np.dtype(dtype).newbyteorder(">"))]
    return np.dtype(parts)


def copy_out(connection: "Connection[Any]", query: str, columns: dict[str, str]) -> dict[str, np.ndarray]:
    """The rows of a query whose columns hold no NULL, by name and dtype."""
    content = copy_stream.copy_out(connection, f"COPY ({query}) TO STDOUT (FORMAT binary)".encode())
    rows: Any = np.frombuffer(content, _row_type(columns))
    return {name: rows[name].astype(np.dtype(dtype)) for name, dtype in columns.items()}
