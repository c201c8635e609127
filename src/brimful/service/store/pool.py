"""Connections to the database, shared by threads. A lost one is replaced; what the server raises comes out as ours."""

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

from ...core.base.errors import BrimfulError, ConfigError
from ...core.base.extras import require
from ...data.database.connection import Database, is_lost
from ..errors import Unavailable

if TYPE_CHECKING:
    import psycopg

    Connection = psycopg.Connection[tuple[Any, ...]]

T = TypeVar("T")

SCHEMA = "brimful_service"
_MOST = 12
_PATIENCE = 10.0  # seconds to wait for a connection that another thread has
_PAUSES = (0.05, 0.2, 0.5, 1.0)  # seconds between attempts, where the server may only be restarting
_FOREVER = 0.5


class Pool:
    """Connections in autocommit mode that see the service's schema.

    Attributes:
        lost: how many times the database was away.
    """

    def __init__(self, database: Database) -> None:
        self.database = database
        self.lost = 0
        self._free: list[Connection] = []
        self._lock = threading.Lock()
        self._places = threading.BoundedSemaphore(_MOST)
        self._closed = threading.Event()
        self._starting = threading.Lock()

    def open(self) -> "Connection":
        """A connection outside the pool."""
        with self._starting:  # the embedded server is started by one thread
            connection = self.database.open()
        connection.execute(f"SET search_path TO {SCHEMA}, public".encode())
        return connection

    @contextlib.contextmanager
    def session(self) -> Iterator["Connection"]:
        """A connection for a block; one that was lost in it is not used again."""
        psycopg = require("postgres", "psycopg")
        if not self._places.acquire(timeout=_PATIENCE):
            raise Unavailable(f"all {_MOST} connections to the database are busy; try again later")
        connection = None
        try:
            connection = self._take() or self.open()
            yield connection
            self._give_back(connection)
            connection = None
        except psycopg.Error as error:
            raise self._error(error) from error
        except (ConfigError, OSError) as error:
            raise Unavailable(str(error)) from error
        finally:
            if connection is not None:
                self._end(connection)
            self._places.release()

    def fill(self, count: int) -> None:
        """Opens so many connections, for those who first ask several things at once."""
        with contextlib.ExitStack() as sessions:
            for _ in range(count):
                sessions.enter_context(self.session())

    def call(self, function: "Callable[[Connection], T]") -> T:
        """What a function of a connection gives, in one transaction; repeated where the server is only restarting."""
        for pause in (*_PAUSES, None):
            try:
                with self.session() as connection, connection.transaction():
                    return function(connection)
            except Unavailable:
                if pause is None or self._closed.wait(pause):
                    raise
        raise AssertionError("the last attempt returns or raises")

    def call_always(self, function: "Callable[[Connection], T]") -> T:
        """As `call`, for as long as it takes; for work that must be recorded. It ends when the pool is closed."""
        while True:
            try:
                return self.call(function)
            except Unavailable:
                if self._closed.wait(_FOREVER):
                    raise

    def close(self) -> None:
        self._closed.set()
        with self._lock:
            free, self._free = self._free, []
        for connection in free:
            self._end(connection)

    def _take(self) -> "Connection | None":
        with self._lock:
            while self._free:
                connection = self._free.pop()
                if not connection.closed and not connection.broken:
                    return connection
        return None

    def _give_back(self, connection: "Connection") -> None:
        with self._lock:
            if not self._closed.is_set() and not connection.closed:
                self._free.append(connection)
                return
        self._end(connection)

    def _end(self, connection: "Connection") -> None:
        with contextlib.suppress(Exception):
            if connection.info.transaction_status.value or self._closed.is_set():  # not idle
                connection.close()
            else:
                self._give_back(connection)

    def _error(self, error: "psycopg.Error") -> BrimfulError:
        if is_lost(error):
            self.lost += 1
            with self._lock:
                stale, self._free = self._free, []
            for connection in stale:
                with contextlib.suppress(Exception):
                    connection.close()
        if is_lost(error) or error.sqlstate in ("40001", "40P01", "53100"):
            text = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
            return Unavailable(f"the database cannot be used now: {text}. Try again later")
        return self.database.error(error)


def wait_until(condition: Callable[[], bool], seconds: float) -> bool:
    """Whether something came to be within that time."""
    ends = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > ends:
            return False
        time.sleep(0.05)
    return True
