"""Work in processes of its own, for tests that stop it.

A module that calls `serve` is run once, and forks a process for each order that it reads, a line of JSON: importing is
paid for once. The process's pid is printed first, then what the work had to say, then `ended`.
"""

import contextlib
import importlib
import json
import os
import signal
import sys
import time
from collections.abc import Callable
from typing import Any

import torch

from . import forking


def wait_for(condition: Callable[[], object], seconds: float = 100.0, pause: float = 0.005) -> None:
    """Waits until something is so, looking again after every pause."""
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, f"it did not come to be within {seconds} seconds"
        time.sleep(pause)


def serve(work: Callable[[dict[str, Any]], str | None], *libraries: str) -> None:
    """In the script: does what is ordered. The work returns what it has to say; an exception says its name and text.

    Args:
        libraries: modules that the work imports when it needs them, and that are imported here instead.
    """
    torch.set_num_threads(1)  # threads do not outlive a fork
    for name in ("pandas", *libraries):
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    for line in sys.stdin:
        sys.stdout.flush()
        child = os.fork()
        if child == 0:
            print(os.getpid(), flush=True)
            try:
                said = work(json.loads(line))
            except BaseException as error:
                said = f"{type(error).__name__}: {error}"
            if said is not None:
                print(json.dumps(said), flush=True)
            os._exit(0)
        os.waitpid(child, 0)
        print("ended", flush=True)


class Orders:
    """In the test: the process of such a script."""

    def __init__(self, module: str, *arguments: str) -> None:
        (theirs_in, to), (received, theirs_out) = os.pipe(), os.pipe()
        program = forking.run_module, module, *arguments
        self._process = forking.imported().start(*program, stdin=theirs_in, stdout=theirs_out)
        os.close(theirs_in)
        os.close(theirs_out)
        self._to, self._from = os.fdopen(to, "w"), os.fdopen(received)

    def __enter__(self) -> "Orders":
        return self

    def __exit__(self, *error: object) -> None:
        self._to.close()
        self._from.close()
        self._process.wait(20)

    def start(self, **order: Any) -> int:
        """Orders work; the pid of its process."""
        self._to.write(json.dumps(order) + "\n")
        self._to.flush()
        return int(self.say())

    def say(self) -> str:
        """The next line."""
        line = self._from.readline().strip()
        assert line, "the script ended"
        return json.loads(line) if line.startswith('"') else line

    def stop(self, pid: int, how: signal.Signals = signal.SIGKILL) -> str:
        """Stops a process; what it said at last, or "killed" where it said nothing."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, how)
        said = self.say()
        if said == "ended":
            return "killed"
        assert self.say() == "ended"
        return said

    def kill(self, order: dict[str, Any], delay: float, when: Callable[[], object] | None = None) -> str:
        """Orders work and kills it, so many seconds after it has begun, or after something is so; as `stop`."""
        pid = self.start(**order)
        if when is not None:
            wait_for(when)
        time.sleep(delay)
        return self.stop(pid)
