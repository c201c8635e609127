"""Folds in parallel: one process per fold, as many at a time as cores and the budget allow.

A small model keeps neither a GPU nor several cores busy, so folds in parallel finish earlier. Each process gets its
share of the threads and of the budget.
"""

import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ...core.base.background import cores
from ...core.base.errors import ConfigError, WorkerError
from ...core.memory import devices
from ...core.memory.limit import MemoryLimit
from ...core.runs.context import stop_request
from ...core.runs.events import BatchDone, Events, Finished, Started
from ...core.runs.progress import sink_for
from ...engine.distributed.workers import Channel, Event, LocalWorkers
from ..data.files import Dataset
from ..options import TrainConfig
from .cost import train_bytes
from .fit import fit

_PROCESS = 700 * 2**20  # what Python and torch take in a process, on the host
_WORTH = 2_000_000  # answers times epochs of a fold below which starting a process takes longer than training
_POLL = 0.2  # seconds between two looks at whether to stop
_GRACE = 30.0  # seconds for the other folds to write a checkpoint, where one fails or the run is stopped


def count_parallel_folds(parts: Sequence[Dataset], config: TrainConfig) -> int:
    """How many folds to train at the same time."""
    together = config.ranks or 1
    if together > 1 and (config.jobs or 1) > 1:
        raise ConfigError(
            f"jobs is {config.jobs} and ranks {together}: processes train several folds at a time, or one fold "
            "together. Leave one of them out"
        )
    if config.jobs is not None:
        return min(config.jobs, len(parts))
    used = devices.resolve_all(config.device)
    train = parts[0].train
    if len(used) > 1 or together > 1 or train.steps * config.epochs < _WORTH:
        return 1  # each fold is trained by all devices or ranks, or too short
    longest = int(train.segments(config.segment_length).lengths.max(initial=1))
    model = config.model_config(len(train.questions), train.categories)
    needed = train_bytes(model, config.batch_size * config.accumulation_steps, longest) + 8 * train.steps
    return jobs_that_fit(len(parts), used[0].type, MemoryLimit(config.budget, used[0]).available(), needed, cores())


def jobs_that_fit(folds: int, kind: str, available: int, needed: int, cores: int) -> int:
    """How many fit at the same time; pure.

    Example:
        >>> jobs_that_fit(5, "cpu", 16 * 10**9, 10**8, cores=4), jobs_that_fit(5, "cuda", 10**9, 4 * 10**8, cores=4)
        (4, 2)
    """
    return max(1, min(folds, cores, available // max(needed + (_PROCESS if kind == "cpu" else 0), 1)))


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
    workers, started = LocalWorkers(), list[float]()
    with stop_request(cancel) as stop, Events(*filter(None, [sink_for(progress)])) as events:
        events.emit(Started(work=f"gpcm train, folds, {jobs} at a time", items=len(parts), done=0, budget=share * jobs))
        try:
            done = 0
            while done < len(parts):
                while len(workers.running) < jobs and len(started) < len(parts):
                    fold = len(started)
                    started.append(time.monotonic())
                    own = replace(configs[fold], budget=share, device=str(device))
                    workers.start(f"fold {fold + 1}", _train_fold, parts[fold], own, threads=threads)
                if stop():
                    raise KeyboardInterrupt("interrupted; finished folds are kept, and the same command resumes")
                answer = workers.receive(_POLL)
                if answer is None:
                    continue
                if answer.event is Event.RAISED:
                    raise answer.value
                if answer.event is Event.DIED:
                    raise WorkerError(
                        f"{workers.names[answer.worker]} died ({answer.value}). With out=, run the same command again "
                        "to resume"
                    )
                done += 1
                seconds = time.monotonic() - started[answer.worker]
                events.emit(BatchDone(items=1, bad=0, done=done, seconds=seconds, peak=0, budget=share * jobs))
        finally:
            workers.close(_GRACE)
        events.emit(Finished(state="finished", done=done, bad=0, seconds=time.monotonic() - started[0]))


def _train_fold(channel: Channel, dataset: Dataset, config: TrainConfig) -> None:
    fit(dataset, config, cancel=channel.cancel)
