"""A job's process ends with the server: it neither outlives it nor runs beside another of the same job."""

import contextlib
import ctypes
import os
import signal
import sys
import threading
import time
from pathlib import Path

from ...core.base.errors import LockedError
from ...core.runs import lock

PARENT = "BRIMFUL_JOB_PARENT"
"""The environment variable with the pid of the server; without it the process stands alone."""

_PR_SET_PDEATHSIG = 1
_EVERY = 0.5  # seconds between two looks at the parent, where the system sends no signal


def end_with_parent() -> None:
    """Asks the system to kill this process when the parent ends, and looks itself as well: the signal is sent when the
    thread that started this process ends, and there is none but on Linux."""
    wanted = os.environ.get(PARENT)
    if wanted is None:
        return
    end_with_parent_signal()
    _check(int(wanted))  # it may have ended before
    threading.Thread(target=_look, args=(int(wanted),), name="brimful-parent", daemon=True).start()


def end_with_parent_signal() -> None:
    """The system kills this process when the thread that started it ends; on Linux."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _look(parent: int) -> None:
    while True:
        _check(parent)
        time.sleep(_EVERY)


def _check(parent: int) -> None:
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)


def wait_for_lock(folder: Path, cancel: threading.Event) -> int | None:
    """Takes the lock of a job's directory once another process of the job has gone; None where it is cancelled."""
    while not cancel.is_set():
        with contextlib.suppress(LockedError):
            return lock.take(folder)
        cancel.wait(0.05)
    return None
