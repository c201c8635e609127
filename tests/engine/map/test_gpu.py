"""`map` on a CUDA device: inside the budget, with the CPU's answers, whatever the allocator refuses."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from brimful import Batch, InputError, Status
from brimful.core.memory import devices
from brimful.data import Ragged

from .mapping import EventLog, Recorded, rows, run, same, stream

pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("clean_device")]

MB = 10**6


def peak_of(fn: Any, items: Any, **options: Any) -> tuple[Any, int]:
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    result = run(fn, items, device="cuda", **options)
    return result, torch.cuda.max_memory_reserved()


def inverse(x: torch.Tensor) -> torch.Tensor:
    return torch.linalg.inv(x @ x.mT + torch.eye(x.shape[-1], device=x.device, dtype=x.dtype))


@pytest.mark.parametrize("budget", [100 * MB, 500 * MB, 2000 * MB])
def test_the_peak_is_never_above_the_budget_and_the_answers_are_the_cpus(budget: int):
    items = torch.randn(3000, 48, 48, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    result, peak = peak_of(inverse, items, budget=budget)
    assert peak <= budget
    assert result.observed <= budget
    assert result.ok.all()
    assert result.plan.budget == budget
    assert torch.allclose(result.values, inverse(items), rtol=1e-8, atol=1e-10)


@settings(max_examples=10)
@given(st.integers(100, 600), st.integers(1, 1000), st.integers(1, 2000))
def test_no_input_takes_it_over_the_budget(budget: int, count: int, width: int):
    items = torch.ones(count, width)

    def function(x: torch.Tensor) -> torch.Tensor:
        return (x[:, :, None] * torch.ones(8, device=x.device)).sum(dim=2)

    result, peak = peak_of(function, items, budget=budget * MB)
    assert peak <= budget * MB
    assert same(result.values, items * 8)


def test_a_product_made_before_does_not_hold_more_than_its_own_space():
    block = torch.empty(800 * MB, dtype=torch.uint8, device="cuda")
    del block
    square = torch.ones(64, 64, device="cuda")
    _ = square @ square  # the space it works in is carved out of the block before, which then cannot go
    del square
    torch.cuda.empty_cache()
    assert torch.cuda.memory_reserved() > 700 * MB
    items = torch.randn(20_000, 32, 32, generator=torch.Generator().manual_seed(0))
    log = EventLog()
    result = run(lambda x: x @ x, items, device="cuda", budget=300 * MB, progress=log)
    assert result.observed <= 300 * MB
    assert torch.allclose(result.values, items @ items, atol=1e-3)
    assert not log.warnings


def test_memory_that_really_runs_out_splits_the_batch():
    def function(x: torch.Tensor) -> torch.Tensor:
        block = torch.ones(len(x), 4 * MB // 4, device=x.device)
        return x + block[:, :1]

    log = EventLog()
    result, peak = peak_of(function, rows(200), budget=100 * MB, batch_size=100, progress=log)
    assert peak <= 100 * MB
    assert same(result.values, rows(200) + 1)
    assert result.ok.all()
    assert log.warnings
    assert all("out of memory" in warning or "allocator" in warning for warning in log.warnings)


def test_an_item_that_alone_does_not_fit_is_flagged():
    def function(x: torch.Tensor) -> torch.Tensor:
        if (x[:, 0] == 7).any():
            torch.ones(300 * MB, device=x.device)
        return x * 2

    result, peak = peak_of(function, rows(40), budget=200 * MB, batch_size=8)
    assert peak <= 200 * MB
    assert np.flatnonzero(result.status).tolist() == [7]
    assert result.status[7] == Status.TOO_BIG
    good = [item for item in range(40) if item != 7]
    assert same(result.values[good], rows(40)[good] * 2)


@pytest.mark.parametrize("position", range(1, 9))
def test_memory_that_runs_out_at_any_call(position: int):
    calls: list[int] = []

    def function(x: torch.Tensor) -> torch.Tensor:
        calls.append(len(x))
        if len(calls) == position:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return x * 2

    result = run(function, rows(48), device="cuda", batch_size=6)
    assert same(result.values, rows(48) * 2)
    assert result.ok.all()


DTYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.uint8, torch.bool]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_batches_moved_ahead_arrive_whole(dtype: torch.dtype):
    count, width = 4000, 257
    items = (torch.arange(count * width).reshape(count, width) % 251).to(dtype)

    def function(x: torch.Tensor) -> torch.Tensor:
        out = x.clone()
        x.zero_()
        # What is freed here is given to the next batch: it must not be written before it is read.
        for _ in range(3):
            torch.full_like(out, 1)
        torch.cuda._sleep(200_000)
        return out

    poison = torch.full((64, 1024, 1024), 255, dtype=torch.uint8, device="cuda")
    del poison
    assert same(run(function, items, device="cuda", batch_size=333).values, items)


def test_results_on_their_way_back_are_not_overwritten():
    def function(x: torch.Tensor) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        big = x.repeat(1, 64)
        torch.cuda._sleep(500_000)
        return big, {"n": x[:, 0].long()}

    result = run(function, rows(5000, 16), device="cuda", batch_size=256)
    assert same(result.values[0], rows(5000, 16).repeat(1, 64))
    assert same(result.values[1]["n"], rows(5000, 16)[:, 0].long())


def test_items_that_are_on_the_device_already_are_left_as_they_are():
    items = rows(300).cuda()
    result = run(lambda x: x.mul_(2), items, device="cuda", batch_size=50)
    assert same(result.values, rows(300) * 2)
    assert same(items.cpu(), rows(300))


def test_a_stream_and_its_bad_items():
    def function(x: torch.Tensor) -> torch.Tensor:
        if (x[:, 0] == 50).any():
            raise ValueError("fifty")
        return torch.where(x == 60, float("nan"), x * 2)

    result = run(function, stream(200), device="cuda", batch_size=16)
    assert np.flatnonzero(result.status).tolist() == [50, 60]
    assert result.messages == {50: "ValueError: fifty", 60: "the result is not finite"}
    good = [item for item in range(200) if item not in (50, 60)]
    assert same(result.values[good], rows(200)[good] * 2)


def test_status_and_messages_from_the_device():
    def function(x: torch.Tensor) -> Batch:
        odd = x[:, 0].long() % 2 == 1
        return Batch(x, odd.to(torch.int8) * 20, {int(i): "odd" for i in odd.nonzero()})

    result = run(function, rows(30), device="cuda", batch_size=7)
    assert result.status.tolist() == [0, 20] * 15
    assert result.messages == dict.fromkeys(range(1, 30, 2), "odd")


def test_what_fails_on_the_device_is_done_on_the_cpu():
    def function(x: torch.Tensor) -> torch.Tensor:
        if x.is_cuda and (x[:, 0] > 20).any():
            raise RuntimeError("not on this device")
        return x * 2

    result = run(function, rows(40), device="cuda", fallback="cpu", batch_size=8)
    assert same(result.values, rows(40) * 2)
    assert (result.status[21:] == Status.RESCUED).all()
    assert (result.status[:21] == Status.OK).all()


def test_an_item_too_big_for_the_device_is_done_on_the_cpu():
    def function(x: torch.Tensor) -> torch.Tensor:
        if (x[:, 0] == 3).any():
            return x * torch.ones(100 * MB, device=x.device)[:1] * 2
        return x * 2

    result, peak = peak_of(function, rows(10), budget=200 * MB, fallback="cpu", batch_size=5)
    assert peak <= 200 * MB
    assert same(result.values, rows(10) * 2)
    assert result.status[3] == Status.RESCUED


def test_a_wider_dtype_saves_on_the_device():
    result = run(lambda x: x * 1e30 * 1e30 / 1e50, torch.ones(50), device="cuda", fallback=torch.float64)
    assert (result.status == Status.RESCUED).all()
    assert result.values.dtype == torch.float32
    assert result.values[0] == pytest.approx(1e10, rel=1e-5)


def test_the_limit_is_put_back_after_an_error_too():
    before = torch.cuda.get_per_process_memory_fraction(0)
    with pytest.raises(KeyError):
        run(lambda x: {}["nothing"], rows(100), device="cuda", budget=100 * MB, batch_size=50)
    assert torch.cuda.get_per_process_memory_fraction(0) == before
    torch.ones(50 * MB, device="cuda")


def test_foretold_and_seen_agree():
    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.sin(x.repeat(1, 32)).sum(dim=1)

    items = torch.ones(400_000, 256)
    result, peak = peak_of(function, items, budget=2000 * MB)
    assert peak <= 2000 * MB
    assert 0.8 < result.predicted / result.observed < 1.25
    assert result.observed == pytest.approx(peak, rel=0.01)


def test_the_batch_grows_on_the_device():
    recorded = Recorded(lambda x: x * 2)
    result = run(recorded, rows(50_000), device="cuda")
    assert result.ok.all()
    assert max(recorded.sizes) > 500
    assert math.isfinite(result.rate)


def test_a_run_on_the_device_is_resumed_on_the_cpu(tmp_path: Any):
    trap = tmp_path / "trap"
    trap.touch()

    def function(x: torch.Tensor) -> torch.Tensor:
        if trap.exists() and x[0, 0] == 50:
            raise KeyboardInterrupt
        return x * 2

    with pytest.raises(KeyboardInterrupt, match="run the same command again"):
        run(function, rows(100), device="cuda", batch_size=10, out=tmp_path / "run")
    assert list((tmp_path / "run").glob("shard-*"))
    trap.unlink()
    result = run(function, rows(100), device="cpu", batch_size=10, out=tmp_path / "run")
    assert same(result.values, rows(100) * 2)


def shares(x: torch.Tensor) -> dict[str, Any]:
    """Every number as often as its last digit says, over its distance from 77."""
    counts = x.long() % 10
    offsets, times = torch.cat([counts.new_zeros(1), counts]).cumsum(0), x.repeat_interleave(counts)
    return {"text": Ragged(times.long().to(torch.uint8), offsets), "parts": (x, Ragged(times / (times - 77), offsets))}


@pytest.mark.parametrize("options", [{}, {"batch_size": 777}, {"budget": "300MB"}], ids=str)
def test_results_of_unequal_length_are_the_cpus(options: dict[str, Any]):
    x = torch.arange(20_000, dtype=torch.float64)
    result, expected = run(shares, x, device="cuda", **options), shares(x)
    assert np.flatnonzero(result.status).tolist() == [77]
    assert same(result.values["text"].values, expected["text"].values)
    assert same(result.values["text"].offsets, expected["text"].offsets)
    assert torch.allclose(result.values["parts"][1].values, expected["parts"][1].values, rtol=1e-12)


def test_offsets_that_do_not_fit_are_an_error_and_no_lost_device():
    def wild(x: torch.Tensor) -> Ragged:
        return Ragged(torch.ones(5, device=x.device), torch.tensor([0, 900, -7], device=x.device))

    with pytest.raises(InputError, match="offsets must rise"):
        run(wild, torch.zeros(2), device="cuda")
    assert torch.ones(3, device="cuda").sum() == 3


def test_a_run_of_one_batch_made_again_keeps_its_memory(monkeypatch: pytest.MonkeyPatch):
    """From the third time on its memory is what that work has left, and is neither handed back nor taken anew."""
    items, handed_back = torch.randn(2000, 48, 48, dtype=torch.float64), list[int]()
    release = devices.release_cache
    monkeypatch.setattr(devices, "release_cache", lambda device: handed_back.append(1) or release(device))

    def again(fn: Any = inverse) -> tuple[int, int, float]:
        handed_back.clear()
        result = run(fn, items, device="cuda", budget="2GB", batch_size="auto")
        return len(handed_back), result.observed, result.plan.batch

    counts = [again() for _ in range(6)]
    assert counts[-1] == counts[-2] == (0, counts[2][1], 2000)
    again(torch.cos)  # other work: its memory is another
    assert again()[0] > 0
