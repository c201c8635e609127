"""One server at a time on a database: a lock that the database frees when the server's connection ends."""

import contextlib
import os
import socket
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from ...core.base.errors import BrimfulError
from ...core.base.extras import require
from ..errors import Conflict
from .pool import SCHEMA, Pool, wait_until

if TYPE_CHECKING:
    from .pool import Connection

_KEY = 0x73657276  # "serv"
_PATIENCE = 5.0  # seconds for the connection of a server that was just killed to end
_EVERY = 1.0


class ServerLock:
    """Held for as long as the server runs. Where the database restarts it is taken again; where another server was
    faster, `lost` is called."""

    def __init__(self, pool: Pool, lost: Callable[[str], None]) -> None:
        self._pool, self._lost = pool, lost
        self._connection: Connection | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="brimful-server-lock", daemon=True)

    def take(self) -> None:
        """Raises:
        Conflict: another server has it.
        """
        if not wait_until(self._try, _PATIENCE):
            raise Conflict(
                f"another server uses this database: {self._owner()}. One server runs a database's jobs: stop that "
                "one, or give this one another database with --database"
            )
        self._thread.start()

    def release(self) -> None:
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()
        if self._connection is not None:
            with contextlib.suppress(Exception):
                self._connection.close()

    def _try(self) -> bool:
        connection = self._pool.open()
        name = f"brimful serve, process {os.getpid()} on {socket.gethostname()}"[:63]
        connection.execute("SELECT set_config('application_name', %s, false)", (name,))
        row = connection.execute("SELECT pg_try_advisory_lock(%s, hashtext(%s))", (_KEY, SCHEMA)).fetchone()
        if row and row[0]:
            self._connection = connection
            return True
        connection.close()
        return False

    def _owner(self) -> str:
        with self._pool.session() as connection:
            row = connection.execute(
                "SELECT a.application_name FROM pg_locks l JOIN pg_stat_activity a USING (pid) "
                "WHERE l.locktype = 'advisory' AND l.classid = %s AND l.granted AND l.database = "
                "(SELECT oid FROM pg_database WHERE datname = current_database())",
                (_KEY,),
            ).fetchone()
        return row[0] if row else "it ended a moment ago; start again"

    def _watch(self) -> None:
        psycopg = require("postgres", "psycopg")
        while not self._stop.wait(_EVERY):
            try:
                if self._connection is None:
                    if not self._try():
                        self._lost(f"another server has taken over this database: {self._owner()}")
                        return
                else:
                    self._connection.execute("SELECT 1")
            except (psycopg.Error, BrimfulError, OSError):  # it is away; every connection to it has ended
                if self._connection is not None:
                    with contextlib.suppress(Exception):
                        self._connection.close()
                self._connection = None
