"""A device short of memory: a tier further down, the same batches, and a warning."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

import brimful
from brimful import BrimfulWarning, BudgetError
from brimful.core.runs.events import Warned
from brimful.data import Subset
from brimful.data.tiers.pinned import Pinned
from brimful.data.tiers.resident import Resident

from ..datasets import run, same, small

pytestmark = pytest.mark.usefixtures("one_thread")


def full(*_: Any, **__: Any) -> Any:
    raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")


def rows(samples: int = 40) -> Subset:
    return Subset(small(samples), range(samples))  # rows that are copied to be resident


def test_loading_steps_down_and_says_so(monkeypatch: pytest.MonkeyPatch):
    expected = list(run(rows()).epoch(0))
    monkeypatch.setattr("brimful.data.tiers.resident.load", full)
    batches = run(rows(), tier="device")
    with pytest.warns(BrimfulWarning, match="out of memory.*from the device tier to the pinned tier"):
        assert same(list(batches.epoch(0)), expected)
    assert batches.plan.tier == "pinned"
    assert "the device ran out of memory in it" in batches.plan.explain()
    assert len(list(batches.epoch(1))) == 10  # no second warning


@pytest.mark.parametrize("window", [None, 12])
def test_running_out_in_mid_epoch_keeps_the_batches(monkeypatch: pytest.MonkeyPatch, window: int | None):
    options: dict[str, Any] = {"window": window, "chunk_rows": 4}
    expected = list(run(rows(), **options).epoch(0))
    for kind in (Resident, Pinned):
        batches = kind.batches

        def some(self: Any, epoch: int, first: int, batches: Any = batches) -> Iterator[Any]:
            for number, batch in enumerate(batches(self, epoch, first)):
                if number == 3:
                    full()
                yield batch

        monkeypatch.setattr(kind, "batches", some)
    said: list[str] = []
    loader = run(rows(), tier="device", **options)
    loader.warn = said.append
    assert same(list(loader.epoch(0)), expected)
    assert ["device tier to the pinned" in said[0], "pinned tier to the window" in said[1]] == [True, True]
    assert loader.plan.tier == "window" and len(said) == 2


def test_where_no_tier_is_left_the_error_is_raised(monkeypatch: pytest.MonkeyPatch):
    loader = run(rows(), tier="window", window=12, chunk_rows=4)
    monkeypatch.setattr("brimful.data.tiers.window.Window.batches", full)
    with pytest.raises(torch.OutOfMemoryError):
        next(loader.epoch(0))
    there = run(small(40), tier="device")  # its rows are on the device anyway
    assert not there.step_down("short of memory")


def test_other_errors_change_nothing(monkeypatch: pytest.MonkeyPatch):
    def broken(*_: Any) -> Any:
        raise OSError("gone")

    monkeypatch.setattr("brimful.data.tiers.resident.load", broken)
    loader = run(rows(), tier="device")
    with pytest.raises(OSError, match="gone"):
        next(loader.epoch(0))
    assert loader.plan.tier == "device"


def test_preloading_is_forced_or_forbidden():
    x = np.zeros((100, 1000), np.float32)
    assert run(Subset(x, range(100)), preload_to_gpu=True).plan.tier == "device"
    plan = run(Subset(x, range(100)), preload_to_gpu=False).plan
    assert plan.tier == "pinned" and "preload_to_gpu=False was asked for" in plan.explain()
    large = np.zeros((2000, 1000), np.float32)
    with pytest.raises(BudgetError, match="tier='auto'"):
        run(Subset(large, range(2000)), preload_to_gpu=True, budget="4MB")


def test_a_step_without_memory_frees_the_data_and_the_weights_are_the_same():
    x = torch.randn(64, 3, generator=torch.Generator().manual_seed(0))
    data = Subset({"x": x, "y": x.sum(1, keepdim=True)}, range(64))
    short = [False]

    def loss(model: torch.nn.Module, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        if short[0] and len(batch["x"]) == 1:
            short[0] = False
            full()
        return ((model(batch["x"]) - batch["y"]) ** 2).mean()

    def trained(events: list[Any] | None = None) -> torch.Tensor:
        model = torch.nn.Linear(3, 1)
        torch.nn.init.ones_(model.weight)
        torch.nn.init.zeros_(model.bias)

        def progress(event: Any) -> None:
            short[0] = short[0] or (events is not None and type(event).__name__ == "EpochDone" and event.epoch == 1)
            if events is not None:
                events.append(event)

        options: dict[str, Any] = {"epochs": 3, "batch_size": 8, "accumulation_steps": 8, "preload_to_gpu": True}
        brimful.train(model, loss, data, device="cpu", progress=progress, **options)
        return model.weight.detach()

    expected, events = trained(), []
    assert torch.equal(trained(events), expected)
    said = [event.message for event in events if isinstance(event, Warned)]
    assert any("from the device tier to the pinned tier" in message for message in said)
