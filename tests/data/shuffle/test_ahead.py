"""The next epoch's order, made ahead: the same numbers, whatever was asked for before."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from brimful.data.shuffle.ahead import EpochParts, EpochPartsOnDevice
from brimful.data.shuffle.order import Order

CPU = torch.device("cpu")


@given(
    st.integers(1, 80), st.integers(1, 20), st.booleans(), st.integers(1, 3),
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=6), st.sampled_from([(0, 0), (5, 3)]),
)  # fmt: skip
def test_any_epochs_in_any_sequence(samples, size, shuffle, ranks, epochs, windows):
    order = Order(samples, size, 7, shuffle, chunk_rows=windows[0], window=windows[1])
    parts, on_device = EpochParts(order, 0, ranks), EpochPartsOnDevice(order, CPU, 0, ranks)
    for epoch, prepared in epochs:
        first = min(prepared, order.batches)
        numbers, bounds = order.part(epoch, 0, ranks, first)
        for made, cuts in (parts(epoch, first), on_device(epoch, first)):
            assert np.array_equal(made, numbers) and np.array_equal(cuts, bounds)
        on_device.prepare(prepared)


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The epochs whose order is made on the device."""
    epochs, part_on = list[int](), Order.part_on

    def counted(self: Order, device: Any, epoch: int, *rest: Any) -> Any:
        epochs.append(epoch)
        return part_on(self, device, epoch, *rest)

    monkeypatch.setattr(Order, "part_on", counted)
    return epochs


def test_an_order_is_made_once(made: list[int]):
    parts = EpochPartsOnDevice(Order(100, 10), CPU, 0, 1)
    for epoch in range(4):
        parts(epoch)
        parts.prepare(epoch + 1)
        parts.prepare(epoch + 1)
    assert made == [0, 1, 2, 3, 4]


def test_want_of_memory_is_met_when_the_epoch_begins(monkeypatch: pytest.MonkeyPatch):
    parts = EpochPartsOnDevice(Order(100, 10), CPU, 0, 1)
    expected = parts(1)[0]

    def full(*arguments: Any) -> Any:
        raise torch.OutOfMemoryError("CUDA out of memory")

    with monkeypatch.context() as patched:
        patched.setattr(Order, "part_on", full)
        parts.prepare(1)
        with pytest.raises(torch.OutOfMemoryError):
            parts(1)
    assert torch.equal(parts(1)[0], expected)


@pytest.mark.gpu
@pytest.mark.parametrize("samples", [5, 4_000])
def test_orders_that_are_replayed_are_the_same(samples: int):
    order = Order(samples, 3, 7)
    parts = EpochPartsOnDevice(order, torch.device("cuda"), 0, 1)
    for epoch in range(8):
        assert np.array_equal(parts(epoch)[0].cpu().numpy(), order.part(epoch)[0])
        parts.prepare(epoch + 1)
    assert parts._replayed is not None
