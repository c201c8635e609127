"""Folds in parallel: one process per fold, as many at a time as cores and the budget allow.

A small model keeps neither a GPU nor several cores busy, so folds in parallel finish earlier. Each process gets its
share of the threads and of the budget. Processes are started as a module of their own, so that they do not depend on
what the calling script does when it is imported.
"""

import contextlib
import os
import pickle
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from ...core.base.background import cores
from ...core.base.errors import BrimfulError, CancelledError, WorkerError
from ...core.memory import devices
from ...core.memory.limit import MemoryLimit
from ...core.runs.events import BatchDone, Events, Finished, Started
from ...core.runs.progress import sink_for
from ..data.files import Dataset
from ..model.deep_gpcm import DeepGPCMConfig
from ..options import TrainConfig
from .fit import fit

_COMMAND = [sys.executable, "-m", "brimful.gpcm.training.parallel_folds"]
_PROCESS = 700 * 2**20  # what Python and torch take in a process, on the host
_POLL = 0.05  # seconds between two checks of the processes
_WORTH = 2_000_000  # answers times epochs of a fold below which starting a process takes longer than training


def count_parallel_folds(parts: Sequence[Dataset], config: TrainConfig) -> int:
    """How many folds to train at the same time."""
    if config.jobs is not None:
        return min(config.jobs, len(parts))
    used = devices.resolve_all(config.device)
    train = parts[0].train
    if len(used) > 1 or train.steps * config.epochs < _WORTH:
        return 1  # each fold is trained by all devices, or too short
    longest = int(train.segments(config.segment_length).lengths.max(initial=1))
    model = config.model_config(len(train.questions), train.categories)
    needed = estimate_bytes(model, config.batch_size * config.accumulation_steps, longest) + 8 * train.steps
    return jobs_that_fit(len(parts), used[0].type, MemoryLimit(config.budget, used[0]).available(), needed, cores())


def jobs_that_fit(folds: int, kind: str, available: int, needed: int, cores: int) -> int:
    """How many fit at the same time; pure.

    Example:
        >>> jobs_that_fit(5, "cpu", 16 * 10**9, 10**8, cores=4), jobs_that_fit(5, "cuda", 10**9, 4 * 10**8, cores=4)
        (4, 2)
    """
    return max(1, min(folds, cores, available // max(needed + (_PROCESS if kind == "cpu" else 0), 1)))


def estimate_bytes(config: DeepGPCMConfig, batch: int, steps: int) -> int:
    """Roughly what training takes on the device: weights with gradients, moments and average, the tables of questions
    and answers, and what a step saves for the backward pass."""
    Q, K, D, N, F = config.questions + 1, config.categories, config.value_size, config.slots, config.hidden
    weights = Q * (config.key_size + K * D) + 2 * N * D + 2 * D * D + (D + config.key_size) * F
    tables = Q * (N + F + K) + 3 * Q * K * D
    saved = batch * steps * (6 * D + 8 * F + 10 * K + 2 * N)
    return 4 * (5 * weights + 3 * tables + 2 * saved)


@dataclass(slots=True)
class _Process:
    number: int
    popen: subprocess.Popen
    errors: Path
    started: float

    def close(self) -> None:
        """Closes the pipe by which it notices the end of this process."""
        if self.popen.stdin is not None:
            self.popen.stdin.close()


def train_in_parallel(
    parts: Sequence[Dataset],
    configs: Sequence[TrainConfig],
    jobs: int,
    config: TrainConfig,
    progress: Any = False,
    cancel: threading.Event | None = None,
) -> None:
    """Trains all folds, `jobs` of them at a time; each is stored in its folder."""
    device = devices.resolve_all(config.device)[0]
    share = max(1_000_000, MemoryLimit(config.budget, device).bytes // jobs)
    threads = max(1, cores() // jobs)
    began = time.monotonic()
    with (
        Events() as events,
        tempfile.TemporaryDirectory(prefix="brimful-folds-") as scratch,
        _interrupt_all() as running,
    ):
        if (sink := sink_for(progress)) is not None:
            events.add(sink)
        events.emit(Started(work=f"gpcm train, folds, {jobs} at a time", items=len(parts), done=0, budget=share * jobs))
        waiting, done = list(range(len(parts))), 0
        while waiting or running:
            while waiting and len(running) < jobs:
                fold = waiting.pop(0)
                task = parts[fold], replace(configs[fold], budget=share, device=str(device)), threads
                running.append(_start(Path(scratch), fold, task))
            time.sleep(_POLL)
            if cancel is not None and cancel.is_set():
                raise CancelledError("cancelled; finished folds are kept, and the same command resumes")
            for process in [process for process in running if process.popen.poll() is not None]:
                running.remove(process)
                process.close()
                _check(process)
                done += 1
                seconds = time.monotonic() - process.started
                events.emit(BatchDone(items=1, bad=0, done=done, seconds=seconds, peak=0, budget=share * jobs))
        took = time.monotonic() - began
        events.emit(Finished(state="finished", done=done, bad=0, seconds=took))


def _start(scratch: Path, fold: int, task: Any) -> _Process:
    file, errors = scratch / f"{fold}.task", scratch / f"{fold}.errors"
    file.write_bytes(pickle.dumps(task))
    environment = os.environ | {"OMP_NUM_THREADS": str(task[2])}
    with errors.open("wb") as stream:
        popen = subprocess.Popen(
            [*_COMMAND, str(file)], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=stream, env=environment,
            start_new_session=True,  # Ctrl-C is passed on once, by us
        )  # fmt: skip
    return _Process(fold + 1, popen, errors, time.monotonic())


@contextlib.contextmanager
def _interrupt_all() -> Iterator[list[_Process]]:
    """Processes that are still running at the end are interrupted as by Ctrl-C: they write a checkpoint."""
    running: list[_Process] = []
    try:
        yield running
    finally:
        for process in running:
            with contextlib.suppress(ProcessLookupError):
                process.popen.send_signal(2)
        for process in running:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.popen.wait(30)
            process.popen.kill()
            process.popen.wait()
            process.close()


def _check(process: _Process) -> None:
    code = process.popen.returncode
    if code == 0:
        return
    lines = process.errors.read_text(errors="replace").strip().splitlines()
    if code == 130 or code == -2:
        raise KeyboardInterrupt("interrupted; run the same command again to resume")
    raise WorkerError(f"fold {process.number} ended with code {code}: {lines[-1] if lines else 'without a message'}")


def _end_with_parent() -> None:
    """The other end of the pipe closes when the parent ends, however it does; what is finished is on disk."""
    while os.read(0, 1):  # not through sys.stdin, whose lock the interpreter wants at its end
        pass
    os._exit(1)


def main(path: str) -> int:
    """Trains the fold of a task file."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    dataset, config, threads = pickle.loads(Path(path).read_bytes())
    torch.set_num_threads(threads)
    try:
        fit(dataset, config)
    except KeyboardInterrupt:
        return 130
    except BrimfulError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
