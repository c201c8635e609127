"""`map(..., stream=True)`: finished batches, while the rest is computed.

Batches are run when the reader asks for the next part, in its own thread: nothing piles up, its code never runs beside
the function, and the global random generators are its own between two parts.
"""

import contextlib
from collections.abc import Callable, Generator, Iterator
from typing import Any, Protocol, Self, TypeVar

import torch

from ...core.base.rng import preserve_rng
from .result import MapResult
from .store.part_queue import MapPart, PartQueue

T = TypeVar("T")


class Steps(Protocol):
    """What runs the batches: a pipeline or a pool of workers."""

    def steps(self) -> Generator[None]: ...


class MapStream(Iterator[MapPart]):
    """The parts of a map, as they are finished. `close`, or leaving it as a context manager, ends the run: with `out=`
    what was finished is kept, and the same call goes on.

    Attributes:
        result: once all parts have been read, the `MapResult`; its values are None without `out=`.
    """

    def __init__(self, parts: Generator[MapPart, None, MapResult]) -> None:
        self._parts, self.result = parts, None

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> MapPart:
        try:
            return next(self._parts)
        except StopIteration as end:
            self.result: MapResult | None = end.value or self.result
            raise StopIteration from None

    def close(self) -> None:
        """Ends the run where it is."""
        self._parts.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"MapStream({'not finished' if self.result is None else self.result})"


def deliver(
    backend: Steps, queue: PartQueue, device: torch.device, flush: Callable[[], None] | None
) -> Generator[MapPart]:
    """Runs batch after batch, and yields the parts whose turn it is.

    Args:
        flush: waits for what is being written; None: what is written shortly after a step is yielded after the next.
    """
    yield from queue.ready()
    with contextlib.closing(backend.steps()) as steps:
        while True:
            with preserve_rng(device):
                running = next(steps, _END) is not _END
            if not running:
                return
            if flush is not None:
                flush()
            yield from queue.ready()


_END = object()


def drain(generator: Generator[Any, None, T]) -> T:
    """What a generator returns, whatever it yields."""
    while True:
        try:
            next(generator)
        except StopIteration as end:
            return end.value
