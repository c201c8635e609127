"""Rows by PostgreSQL's binary COPY, as structured NumPy arrays: nothing is converted value by value."""

from typing import TYPE_CHECKING, Any

import numpy as np

from ...data.database.column_types import HEADER, TRAILER

if TYPE_CHECKING:
    from psycopg import Connection

_AT_ONCE = 100_000  # rows


def copy_in(connection: "Connection[Any]", table: str, columns: dict[str, np.ndarray]) -> None:
    """Adds rows to a table, of columns that hold no NULL. The dtype of each array is that of its column: bool, int16,
    int32, int64, float32 or float64."""
    count = len(next(iter(columns.values())))
    parts = [("fields", ">i2")]
    for name, values in columns.items():
        parts += [(f"length {name}", ">i4"), (name, values.dtype.newbyteorder(">"))]
    names = ", ".join(columns)
    with (
        connection.cursor() as cursor,
        cursor.copy(f"COPY {table} ({names}) FROM STDIN (FORMAT binary)".encode()) as out,
    ):
        out.write(HEADER)
        for start in range(0, count, _AT_ONCE):
            part = slice(start, min(count, start + _AT_ONCE))
            rows = np.empty(part.stop - part.start, np.dtype(parts))
            rows["fields"] = len(columns)
            for name, values in columns.items():
                rows[f"length {name}"], rows[name] = values.dtype.itemsize, values[part]
            out.write(rows.tobytes())
        out.write(TRAILER)


def copy_out(connection: "Connection[Any]", query: str, columns: dict[str, str]) -> dict[str, np.ndarray]:
    """The rows of a query whose columns hold no NULL, by name and dtype."""
    parts = [("fields", ">i2")]
    for name, dtype in columns.items():
        parts += [(f"length {name}", ">i4"), (name, np.dtype(dtype).newbyteorder(">"))]
    with connection.cursor() as cursor, cursor.copy(f"COPY ({query}) TO STDOUT (FORMAT binary)".encode()) as stream:
        content = b"".join(stream)
    rows: Any = np.frombuffer(memoryview(content)[len(HEADER) : -len(TRAILER)], np.dtype(parts))
    return {name: rows[name].astype(np.dtype(dtype)) for name, dtype in columns.items()}
