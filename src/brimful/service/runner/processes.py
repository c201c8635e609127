"""The processes of jobs: started, asked to stop, killed with all that they started."""

import contextlib
import json
import os
import queue
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO, Any, Protocol

from ...core.base.errors import WorkerError

_PATIENCE = 120.0  # seconds for the fork server to import torch and answer


class ForkServerProcess(Protocol):
    """The process that forks those of jobs, and what it is reached by.

    Attributes:
        orders: a socket.
        answers: lines that it writes.
    """

    orders: socket.socket
    answers: IO[bytes]

    def kill(self) -> None: ...

    def wait(self) -> int: ...


class _Launched:
    def __init__(self) -> None:
        self.orders, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "brimful.service.child", "fork-server"],
                stdin=theirs.fileno(),
                stdout=subprocess.PIPE,
                start_new_session=True,
            )
        assert self._process.stdout is not None
        self.answers: IO[bytes] = self._process.stdout

    def kill(self) -> None:
        self._process.kill()

    def wait(self) -> int:
        return self._process.wait()


def launch() -> ForkServerProcess:
    """Starts it; see `child.fork_server`."""
    return _Launched()


class Child:
    """The process of one job, in a process group of its own."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.notify: Callable[[], None] | None = None
        self._code: int | None = None

    def poll(self) -> int | None:
        """Its exit code; negative for a signal; None while it runs."""
        return self._code

    def end(self, code: int) -> None:
        """It has ended; who wants to know is notified."""
        self._code = code
        if self.notify is not None:
            self.notify()

    def stop(self) -> None:
        """Asks it to keep what is finished and end. What it started itself is not asked: it ends with it."""
        if self._code is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGTERM)

    def kill(self) -> None:
        """Ends it, and all that it started, at once."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)
        if self._code is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)


class Spawner:
    """Starts the processes of jobs by a fork server, which is started again where it died; its processes then died
    with it.

    All is started from one thread, which lives as long as this object: the system kills a process when the thread that
    started it ends.
    """

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="brimful-spawner")
        self._server: _ForkServer | None = None
        self._thread.submit(self._ready)  # while other things start

    def start(self, folder: Path, environment: Mapping[str, str]) -> Child:
        """Starts the job of a directory.

        Raises:
            WorkerError: it cannot be started.
        """
        order = {"folder": str(folder), "environment": dict(environment)}
        return self._thread.submit(self._start, order).result()

    def connect(self, environment: Mapping[str, str]) -> tuple[Child, socket.socket]:
        """Starts a process that answers calls; see `child.rpc`."""
        ours, theirs = socket.socketpair()
        try:
            with theirs:
                order = {"environment": dict(environment)}
                return self._thread.submit(self._start, order, theirs.fileno()).result(), ours
        except BaseException:
            ours.close()
            raise

    def close(self) -> None:
        """Ends the fork server, and with it every process that is left."""
        self._thread.shutdown()
        if self._server is not None:
            self._server.close()

    def _ready(self) -> "_ForkServer":
        if self._server is None or not self._server.alive:
            if self._server is not None:
                self._server.close()
            self._server = _ForkServer()
        return self._server

    def _start(self, order: dict[str, Any], *connections: int) -> Child:
        for _ in range(2):
            with contextlib.suppress(ConnectionError, EOFError):
                return self._ready().start(order, connections)
        raise WorkerError("the process that starts jobs dies; see the server's log")


class _ForkServer:
    def __init__(self) -> None:
        self._process = launch()
        self._children: dict[int, Child] = {}
        self._answers: queue.Queue[dict[str, Any]] = queue.Queue()
        self.alive = True
        self._reader = threading.Thread(target=self._read, name="brimful-fork-server", daemon=True)
        self._reader.start()

    def start(self, order: dict[str, Any], connections: Sequence[int]) -> Child:
        message = json.dumps(order).encode() + b"\n"
        sent = socket.send_fds(self._process.orders, [message], connections)
        self._process.orders.sendall(message[sent:])
        try:
            answer = self._answers.get(timeout=_PATIENCE)
        except queue.Empty:
            self._process.kill()
            raise EOFError from None
        if "failed" in answer:
            raise WorkerError(f"a process cannot be started: {answer['failed']}")
        if "started" not in answer:
            raise EOFError
        return answer["child"]

    def close(self) -> None:
        self._process.kill()
        self._reader.join()
        for stream in (self._process.orders, self._process.answers):
            with contextlib.suppress(OSError):
                stream.close()

    def _read(self) -> None:
        """Takes the answers, in order: what has ended was started before."""
        with contextlib.suppress(OSError, ValueError):
            for line in self._process.answers:
                answer = json.loads(line)
                if "ended" in answer:
                    self._children.pop(answer["ended"]).end(answer["code"])
                    continue
                if "started" in answer:
                    answer["child"] = self._children[answer["started"]] = Child(answer["started"])
                self._answers.put(answer)
        self.alive = False
        self._answers.put({})
        for child in self._children.values():  # they die with it
            child.kill()
            child.end(-signal.SIGKILL)
        with contextlib.suppress(Exception):
            self._process.wait()
