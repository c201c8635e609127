"""The process supervisor: starts workers, exchanges messages with them, notices how each ends, and ends all of them.

It knows nothing of the work. `map` hands out batches through it, `train` starts its ranks with it, and folds of a cross
validation run side by side under it. `Workers` is the interface; `LocalWorkers` implements it by processes of this
machine, and `ray_workers.RayWorkers` by actors of a Ray cluster.

A worker runs one function, `target(channel, *arguments)`. Whatever is exchanged is a value that can be pickled. The
interface assumes no shared file system, no pipes and no signals, so that workers may be on other machines:

| the supervisor | the worker |
|---|---|
| `start(name, target, *arguments, place=)` | is called with a `Channel` and the arguments |
| `send(worker, message)` | `channel.receive()` |
| `receive(timeout)` gives an `Answer`: SENT | `channel.send(message)` |
| ... RETURNED, RAISED or DIED, which is the last answer of a worker | returns, raises, or ends without a word |
| `cancel()` | `channel.cancel` is set: it should stop soon, keep what it has and return or raise |
| `kill(worker)` | is ended, wherever it is; `receive` tells that it DIED |
| `close()` | so are all |

A worker also ends when the process that supervises it is gone.
"""

import contextlib
import enum
import multiprocessing.connection
import multiprocessing.spawn
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any, Protocol, Self

import torch

from ...core.base.errors import InputError, WorkerError
from .messages import Message, receive

_END = 3.0  # seconds for a process to end, before it is made to
_BOOTSTRAP = (
    "import sys; from multiprocessing.connection import Connection; messages = Connection({messages}); "
    "first = messages.recv_bytes(); sys.path[:] = {path!r}; "
    "from {module} import run_worker; run_worker(messages, Connection({control}), first)"
)


class Event(enum.Enum):
    """What an answer of a worker says."""

    SENT = "sent"
    RETURNED = "returned"
    RAISED = "raised"
    DIED = "died"


@dataclass(frozen=True, slots=True)
class Answer:
    """What came from a worker.

    Attributes:
        worker: its number, in the order of starting.
        event: what happened.
        value: what it sent, returned or raised; of one that died, how, such as "exit code 9".
    """

    worker: int
    event: Event
    value: Any


@dataclass(frozen=True, slots=True)
class Place:
    """Where a worker runs.

    Attributes:
        device: what it computes on, as it calls it itself: "cpu", or "cuda:0", the only GPU that it sees on a cluster.
        threads: how many it computes with.
        node: the machine, as its cluster knows it; "" is this one.
        host: the name of that machine.
        cpus: how many of its CPUs are taken for the worker.
        kind: the product name of the device: workers of one kind are given work of one size.
    """

    device: str
    threads: int = 1
    node: str = ""
    host: str = ""
    cpus: float = 1
    kind: str = ""


class Channel(Protocol):
    """A worker's connection to its supervisor.

    Attributes:
        cancel: set when the supervisor asks all workers to stop.
    """

    cancel: threading.Event

    def send(self, message: Any) -> None:
        """Sends a message; from any thread."""

    def receive(self) -> Any:
        """Waits for the next message."""


class Workers(ABC):
    """The workers of one run, and their supervisor. As a context manager it ends all of them when it is left.

    Attributes:
        names: of all that were started.
        running: the numbers of those that have not ended.
    """

    def __init__(self) -> None:
        self.names: list[str] = []
        self.running: set[int] = set()

    @abstractmethod
    def start(
        self, name: str, target: Callable[..., Any], *arguments: Any, threads: int = 1, place: Place | None = None
    ) -> int:
        """Starts a worker, and gives its number.

        Args:
            name: what to call it in messages.
            target: called in the worker as `target(channel, *arguments)`.
            threads: how many it should compute with.
            place: where; None: wherever there is room, which on one machine is there.

        Raises:
            InputError: the target or an argument cannot be sent to another process.
        """

    @abstractmethod
    def send(self, worker: int, message: Any) -> None:
        """Sends a worker a message. Where it has ended meanwhile nothing happens: `receive` tells."""

    @abstractmethod
    def receive(self, timeout: float) -> Answer | None:
        """The next answer of any worker; None where none comes within so many seconds, or none is running."""

    @abstractmethod
    def cancel(self) -> None:
        """Asks all workers to stop; they are then waited for as before."""

    @abstractmethod
    def kill(self, worker: int) -> None:
        """Ends a worker, wherever it is; `receive` then tells that it died."""

    @abstractmethod
    def close(self, grace: float = 0.0) -> None:
        """Ends all workers that are running, and waits for their end.

        Args:
            grace: seconds for which they may go on after they have been asked to stop, to keep what they have.
        """

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


@dataclass(slots=True)
class _Process:
    popen: subprocess.Popen[bytes]
    messages: Connection
    control: Connection  # a word on it means cancel, and its end that this process is gone

    def code(self) -> int:
        """The exit code of a process that is about to end."""
        try:
            return self.popen.wait(_END)
        except subprocess.TimeoutExpired:
            self.popen.kill()
            return self.popen.wait()


def _spawn(messages: Connection, control: Connection, threads: int) -> subprocess.Popen[bytes]:
    """Starts an interpreter that calls `run_worker`."""
    fds = messages.fileno(), control.fileno()
    code = _BOOTSTRAP.format(messages=fds[0], control=fds[1], path=sys.path, module=__name__)
    return subprocess.Popen(
        [sys.executable, *subprocess._args_from_interpreter_flags(), "-c", code],  # pyright: ignore
        pass_fds=fds,
        env=os.environ | {"OMP_NUM_THREADS": str(threads)},
        start_new_session=True,
    )


class LocalWorkers(Workers):
    """Workers that are processes of this machine.

    Each is a new interpreter. It imports what it needs to find the target and the arguments, and the caller's script
    only where one of these is defined in it: a script without `if __name__ == "__main__":` is otherwise safe. Processes
    are sessions of their own, so that Ctrl-C in a terminal reaches the supervisor alone.
    """

    def __init__(self) -> None:
        super().__init__()
        self._processes: list[_Process] = []
        self._ready: deque[int] = deque()

    def start(
        self, name: str, target: Callable[..., Any], *arguments: Any, threads: int = 1, place: Place | None = None
    ) -> int:
        if _importing_script:
            raise WorkerError(
                "this script starts worker processes while one of them imports it. Workers import the script that "
                'their function is defined in: put what it runs under if __name__ == "__main__":, or define the '
                "function in a module of its own"
            )
        try:
            task = pickle.dumps((target, arguments), protocol=5)
        except Exception as error:
            raise InputError(
                f"several processes need what is run to be importable by each of them, and this cannot be sent "
                f"({error}). Define it at the top level of a module, not inside another function or as a lambda."
            ) from error
        setup = multiprocessing.spawn.get_preparation_data(name)
        if b"__main__" not in task:
            setup = {key: value for key, value in setup.items() if not key.startswith("init_main")}
        del setup["authkey"]  # of multiprocessing's own servers
        (messages, theirs), (control, their_control) = (multiprocessing.connection.Pipe() for _ in range(2))
        popen = _spawn(theirs, their_control, threads)
        theirs.close()
        their_control.close()
        self._processes.append(_Process(popen, messages, control))
        self.names.append(name)
        worker = len(self._processes) - 1
        self.running.add(worker)
        with contextlib.suppress(ConnectionError):  # it died already, which `receive` tells
            messages.send_bytes(pickle.dumps((setup, threads, task)))
        return worker

    def send(self, worker: int, message: Any) -> None:
        with contextlib.suppress(OSError):
            Message.of(message).send(self._processes[worker].messages)

    def receive(self, timeout: float) -> Answer | None:
        if not self._ready:
            pipes = {self._processes[worker].messages: worker for worker in self.running}
            ready = multiprocessing.connection.wait(list(pipes), timeout)
            self._ready.extend(pipes[pipe] for pipe in ready)  # pyright: ignore[reportArgumentType]
        if not self._ready:
            return None
        worker = self._ready.popleft()
        try:
            event, value = receive(self._processes[worker].messages)
        except (EOFError, OSError):
            event, value = Event.DIED, f"exit code {self._processes[worker].code()}"
        if event is not Event.SENT:
            self.running.discard(worker)
        return Answer(worker, event, value)

    def cancel(self) -> None:
        for worker in self.running:
            with contextlib.suppress(OSError):
                self._processes[worker].control.send_bytes(b"cancel")

    def kill(self, worker: int) -> None:
        self._processes[worker].popen.kill()

    def close(self, grace: float = 0.0) -> None:
        until = time.monotonic() + grace
        if grace:
            self.cancel()
        while self.running and (left := until - time.monotonic()) > 0:
            self.receive(left)
        for process in self._processes:
            process.messages.close()
            process.control.close()  # ends it
        for process in self._processes:
            process.code()
        self.running.clear()


_importing_script = False


@dataclass(slots=True)
class _Channel:
    """A worker's connection by two pipes: one for messages, and one that is cancelled or cut by the supervisor."""

    messages: Connection
    cancel: threading.Event = field(default_factory=threading.Event)
    lock: Any = field(default_factory=threading.Lock)

    def send(self, message: Any) -> None:
        self.answer(Event.SENT, message)

    def answer(self, event: Event, value: Any) -> None:
        message = Message.of((event, value))
        with self.lock:
            message.send(self.messages)

    def receive(self) -> Any:
        return receive(self.messages)

    def watch(self, control: Connection) -> None:
        """Waits to be cancelled. Where the supervisor is gone the process ends at once: what is finished is stored."""
        with contextlib.suppress(EOFError, OSError):
            while control.recv_bytes():
                self.cancel.set()
        os._exit(1)


def run_worker(messages: Connection, control: Connection, first: bytes) -> None:
    """The life of a worker process."""
    global _importing_script
    channel = _Channel(messages)
    # A scheduler sends SIGTERM to all processes of a job. The supervisor gets it too, and ends this one when it should.
    signal.signal(signal.SIGTERM, lambda number, frame: channel.cancel.set())
    threading.Thread(target=channel.watch, args=(control,), daemon=True).start()
    setup, threads, task = pickle.loads(first)
    torch.set_num_threads(threads)
    _importing_script = True
    try:
        multiprocessing.spawn.prepare(setup)
        target, arguments = pickle.loads(task)
    except BaseException as error:
        channel.answer(Event.RAISED, WorkerError(f"a worker could not start: {type(error).__name__}: {error}"))
        return
    _importing_script = False
    try:
        channel.answer(Event.RETURNED, target(channel, *arguments))
    except BaseException as error:
        with contextlib.suppress(OSError):  # the supervisor may have ended, or ended this one
            channel.answer(Event.RAISED, portable(error))


def portable(error: BaseException) -> BaseException:
    """The error, or one in its words where it cannot be sent."""
    try:
        pickle.loads(pickle.dumps(error))
        return error
    except Exception:
        return WorkerError(f"{type(error).__name__}: {error}")
