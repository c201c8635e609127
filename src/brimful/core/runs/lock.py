"""The lock of a run directory: one process writes there at a time.

The system frees the lock when the process that took it dies. A child that is forked would hold it too, and for as long
as it lives: it gives its copy up at once.
"""

import contextlib
import fcntl
import json
import os
import socket
import time
from pathlib import Path

from ..base.errors import LockedError

LOCK = "lock"
_ATTEMPTS = 10
_held: set[int] = set()


def _give_up_copies() -> None:
    """In a child: the lock is the parent's alone."""
    while _held:
        with contextlib.suppress(OSError):
            os.close(_held.pop())


os.register_at_fork(after_in_child=_give_up_copies)


def take(folder: Path) -> int:
    """Locks a directory; the handle to `release`.

    Raises:
        LockedError: another process has it.
        OSError: the lock cannot be written.
    """
    handle = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o644)
    _held.add(handle)
    try:
        for _ in range(_ATTEMPTS):
            with contextlib.suppress(BlockingIOError):
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                os.ftruncate(handle, 0)
                owner = {"pid": os.getpid(), "host": socket.gethostname(), "since": time.time()}
                os.write(handle, json.dumps(owner).encode())
                return handle
            time.sleep(0.02)  # `is_locked` holds it for an instant, to see whether it can
        raise LockedError(f"{folder} is being written by {_owner(folder)}, or choose another directory.")
    except BaseException:
        release(handle)
        raise


def release(handle: int) -> None:
    """Frees the directory; in a child of the process that locked it, nothing happens."""
    if handle in _held:
        _held.remove(handle)
        os.close(handle)


def is_locked(folder: Path) -> bool:
    """Whether a process is writing there; nothing is written to find out."""
    try:
        handle = os.open(folder / LOCK, os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    finally:
        os.close(handle)
    return False


def _owner(folder: Path) -> str:
    """Who has the lock, and what to do about it."""
    try:
        owner = json.loads((folder / LOCK).read_text())
        pid, host, since = int(owner["pid"]), str(owner["host"]), float(owner["since"])
        when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(since))
    except (OSError, ValueError, KeyError, TypeError, OverflowError):
        return "another process. Wait for it to end, stop it"
    if host != socket.gethostname() or _is_alive(pid):
        return f"process {pid} on {host} since {when}. Wait for it to end, stop it"
    holders = ", ".join(map(str, _holders(folder / LOCK)))
    return (
        f"a process that process {pid} started: {pid} itself, which took the lock at {when}, has ended, and what it "
        f"started still holds it{f' (process {holders})' if holders else ''}. Wait for that to end, stop it"
    )


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True


def _holders(path: Path) -> list[int]:
    """The processes that have a file open, as far as this one may see them."""
    holders, file = set(), path.stat()
    for opened in Path("/proc").glob("[0-9]*/fd/*"):
        with contextlib.suppress(OSError):
            other = opened.stat()
            if (other.st_dev, other.st_ino) == (file.st_dev, file.st_ino):
                holders.add(int(opened.parts[2]))
    return sorted(holders - {os.getpid()})
