"""The options of the server, declared once."""

import contextlib
import os
import threading
from dataclasses import dataclass
from pathlib import Path

from ..core.base.errors import BrimfulError
from ..core.declare.config import option
from ..data.database.connection import Database
from .address import state_directory


@dataclass(frozen=True, kw_only=True)
class ServeOptions:
    """The options of `brimful serve`."""

    host: str = option("127.0.0.1", help="address to listen on; any but a loopback one requires a token")
    port: int = option(8000, help="port to listen on; 0 takes a free one", ge=0, le=65535)
    state: Path | None = option(
        None, help="folder of jobs and uploads; by default $BRIMFUL_STATE_DIR or the user's data directory"
    )
    database: str | None = option(
        None,
        help="postgresql://user:password@host:port/database; by default $BRIMFUL_DATABASE_URL, or an embedded server",
    )
    require_token: bool = option(False, help="require a token on a loopback address too")
    new_token: bool = option(False, help="make a token that can read and write, and show it, once")
    budget: str | None = option(
        None, help='memory of each device that jobs share: "80GB", "90%"; by default 90% of what is free'
    )
    cores: int | None = option(None, help="CPU cores that jobs share; by default all of this process", ge=1)
    grace: float = option(20.0, help="seconds that running jobs get to checkpoint when the server stops", ge=0)
    upload_limit: str = option("10GB", help="largest file that can be uploaded")
    webhook_private: bool = option(False, help="allow webhooks to private and loopback addresses")
    log_json: bool = option(False, help="log lines as JSON objects")
    retain_days: float | None = option(None, help="days after which ended jobs are removed; by default never", gt=0)


def database_of(options: ServeOptions, state: Path) -> Database:
    """That of the URL, or the embedded one: in the folder of the state where one was named, else the user's own."""
    if options.database is not None or os.environ.get("BRIMFUL_DATABASE_URL"):
        return Database.at(options.database)
    if options.state is not None or os.environ.get("BRIMFUL_STATE_DIR"):
        return Database.at(home=state / "postgres")
    return Database.at()


def start_database(options: ServeOptions) -> None:
    """Begins to start an embedded server, in a thread, while what takes as long to import is imported. Whoever opens it
    then waits for that; what goes wrong goes wrong there once more, and is reported."""

    def start() -> None:
        with contextlib.suppress(BrimfulError, OSError):
            database.uri()

    database = database_of(options, state_directory(options.state))
    if database.url is None:
        threading.Thread(target=start, name="brimful-database", daemon=True).start()
