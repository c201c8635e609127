"""Bytes into and out of a table by PostgreSQL's binary COPY.

The driver takes whatever it is given, and libpq moves all that it could not send yet to the front of its buffer after
every send: where the server is slower than the client, the buffer grows to the size of the data and the moves to its
square. So every piece is sent before the next one is given, and the next is made on a thread meanwhile.
"""

from collections.abc import Callable, Generator, Iterable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

from ...core.base.background import BackgroundThread
from ...core.base.extras import require

if TYPE_CHECKING:
    from psycopg import Connection

T = TypeVar("T")

HEADER = b"PGCOPY\n\xff\r\n\0" + bytes(8)
TRAILER = b"\xff\xff"

_PIECE = 128 * 2**10  # bytes given to the driver at once; a socket holds some 200 kB


def copy_in(
    connection: "Connection[Any]",
    statement: Any,
    parts: Iterable[tuple[Any, int]],
    sent: Callable[[int], object] = lambda rows: None,
) -> None:
    """Sends rows in binary format to a `COPY ... FROM STDIN (FORMAT binary)`; header and trailer are added.

    Args:
        connection: to send them on.
        statement: the COPY.
        parts: bytes of rows, and how many these are. They are made on a thread, one ahead of the one that is sent.
        sent: is called after each part with its number of rows.
    """
    libpq_writer = require("postgres", "psycopg.copy").LibpqWriter
    until_writable = require("postgres", "psycopg.waiting").Wait.W

    class Sending(libpq_writer):
        def write(self, data: Any) -> None:
            view = memoryview(data)
            for start in range(0, len(view), _PIECE):
                super().write(view[start : start + _PIECE])
                connection.wait(all_sent())

    def all_sent() -> Generator[Any, Any, None]:
        while connection.pgconn.flush():
            yield until_writable

    with connection.cursor() as cursor, cursor.copy(statement, writer=Sending(cursor)) as stream:
        stream.write(HEADER)
        for content, rows in _ahead(parts):
            stream.write(memoryview(content).cast("B"))
            sent(rows)
        stream.write(TRAILER)


def _ahead(parts: Iterable[T]) -> Iterator[T]:
    """The same parts, each made while the one before it is used."""
    waiting = iter(parts)
    with BackgroundThread() as thread:
        coming = thread.submit(lambda: next(waiting, None))
        while (part := coming.result()) is not None:
            coming = thread.submit(lambda: next(waiting, None))
            yield part


def copy_out(connection: "Connection[Any]", statement: Any) -> memoryview:
    """The rows that a `COPY ... TO STDOUT (FORMAT binary)` gives, without header and trailer."""
    with connection.cursor() as cursor, cursor.copy(statement) as stream:
        content = b"".join(stream)
    return memoryview(content)[len(HEADER) : -len(TRAILER)]
