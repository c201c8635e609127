"""Worker processes for the tests, forked from a server that has imported torch and brimful already.

A worker of `LocalWorkers` is a new interpreter, which takes seconds to import what it needs. In the tests the server
pays for that once, and every worker is a process of its own as before: it may be killed, hang or fail.
"""

import os
from multiprocessing.connection import Connection

from brimful.engine.distributed.workers import run_worker

from . import forking


def forked_worker(messages: Connection, control: Connection, threads: int) -> forking.ForkedProcess:
    """In place of `workers._spawn`."""
    environment = dict(os.environ) | {"OMP_NUM_THREADS": str(threads)}
    return forking.warm().start(_run, fds=(messages.fileno(), control.fileno()), env=environment)


def _run(messages: int, control: int) -> None:
    os.setsid()
    connection = Connection(messages)
    try:
        first = connection.recv_bytes()
    except EOFError:  # its parent was killed before it said what to do
        return
    run_worker(connection, Connection(control), first)
