"""Ranks on one machine: a process each, started and watched by the one that called `train`.

The parent trains nothing. It opens the run directory, hands the task to the ranks, passes on what the first one tells,
and ends all of them as soon as one is gone.
"""

import contextlib
import multiprocessing
import multiprocessing.connection
import pickle
import signal
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import safetensors.torch
import torch

from ...core.base.errors import InputError, WorkerError
from ...core.memory.limit import MemoryLimit
from ...core.runs.events import BatchDone, Event, Events, Finished
from ..distributed.collectives import Group, joined
from . import run as trainjob
from .result import TrainResult
from .run import RunLocation
from .task import TrainTask

_LONG = 1800.0  # seconds a rank waits for another: the parent sees sooner that one is gone
_GRACE = 3.0  # seconds for the one that died to be seen, when another complains first


@dataclass(frozen=True, slots=True)
class _Order:
    """What a rank is told when it starts."""

    group: Group
    location: RunLocation | None
    rendezvous: str
    threads: int


def run(
    task: TrainTask,
    rank_devices: Sequence[torch.device],
    location: RunLocation | None,
    events: Events,
    stop: Callable[[], bool],
) -> TrainResult:
    """Trains on several ranks; the model that was given has the result."""
    task = _with_share(task, rank_devices)
    try:
        sent = pickle.dumps(task)
    except Exception as error:
        raise InputError(
            f"several ranks need a model, loss, data and metrics that other processes can import, and these cannot be "
            f"sent ({error}). Define them at the top level of a module, not inside another function or as a lambda."
        ) from error
    context = multiprocessing.get_context("spawn")
    threads = max(1, torch.get_num_threads() // len(rank_devices))
    with tempfile.TemporaryDirectory(prefix="brimful-ranks-") as folder:
        crew, heard = list[_Rank](), _Heard(events)
        try:
            for rank, device in enumerate(rank_devices):
                mine, theirs = context.Pipe()
                group = Group(rank, len(rank_devices), device)
                order = _Order(group, location if rank == 0 else None, f"file://{folder}/rendezvous", threads)
                process = context.Process(
                    target=_rank, args=(theirs, sent, order), daemon=True, name=f"brimful-rank-{rank}"
                )
                process.start()
                theirs.close()
                crew.append(_Rank(rank, process, mine))
            return _watch(crew, task, heard, stop)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            with contextlib.suppress(Exception):
                heard.failed(error)
            raise
        finally:
            for each in crew:
                each.end()


def _with_share(task: TrainTask, rank_devices: Sequence[torch.device]) -> TrainTask:
    """Ranks on one CPU share its memory, and so the budget."""
    if rank_devices[0].type != "cpu":
        return task
    share = MemoryLimit(task.config.budget, rank_devices[0]).bytes // len(rank_devices)
    return replace(task, config=replace(task.config, budget=share))


@dataclass(slots=True)
class _Rank:
    rank: int
    process: Any
    pipe: Any
    spoke: bool = False
    over: bool = False

    def end(self) -> None:
        with contextlib.suppress(OSError):
            self.pipe.close()
        self.process.join(2 if self.over else 0.1)
        for way in (self.process.terminate, self.process.kill):
            if self.process.is_alive():
                way()
                self.process.join(3)


class _Heard:
    """Passes on what the first rank tells. That the run failed is told once, by the parent, which knows why."""

    def __init__(self, events: Events) -> None:
        self._events, self._started = events, time.perf_counter()
        self._done = self._bad = 0

    def __call__(self, event: Event) -> None:
        if isinstance(event, BatchDone):
            self._done, self._bad = event.done, event.flagged
        if not (isinstance(event, Finished) and event.state == "failed"):
            self._events.emit(event)

    def failed(self, error: BaseException) -> None:
        message = str(error).splitlines()[0] if str(error) else type(error).__name__
        seconds = time.perf_counter() - self._started
        self._events.emit(Finished(state="failed", done=self._done, bad=self._bad, seconds=seconds, message=message))


def _watch(crew: list[_Rank], task: TrainTask, heard: _Heard, stop: Callable[[], bool]) -> TrainResult:
    """Listens until all ranks are done, or one is gone."""
    result: TrainResult | None = None
    told = False
    while waiting := [each for each in crew if not each.over]:
        if stop() and not told:
            told = True
            for each in waiting:
                with contextlib.suppress(OSError):
                    each.pipe.send("stop")
        pipes = {each.pipe: each for each in waiting}
        for pipe in multiprocessing.connection.wait(list(pipes), timeout=0.2):
            each = pipes[pipe]  # pyright: ignore[reportArgumentType]
            try:
                kind, content = each.pipe.recv()
            except (EOFError, OSError):
                raise _died(each) from None
            each.spoke = True
            match kind:
                case "event":
                    heard(content)
                case "fail":
                    each.over = True
                    if each.rank == 0 or not isinstance(content, KeyboardInterrupt):  # the first knows what was kept
                        raise _cause(crew, content)
                case "end":
                    each.over = True
                    if each.rank == 0:
                        fields, weights = content
                        task.model.load_state_dict(safetensors.torch.load(weights))
                        task.model.eval()
                        result = TrainResult(model=task.model, **fields)
    if result is None:
        raise WorkerError("the ranks ended without a result. Run the same command again")
    return result


def _cause(crew: list[_Rank], error: BaseException) -> BaseException:
    """A rank complains; if that is of another that is gone, the one that is gone is the news."""
    if not isinstance(error, WorkerError):
        return error
    until = time.monotonic() + _GRACE
    while time.monotonic() < until:
        for each in crew:
            if not each.over and each.process.exitcode is not None and not each.pipe.poll():
                return _died(each)
        for each in crew:
            if not each.over and each.pipe.poll():
                with contextlib.suppress(EOFError, OSError):
                    kind, content = each.pipe.recv()
                    each.over = kind in ("fail", "end")
                    if kind == "fail" and not isinstance(content, WorkerError):
                        return content
        time.sleep(0.05)
    return error


def _died(each: _Rank) -> WorkerError:
    each.process.join(2)
    code = each.process.exitcode
    if not each.spoke and code is not None and code > 0:
        return WorkerError(
            f"rank {each.rank} could not start (exit code {code}). Ranks import your script: put what it runs under "
            'if __name__ == "__main__":, and define model, loss and metrics at its top level.'
        )
    return WorkerError(
        f"rank {each.rank} died (exit code {code}), and the others were ended. With out=, run the same command again "
        "to go on from the last checkpoint."
    )


def _rank(pipe: Any, sent: bytes, order: _Order) -> None:
    """A rank's process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent tells when to stop
    torch.set_num_threads(order.threads)
    asked = [False]

    def stop() -> bool:
        if not asked[0] and pipe.poll():
            pipe.recv()
            asked[0] = True
        return asked[0]

    def tell(event: Event) -> None:
        pipe.send(("event", event))

    try:
        task: TrainTask = pickle.loads(sent)
        with Events(*([tell] if order.group.first else [])) as events, joined(order.group, order.rendezvous, _LONG):
            result = trainjob.run(task, order.group, events, order.location, stop)
        if order.group.first:
            weights = safetensors.torch.save(
                {name: value.cpu().clone().contiguous() for name, value in task.model.state_dict().items()}
            )
            fields = {name: getattr(result, name) for name in result.__dataclass_fields__ if name != "model"}
            pipe.send(("end", (fields, weights)))
        else:
            pipe.send(("end", None))
    except (KeyboardInterrupt, Exception) as error:
        with contextlib.suppress(OSError):
            pipe.send(("fail", _sendable(error)))


def _sendable(error: BaseException) -> BaseException:
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return WorkerError(f"a rank failed: {type(error).__name__}: {error}")
    return error
