"""The server of this machine: the one that runs, or one that is started and runs on by itself."""

import contextlib
import fcntl
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx

from ..address import Address, published, state_directory
from ..errors import Unavailable

PATIENCE = 60.0
"""Seconds for a server to start, with a database that recovers from a crash."""

LOG = "server.log"
_INTERVAL = 0.05


def ensure(state: Path | None = None, say: Callable[[str], None] = lambda line: None) -> str:
    """The URL of the server of a state; where none runs, one is started, which a line says.

    Raises:
        Unavailable: it does not start; the message has the end of its log.
    """
    folder = state_directory(state)
    folder.mkdir(parents=True, exist_ok=True)
    if (address := published(folder)) is not None:
        return address.url
    with _one_at_a_time(folder):
        if (address := published(folder)) is not None:
            return address.url
        address = _start(folder, [] if state is None else ["--state", str(folder)])
    say(
        f"started a server on this machine at {address.url} (process {address.pid}, log {folder / LOG}); it runs on "
        f"until it is stopped: kill {address.pid}"
    )
    return address.url


def _start(folder: Path, options: list[str]) -> Address:
    command = [sys.executable, "-m", "brimful", "serve", "--port", "0", "--log-json", *options]
    with (folder / LOG).open("ab") as log:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, close_fds=True
        )
    ends = time.monotonic() + PATIENCE
    while time.monotonic() < ends:
        if process.poll() is not None:
            raise Unavailable(f"the server ended with code {process.returncode} as it started: {_end_of(folder / LOG)}")
        if (address := published(folder)) is not None and _is_ready(address.url):
            process.returncode = 0  # it runs on: nobody waits for it here
            return address
        time.sleep(_INTERVAL)
    process.terminate()
    process.wait()
    raise Unavailable(f"the server is not ready after {PATIENCE:.0f} s: {_end_of(folder / LOG)}")


def _is_ready(url: str) -> bool:
    try:
        return httpx.get(f"{url}/readyz", timeout=5.0, trust_env=False).is_success
    except httpx.TransportError:
        return False


def _end_of(log: Path) -> str:
    with contextlib.suppress(OSError):
        return f"{log} ends with\n{log.read_text(errors='replace')[-2000:]}"
    return f"see {log}"


@contextlib.contextmanager
def _one_at_a_time(folder: Path) -> Iterator[None]:
    """Of several commands that find no server, one starts it."""
    handle = os.open(folder / "start.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
