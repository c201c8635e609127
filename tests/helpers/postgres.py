"""The embedded server of a test run: one for all its processes, in a directory with a short path."""

import contextlib
import os
import shutil
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from brimful.data.database import server


def shared_home() -> Path:
    return Path("/tmp") / f"bf-{os.environ.get('PYTEST_XDIST_TESTRUNUID', str(os.getpid()))[:12]}"


def clean_up(home: Path) -> None:
    """Stops a server where no other process uses it, and removes what it leaves."""
    if server.url_in_use(home) and "PYTEST_XDIST_WORKER" not in os.environ:
        server._stop(home, "immediate")  # what it holds is not wanted
    server.stop(home)
    if not (home / "data" / "postmaster.pid").exists():
        shutil.rmtree(home, ignore_errors=True)


@dataclass(frozen=True)
class NewDatabase:
    """A database of its own on the tests' server.

    Attributes:
        server: the URL of another database there.
    """

    name: str
    server: str

    @property
    def url(self) -> str:
        return self.server.replace("/postgres?", f"/{self.name}?")

    def copy(self) -> contextlib.AbstractContextManager["NewDatabase"]:
        """Another one with the same content. Nobody may be connected to this one."""
        return new_database(self.server, f"TEMPLATE {self.name}")


@contextlib.contextmanager
def new_database(server: str, how: str = "") -> Iterator[NewDatabase]:
    """A database that is removed afterwards."""
    import psycopg

    name = f"t{uuid.uuid4().hex[:12]}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} {how}".encode())
        yield NewDatabase(name, server)
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())
