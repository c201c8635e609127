"""The directory of the embedded server: where it is, who owns it, and that nobody else can enter it."""

import contextlib
import os
import pwd
import stat
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...core.base.directories import data_directory
from ...core.base.errors import ConfigError

PORT = 5432
"""In the name of the socket; nothing listens on the network."""

_LONGEST = 100  # bytes of a socket's path: the system has 103 to 107
_ACCOUNTS = ("postgres", "pgserver", "nobody")  # for root


def home_directory(home: str | Path | None = None, environ: Mapping[str, str] = os.environ) -> Path:
    """The directory of the server: the one given, `$BRIMFUL_POSTGRES_DIR`, or `postgres` in `data_directory`."""
    if given := home or environ.get("BRIMFUL_POSTGRES_DIR"):
        return Path(given).expanduser().absolute()
    return data_directory(environ) / "postgres"


@dataclass(frozen=True, slots=True)
class Account:
    """Who runs the server; `name` is None for the user of this process."""

    uid: int
    gid: int
    name: str | None = None

    @property
    def as_it(self) -> dict[str, Any]:
        """For `subprocess`: to run under the account."""
        return {} if self.name is None else {"user": self.uid, "group": self.gid, "extra_groups": []}


def prepare(directory: Path, programs: Path) -> Account:
    """Makes the directory, private to the account that runs the server, or checks that it is."""
    try:
        if not directory.exists():
            directory.parent.mkdir(parents=True, exist_ok=True)
            account = account_of(None)
            directory.mkdir(mode=0o700, exist_ok=True)
            if account.name is not None:
                os.chown(directory, account.uid, account.gid)
        account = account_of(directory.stat().st_uid)
        _check_private(directory, account)
        if account.name is not None:
            for folder in (directory, programs):
                _check_reachable(folder, account)
    except OSError as error:
        raise ConfigError(
            f"the directory of the embedded server, {directory}, cannot be used: {error}. Set BRIMFUL_POSTGRES_DIR to "
            "one that can, or give the url of a server"
        ) from error
    return account


def account_of(owner: int | None) -> Account:
    """Who runs the server: this user; for root, the owner of the directory, or the first account there is for it."""
    own = os.geteuid()
    if own != 0:
        if owner not in (None, own):
            raise ConfigError(
                f"the embedded server's directory belongs to user {owner}, and this is user {own}: a server is one "
                "user's, and root and others cannot take turns. Set BRIMFUL_POSTGRES_DIR to another directory"
            )
        return Account(own, os.getegid())
    if owner:
        entry = pwd.getpwuid(owner)
        return Account(entry.pw_uid, entry.pw_gid, entry.pw_name)
    for name in _ACCOUNTS:
        with contextlib.suppress(KeyError):
            entry = pwd.getpwnam(name)
            return Account(entry.pw_uid, entry.pw_gid, entry.pw_name)
    raise ConfigError(
        f"PostgreSQL does not run as root, and there is no account {', '.join(_ACCOUNTS)} to run it under. Add one, "
        "run as another user, or give the url of a server"
    )


def _check_private(directory: Path, account: Account) -> None:
    """The server trusts whoever reaches its socket: nobody else may enter the directory."""
    status = directory.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != account.uid or status.st_mode & 0o077:
        raise ConfigError(
            f"{directory} has mode {stat.S_IMODE(status.st_mode):o} and owner {status.st_uid}; others could reach the "
            f"embedded server in it. It must be a directory of user {account.uid} with mode 700: chmod 700 {directory}"
            ", or set BRIMFUL_POSTGRES_DIR to a new one"
        )


def _check_reachable(path: Path, account: Account) -> None:
    for folder in path.parents:
        status = folder.stat()
        bit = 0o100 if status.st_uid == account.uid else 0o010 if status.st_gid == account.gid else 0o001
        if not status.st_mode & bit:
            raise ConfigError(
                f"the embedded server runs under the account {account.name!r}, which may not enter {folder} (mode "
                f"{stat.S_IMODE(status.st_mode):o}) on the way to {path}. Set BRIMFUL_POSTGRES_DIR to a directory that "
                "it can reach, install brimful where others may read it, run as another user, or give the url of a "
                "server"
            )


def socket_directory(directory: Path, account: Account) -> Path:
    """Where the socket lies: in the server's directory; where its path is too long for that, in a private one."""
    if len(os.fsencode(directory / f".s.PGSQL.{PORT}")) <= _LONGEST:
        return directory
    inode = directory.stat().st_ino
    short = Path(tempfile.gettempdir()) / f"brimful-{account.uid}-{inode:x}"
    with contextlib.suppress(FileExistsError):
        short.mkdir(mode=0o700)
        os.chown(short, account.uid, account.gid)
    _check_private(short, account)
    return short
