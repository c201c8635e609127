"""Connections to a server: the embedded one or that of a URL; errors in sentences, and retries that end."""

import contextlib
import os
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from ...core.base.errors import BrimfulError, ConfigError, StorageError
from ...core.base.extras import require
from .server import server_url, url_in_use
from .server_directory import home_directory

if TYPE_CHECKING:
    import psycopg

T = TypeVar("T")

RETRIES = (0.1, 0.2, 0.5, 1.0, 2.0, 4.0)
"""Seconds to wait before each further attempt; after the last one the error is raised."""

_LOST = ("57P01", "57P02", "57P03", "53300")  # stopped, crashed, starting, too many connections for now
_SETTINGS = {"application_name": "brimful", "connect_timeout": 10, "keepalives_idle": 30, "tcp_user_timeout": 60_000}


@dataclass(frozen=True, slots=True)
class Database:
    """Which server: a small value that can be sent to another process, which then opens connections of its own.

    Attributes:
        url: of a server; None for the embedded one.
        home: the directory of the embedded one.
    """

    url: str | None = None
    home: str | None = None

    @classmethod
    def at(cls, url: Any = None, home: Any = None) -> "Database":
        """The database of a URL, of `$BRIMFUL_DATABASE_URL` where neither is given, or the embedded one."""
        if url is None and home is None:
            url = os.environ.get("BRIMFUL_DATABASE_URL")
        if url is None:
            return cls(home=str(home_directory(home)))
        if not isinstance(url, str) or urlsplit(url).scheme not in ("postgresql", "postgres"):
            raise ConfigError(f"url is {_masked(str(url))!r}; give postgresql://user:password@host:port/database")
        if home is not None:
            raise ConfigError("url and home are both given; home is the directory of the embedded server, give one")
        return cls(url=url)

    def __str__(self) -> str:
        return f"the embedded server in {self.home}" if self.url is None else _masked(self.url)

    def __repr__(self) -> str:
        return f"Database({_masked(self.url)!r})" if self.url else f"Database(home={self.home!r})"

    def uri(self) -> str:
        """The URL; the embedded server is started where it does not run."""
        return server_url(self.home) if self.url is None else self.url

    def open(self) -> "psycopg.Connection[Any]":
        """A connection in autocommit mode, at the first attempt or not at all."""
        psycopg = require("postgres", "psycopg")
        if self.url is not None:
            return psycopg.connect(self.url, autocommit=True, **_SETTINGS)
        with contextlib.suppress(psycopg.OperationalError):
            if url := url_in_use(self.home):
                return psycopg.connect(url, autocommit=True, **_SETTINGS)
        return psycopg.connect(server_url(self.home), autocommit=True, **_SETTINGS)

    def connect(self) -> "psycopg.Connection[Any]":
        """A connection; attempts are repeated where the server is only stopping or starting."""
        return self.retrying(self.open)

    @contextlib.contextmanager
    def session(self) -> Iterator["psycopg.Connection[Any]"]:
        """A connection for a block; what the server raises in it comes out as an error of ours."""
        psycopg = require("postgres", "psycopg")
        connection = self.connect()
        try:
            yield connection
        except psycopg.Error as error:
            raise self.error(error) from error
        finally:
            connection.close()

    def retrying(self, call: Callable[[], T]) -> T:
        """What a function returns, called again a few times where the connection or the server goes away."""
        psycopg = require("postgres", "psycopg")
        for pause in (*RETRIES, None):
            try:
                return call()
            except psycopg.Error as error:
                if pause is None or not is_lost(error):
                    raise self.error(error) from error
                time.sleep(pause)
        raise AssertionError("the last attempt returns or raises")

    def error(self, error: "psycopg.Error") -> BrimfulError:
        """An error of the server's, in a sentence that says what to do."""
        text = str(error).strip() or type(error).__name__
        if re.search("authentication failed|no password supplied", text):
            return ConfigError(f"{self} refuses the login: {text}. Check user and password in the url")
        if match := re.search(r'(database|role) "([^"]+)" does not exist', text):
            return ConfigError(f"{self} has no {match[1]} {match[2]!r}; create it, or name another in the url")
        if error.sqlstate == "42501":
            return ConfigError(f"{self} does not allow it: {text}. Grant the right, or log in as another user")
        if error.sqlstate == "53100":
            return StorageError(f"the disk of {self} is full: {text}. Free some space and run the same command again")
        if is_lost(error):
            return StorageError(
                f"{self} cannot be reached, after {len(RETRIES) + 1} attempts: {text}. Check that it runs, and its "
                "host and port"
            )
        return StorageError(f"{self} answers: {text}")


def is_lost(error: "psycopg.Error") -> bool:
    """Whether it is the connection that failed, and another one may do better; a refused login will not."""
    psycopg = require("postgres", "psycopg")
    if not isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
        return False
    if re.search("authentication|password|does not exist|pg_hba", str(error)):
        return False
    return error.sqlstate is None or error.sqlstate in _LOST or error.sqlstate.startswith("08")


def _masked(url: str) -> str:
    """A URL without its password."""
    hidden = re.sub(r"(//[^:/@]*):[^@]*@", r"\1:***@", url)
    return re.sub(r"(password=)[^&]*", r"\1***", hidden)
