"""Worker processes for the tests, forked from one server that has imported torch and brimful already.

A worker of `LocalWorkers` is a new interpreter, which takes seconds to import what it needs. In the tests the server
pays for that once, and every worker is a process of its own as before: it may be killed, hang or fail.
"""

import multiprocessing
import os
import subprocess
import sys
from multiprocessing.connection import Connection

from brimful.engine.distributed.workers import run_worker

_PRELOADED = [
    "brimful.engine.train.launcher",
    "brimful.gpcm",
    "brimful.wpo",
    "torch.fx.experimental.symbolic_shapes",  # autograd imports it in the first custom function
    "torch._dynamo",  # and an optimizer this
    "tests.helpers.worker_processes",
]
_forkserver = multiprocessing.get_context("forkserver")


class ForkedProcess:
    """What `LocalWorkers` needs of `subprocess.Popen`."""

    def __init__(self, messages: Connection, control: Connection, threads: int) -> None:
        _forkserver.set_forkserver_preload(_PRELOADED)
        environment = dict(os.environ) | {"OMP_NUM_THREADS": str(threads)}
        arguments = messages, control, environment, list(sys.path)
        self._process = _forkserver.Process(target=_run, args=arguments)
        self._process.start()

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        if self._process.exitcode is None:
            raise subprocess.TimeoutExpired("worker", timeout or 0.0)
        return self._process.exitcode

    def kill(self) -> None:
        self._process.kill()


def _run(messages: Connection, control: Connection, environment: dict[str, str], path: list[str]) -> None:
    os.setsid()
    os.environ.clear()
    os.environ.update(environment)
    first = messages.recv_bytes()
    sys.path[:] = path
    run_worker(messages, control, first)
