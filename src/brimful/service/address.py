"""Where the local server is: it writes its address into the folder of its state, and clients there read it."""

import contextlib
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

from ..core.base.directories import data_directory
from ..core.base.field_types import fits
from ..core.runs.files import write_atomic

NAME = "server.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """A running server: its URL, and its process, by number and start (seconds since 1970), as numbers are reused."""

    url: str
    pid: int
    started: float


def state_directory(given: Path | None = None, environ: Mapping[str, str] = os.environ) -> Path:
    """The folder of a server's jobs and uploads: the one given, `$BRIMFUL_STATE_DIR`, or `service` in the user's data
    directory."""
    if chosen := given or environ.get("BRIMFUL_STATE_DIR"):
        return Path(chosen).expanduser().absolute()
    return data_directory(environ) / "service"


def publish(state: Path, url: str) -> None:
    """This process serves that state at the URL, until it ends or `withdraw` is called."""
    address = Address(url=url, pid=os.getpid(), started=psutil.Process().create_time())
    write_atomic(state / NAME, json.dumps(asdict(address)).encode())


def withdraw(state: Path) -> None:
    """This process serves no more; the address of another one stays."""
    if (address := _read(state)) and address.pid == os.getpid():
        (state / NAME).unlink(missing_ok=True)


def published(state: Path) -> Address | None:
    """The server of that state; None where none runs."""
    address = _read(state)
    if address is None:
        return None
    with contextlib.suppress(psutil.Error):
        if abs(psutil.Process(address.pid).create_time() - address.started) < 1.0:
            return address
    return None


def _read(state: Path) -> Address | None:
    try:
        values = json.loads((state / NAME).read_bytes())
        return Address(**values) if isinstance(values, dict) and fits(Address, values) else None
    except (OSError, ValueError, TypeError):
        return None
