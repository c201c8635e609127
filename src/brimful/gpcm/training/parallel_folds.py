"""Folds at the same time: a process each, as many as cores and the budget allow.

A small model keeps neither a GPU nor several cores busy, so folds side by side end earlier than one after another. Each
process gets its share of the threads and of the budget. Processes are started as a module of their own, so that they
do not depend on what the calling script does when it is imported.
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
from ...core.base.errors import BrimfulError, WorkerError
from ...core.memory import devices
from ...core.memory.limit import MemoryLimit
from ...core.runs.events import BatchDone, Events, Finished, Started
from ...core.runs.progress import sink_for
from ..data.files import Folder
from ..model.deep_gpcm import Config
from ..options import Run
from .fit import single

_COMMAND = [sys.executable, "-m", "brimful.gpcm.training.parallel_folds"]
_PROCESS = 700 * 2**20  # what Python and torch take in a process, on the host
_LOOK = 0.05  # seconds between two looks at the processes
_WORTH = 2_000_000  # answers times epochs of a fold below which starting a process takes longer than training


def how_many(parts: Sequence[Folder], run: Run) -> int:
    """How many folds to train at the same time."""
    if run.options.jobs is not None:
        return min(run.options.jobs, len(parts))
    found = devices.resolve_all(run.device)
    if len(found) > 1:
        return 1  # each fold is trained by all devices
    train = parts[0].train
    if train.steps * run.options.epochs < _WORTH:
        return 1
    most = run.options.pieces or int(train.lengths.max(initial=1))
    longest = min(most, int(train.lengths.max(initial=1)))
    size = run.options.batch_size * run.options.gradient_accumulation_steps
    need = bytes_of(run.options.config(len(train.questions), train.categories), size, longest) + 8 * train.steps
    return fitting(len(parts), found[0].type, MemoryLimit(run.budget, found[0]).available(), need, cores())


def fitting(folds: int, kind: str, room: int, need: int, cores: int) -> int:
    """How many fit at the same time; pure.

    Example:
        >>> fitting(5, "cpu", 16 * 10**9, 10**8, cores=4), fitting(5, "cuda", 10**9, 4 * 10**8, cores=4)
        (4, 2)
    """
    each = need + (_PROCESS if kind == "cpu" else 0)
    return max(1, min(folds, cores, room // max(each, 1)))


def bytes_of(config: Config, batch: int, steps: int) -> int:
    """About what training takes on the device: weights with gradients, moments and average, the tables of questions and
    answers, and what a step keeps for the way back."""
    Q, K, D, N, F = config.questions + 1, config.categories, config.value_size, config.slots, config.hidden
    weights = Q * (config.key_size + K * D) + 2 * N * D + 2 * D * D + (D + config.key_size) * F
    tables = Q * (N + F + K) + 3 * Q * K * D
    kept = batch * steps * (6 * D + 8 * F + 10 * K + 2 * N)
    return 4 * (5 * weights + 3 * tables + 2 * kept)


@dataclass(slots=True)
class _Process:
    number: int
    popen: subprocess.Popen
    errors: Path
    started: float

    def close(self) -> None:
        """Lets go of the pipe that tells it whether we live."""
        if self.popen.stdin is not None:
            self.popen.stdin.close()


def run_together(parts: Sequence[Folder], runs: Sequence[Run], jobs: int, whole: Run) -> None:
    """Trains all folds, `jobs` of them at a time; each leaves its model in its folder."""
    device = devices.resolve_all(whole.device)[0]
    share = max(1_000_000, MemoryLimit(whole.budget, device).bytes // jobs)
    threads = max(1, cores() // jobs)
    began = time.monotonic()
    with Events() as events, tempfile.TemporaryDirectory(prefix="brimful-folds-") as scratch, _all_ended() as running:
        if (sink := sink_for(whole.progress)) is not None:
            events.add(sink)
        events.emit(Started(work=f"gpcm train, folds, {jobs} at a time", items=len(parts), done=0, budget=share * jobs))
        waiting, done = list(range(len(parts))), 0
        while waiting or running:
            while waiting and len(running) < jobs:
                place = waiting.pop(0)
                one = replace(runs[place], budget=share, device=str(device), progress=False)
                running.append(_start(Path(scratch), place, (parts[place], one, threads)))
            time.sleep(_LOOK)
            for process in [each for each in running if each.popen.poll() is not None]:
                running.remove(process)
                process.close()
                _check(process)
                done += 1
                seconds = time.monotonic() - process.started
                events.emit(BatchDone(items=1, bad=0, done=done, seconds=seconds, peak=0, budget=share * jobs))
        took = time.monotonic() - began
        events.emit(Finished(state="finished", done=done, bad=0, seconds=took))


def _start(scratch: Path, place: int, task: Any) -> _Process:
    file, errors = scratch / f"{place}.task", scratch / f"{place}.errors"
    file.write_bytes(pickle.dumps(task))
    environment = os.environ | {"OMP_NUM_THREADS": str(task[2])}
    with errors.open("wb") as stream:
        popen = subprocess.Popen(
            [*_COMMAND, str(file)], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=stream, env=environment,
            start_new_session=True,  # Ctrl-C is passed on once, by us
        )  # fmt: skip
    return _Process(place + 1, popen, errors, time.monotonic())


@contextlib.contextmanager
def _all_ended() -> Iterator[list[_Process]]:
    """Processes that are still running at the end are ended, by the way of Ctrl-C: they keep what they have."""
    running: list[_Process] = []
    try:
        yield running
    finally:
        for each in running:
            with contextlib.suppress(ProcessLookupError):
                each.popen.send_signal(2)
        for each in running:
            with contextlib.suppress(subprocess.TimeoutExpired):
                each.popen.wait(30)
            each.popen.kill()
            each.popen.wait()
            each.close()


def _check(process: _Process) -> None:
    code = process.popen.returncode
    if code == 0:
        return
    said = process.errors.read_text(errors="replace").strip().splitlines()
    if code == 130 or code == -2:
        raise KeyboardInterrupt("interrupted; run the same command again to go on")
    raise WorkerError(f"fold {process.number} ended with code {code}: {said[-1] if said else 'it said nothing'}")


def _end_with_parent() -> None:
    """The other end of the pipe closes when the parent ends, however it does; what is finished is on disk."""
    while os.read(0, 1):  # not through sys.stdin, whose lock the interpreter wants at its end
        pass
    os._exit(1)


def main(path: str) -> int:
    """Trains the fold of a task file."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    folder, run, threads = pickle.loads(Path(path).read_bytes())
    torch.set_num_threads(threads)
    try:
        single(folder, run)
    except KeyboardInterrupt:
        return 130
    except BrimfulError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
