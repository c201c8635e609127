"""Runs the job of a directory, from its first moment to its result."""

import contextlib
import os
import signal
import sys
import threading
import traceback
import warnings
from pathlib import Path
from types import FrameType
from typing import Any

from ...core.base.errors import BrimfulError, CancelledError, StorageError
from ...core.declare import config as declared
from ...core.declare import registry
from ...core.runs.context import RunContext
from ...core.runs.events import Events, Warned
from ...core.runs.progress_lines import Lines
from .job_dir import EVENTS, METRICS, RUN, ExitCode, JobFile, JobResult
from .logs import EventLog, MetricLog
from .parent import end_with_parent, wait_for_lock


def main(folder: Path) -> ExitCode:
    """Runs the job. SIGTERM stops it after the batch or step at hand; what is finished is kept."""
    cancel = threading.Event()

    def stop(number: int, frame: FrameType | None) -> None:
        cancel.set()

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C in a terminal is for the server, which stops its jobs
    end_with_parent()
    if wait_for_lock(folder, cancel) is None:
        return ExitCode.STOPPED
    before = JobResult.read(folder)
    if before is not None and before.state == "finished":  # it was killed between its result and its end
        return ExitCode.FINISHED
    JobResult.remove(folder)
    result = _run(folder, cancel)
    try:
        result.write(folder)
    except StorageError as error:
        print(error, file=sys.stderr)
        return ExitCode.FAILED
    return {"finished": ExitCode.FINISHED, "stopped": ExitCode.STOPPED}.get(result.state, ExitCode.FAILED)


def _run(folder: Path, cancel: threading.Event) -> JobResult:
    try:
        job = JobFile.read(folder)
        (folder / RUN).mkdir(exist_ok=True)
        os.chdir(folder / RUN)
        _limit_threads(job.cores)
        command = registry.load(job.workload).command(job.command)
        config = declared.build(command.config, _leased(command.config, job))
        with Events(MetricLog(folder / METRICS), EventLog(folder / EVENTS), Lines(sys.stderr)) as events:
            _emit_warnings(events)
            if cancel.is_set():
                return JobResult(state="stopped", message="stopped before it began")
            summary = command.run(config, RunContext(events, cancel))
        return JobResult(state="finished", summary=dict(summary))
    except BaseException as error:
        if cancel.is_set() and isinstance(error, CancelledError):
            return JobResult(state="stopped", message=str(error))
        traceback.print_exc()
        known = isinstance(error, BrimfulError)
        message = str(error) if known else f"unexpected {type(error).__name__}: {error}; the job's log has more"
        return JobResult(state="failed", message=message, error=type(error).__name__)


def _leased(config: type, job: JobFile) -> dict[str, Any]:
    """The options with the lease in place of what they say of device and budget."""
    names = {info.name for info in declared.describe(config)}
    lease = {"device": job.device, "budget": None if job.budget is None else f"{job.budget} B"}
    return job.config | {name: value for name, value in lease.items() if name in names and value is not None}


def _limit_threads(cores: int) -> None:
    import torch

    torch.set_num_threads(cores)
    with contextlib.suppress(RuntimeError):  # it can be set once
        torch.set_num_interop_threads(max(1, cores))


def _emit_warnings(events: Events) -> None:
    def show(message: Warning | str, *_: Any) -> None:
        events.emit(Warned(message=str(message)))

    warnings.showwarning = show
