"""Loaders on a CUDA device: the CPU's batches, no waiting, no copies, inside the plan."""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from brimful.data import Decoded, Padded, Ragged, Subset
from brimful.data.shuffle.ahead import EpochPartsOnDevice

from .datasets import run, same, small

pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("clean_device")]

MB = 10**6


def on_host(batch: Any) -> Any:
    if isinstance(batch, dict):
        return {name: on_host(part) for name, part in batch.items()}
    if isinstance(batch, Padded):
        return Padded(batch.values.cpu(), batch.lengths.cpu())
    return Ragged(batch.values.cpu(), batch.offsets.cpu()) if isinstance(batch, Ragged) else batch.cpu()


@pytest.mark.parametrize("ragged", ["pad", "packed"])
@pytest.mark.parametrize("tier", ["device", "pinned", "window"])
def test_the_batches_are_the_cpus(tier: str, ragged: str):
    data = small(1003)
    options = {"batch_size": 64, "bucket": 4, "ragged": ragged, "ranks": 3, "rank": 1, "window": 300, "chunk_rows": 50}
    expected = list(run(data, **options).epoch(2))
    found = list(run(data, device="cuda", tier=tier, **options).epoch(2))
    assert all(batch["x"].is_cuda for batch in found)
    assert same([on_host(batch) for batch in found], expected)


@pytest.mark.parametrize("ragged", ["pad", "packed"])
@pytest.mark.parametrize("tier", ["device", "pinned", "window"])
def test_nobody_waits_for_the_device(tier: str, ragged: str):
    batches = run(small(1000), device="cuda", tier=tier, ragged=ragged).epoch(0)
    next(batches)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.cuda.set_sync_debug_mode("warn")  # which warns of itself
        warnings.simplefilter("error")
        try:
            for _ in range(20):
                next(batches)
        finally:
            torch.cuda.set_sync_debug_mode("default")


def test_a_caller_that_never_waits_keeps_within_the_plan():
    x = np.random.default_rng(0).normal(size=(4000, 25_000)).astype(np.float32)  # 400 MB
    weight = torch.randn(25_000, 2000, device="cuda")
    batches = run(x, device="cuda", tier="pinned", batch_size=100)
    (torch.zeros(100, 25_000, device="cuda") @ weight).sum()  # the library takes its workspace
    torch.cuda.synchronize()
    before = torch.cuda.memory_stats()["active_bytes.all.current"]
    torch.cuda.reset_peak_memory_stats()
    total = torch.zeros((), device="cuda")
    for batch in batches.epoch(0):
        for _ in range(20):
            total += (batch @ weight).sum()
    torch.cuda.synchronize()
    assert torch.cuda.memory_stats()["active_bytes.all.peak"] - before <= batches.plan.predicted + 20 * MB
    assert torch.isfinite(total)


def test_a_batch_in_use_is_not_overwritten():
    x = torch.arange(200_000).reshape(2000, 100)
    batches = run(x, device="cuda", tier="pinned", batch_size=50)
    stream = torch.cuda.Stream()
    wrong = torch.zeros((), dtype=torch.int64, device="cuda")
    for number, batch in enumerate(batches.epoch(0)):
        expected = torch.from_numpy(batches.index(0, number)).cuda() * 100
        with torch.cuda.stream(stream):  # a stream of the caller's own, which has to be told
            stream.wait_stream(torch.cuda.default_stream())
            batch.record_stream(stream)
            torch.cuda._sleep(1_000_000)
            wrong += (batch[:, 0] != expected).sum()
        torch.cuda.current_stream().wait_stream(stream)
    assert wrong.item() == 0


def test_tensors_on_the_device_are_used_as_they_are():
    x = torch.randn(1000, 1000, device="cuda")
    before = torch.cuda.memory_allocated()
    batches = run(x, device="cuda", batch_size=10, budget="10%")
    assert batches.plan.tier == "device"
    list(batches.epoch(0))
    assert torch.cuda.memory_allocated() - before < MB
    assert same([on_host(batch) for batch in batches.epoch(1)], list(run(x, batch_size=10).epoch(1)))


def test_the_budget_decides_the_tier(tmp_path: Path):
    np.save(tmp_path / "x.npy", np.random.default_rng(0).normal(size=(1000, 10_000)).astype(np.float32))  # 40 MB
    assert run(tmp_path / "x.npy", device="cuda", budget="200MB", reserve="170MB").plan.tier == "pinned"
    found = [run(tmp_path / "x.npy", device="cuda", budget=budget) for budget in ("200MB", "20MB")]
    assert [each.plan.tier for each in found] == ["device", "pinned"]
    assert same(*([on_host(batch) for batch in each.epoch(0)] for each in found))


def test_transforms_run_on_the_device_with_its_generator():
    def noise(batch: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        return batch + torch.rand(batch.shape, generator=generator, device=batch.device)

    found = [
        list(run(torch.zeros(100), device="cuda", tier=tier, transform=noise).epoch(0)) for tier in ("device", "pinned")
    ]
    assert same(*found)
    assert len({batch[0].item() for batch in found[0]}) == 25


def test_decoded_samples_and_subsets_arrive_too():
    decoded = Decoded(range(50), lambda number: torch.full((3,), float(number)))
    options = {"batch_size": 8, "num_workers": 2}
    for source in (decoded, Subset(decoded, range(10, 30)), Subset(small(50), range(10, 30))):
        expected = list(run(source, **options).epoch(0))
        for tier in ("device", "pinned"):
            assert same(
                [on_host(batch) for batch in run(source, device="cuda", tier=tier, **options).epoch(0)], expected
            )


@pytest.mark.parametrize("options", [{}, {"window": 900, "chunk_rows": 64}, {"shards": 4, "chunk_rows": 50}])
@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_the_order_made_on_the_device_is_the_hosts(options: dict[str, Any], ranks: int):
    data = {"x": torch.randn(5003, 3), "y": torch.arange(5003)}
    for rank in range(ranks):
        shared = {"batch_size": 64, "ranks": ranks, "rank": rank, "seed": 2**64 - 1, **options}
        expected = run(data, tier="pinned", **shared)
        for tier in ("device", "pinned", "window"):
            batches = run(data, device="cuda", tier=tier, **shared)
            for epoch in (0, 2**40):
                assert same([on_host(batch) for batch in batches.epoch(epoch)], list(expected.epoch(epoch)))


def test_a_device_without_memory_steps_down_in_mid_epoch():
    x = torch.randn(2000, 5000)
    expected = list(run(x, batch_size=100).epoch(0))
    batches = run(x, device="cuda", batch_size=100, tier="device")
    found, started = [], batches.epoch(0)
    for _ in range(5):
        found.append(next(started))
    used = torch.cuda.memory_allocated()
    said: list[str] = []
    batches.warn = said.append
    assert batches.step_down("short of memory") and "pinned" in said[0]
    assert torch.cuda.memory_allocated() <= used - 2000 * 5000 * 4
    found += list(started)
    assert same([on_host(batch) for batch in found], expected)


def test_waiting_is_measured_on_the_device():
    for tier in ("device", "pinned", "window"):
        batches = run(torch.randn(4000, 1000), device="cuda", tier=tier, batch_size=100)
        for _ in batches.epoch(0):
            torch.cuda._sleep(10_000_000)
        torch.cuda.synchronize()
        stall = batches.stall
        assert 0 <= stall.waited <= stall.seconds + 0.1


def test_the_next_epochs_order_is_made_during_this_one(monkeypatch: pytest.MonkeyPatch):
    loader = run(torch.arange(5000), device="cuda", tier="device", batch_size=1000)
    expected = [[batch.cpu() for batch in run(torch.arange(5000), batch_size=1000).epoch(epoch)] for epoch in range(3)]
    made, sort = list[int](), EpochPartsOnDevice._sort

    def counted(self: EpochPartsOnDevice, epoch: int) -> torch.Tensor:
        made.append(epoch)
        return sort(self, epoch)

    monkeypatch.setattr(EpochPartsOnDevice, "_sort", counted)
    for epoch in range(3):
        batches = loader.epoch(epoch)
        assert torch.equal(next(batches).cpu(), expected[epoch][0]) and made == list(range(epoch + 1))
        assert same([batch.cpu() for batch in batches], expected[epoch][1:]) and made == list(range(epoch + 2))
    with torch.cuda.stream(torch.cuda.Stream()):  # which would have to wait for what another stream made
        assert same([batch.cpu() for batch in loader.epoch(3)], list(run(torch.arange(5000), batch_size=1000).epoch(3)))
    assert made == [0, 1, 2, 3, 3, 4]
