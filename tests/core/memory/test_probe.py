"""The memory probe: costs from a few small runs, and what is left where some of them do not fit."""

import gc

import pytest
import torch

from brimful.core.memory.cost import Cost
from brimful.core.memory.oom import OutOfMemory
from brimful.core.memory.probe import peak_bytes, probe

CPU = torch.device("cpu")


def run(first: int, room: int, last: int = 64) -> tuple[Cost, list[int]]:
    """A probe of steps that take 100 bytes and 8 for each item, with room for so many items."""
    sizes: list[int] = []

    def peak(size: int) -> float:
        sizes.append(size)
        if size > room:
            raise MemoryError("out of memory")
        return 100 + 8 * size

    return probe(peak, first, lambda cost, size: min(4 * size, last), CPU), sizes


def test_the_cost_is_a_line_through_the_largest_runs():
    cost, sizes = run(1, 1000)
    assert (cost.fixed, cost.per_unit, cost.source) == (100, 8, "probe")
    assert sizes == [1, 4, 16, 64]


def test_a_size_that_does_not_fit_is_halved():
    cost, sizes = run(16, 5)
    assert sizes == [16, 8, 4, 16, 8]  # and ends where halving leads back to what was measured
    assert (cost.fixed, cost.per_unit) == (0, 33)
    cost, sizes = run(1, 9)
    assert sizes == [1, 4, 16, 8, 32, 16]
    assert (cost.fixed, cost.per_unit) == (100, 8)


def test_where_nothing_fits_the_reason_is_said():
    with pytest.raises(OutOfMemory, match="MemoryError: out of memory"):
        run(4, 0)


def test_another_failure_is_not_taken_for_want_of_memory():
    def peak(size: int) -> float:
        raise ValueError("wrong")

    with pytest.raises(ValueError, match="wrong"):
        probe(peak, 4, lambda cost, size: None, CPU)


def test_weights_are_those_of_the_caller():
    cost = probe(lambda size: 10 * size**2, 2, lambda cost, size: min(2 * size, 4), CPU, weigh=lambda size: size**2)
    assert (cost.fixed, cost.per_unit) == (0, 10)


def test_on_a_cpu_live_tensors_are_counted():
    x = torch.ones(1000)

    def work() -> None:
        first = x + 1  # 4 kB
        second = first * 2  # and 4 more
        del first
        gc.collect()
        _ = (second + 1).add_(1)  # views and what is changed in place are counted once

    assert peak_bytes(work, CPU) == 8000
    assert peak_bytes(lambda: x[:10], CPU) == 0
    weight = torch.ones(1000, requires_grad=True)
    assert peak_bytes(lambda: (weight * x).square().sum().backward(), CPU) >= 12_000
