"""Ranks on one machine: one process each, started and supervised by the one that called `train`.

The parent trains nothing. It opens the run directory, sends the task to the ranks, passes on the events of the first
one, and ends all of them as soon as one is gone.
"""

import contextlib
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import safetensors.torch
import torch

from ...core.base.errors import WorkerError
from ...core.memory.limit import MemoryLimit
from ...core.runs.events import BatchDone, Events, Finished
from ...core.runs.events import Event as RunEvent
from ...core.runs.log_state import LogState, RunClock
from ..distributed.collectives import Group
from ..distributed.process_group import process_group
from ..distributed.workers import Answer, Channel, Event, LocalWorkers
from .checkpoints import CheckpointDir
from .result import TrainResult
from .run import run as run_rank
from .task import TrainTask

_TIMEOUT = 1800.0  # seconds a rank waits for another: the parent sees sooner that one is gone
_GRACE = 3.0  # seconds for the one that died to be seen, when another complains first


def run(
    task: TrainTask,
    rank_devices: Sequence[torch.device],
    checkpoints: CheckpointDir | None,
    events: Events,
    stop: Callable[[], bool],
) -> TrainResult:
    """Trains on several ranks; the model that was given has the result."""
    count, task = len(rank_devices), with_budget_share(task, rank_devices[0], len(rank_devices))
    threads = max(1, torch.get_num_threads() // count)
    forward = _EventForwarder(events, LogState() if checkpoints is None else checkpoints.before)
    with tempfile.TemporaryDirectory(prefix="brimful-ranks-") as folder, LocalWorkers() as ranks:
        try:
            for rank, device in enumerate(rank_devices):
                own = checkpoints if rank == 0 else None
                arguments = task, Group(rank, count, device), own, f"file://{folder}/rendezvous"
                ranks.start(f"rank {rank}", _train_rank, *arguments, threads=threads)
            fields, weights = _supervise(ranks, forward, stop)
        except Exception as error:  # of an interruption the first rank has said so
            with contextlib.suppress(Exception):
                forward.failed(error)
            raise
    task.model.load_state_dict(safetensors.torch.load(weights))
    task.model.eval()
    return TrainResult(model=task.model, **fields)


def with_budget_share(task: TrainTask, device: torch.device, ranks: int) -> TrainTask:
    """Ranks on one CPU share its memory, and so the budget."""
    if device.type != "cpu" or ranks == 1:
        return task
    share = MemoryLimit(task.config.budget, device).bytes // ranks
    return replace(task, config=replace(task.config, budget=share))


class _EventForwarder:
    """Emits the events of the first rank. That the run failed is emitted once, by the parent, which knows why."""

    def __init__(self, events: Events, before: LogState) -> None:
        self._events, self._clock = events, RunClock(before.seconds)
        self._done, self._bad = before.kept, before.bad

    def __call__(self, event: RunEvent) -> None:
        if isinstance(event, BatchDone):
            self._done, self._bad = event.done if event.kept is None else event.kept, event.flagged
        if not (isinstance(event, Finished) and event.state == "failed"):
            self._events.emit(event)

    def failed(self, error: BaseException) -> None:
        message = str(error).splitlines()[0] if str(error) else type(error).__name__
        seconds = self._clock.seconds()
        self._events.emit(Finished(state="failed", done=self._done, bad=self._bad, seconds=seconds, message=message))


def _supervise(ranks: LocalWorkers, forward: _EventForwarder, stop: Callable[[], bool]) -> tuple[Any, bytes]:
    """Passes on events until all ranks are done, or one is gone; what the first rank returned."""
    result = None
    while ranks.running:
        if stop():
            ranks.cancel()
        answer = ranks.receive(0.2)
        if answer is None:
            continue
        match answer.event:
            case Event.SENT:
                forward(answer.value)
            case Event.RETURNED if answer.worker == 0:
                result = answer.value
            case Event.RAISED:
                interrupted = isinstance(answer.value, KeyboardInterrupt)
                if answer.worker == 0 or not interrupted:  # the first knows what was kept
                    raise _cause(ranks, answer.value)
            case Event.DIED:
                raise _died(ranks, answer)
    if result is None:
        raise WorkerError("the ranks ended without a result. Run the same command again")
    return result


def _cause(ranks: LocalWorkers, error: BaseException) -> BaseException:
    """A rank complains; if that is of another that is gone, the one that is gone is the news."""
    until = time.monotonic() + _GRACE
    while isinstance(error, WorkerError) and ranks.running and time.monotonic() < until:
        answer = ranks.receive(0.05)
        if answer is not None and answer.event is Event.DIED:
            return _died(ranks, answer)
        if answer is not None and answer.event is Event.RAISED and not isinstance(answer.value, WorkerError):
            return answer.value
    return error


def _died(ranks: LocalWorkers, answer: Answer) -> WorkerError:
    return WorkerError(
        f"{ranks.names[answer.worker]} died ({answer.value}), and the others were ended. With out=, run the same "
        "command again to resume from the last checkpoint."
    )


def _train_rank(
    channel: Channel, task: TrainTask, group: Group, checkpoints: CheckpointDir | None, rendezvous: str
) -> tuple[Any, bytes] | None:
    """Trains as one rank; the fields of the result, and the weights, on the first."""
    with Events(*([channel.send] if group.is_first else [])) as events, process_group(group, rendezvous, _TIMEOUT):
        result = run_rank(task, group, events, checkpoints, channel.cancel.is_set)
    if not group.is_first:
        return None
    state = {name: value.cpu().clone().contiguous() for name, value in task.model.state_dict().items()}
    fields = {name: getattr(result, name) for name in result.__dataclass_fields__ if name != "model"}
    return fields, safetensors.torch.save(state)
