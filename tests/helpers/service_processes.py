"""The processes of the service, forked from one that has torch imported: a new interpreter takes seconds."""

import os
import signal
import socket
import threading
import time
from pathlib import Path
from typing import IO, Any

from brimful.core.declare import registry
from brimful.service.address import published
from brimful.service.child import fork_server, methods
from brimful.service.options import ServeOptions
from brimful.service.runner import processes

from . import forking, job_workload
from .stopping import wait_for


class ForkedForkServer:
    """The process that forks those of jobs; it ends when its input does."""

    def __init__(self) -> None:
        self.orders, theirs = socket.socketpair()
        received, theirs_out = os.pipe()
        with theirs:
            self._process = forking.jobs().start(_fork_server, stdin=theirs.fileno(), stdout=theirs_out)
        os.close(theirs_out)
        self.answers: IO[bytes] = os.fdopen(received, "rb")

    def kill(self) -> None:
        self._process.kill()

    def wait(self) -> int:
        return self._process.wait(60)


def _fork_server() -> None:
    job_workload.register()
    registry.WORKLOADS["made"] = "tests.helpers.madeup"
    methods.METHODS |= {"sleep": lambda seconds: time.sleep(seconds), "fail": _fail}
    with socket.socket(fileno=os.dup(0)) as orders, open(1, "w", closefd=False) as answers:
        fork_server.serve(orders, answers)


def _fail() -> None:
    raise ZeroDivisionError("a mistake")


def _prepare() -> None:
    job_workload.register()
    processes.launch = ForkedForkServer  # pyright: ignore[reportAttributeAccessIssue]
    # The forked process cannot ask the tests' server for more: it makes its own.
    forking.begin()


def run_service(state: str, options: dict[str, Any]) -> None:
    """In a forked process: a service without a web server, until it is asked to stop."""
    from brimful.service.service import Service

    _prepare()
    stopped = threading.Event()
    signal.signal(signal.SIGTERM, lambda number, frame: stopped.set())
    service = Service(ServeOptions(state=Path(state), **options))
    service.start()
    print("ready", flush=True)
    stopped.wait()
    service.stop()


class ServiceProcess:
    """A service in a process of its own, which can be killed."""

    def __init__(self, state: Path, **options: Any) -> None:
        received, theirs = os.pipe()
        self._process = forking.serving().start(run_service, str(state), options, stdout=theirs)
        os.close(theirs)
        with os.fdopen(received) as lines:
            assert lines.readline().strip() == "ready", "the service did not start"

    @property
    def pid(self) -> int:
        return self._process.pid

    def kill(self) -> None:
        self._process.kill()
        self._process.wait(60)

    def stop(self) -> int:
        self._process.send_signal(signal.SIGTERM)
        return self._process.wait(60)


def run_server(state: str, options: dict[str, Any]) -> None:
    """In a forked process: `brimful serve`."""
    from brimful.service.server import serve

    _prepare()
    serve(ServeOptions(state=Path(state), port=0, **options))


class ServerProcess:
    """`brimful serve` in a process of its own.

    Attributes:
        url: of its API.
    """

    def __init__(self, state: Path, **options: Any) -> None:
        self._process = forking.serving().start(run_server, str(state), options)
        wait_for(lambda: published(state) or self._process.poll() is not None)
        address = published(state)
        assert address, "the server did not start"
        self.url = address.url

    def kill(self) -> None:
        self._process.kill()
        self._process.wait(60)

    def stop(self) -> int:
        self._process.send_signal(signal.SIGTERM)
        return self._process.wait(60)
