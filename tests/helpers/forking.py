"""Processes that begin with torch and brimful imported, which takes a new interpreter five seconds.

`begin` forks a server from the process of the tests before any of them has run, and the server forks a process on every
request. So a process has all that was imported by then and nothing that a test did: no thread, no memory in use, no
patch. It has its own environment, arguments, standard streams and exit code, as one that `subprocess` starts. Servers
that have imported more serve all processes of a run of the tests: the first one that needs it starts it.
"""

import atexit
import contextlib
import gc
import importlib
import os
import pickle
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import types
import warnings
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn, Self

from brimful.core.declare import registry
from brimful.service.child import fork_server

_MESSAGE, _FDS = 1 << 17, 8  # the most bytes of a request, and the most files that come with it


class ForkedProcess:
    """What the tests need of `subprocess.Popen`.

    Attributes:
        pid: of the process.
        returncode: its exit code, or minus the signal that ended it; None while it runs.
    """

    def __init__(self, status: int) -> None:
        self._status = status
        weakref.finalize(self, os.close, status)
        line = os.read(status, 16)
        assert line, "the server has ended"
        self.pid = int(line)
        self.returncode: int | None = None
        os.set_blocking(status, False)

    def wait(self, timeout: float | None = None) -> int:
        until = None if timeout is None else time.monotonic() + timeout
        while self.poll() is None:
            if until is not None and time.monotonic() > until:
                raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0.0)
            time.sleep(0.005)
        assert self.returncode is not None
        return self.returncode

    def poll(self) -> int | None:
        if self.returncode is None:
            with contextlib.suppress(BlockingIOError):
                self.returncode = int(os.read(self._status, 16))
        return self.returncode

    def send_signal(self, number: signal.Signals) -> None:
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class ForkServer:
    """Forks processes on request, from a process that has imported some modules more."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection

    def start(self, function: Callable[..., Any], *arguments: Any, **options: Any) -> ForkedProcess:
        """Starts a process; the arguments are those of `request`."""
        return ForkedProcess(self.request(function, *arguments, **options))

    def request(
        self,
        function: Callable[..., Any],
        *arguments: Any,
        stdin: int | None = None,
        stdout: int | None = None,
        stderr: int | None = None,
        fds: tuple[int, ...] = (),
        env: dict[str, str] | None = None,
    ) -> int:
        """Asks for a process that calls `function(*arguments, *fds)`; the file that its number and exit code come by.

        Args:
            stdin, stdout, stderr: files for its standard streams; nothing to read, and those of the tests, by default.
            fds: open files that it is given, under other numbers.
            env: its environment; this process's own by default.
        """
        status, theirs = os.pipe()
        streams = [stream for stream in (stdin, stdout, stderr) if stream is not None]
        given = [stream is not None for stream in (stdin, stdout, stderr)]
        setup = dict(os.environ if env is None else env), str(Path.cwd()), list(sys.path), given
        message = pickle.dumps((setup, pickle.dumps((function, arguments))))
        assert len(message) <= _MESSAGE
        socket.send_fds(self._connection, [message], [theirs, *streams, *fds])
        os.close(theirs)
        return status

    def close(self) -> None:
        """Ends the server."""
        self._connection.close()

    def with_imports(self, name: str, modules: list[str]) -> "ForkServer":
        """A server of which every process has these modules as well; the one of that name, where this run of the tests
        has one."""
        run = os.environ.get("PYTEST_XDIST_TESTRUNUID", str(os.getpid()))
        address = f"\0brimful-tests-{run}-{name}"
        while True:
            connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            with contextlib.suppress(ConnectionRefusedError):
                connection.connect(address)
                return ForkServer(connection)
            connection.close()
            with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener, contextlib.suppress(OSError):
                listener.bind(address)  # it is another's, where two are as quick
                listener.listen(64)
                self.start(_serve_with, modules, fds=(listener.fileno(),))


_PRELOADED = [
    "brimful.engine.train.launcher",
    "brimful.gpcm",
    "brimful.wpo",
    "torch.fx.experimental.symbolic_shapes",  # autograd imports it in the first custom function
    "torch._dynamo",  # and an optimizer this
    "brimful.locate.workload",
    "brimful.service.child.methods",
    "tests.helpers.worker_processes",
]
_JOBS = [*registry.WORKLOADS.values(), fork_server.FIRST_USE]
_SERVING = ["brimful.service.server"]
_servers: dict[str, ForkServer] = {}


def begin() -> None:
    """Forks the server from this process."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    gc.collect()
    if os.fork() == 0:
        gc.freeze()
        atexit._clear()  # what this process would do at its end
        warnings.resetwarnings()
        for category in (DeprecationWarning, PendingDeprecationWarning, ImportWarning, ResourceWarning):
            warnings.simplefilter("ignore", category)  # as in an interpreter
        kept = theirs.fileno()
        for fd in [int(name) for name in os.listdir("/proc/self/fd")]:  # noqa: PTH208
            if fd > 2 and fd != kept:
                with contextlib.suppress(OSError):
                    os.close(fd)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        _serve(theirs)
    theirs.close()
    _servers.clear()
    _servers["imported"] = ForkServer(ours)


def end() -> None:
    """Ends the servers."""
    while _servers:
        _servers.popitem()[1].close()


def imported() -> ForkServer:
    """Its processes have imported torch and brimful, and nothing has been computed."""
    return _servers["imported"]


def warm() -> ForkServer:
    """Its processes have imported all that training and the workloads do."""
    if "warm" not in _servers:
        _servers["warm"] = imported().with_imports("warm", _PRELOADED)
    return _servers["warm"]


def jobs() -> ForkServer:
    """Its processes have imported all that the processes of the service's jobs are forked with."""
    if "jobs" not in _servers:
        _servers["jobs"] = warm().with_imports("jobs", _JOBS)
    return _servers["jobs"]


def serving() -> ForkServer:
    """Its processes have imported `brimful serve` as well."""
    if "serving" not in _servers:
        _servers["serving"] = jobs().with_imports("serving", _SERVING)
    return _servers["serving"]


def _serve(connection: socket.socket) -> NoReturn:
    """In the server: a process for every request, until the tests have ended."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while _fork_one(connection, [connection]):
        pass
    os._exit(0)


def _fork_one(connection: socket.socket, others: list[socket.socket]) -> bool:
    """Answers one request; False where there are no more.

    Args:
        others: what a forked process has nothing to do with.
    """
    message, fds, _, _ = socket.recv_fds(connection, _MESSAGE, _FDS)
    if not message:
        return False
    if os.fork() == 0:
        for one in others:
            one.close()
        _watch(message, fds)
    for fd in fds:
        os.close(fd)
    return True


def _serve_with(modules: list[str], fd: int) -> None:
    """In a server that listens: forks for all who are connected, until none is any more."""
    for module in modules:
        importlib.import_module(module)
    gc.collect()
    gc.freeze()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    listener = socket.socket(fileno=fd)
    connected = [listener.accept()[0]]
    while connected:
        for one in select.select([listener, *connected], [], [])[0]:
            if one is listener:
                connected.append(listener.accept()[0])
            elif not _fork_one(one, [listener, *connected]):
                connected.remove(one)
                one.close()
    os._exit(0)


def _watch(message: bytes, fds: list[int]) -> NoReturn:
    """Forks the process itself, and reports its number and its exit code."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    status, *others = fds
    if (child := os.fork()) == 0:
        os.close(status)
        code = 1
        try:
            code = _run(message, others)
        except BaseException:
            traceback.print_exc()
        finally:
            _flush()
            os._exit(code)
    for fd in others:
        os.close(fd)
    with contextlib.suppress(BrokenPipeError):  # whoever asked for it may be gone
        os.write(status, b"%16d" % child)
    ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    with contextlib.suppress(BrokenPipeError):
        os.write(status, b"%16d" % ended)
    os._exit(0)


def _run(message: bytes, fds: list[int]) -> int:
    """In the process: sets it up, and calls the function. Its exit code."""
    (environment, folder, path, given), task = pickle.loads(message)
    for number, present in enumerate(given):
        if present:
            fd = fds.pop(0)
            os.dup2(fd, number)
            os.close(fd)
    sys.stdin, sys.stdout = open(0, closefd=False), open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1, closefd=False)  # noqa: SIM115
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    sys.path[:] = path
    function, arguments = pickle.loads(task)
    try:
        function(*arguments, *fds)
        code: Any = 0
    except SystemExit as ended:
        code = ended.code
    threading._shutdown()  # pyright: ignore[reportAttributeAccessIssue]  # waits for threads, as an interpreter does
    atexit._run_exitfuncs()
    return code if isinstance(code, int) else int(code is not None)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()


# Programs, as `python -c` and `python -m` run them.


def run_text(text: str, *arguments: str) -> None:
    """Runs a program; for `ForkServer.start`."""
    main = types.ModuleType("__main__")
    sys.modules["__main__"], sys.argv = main, ["-c", *arguments]
    exec(compile(text, "<program>", "exec"), main.__dict__)


def run_path(path: str, *arguments: str) -> None:
    """Runs a file as a program; for `ForkServer.start`."""
    main = types.ModuleType("__main__")
    main.__file__, sys.modules["__main__"], sys.argv = path, main, [path, *arguments]
    exec(compile(Path(path).read_text(), path, "exec"), main.__dict__)


def run_module(name: str, *arguments: str) -> None:
    """Runs a module as a program; for `ForkServer.start`."""
    sys.argv = [name, *arguments]
    runpy.run_module(name, run_name="__main__", alter_sys=True)


class Captured(ForkedProcess):
    """A process that calls a function, and what it writes. It is killed where it has not ended by itself."""

    def __init__(self, function: Callable[..., Any], *arguments: Any, env: dict[str, str] | None = None) -> None:
        self._streams = tempfile.TemporaryFile("w+"), tempfile.TemporaryFile("w+")  # noqa: SIM115
        stdout, stderr = (stream.fileno() for stream in self._streams)
        super().__init__(imported().request(function, *arguments, stdout=stdout, stderr=stderr, env=env))

    def communicate(self, timeout: float) -> tuple[str, str]:
        """What it wrote to its output and for errors, once it has ended."""
        self.wait(timeout)
        for stream in self._streams:
            stream.seek(0)
        return self._streams[0].read(), self._streams[1].read()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.kill()
        for stream in self._streams:
            stream.close()


def completed(
    function: Callable[..., Any], *arguments: Any, timeout: float = 200.0, env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Calls a function in a process, waits for its end, and gives what it wrote."""
    with Captured(function, *arguments, env=env) as process:
        out, err = process.communicate(timeout)
        return subprocess.CompletedProcess([function.__name__, *arguments], process.returncode or 0, out, err)
