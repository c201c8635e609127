"""Ranks for the tests: processes that are started once, with their process groups made, and are handed functions."""

import datetime
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch.distributed as dist

from brimful.engine.distributed.workers import Channel, Event, LocalWorkers

RANKS = 4
_PATIENCE = 120.0  # seconds


class RankPool:
    """Ranks that stay; a function that ends one of them needs ranks of its own (`run_ranks`)."""

    def __init__(self, folder: Path) -> None:
        self._workers = LocalWorkers()
        for rank in range(RANKS):
            self._workers.start(f"rank {rank}", _serve, rank, str(folder / "rendezvous"))

    def call(self, function: Callable[..., Any], ranks: int, *arguments: Any) -> list[Any]:
        """What `function(group, *arguments)` returns or raises on each of so many ranks, by rank."""
        for rank in range(RANKS):
            self._workers.send(rank, (function, ranks, arguments))
        return _collect(self._workers, ranks)

    def close(self) -> None:
        self._workers.close()


def run_ranks(folder: Path, function: Callable[..., Any], ranks: int, *arguments: Any) -> list[Any]:
    """The same on ranks that are started for it; None for one that died."""
    with LocalWorkers() as workers:
        for rank in range(ranks):
            workers.start(f"rank {rank}", _join, rank, ranks, str(folder / "rendezvous"), function, arguments)
        return _collect(workers, ranks)


def _collect(workers: LocalWorkers, ranks: int) -> list[Any]:
    values: dict[int, Any] = {}
    while len(values) < ranks:
        answer = workers.receive(_PATIENCE)
        assert answer is not None, f"ranks {sorted(values)} of {ranks} have answered"
        values[answer.worker] = None if answer.event is Event.DIED else answer.value
    return [values[rank] for rank in range(ranks)]


def _serve(channel: Channel, rank: int, rendezvous: str) -> None:
    _open(rank, RANKS, rendezvous)
    groups = [dist.new_group(list(range(count))) for count in range(1, RANKS + 1)]
    while True:
        function, ranks, arguments = channel.receive()
        if rank < ranks:
            try:
                channel.send(function(groups[ranks - 1], *arguments))
            except Exception as error:
                channel.send(error)


def _join(
    channel: Channel, rank: int, ranks: int, rendezvous: str, function: Callable[..., Any], arguments: tuple[Any, ...]
) -> Any:
    _open(rank, ranks, rendezvous)
    return function(dist.group.WORLD, *arguments)


def _open(rank: int, ranks: int, rendezvous: str) -> None:
    timeout = datetime.timedelta(seconds=_PATIENCE / 3)
    dist.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=ranks, timeout=timeout)
