"""COPYs read from the socket are those that the driver reads, and so are their errors."""

from collections.abc import Iterator

import psycopg
import pytest

from brimful.data.database.connection import is_lost
from brimful.data.database.copy_connection import CopyConnection

from .conftest import Server

BYTES = b"COPY (SELECT n, repeat(chr(65 + n), n * 70000)::bytea FROM generate_series(0, 7) n) TO STDOUT (FORMAT binary)"


@pytest.fixture(params=[True, False], ids=["from the socket", "by the driver"])
def connection(request: pytest.FixtureRequest, shared: Server) -> Iterator[CopyConnection]:
    with psycopg.connect(shared.url, autocommit=True) as opened:
        yield CopyConnection(opened, direct=request.param)


def test_messages_are_those_of_the_driver(connection: CopyConnection, shared: Server):
    with psycopg.connect(shared.url) as other, other.cursor() as cursor, cursor.copy(BYTES) as stream:
        expected = [bytes(message) for message in stream]
    assert sum(map(len, expected)) > 28 * 70_000
    for _ in range(2):
        assert [bytes(message) for message in connection.messages(BYTES)] == expected
        assert connection.connection.execute("SELECT 1").fetchone() == (1,)  # libpq has not noticed


def test_an_error_is_the_drivers_and_the_connection_goes_on(connection: CopyConnection):
    with pytest.raises(psycopg.errors.UndefinedTable, match="no_such_table"):
        list(connection.messages(b"COPY no_such_table TO STDOUT"))
    with pytest.raises(psycopg.errors.DivisionByZero):  # after some messages
        list(connection.messages(b"COPY (SELECT 1 / (5 - n) FROM generate_series(1, 9) n) TO STDOUT"))
    assert [bytes(message) for message in connection.messages(b"COPY (SELECT 7) TO STDOUT")] == [b"7\n"]


def test_notices_are_passed_over(connection: CopyConnection):
    connection.connection.execute(
        "CREATE FUNCTION pg_temp.loud() RETURNS int LANGUAGE plpgsql AS $$BEGIN RAISE NOTICE 'x'; RETURN 7; END$$"
    )
    assert [bytes(message) for message in connection.messages(b"COPY (SELECT pg_temp.loud()) TO STDOUT")] == [b"7\n"]


def test_a_server_that_goes_away_is_a_lost_connection(connection: CopyConnection, shared: Server):
    messages = connection.messages(BYTES)
    next(messages)
    shared.execute("SELECT pg_terminate_backend(%s)", connection.connection.info.backend_pid)
    with pytest.raises(psycopg.OperationalError) as raised:
        list(messages)
    assert is_lost(raised.value)
    with pytest.raises(psycopg.OperationalError) as raised:
        list(connection.messages(BYTES))
    assert is_lost(raised.value)
