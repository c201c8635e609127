"""What the tests of `map` share: functions to map, items to map them over, and a log of the events."""

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

import brimful
from brimful.core.runs.events import Event, Warned


def run(fn: Callable[[Any], Any], items: Any, **options: Any) -> Any:
    """The result of a silent map."""
    silent: Any = {"progress": False, **options}
    return brimful.map(fn, items, **silent)


class EventLog(list[Event]):
    """A progress function that records the events."""

    def __call__(self, event: Event) -> None:
        self.append(event)

    def of(self, kind: type) -> list[Any]:
        return [event for event in self if isinstance(event, kind)]

    @property
    def warnings(self) -> list[str]:
        return [event.message for event in self.of(Warned)]


class Recorded:
    """A function that records the sizes of the batches it was given."""

    def __init__(self, fn: Callable[[Any], Any]) -> None:
        self.fn, self.sizes = fn, list[int]()

    def __call__(self, batch: Any) -> Any:
        self.sizes.append(len(batch))
        return self.fn(batch)


def double(x: torch.Tensor) -> torch.Tensor:
    return x * 2


def stamped(x: torch.Tensor) -> torch.Tensor:
    """Rows whose bits depend on how many there are in the batch."""
    return x * 2 + len(x) / 7


def rows(count: int, width: int = 3) -> torch.Tensor:
    return torch.arange(count * width, dtype=torch.float32).reshape(count, width) / 3


def stream(count: int, width: int = 3) -> Iterator[torch.Tensor]:
    yield from rows(count, width)


def shards_of(folder: Path) -> list[Path]:
    """The shards of a run, in order."""
    return sorted(folder.glob("shard-*.parquet"))


def same(first: torch.Tensor, second: torch.Tensor) -> bool:
    """Whether two tensors are equal to the bit, NaN for NaN."""
    return first.dtype == second.dtype and first.shape == second.shape and bytes(bits(first)) == bytes(bits(second))


def bits(tensor: torch.Tensor) -> np.ndarray:
    return tensor.contiguous().reshape(-1).view(torch.uint8).numpy() if tensor.numel() else np.zeros(0, np.uint8)


PACE = "BRIMFUL_TEST_SECONDS_PER_ITEM"
"""The environment variable that says what an item takes: it is not a part of the function, so that a run may be resumed
at another pace."""


@dataclass(frozen=True)
class Slowly:
    """A function of this module that takes its time for each item, with a line in a file for each call."""

    name: str
    log: str

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        with Path(self.log).open("a") as file:
            file.write(f"{len(x)}\n")
        time.sleep(float(os.environ[PACE]) * len(x))
        return globals()[self.name](x)
