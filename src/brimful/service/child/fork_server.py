"""A process that has imported torch and forks the processes of jobs: one starts in milliseconds instead of seconds.

It has one thread, uses no device, and ends with the server; what it forked then ends too. Orders come as lines of JSON
on a socket, one at a time: {"folder", "environment"} is a job, {"environment"}, with a socket, a process that answers
calls (see `rpc`). Answers go to standard output: {"started": pid}, {"failed": why}, and {"ended": pid, "code": exit
code, negative for a signal}.
"""

import atexit
import gc
import importlib
import json
import os
import select
import signal
import socket
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any, NoReturn

from ...core.declare import registry
from . import rpc, run
from .job_dir import LOG, ExitCode, JobFile
from .parent import PARENT, end_with_parent, end_with_parent_signal

_MESSAGE, _MOST_FILES = 1 << 16, 1024

METHODS = "brimful.service.child.methods"
"""Imported by name: a job needs none of it."""

FIRST_USE = "brimful.service.child.first_use"
"""So is what a job uses of libraries."""


def main() -> int:
    """Serves until standard input, a socket, ends."""
    end_with_parent_signal()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    import torch  # noqa: F401  what takes seconds

    imports = [METHODS, *registry.WORKLOADS.values(), FIRST_USE]
    with socket.socket(fileno=os.dup(0)) as orders:
        return serve(orders, sys.stdout, imports)


def serve(orders: socket.socket, answers: IO[str], imports: Sequence[str] = ()) -> int:
    """Forks what is ordered, until the orders end.

    Args:
        imports: modules to import meanwhile, for what is forked then.
    """
    running: set[int] = set()
    waiting, left = b"", list(imports)
    connections: list[int] = []
    ended = _wake_at_ends()
    while True:
        ready = select.select([orders, ended], [], [], 0.0 if left else None)[0]
        if ended in ready:
            os.read(ended, _MESSAGE)
            _collect(running, answers)
        if orders in ready:
            received, more, _, _ = socket.recv_fds(orders, _MESSAGE, 1)
            connections += more
            if not received:
                return ExitCode.FINISHED
            *lines, waiting = (waiting + received).split(b"\n")
            for line in lines:
                _start(json.loads(line), connections, running, answers)
        if left and not ready:
            _import(left.pop(0))


def _wake_at_ends() -> int:
    """A pipe that can be read from when a process has ended."""
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    return woken


def _import(module: str) -> None:
    """What fails here fails where it is used, with a message."""
    try:
        importlib.import_module(module)
        gc.collect()
        gc.freeze()  # forked processes share it for longer
    except Exception:
        pass


def _start(order: dict[str, Any], connections: list[int], running: set[int], answers: IO[str]) -> None:
    try:
        _preload(order)
        pid = os.fork()
    except Exception as error:
        _answer(answers, failed=f"{type(error).__name__}: {error}")
        return
    if pid == 0:
        _become(order, connections)
    while connections:
        os.close(connections.pop())
    running.add(pid)
    _answer(answers, started=pid)


def _preload(order: dict[str, Any]) -> None:
    """Imports the job's workload, if it is one of ours, for all later jobs; what fails here fails in the job, with a
    message."""
    try:
        if "folder" in order and (workload := JobFile.read(Path(order["folder"])).workload) in registry.WORKLOADS:
            registry.load(workload)
    except Exception:
        pass


def _become(order: dict[str, Any], connections: list[int]) -> NoReturn:
    """In the forked process: becomes that of the job, or one that answers calls."""
    code: int = ExitCode.FAILED
    try:
        parent = os.getppid()
        os.setsid()
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.environ.update(order["environment"])
        os.environ[PARENT] = str(parent)
        code = _answer_calls(connections[0]) if connections else _run(Path(order["folder"]))
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def _run(folder: Path) -> int:
    log = os.open(folder / LOG, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    _set_streams(log, log)
    os.closerange(3, _MOST_FILES)
    os.chdir(folder)
    return run.main(folder)


def _answer_calls(connection: int) -> int:
    """What it prints goes where the server's messages go."""
    _set_streams(2, 2)
    kept = os.dup2(connection, 3)
    os.closerange(4, _MOST_FILES)
    end_with_parent()
    rpc.serve(socket.socket(fileno=kept), importlib.import_module(METHODS).METHODS)
    return ExitCode.FINISHED


def _set_streams(output: int, errors: int) -> None:
    null = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((null, 0), (output, 1), (errors, 2)):
        os.dup2(source, target)


def _collect(running: set[int], answers: IO[str]) -> None:
    for pid in list(running):
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            running.remove(pid)
            _answer(answers, ended=pid, code=os.waitstatus_to_exitcode(status))


def _answer(answers: IO[str], **values: Any) -> None:
    answers.write(json.dumps(values) + "\n")
    answers.flush()
