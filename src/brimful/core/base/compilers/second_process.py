"""Loops compiled in a second process while this one compiles others: in one process numba compiles one at a time.

The second process leaves them in the cache on disk, from where this one reads them. Whatever happens to it (it cannot
be started, cannot write, is killed), they are then compiled here. It ends by itself when this process does.
"""

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from ..background import cores
from .activity import compiling

_PATIENCE = 60.0  # seconds to wait for it once there is nothing else to compile, or twice those that took, if more

_PROGRAM = """
import importlib, os, sys, threading, types
root, module, function, *sys.path = sys.argv[1:]
threading.Thread(target=lambda: (sys.stdin.read(), os._exit(1)), daemon=True).start()
names = module.split(".")
for count in range(1, len(names)):
    package = types.ModuleType(".".join(names[:count]))
    package.__path__ = [os.path.join(root, *names[:count])]
    sys.modules[package.__name__] = package
getattr(importlib.import_module(module), function)()
os._exit(0)
"""
"""Imports a module without what the packages it lies in import by themselves: torch takes longer than many loops. Ends
when its input does, which the first process holds open."""


@contextlib.contextmanager
def second_process(module: str, function: str) -> Iterator[Callable[[], None]]:
    """Calls a function that compiles loops in a second process, where there is a core for it, while the block runs.

    Args:
        module, function: their names. The module is imported here already; the packages it lies in are not
            initialized there.

    Yields:
        What waits for the end of it, however it ends.
    """
    process, begun = _start(module, function) if cores() > 1 else None, time.monotonic()

    def wait() -> None:
        if process is not None:
            with compiling(), contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(max(_PATIENCE, 2 * (time.monotonic() - begun)))

    try:
        yield wait
    finally:
        if process is not None:
            process.kill()  # nothing, where it has ended
            process.communicate()


def _start(module: str, function: str) -> subprocess.Popen[bytes] | None:
    root = Path(str(sys.modules[module].__file__)).resolve().parents[module.count(".")]
    places = [place for place in sys.path if isinstance(place, str)]
    with contextlib.suppress(OSError, TypeError, ValueError):  # no interpreter, no process to be had
        return subprocess.Popen(
            [sys.executable, "-c", _PROGRAM, os.fspath(root), module, function, *places],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
    return None
