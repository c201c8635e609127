"""How long a loop waited, as a share of the epoch."""

import time
from typing import Any

import numpy as np
import pytest
import torch

from brimful.data.stall import Stall, StallClock

from .datasets import run


class Slow:
    """A source that takes its time."""

    def __len__(self) -> int:
        return 40

    def take(self, index: np.ndarray) -> torch.Tensor:
        time.sleep(0.005)
        return torch.from_numpy(index)


@pytest.mark.parametrize("tier", ["pinned", "window"])
def test_a_slow_source_is_waited_for(tier: str):
    batches = run(Slow(), tier=tier, chunk_rows=4, window=12)
    list(batches.epoch(0))
    stall = batches.stall
    assert 0.02 <= stall.waited <= stall.seconds
    assert stall.share > 0.1 and "waiting" in str(stall)


@pytest.mark.parametrize("tier", ["device", "pinned", "window"])
def test_a_slow_step_is_not_waiting(tier: str):
    batches = run(torch.arange(40), tier=tier, chunk_rows=4, window=12)
    for _ in batches.epoch(0):
        time.sleep(0.005)
    assert batches.stall.seconds >= 0.05
    assert batches.stall.waited < batches.stall.seconds


def test_loading_is_counted_apart():
    batches = run(Slow(), tier="device")
    list(batches.epoch(0))
    assert batches.stall.loading >= 0.005 and batches.stall.waited < batches.stall.loading


class Event:
    def __init__(self, at: float) -> None:
        self.at = at

    def query(self) -> bool:
        return True

    def synchronize(self) -> None:
        pass

    def elapsed_time(self, other: Any) -> float:
        return 1000 * (other.at - self.at)


def test_the_waiting_of_a_device_is_between_its_events():
    clock = StallClock()
    clock.begin(0.5)
    for number in range(600):
        clock.add_events(Event(number), Event(number + 0.25))
    stall = clock.read()
    assert stall.waited == pytest.approx(150) and stall.loading == 0.5
    assert clock.read().waited == stall.waited
    assert Stall(1.0, 0.0).share == 0
