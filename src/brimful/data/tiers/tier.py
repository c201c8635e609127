"""What every tier is made from, and gives."""

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, Protocol

import torch

from ..dataset import Dataset
from ..shuffle.order import Order
from ..stall import StallClock
from .fill import Fill


@dataclass(frozen=True, slots=True, eq=False)
class Reading:
    """What is read, where to, and in which order.

    Attributes:
        rows: the data.
        order: of the samples.
        rank, ranks: which part of each batch.
        device: where batches are wanted.
        fill: how ragged ones are given.
        workers: threads that read or decode; 0 for the tier's own choice.
        clock: where to report what is waited for.
    """

    rows: Dataset
    order: Order
    rank: int
    ranks: int
    device: torch.device
    fill: Fill
    workers: int
    clock: StallClock


class Tier(Protocol):
    """A source of batches. Making one loads what is to be in memory from the start."""

    def batches(self, epoch: int, first: int) -> Generator[Any, None, None]:
        """The batches of an epoch, from batch `first` on."""
        ...
