"""A process that has imported torch and forks the processes of jobs: one starts in milliseconds instead of seconds.

It has one thread, uses no device, and ends with the server; what it forked then ends too. Orders come as lines of JSON
on standard input, {"folder", "environment"}; answers go to standard output: {"started": pid}, {"failed": why}, and
{"ended": pid, "code": exit code, negative for a signal}.
"""

import atexit
import json
import os
import selectors
import signal
import sys
import traceback
from pathlib import Path
from typing import IO, Any

from ...core.declare import registry
from . import run
from .job_dir import LOG, ExitCode, JobFile
from .parent import PARENT, end_with_parent_signal

_EVERY = 0.02  # seconds between two looks at what was forked


def main() -> int:
    """Serves until standard input ends."""
    end_with_parent_signal()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    import torch  # noqa: F401  what takes seconds

    return serve(sys.stdin.buffer.raw, sys.stdout)  # pyright: ignore[reportAttributeAccessIssue]


def serve(orders: IO[bytes], answers: IO[str]) -> int:
    """Forks what is ordered, until the orders end."""
    running: set[int] = set()
    waiting = b""
    with selectors.DefaultSelector() as selector:
        selector.register(orders, selectors.EVENT_READ)
        while True:
            if selector.select(_EVERY if running else None):
                received = os.read(orders.fileno(), 1 << 16)
                if not received:
                    return ExitCode.FINISHED
                *lines, waiting = (waiting + received).split(b"\n")
                for line in lines:
                    _start(json.loads(line), running, answers)
            _collect(running, answers)


def _start(order: dict[str, Any], running: set[int], answers: IO[str]) -> None:
    try:
        folder = Path(order["folder"])
        _preload(folder)
        pid = os.fork()
    except Exception as error:
        _answer(answers, failed=f"{type(error).__name__}: {error}")
        return
    if pid == 0:
        _run(folder, order["environment"])
    running.add(pid)
    _answer(answers, started=pid)


def _preload(folder: Path) -> None:
    """Imports the job's workload, if it is one of ours, for all later jobs; what fails here fails in the job, with a
    message."""
    try:
        job = JobFile.read(folder)
        if job.workload in registry.WORKLOADS:
            registry.load(job.workload)
    except Exception:
        pass


def _run(folder: Path, environment: dict[str, str]) -> None:
    """In the forked process: becomes that of the job, and never returns."""
    code: int = ExitCode.FAILED
    try:
        parent = os.getppid()
        os.setsid()
        log = os.open(folder / LOG, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        null = os.open(os.devnull, os.O_RDONLY)
        for source, target in ((null, 0), (log, 1), (log, 2)):
            os.dup2(source, target)
        os.closerange(3, 1024)
        os.environ.update(environment)
        os.environ[PARENT] = str(parent)
        os.chdir(folder)
        code = run.main(folder)
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def _collect(running: set[int], answers: IO[str]) -> None:
    for pid in list(running):
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            running.remove(pid)
            _answer(answers, ended=pid, code=os.waitstatus_to_exitcode(status))


def _answer(answers: IO[str], **values: Any) -> None:
    answers.write(json.dumps(values) + "\n")
    answers.flush()
