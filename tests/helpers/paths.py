"""Where things are, and how a module of the tests is run as a script."""

import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def command(module: str) -> list[str]:
    """Runs a module of the tests, such as `tests.engine.map.map_runner`, in a process of its own."""
    return [sys.executable, "-m", module]


def environment(**more: str) -> dict[str, str]:
    """The environment for such a process: it finds the tests as this one does."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path]), **more}
