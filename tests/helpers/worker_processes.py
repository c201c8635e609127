"""Worker processes for the tests, forked from a server that has imported torch and brimful already.

A worker of `LocalWorkers` is a new interpreter, which takes seconds to import what it needs. In the tests the server
pays for that once, and every worker is a process of its own as before: it may be killed, hang or fail.
"""

import contextlib
import os
from collections.abc import Iterator
from multiprocessing.connection import Connection

import pytest

from brimful.engine.distributed import workers

from . import forking


def forked_worker(messages: Connection, control: Connection, threads: int) -> forking.ForkedProcess:
    """In place of `workers._spawn`."""
    environment = dict(os.environ) | {"OMP_NUM_THREADS": str(threads)}
    return forking.warm().start(_run, fds=(messages.fileno(), control.fileno()), env=environment)


@contextlib.contextmanager
def worker_pids() -> Iterator[list[int]]:
    """The pids of the workers that are started while the block runs, in the order of starting."""
    started: list[int] = []

    def start(messages: Connection, control: Connection, threads: int) -> forking.ForkedProcess:
        process = forked_worker(messages, control, threads)
        started.append(process.pid)
        return process

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(workers, "_spawn", start)
        yield started


def _run(messages: int, control: int) -> None:
    os.setsid()
    connection = Connection(messages)
    try:
        first = connection.recv_bytes()
    except EOFError:  # its parent was killed before it said what to do
        return
    workers.run_worker(connection, Connection(control), first)
