"""Worker processes that are forked from one that has imported everything, so that a test pays for no imports.

`LocalWorkers` starts each worker by `subprocess.Popen`. Under `ForkServer.patch` it gets a `ForkedProcess` instead: a
process all the same, with its own pid and session, which can be killed and whose exit code is noticed.
"""

import contextlib
import os
import pickle
import signal
import socket
import subprocess
import sys
import time
import traceback
from collections.abc import Iterator
from typing import Any, Self
from unittest.mock import patch

import pytest  # noqa: F401  (imported here, and so not by each worker)
import torch

import brimful
from brimful.engine.distributed import workers

from .paths import command, environment

_LARGEST = 1 << 20  # bytes of a request


class ForkServer:
    """In the test: the server process. `pids` lists the processes that were forked."""

    def __init__(self) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        arguments = [*command(__name__), str(theirs.fileno())]
        self._process = subprocess.Popen(arguments, pass_fds=[theirs.fileno()], env=environment(OMP_NUM_THREADS="1"))
        theirs.close()
        self.pids: list[int] = []

    def ask(self, request: tuple[Any, ...], fds: tuple[int, ...] = ()) -> Any:
        socket.send_fds(self._socket, [pickle.dumps(request)], fds)
        return pickle.loads(self._socket.recv(_LARGEST))

    @contextlib.contextmanager
    def patch(self) -> Iterator[Self]:
        """Workers that are started meanwhile are forked."""
        self.pids.clear()

        def start(arguments: list[str], **options: Any) -> "ForkedProcess":
            return ForkedProcess(self, arguments[-1], tuple(options["pass_fds"]), options["env"])

        with patch.object(workers.subprocess, "Popen", start):
            yield self

    def running(self) -> list[int]:
        """The pids of the workers that are alive."""
        return [pid for pid in self.pids if self.ask(("wait", pid, 0.0)) is None]

    def close(self) -> None:
        self._socket.close()
        self._process.wait(20)


class ForkedProcess:
    """As much of `subprocess.Popen` as the supervisor uses."""

    def __init__(self, server: ForkServer, code: str, fds: tuple[int, ...], env: dict[str, str]) -> None:
        self._server = server
        self.pid: int = server.ask(("fork", code, fds, env), fds)
        server.pids.append(self.pid)

    def wait(self, timeout: float | None = None) -> int:
        code = self._server.ask(("wait", self.pid, timeout))
        if code is None:
            raise subprocess.TimeoutExpired("worker", timeout or 0.0)
        return code

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)


def _serve(connection: socket.socket) -> None:
    """In the server: forks a process for each request, and waits for those it forked."""
    codes: dict[int, int] = {}
    while True:
        content, received, _, _ = socket.recv_fds(connection, _LARGEST, 8)
        if not content:
            return
        match pickle.loads(content):
            case "fork", code, fds, env:
                if (answer := os.fork()) == 0:
                    connection.close()
                    _run(code, received, fds, env)
                for fd in received:
                    os.close(fd)
            case "wait", pid, timeout:
                answer = _wait(codes, pid, timeout)
        connection.send(pickle.dumps(answer))


def _run(code: str, received: list[int], fds: tuple[int, ...], env: dict[str, str]) -> None:
    """In a forked process: does what `python -c code` would, with the files under the numbers that the code names."""
    os.setsid()
    spare = [os.dup2(fd, 900 + place) for place, fd in enumerate(received)]
    for fd, number in zip(spare, fds, strict=True):
        os.dup2(fd, number)
        os.close(fd)
    os.environ.update(env)
    ended = 0
    try:
        exec(code, {"__name__": "__main__"})
    except BaseException:
        traceback.print_exc()
        ended = 1
    os._exit(ended)


def _wait(codes: dict[int, int], pid: int, timeout: float | None) -> int | None:
    """The exit code of a process; None where it runs for longer."""
    until = time.monotonic() + (timeout if timeout is not None else 60.0)
    while pid not in codes:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            codes[pid] = os.waitstatus_to_exitcode(status)
        elif time.monotonic() >= until:
            return None
        else:
            time.sleep(0.005)
    return codes[pid]


if __name__ == "__main__":
    assert brimful
    torch.set_num_threads(1)  # threads do not outlive a fork
    _serve(socket.socket(fileno=int(sys.argv[1])))
