"""Workers that are actors of a Ray cluster: the second implementation of `Workers`.

An actor runs its worker's function on a thread, and exchanges messages by calls of its method `exchange`, of which one
is always under way. It comes back with what the worker sent, and after some seconds without a word, so that its return
is also the sign that the actor is alive. Ray restarts nothing and repeats no call: what the actor had goes back to
whoever supervises, and what it sends after it was given up is never read.
"""

import contextlib
import os
import pickle
import queue
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

import torch

from ...core.base.errors import InputError, WorkerError
from ...core.base.extras import require
from .packed import Packed, pack
from .workers import Answer, Event, Place, Workers, portable

HEARTBEAT = 2.0
"""Seconds after which an actor that has nothing to say comes back all the same."""

DEADLINE = float(os.environ.get("BRIMFUL_CLUSTER_DEADLINE", 60))
"""Seconds without a sign of life after which an actor is given up."""

PLACING = 50.0
"""Seconds within which there must be room for one of the first actors."""

STARTING = 300.0
"""Seconds within which one of them must have started, where there was room: a busy machine takes its time."""

_LARGE = 1_000_000  # bytes of a pickled argument that are stored once, and not sent to each worker
_CONCURRENT = 4  # calls of an actor at the same time: one that waits, and others that bring messages


class Actor:
    """The process of a worker on a node."""

    def __init__(self) -> None:
        self.cancel = threading.Event()
        self._inbox: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._outbox: queue.SimpleQueue[bytes] = queue.SimpleQueue()

    def begin(self, threads: int, heartbeat: float, *task: Packed) -> list[bytes]:
        """Starts the worker's function, the first of what is packed, with the rest as its arguments."""
        threading.Thread(target=self._run, args=(threads, task), name="brimful-worker", daemon=True).start()
        return self.exchange([], heartbeat)

    def exchange(self, messages: list[bytes], heartbeat: float) -> list[bytes]:
        """Takes messages for the worker, and waits for its own; none within the heartbeat is an empty list."""
        self.deliver(messages)
        answers: list[bytes] = []
        with contextlib.suppress(queue.Empty):
            answers.append(self._outbox.get(timeout=heartbeat))
            while True:
                answers.append(self._outbox.get_nowait())
        return answers

    def deliver(self, messages: list[bytes]) -> None:
        """Takes messages for the worker."""
        for message in messages:
            self._inbox.put(message)

    def stop(self) -> None:
        """Asks the worker to stop."""
        self.cancel.set()

    def send(self, message: Any) -> None:
        """As in `Channel`."""
        self._answer(Event.SENT, message)

    def receive(self) -> Any:
        """As in `Channel`."""
        return pickle.loads(self._inbox.get())

    def _answer(self, event: Event, value: Any) -> None:
        self._outbox.put(pickle.dumps((event, value), protocol=5))

    def _run(self, threads: int, task: tuple[Packed, ...]) -> None:
        torch.set_num_threads(threads)
        try:
            target, *arguments = (part.unpack() for part in task)
        except BaseException as error:
            self._answer(Event.RAISED, _not_unpacked(error))
            return
        try:
            self._answer(Event.RETURNED, target(self, *arguments))
        except BaseException as error:
            self._answer(Event.RAISED, portable(error))


def _not_unpacked(error: BaseException) -> Exception:
    host = os.uname().nodename
    if isinstance(error, ImportError):
        return InputError(
            f"what is run cannot be loaded on the node {host} ({type(error).__name__}: {error}). Install that module "
            "on all nodes, or send it along: ray.cloudpickle.register_pickle_by_value(module)."
        )
    return WorkerError(f"a worker could not start on the node {host}: {type(error).__name__}: {error}")


@dataclass(slots=True)
class _Started:
    """An actor of ours.

    Attributes:
        handle: Ray's.
        place: where it was to be started.
        needs: CPUs and GPUs that it takes.
        began, seen: when it was started, and when it last said something; None: not yet.
        call: the number of the call that is under way; None: none is.
    """

    handle: Any
    place: Place | None
    needs: dict[str, float]
    began: float
    seen: float | None = None
    call: int | None = None


class RayWorkers(Workers):
    """Workers that are actors of the Ray cluster which this process is connected to.

    Args:
        clock: seconds; tests bring their own.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock, self._calls = clock, 0
        self._actors: list[_Started] = []
        self._returned: queue.SimpleQueue[tuple[int, int, Future[list[bytes]]]] = queue.SimpleQueue()
        self._ready: deque[Answer] = deque()
        self._room = False  # whether there was ever room for one that has not started
        self._shared: dict[int, tuple[Any, Any]] = {}  # by id: the value, and where it is stored

    def share(self, value: Any, read_only: bool = False) -> Any:
        """Puts a value into the object store once, for all workers that are started with what this returns.

        Args:
            read_only: nobody writes to its arrays, so that the workers of a node need not have a copy each.

        Raises:
            InputError: it cannot be sent.
        """
        if id(value) not in self._shared:
            self._shared[id(value)] = value, require("ray", "ray").put(_packed(value, read_only))
        return self._shared[id(value)][1]

    def start(
        self, name: str, target: Callable[..., Any], *arguments: Any, threads: int = 1, place: Place | None = None
    ) -> int:
        ray = require("ray", "ray")
        options: dict[str, Any] = {"max_restarts": 0, "max_task_retries": 0, "max_concurrency": _CONCURRENT}
        options["num_cpus"] = threads if place is None else place.cpus
        if place is not None:
            affinity = require("ray", "ray.util.scheduling_strategies").NodeAffinitySchedulingStrategy
            options["scheduling_strategy"] = affinity(node_id=place.node, soft=False)
            if place.device != "cpu":
                options["num_gpus"] = 1
        stored = tuple(part if isinstance(part, ray.ObjectRef) else self._stored(part) for part in (target, *arguments))
        needs = {"CPU": float(options["num_cpus"]), "GPU": float(options.get("num_gpus", 0))}
        self._room = self._room or (not self._actors and _fits(needs, _free()))
        handle = ray.remote(Actor).options(**options).remote()
        worker = len(self._actors)
        self._actors.append(_Started(handle, place, needs, self._clock()))
        self.names.append(name)
        self.running.add(worker)
        self._call(worker, handle.begin, threads, HEARTBEAT, *stored)
        return worker

    def _stored(self, argument: Any) -> Any:
        """An argument as it is sent: packed, or where it is large as what `share` returns."""
        if id(argument) in self._shared:
            return self._shared[id(argument)][1]
        packed = _packed(argument)
        if len(packed.content) < _LARGE:
            return packed
        self._shared[id(argument)] = argument, require("ray", "ray").put(packed)
        return self._shared[id(argument)][1]

    def send(self, worker: int, message: Any) -> None:
        if worker not in self.running:
            return
        actor, content = self._actors[worker], [pickle.dumps(message, protocol=5)]
        if actor.call is None:
            self._call(worker, actor.handle.exchange, content, HEARTBEAT)
        else:
            actor.handle.deliver.remote(content)

    def receive(self, timeout: float) -> Answer | None:
        until = self._clock() + timeout
        while not self._ready and self.running:
            for worker in self.running:
                if self._actors[worker].call is None:
                    self._call(worker, self._actors[worker].handle.exchange, [], HEARTBEAT)
            left = until - self._clock()
            try:
                self._take(*self._returned.get(timeout=max(0.0, min(left, HEARTBEAT))))
                while True:
                    self._take(*self._returned.get_nowait())
            except queue.Empty:
                self._give_up()
                if left <= 0:
                    break
        return self._ready.popleft() if self._ready else None

    def cancel(self) -> None:
        for worker in self.running:
            self._actors[worker].handle.stop.remote()

    def kill(self, worker: int) -> None:
        self._ended(worker, "it was ended")

    def close(self, grace: float = 0.0) -> None:
        until = self._clock() + grace
        if grace:
            self.cancel()
        while self.running and (left := until - self._clock()) > 0:
            self.receive(left)
        for actor in self._actors:
            _kill(actor.handle)
        self.running.clear()
        self._ready.clear()
        self._shared.clear()

    def _call(self, worker: int, method: Any, *arguments: Any) -> None:
        self._calls += 1
        self._actors[worker].call = number = self._calls
        future: Future[list[bytes]] = method.remote(*arguments).future()
        future.add_done_callback(lambda done: self._returned.put((worker, number, done)))

    def _take(self, worker: int, call: int, returned: "Future[list[bytes]]") -> None:
        """A call has come back. One of an actor that was given up counts for nothing."""
        actor = self._actors[worker]
        if worker not in self.running or actor.call != call:
            return
        try:
            contents = returned.result()
        except Exception as error:
            self._ended(worker, how(error))
            return
        actor.call, actor.seen = None, self._clock()
        for content in contents:
            event, value = pickle.loads(content)
            if event is not Event.SENT:
                self.running.discard(worker)
                _kill(actor.handle)
            self._ready.append(Answer(worker, event, value))

    def _ended(self, worker: int, why: str) -> None:
        """Gives up an actor, whatever it does from here on."""
        if worker in self.running:
            self.running.discard(worker)
            _kill(self._actors[worker].handle)
            self._ready.append(Answer(worker, Event.DIED, why))

    def _give_up(self) -> None:
        """Of those that are overdue."""
        now, running = self._clock(), [(worker, self._actors[worker]) for worker in sorted(self.running)]
        for worker, actor in running:
            if actor.seen is not None and actor.call is not None and now - actor.seen > DEADLINE:
                self._ended(worker, f"no sign of life for {DEADLINE:g} seconds: its node is frozen, or cut off")
        if not running or any(actor.seen is not None for _, actor in running):
            return
        free = {name: amount for name, amount in _free().items() if name in ("CPU", "GPU")}
        self._room = self._room or any(_fits(actor.needs, free) for _, actor in running)
        waited = min(now - actor.began for _, actor in running)
        if self._room and waited > STARTING:
            raise WorkerError(
                f"no worker has started on the cluster within {STARTING:g} seconds, though there was room: its nodes "
                "are busy, or the file system that they import from is slow."
            )
        if not self._room and waited > PLACING:
            raise WorkerError(
                f"no worker could be placed on the cluster within {PLACING:g} seconds: other work has its CPUs or GPUs "
                f"(free now: {free or 'none'}). `ray status` shows what is taken; wait for it, or end it."
            )


def _free() -> dict[str, float]:
    return require("ray", "ray").available_resources()


def _fits(needs: dict[str, float], free: dict[str, float]) -> bool:
    return all(free.get(name, 0.0) >= amount for name, amount in needs.items())


def _packed(value: Any, shared: bool = False) -> Packed:
    try:
        return pack(value, shared)
    except Exception as error:
        raise InputError(
            f"what is run must be sent to other machines, and this cannot be ({type(error).__name__}: {error}). Leave "
            "out what is bound to this process, such as open files, locks and connections; make those in setup=."
        ) from error


def _kill(handle: Any) -> None:
    ray = require("ray", "ray")
    with contextlib.suppress(Exception):  # it is gone already, or the cluster is
        ray.kill(handle, no_restart=True)


def how(error: BaseException) -> str:
    """How an actor ended, in a few words."""
    exceptions = require("ray", "ray.exceptions")
    text = " ".join(str(error).split())
    if isinstance(error, exceptions.OutOfMemoryError):
        return "the memory of its host ran out, and Ray ended it; name a smaller budget, or fewer workers per node"
    if isinstance(error, exceptions.ActorUnavailableError):
        return "its node was lost"
    for mark in ("Worker exit detail:", "The actor is dead because", "The actor died because"):
        if mark in text:
            return text.split(mark, 1)[1].strip().split(". ")[0].rstrip(".")
    return f"{type(error).__name__}: {text[:200]}"
