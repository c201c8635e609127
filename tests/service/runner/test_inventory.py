"""Devices as the server sees them: added, lost, and named by what stays the same."""

import sys

import pytest

from brimful.service.runner import inventory
from brimful.service.runner.inventory import Inventory

from ...helpers.driver_library import GB, Card, driver_library


@pytest.fixture
def cards(monkeypatch: pytest.MonkeyPatch) -> list[Card]:
    cards = [Card("GPU-a", 80 * GB), Card("GPU-b", 24 * GB)]
    monkeypatch.setitem(sys.modules, "pynvml", driver_library(cards))
    monkeypatch.setattr(inventory, "_uses_cuda", lambda: True)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return cards


def test_cards_are_leased_up_to_the_budget_and_named_by_uuid(cards: list[Card]):
    there = Inventory(budget="50GB", cores=4)
    cpu, first, second = there.devices()
    assert (cpu.name, first.name, second.name) == ("cpu", "cuda:0", "cuda:1")
    assert (first.model, first.utilisation, first.watts) == ("A card", 0.5, 300.0)
    with pytest.warns(match="the device has 24.00 GB"):
        capacity = there.capacity()
    assert (capacity.bytes["cuda:0"], capacity.bytes["cuda:1"], capacity.cores) == (50 * GB, 24 * GB, 4)
    assert there.environment(("cuda:1",)) == ({"CUDA_VISIBLE_DEVICES": "GPU-b"}, "cuda:0")
    assert there.environment(("cuda:1", "cuda:0")) == ({"CUDA_VISIBLE_DEVICES": "GPU-b,GPU-a"}, "cuda:0,cuda:1")
    assert there.environment(("cpu",)) == ({"CUDA_VISIBLE_DEVICES": ""}, "cpu")


def test_cards_are_added_and_lost_while_the_server_runs(cards: list[Card]):
    there = Inventory(cores=4)
    assert set(there.capacity().bytes) == {"cpu", "cuda:0", "cuda:1"}
    cards[1].lost = True
    assert set(there.capacity().bytes) == {"cpu", "cuda:0"}
    cards[1].lost = False
    cards.append(Card("GPU-c", 80 * GB))
    assert there.capacity().bytes["cuda:2"] == 72 * GB  # 90% of what is free
    there.set_budget("10GB")
    assert {there.capacity().bytes[f"cuda:{index}"] for index in range(3)} == {10 * GB}


def test_a_server_that_was_given_some_cards_sees_those(cards: list[Card], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-b")
    there = Inventory()
    assert [device.uuid for device in there.devices()[1:]] == ["GPU-b"]
    assert there.environment(("cuda:0",))[0] == {"CUDA_VISIBLE_DEVICES": "GPU-b"}
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert [device.name for device in there.devices()] == ["cpu"]
