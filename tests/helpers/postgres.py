"""The embedded server of a test run: one for all its processes, in a directory with a short path."""

import os
import shutil
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
