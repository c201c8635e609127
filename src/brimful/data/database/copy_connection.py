"""A connection on which COPYs are read, message by message, into memory that is used again.

libpq copies every message twice before the driver gives it out. Where the connection is not encrypted, and libpq has
nothing to do with it between two statements, the messages of a COPY are read from its socket instead, without a copy:
for chunks of 1 MB that takes 0.3 instead of 0.5 seconds of processor time per GB. An encrypted connection is read
through the driver.
"""

import os
import socket
import struct
from collections.abc import Generator
from typing import TYPE_CHECKING, Any

from ...core.base.extras import require

if TYPE_CHECKING:
    from psycopg import Connection

_HEAD = struct.Struct(">ci")  # the kind of a message, and its bytes with those of this number
_SECONDS = 1.0  # after which a wait is begun again


class CopyConnection:
    """A connection for COPYs.

    Args:
        connection: it is used for nothing else while a COPY is read.
        direct: whether messages may be read from its socket.
    """

    def __init__(self, connection: "Connection[Any]", direct: bool = True) -> None:
        self.connection = connection
        encrypted = connection.pgconn.ssl_in_use or connection.pgconn.used_gssapi
        self._direct = direct and not encrypted
        self._memory = memoryview(bytearray())

    def close(self) -> None:
        self.connection.close()

    def messages(self, statement: bytes) -> Generator[memoryview, None, None]:
        """What a `COPY ... TO STDOUT` gives, one message after the other; each is valid until the next one is asked
        for. Where they are not read to the end, the connection is of no more use.

        Raises:
            psycopg.Error: the server refuses, or is gone.
        """
        if self._direct:
            with socket.socket(fileno=os.dup(self.connection.fileno())) as server:
                server.settimeout(_SECONDS)  # which leaves it as libpq wants it: it does not block
                yield from self._from_socket(server, statement)
        else:
            with self.connection.cursor() as cursor, cursor.copy(statement) as stream:
                for message in stream:
                    yield memoryview(message)

    def _from_socket(self, server: socket.socket, statement: bytes) -> Generator[memoryview, None, None]:
        try:
            server.sendall(_HEAD.pack(b"Q", 4 + len(statement) + 1) + statement + b"\0")
        except OSError as error:
            raise _lost(error) from error
        refused = None
        kind, size = _HEAD.unpack(self._receive(server, _HEAD.size))
        while kind != b"Z":  # the server is ready for another query
            if kind == b"d":
                message = self._receive(server, size - 4 + _HEAD.size)  # with the head of the next
                head = bytes(message[size - 4 :])
                yield message[: size - 4]
            else:
                body = self._receive(server, size - 4)
                if kind == b"E":
                    severity, refused = _refused(bytes(body))
                    if severity != "ERROR":  # the server ends the connection
                        raise refused
                head = self._receive(server, _HEAD.size)
            kind, size = _HEAD.unpack(head)
        self._receive(server, size - 4)
        if refused is not None:
            raise refused

    def _receive(self, server: socket.socket, count: int) -> memoryview:
        if len(self._memory) < count:
            self._memory = memoryview(bytearray(count))
        filled, wanted = 0, self._memory[:count]
        while filled < count:
            try:
                size = server.recv_into(wanted[filled:])
            except TimeoutError:
                continue
            except OSError as error:
                raise _lost(error) from error
            if not size:
                raise _lost("the server closed the connection")
            filled += size
        return wanted


def _lost(why: Any) -> Exception:
    return require("postgres", "psycopg").OperationalError(str(why))


def _refused(body: bytes) -> tuple[str, Exception]:
    """How severe an error of the server's is, and the driver's exception for it."""
    psycopg = require("postgres", "psycopg")
    parts = {part[:1]: part[1:].decode(errors="replace") for part in body.split(b"\0") if part}
    try:
        kind = psycopg.errors.lookup(parts[b"C"])
    except KeyError:
        kind = psycopg.DatabaseError
    return parts.get(b"V", ""), kind(parts.get(b"M", "an error without a message"))
