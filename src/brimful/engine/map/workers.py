"""A map over several devices: one worker process each, all working off the same cuts.

The parent owns the items, the sizer and the ledger; a worker asks for a cut, gets its items, and hands the results
back. A worker runs the same pipeline as a single process, with a `RemoteScheduler` where the parent has its
`LocalScheduler`: each method is one message over a pipe. A worker that dies gives its cuts back to the others.
"""

import contextlib
import math
import multiprocessing
import multiprocessing.connection
import pickle
import signal
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from ...core.base import pytree
from ...core.base.errors import InputError, WorkerError
from ...core.memory.budget import Budget
from ...core.memory.devices import memory
from ...core.memory.limit import MemoryLimit
from .batch_sizer import BatchSpan
from .executor import BatchResult, Executor
from .fallback import fallback_executor
from .pipeline import LOOK, BatchMeasurement, Pipeline
from .scheduler import LocalScheduler
from .sources import LoadedBatch


@dataclass(frozen=True, slots=True)
class MapTask:
    """What a worker needs to know."""

    fn: Callable[[Any], Any]
    device: str
    budget: int
    nonfinite: str
    fallback: Any
    threads: int


class RemoteScheduler:
    """The work as a worker sees it: every call goes to the parent and waits for its answer."""

    def __init__(self, pipe: Any) -> None:
        self._pipe, self._lock = pipe, threading.Lock()
        self._loads: dict[BatchSpan, LoadedBatch] = {}

    def _ask(self, name: str, *arguments: Any) -> Any:
        with self._lock:
            _send(self._pipe, (name, arguments))
            return _receive(self._pipe)

    def next(self, available: int) -> BatchSpan | None:
        answer = self._ask("next", available)
        if answer is None:
            return None
        span, loaded = answer
        span = replace(span, start=loaded.start, stop=loaded.start + loaded.count)  # two cuts of a stream look alike
        self._loads[span] = loaded
        return span

    def load(self, span: BatchSpan) -> LoadedBatch:
        return self._loads.pop(span)

    def begin(self, start: int, stop: int) -> None:
        self._ask("begin", start, stop)

    def done(self, done: BatchResult, report: BatchMeasurement) -> None:
        self._ask("done", done, report)

    def probe_failed(self) -> None:
        self._ask("probe_failed")

    def transfer_bytes(self, weight: float, inward: int, outward: int) -> None:
        self._ask("transfer_bytes", weight, inward, outward)

    def out_of_memory(self, weight: float, contended: bool, limit: int) -> None:
        self._ask("out_of_memory", weight, contended, limit)

    def ceiling(self) -> float:
        return self._ask("ceiling")

    def predicted_bytes(self, weight: float) -> int:
        return self._ask("predicted_bytes", weight)

    def allocator_retried(self, weight: float) -> None:
        self._ask("allocator_retried", weight)

    def warn(self, message: str) -> None:
        self._ask("warn", message)

    def flush(self) -> None:
        self._ask("flush")


def _worker(pipe: Any, task: MapTask) -> None:
    """The life of a worker process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches every process of a terminal; the parent decides
    torch.set_num_threads(task.threads)
    device = torch.device(task.device)
    try:
        with MemoryLimit(task.budget, device, every=LOOK) as memory_limit:
            rescue = fallback_executor(task.fn, device, task.nonfinite, task.fallback)
            executor = Executor(task.fn, device, nonfinite=task.nonfinite, rescue=rescue)
            drive = Pipeline(executor, memory_limit, RemoteScheduler(pipe))
            drive.run()
            _send(pipe, ("end", (drive.observed,)))
    except (EOFError, BrokenPipeError):
        return  # the parent has gone
    except BaseException as error:
        with contextlib.suppress(Exception):
            _send(pipe, ("fail", (_portable(error),)))


def _send(pipe: Any, message: Any) -> None:
    """Plain bytes over the pipe. Shared memory would be faster, and is 64 MB in a container unless said otherwise."""
    pipe.send_bytes(pickle.dumps(message, protocol=5))


def _receive(pipe: Any) -> Any:
    return pickle.loads(pipe.recv_bytes())


def _portable(error: BaseException) -> BaseException:
    try:
        pickle.loads(pickle.dumps(error))
        return error
    except Exception:
        return WorkerError(f"{type(error).__name__}: {error}")


@dataclass(slots=True)
class _Worker:
    process: Any
    pipe: Any
    held: dict[int, LoadedBatch] = field(default_factory=dict)  # handed out and not done, by position
    probing: bool = False
    spoke: bool = False
    over: bool = False


class WorkerPool:
    """The workers of a map, served by the parent.

    Args:
        tasks: one for each worker.
        scheduler: hands out the batches.
    """

    def __init__(self, tasks: Sequence[MapTask], scheduler: LocalScheduler) -> None:
        self._scheduler, self.observed = scheduler, 0
        self._returned: list[LoadedBatch] = []
        self._lost: dict[int, int] = {}
        try:
            pickle.dumps(tasks[0])
        except Exception as error:
            raise InputError(
                f"several devices need a function that other processes can import, and this one cannot be sent "
                f"({error}). Define it at the top level of a module, not inside another function or as a lambda."
            ) from error
        context = multiprocessing.get_context("spawn")
        self._workers = []
        for task in tasks:
            mine, theirs = context.Pipe()
            process = context.Process(target=_worker, args=(theirs, task), daemon=True, name=f"brimful-{task.device}")
            process.start()
            theirs.close()
            self._workers.append(_Worker(process, mine))

    def run(self) -> None:
        """Serves the workers until all work is done."""
        waiting: list[tuple[_Worker, int]] = []  # those that asked for a cut when none could be given
        try:
            while alive := [worker for worker in self._workers if not worker.over]:
                pipes = {worker.pipe: worker for worker in alive}
                for pipe in multiprocessing.connection.wait(list(pipes), timeout=1.0):
                    worker = pipes[pipe]
                    try:
                        name, arguments = _receive(worker.pipe)
                    except (EOFError, OSError):
                        self._bury(worker)
                        continue
                    worker.spoke = True
                    if name == "next":
                        waiting.append((worker, arguments[0]))
                    else:
                        self._answer(worker, name, arguments)
                waiting = [each for each in waiting if not each[0].over and not self._hand_out(*each)]
        finally:
            self.close()

    def land(self) -> None:
        """Nothing is under way here: what the workers had not handed in is dropped."""

    def _hand_out(self, worker: _Worker, available: int) -> bool:
        """Gives a worker its next cut. False: it has to wait, for another's probe, or to see whether a worker dies."""
        if self._returned:
            loaded = self._returned.pop(0)
            span: BatchSpan | None = BatchSpan(loaded.start, loaded.start + loaded.count, math.inf)
        elif (span := self._scheduler.next(available)) is not None:
            loaded = self._scheduler.load(span)
        else:
            others = any(each.held for each in self._workers if each is not worker and not each.over)
            if others and not worker.held:
                return False
            _tell(worker, None)
            return True
        if loaded.count:
            # Noted here, not when it runs: another worker may finish a later cut first, and a gap would not tell
            # how it had been cut.
            self._scheduler.begin(loaded.start, loaded.start + loaded.count)
            worker.held[loaded.start] = loaded
            worker.probing = worker.probing or span.probe
        _tell(worker, (span, _compact(loaded)))
        return True

    def _answer(self, worker: _Worker, name: str, arguments: tuple[Any, ...]) -> None:
        match name:
            case "end":
                worker.over = True
                self.observed = max(self.observed, arguments[0])
                return
            case "fail":
                worker.over = True
                raise arguments[0]
            case "begin":
                self._split(worker, *arguments)
            case "done":
                worker.held.pop(arguments[0].start, None)
                worker.probing = worker.probing and not arguments[1].probe
            case "out_of_memory" | "probe_failed":
                worker.probing = False
        _tell(worker, getattr(self._scheduler, name)(*arguments))

    @staticmethod
    def _split(worker: _Worker, start: int, stop: int) -> None:
        """A worker cuts what it holds in two when it does not fit."""
        for first, loaded in list(worker.held.items()):
            last = first + loaded.count
            if first <= start and stop <= last and (first, last) != (start, stop):
                del worker.held[first]
                for begin, end in ((first, start), (start, stop), (stop, last)):
                    if begin < end:
                        worker.held[begin] = loaded.slice(begin - first, end - first)

    def _bury(self, worker: _Worker) -> None:
        """A worker died without a word: the others do what it had, unless it is what kills them."""
        worker.over = True
        worker.process.join(5)
        code = worker.process.exitcode
        for start, loaded in worker.held.items():
            self._lost[start] = self._lost.get(start, 0) + 1
            if self._lost[start] > 1:
                raise WorkerError(
                    f"two workers died on the batch at positions {start} to {start + loaded.count} (exit code {code}). "
                    "With out=, what was finished is kept: look at those items, or name a smaller budget, and run the "
                    "same command again."
                )
        killed = code is not None and code < 0  # from outside: that says nothing against the script
        if not worker.spoke and not killed:
            raise WorkerError(
                f"a worker could not start (exit code {code}). Workers import your script: put what it runs under "
                'if __name__ == "__main__":, and define the function at its top level.'
            )
        if all(each.over for each in self._workers):
            raise WorkerError(
                f"every worker has died, the last with exit code {code}. With out=, what was finished is kept: run the "
                "same command again to go on."
            )
        self._returned += [worker.held[start] for start in sorted(worker.held)]
        if worker.probing:
            self._scheduler.probe_failed()
        self._scheduler.warn(f"{worker.process.name} died (exit code {code}); the others take over its work")

    def close(self) -> None:
        """Ends every worker."""
        for worker in self._workers:
            worker.pipe.close()
        for worker in self._workers:
            worker.process.join(2 if worker.over else 0.2)
            if worker.process.is_alive():
                worker.process.terminate()
                worker.process.join(5)


def _tell(worker: _Worker, message: Any) -> None:
    with contextlib.suppress(ConnectionError):  # it died meanwhile: its pipe tells so when it is next looked at
        _send(worker.pipe, message)


def _compact(loaded: LoadedBatch) -> LoadedBatch:
    """A batch that holds its own rows only: a view would be sent with all of the array behind it."""
    if loaded.tree is None:
        return loaded
    tree = pytree.apply(loaded.tree, lambda tensor: tensor.detach().cpu().clone())
    return LoadedBatch(loaded.start, loaded.count, tree, loaded.bad, loaded.weights)


def map_tasks(
    fn: Callable[[Any], Any], places: Sequence[torch.device], budget: Any, nonfinite: str, fallback: Any, threads: int
) -> list[MapTask]:
    """One task a device. Workers on the CPU share its budget and its cores."""
    parsed, on_cpu = Budget.parse(budget), sum(place.type == "cpu" for place in places)
    tasks = []
    for place in places:
        limit = parsed.on(place).limit(memory(place), held=0)
        share = on_cpu if place.type == "cpu" else 1
        tasks.append(MapTask(fn, str(place), limit // share, nonfinite, fallback, max(1, threads // len(places))))
    return tasks
