"""Bytes by COPY: sent as fast as the server takes them, and not piled up in the driver."""

from collections.abc import Iterator

import psycopg
import pytest

from brimful.data.database.copy_stream import copy_in, copy_out

from .conftest import Server

TO_NUMBERS = b"COPY numbers FROM STDIN (FORMAT binary)"
ROW = b"\0\1\0\0\0\4"  # one column of four bytes


@pytest.fixture
def connection(shared: Server) -> Iterator[psycopg.Connection]:
    with psycopg.connect(shared.url, autocommit=True) as opened:
        opened.execute("CREATE TEMPORARY TABLE numbers (n integer)")
        yield opened


def test_what_was_sent_comes_back(connection: psycopg.Connection):
    parts = [(b"".join(ROW + n.to_bytes(4, "big") for n in range(start, start + 3)), 3) for start in (0, 3, 6)]
    counts: list[int] = []
    copy_in(connection, TO_NUMBERS, parts, counts.append)
    assert counts == [3, 3, 3]
    assert bytes(copy_out(connection, b"COPY numbers TO STDOUT (FORMAT binary)")) == b"".join(part for part, _ in parts)


def test_no_part_waits_in_the_driver_when_the_next_is_given(connection: psycopg.Connection):
    """The driver would keep it all, and move it at every send: a server that is slow makes that quadratic."""
    part = (ROW + bytes(4)) * 200_000  # ten times what a socket holds
    unsent: list[int] = []
    copy_in(connection, TO_NUMBERS, [(part, 200_000)] * 3, lambda rows: unsent.append(connection.pgconn.flush()))
    assert unsent == [0, 0, 0]


def test_a_part_that_cannot_be_made_ends_the_copy(connection: psycopg.Connection):
    def parts() -> Iterator[tuple[bytes, int]]:
        yield ROW + bytes(4), 1
        raise ValueError("no more")

    with pytest.raises(ValueError, match="no more"):
        copy_in(connection, TO_NUMBERS, parts())
    assert connection.execute("SELECT count(*) FROM numbers").fetchone() == (0,)


def test_what_the_server_refuses_is_its_error(connection: psycopg.Connection):
    with pytest.raises(psycopg.errors.BadCopyFileFormat):
        copy_in(connection, TO_NUMBERS, [(b"\0\7" * 500_000, 1)])
    assert connection.execute("SELECT count(*) FROM numbers").fetchone() == (0,)
