"""`train` on a CUDA device: inside the budget, with the CPU's numbers, without waiting for the device."""

import time
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from brimful import DivergedError
from brimful.engine.train import plan_train

from .training import EventLog, fit, network, points, squares, weights

pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("clean_device")]
MB = 10**6


def summed(model: nn.Module, batch: dict[str, Tensor]) -> tuple[Tensor, int]:
    error = (model(batch["x"]) - batch["y"]) ** 2
    return error.sum(), len(error)


def wide(width: int = 2048, depth: int = 4) -> nn.Sequential:
    torch.manual_seed(0)
    layers = [part for _ in range(depth) for part in (nn.Linear(width, width), nn.GELU())]
    return nn.Sequential(nn.Linear(3, width), *layers, nn.Linear(width, 1))


def test_the_numbers_are_the_cpus():
    cpu = fit(network(), summed, precision="float32")
    gpu = fit(network(), summed, precision="float32", device="cuda")
    np.testing.assert_allclose(gpu.curve, cpu.curve, rtol=1e-3, atol=1e-5)
    assert next(gpu.model.parameters()).is_cuda


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_half_precision(precision: str):
    single = fit(network(), summed, precision="float32", device="cuda", epochs=10)
    half = fit(network(), summed, precision=precision, device="cuda", epochs=10)
    assert half.history[-1]["train_loss"] == pytest.approx(single.history[-1]["train_loss"], abs=0.05)


@pytest.mark.parametrize("budget", [600 * MB, 800 * MB, 3000 * MB])
def test_the_peak_is_never_above_the_budget(budget: int):
    torch.cuda.reset_peak_memory_stats()
    result = fit(wide(), summed, points(4096), batch_size=4096, epochs=1, budget=budget, device="cuda")
    assert torch.cuda.max_memory_reserved() <= budget
    assert result.observed <= budget
    assert result.plan.budget == budget


@pytest.mark.parametrize("budget", [600 * MB, 3000 * MB])
def test_the_prediction_is_near_the_peak(budget: int):
    result = fit(wide(), summed, points(8192), batch_size=8192, epochs=2, budget=budget, device="cuda")
    assert result.predicted == pytest.approx(result.observed, rel=0.2), result.plan.explain()


def test_a_neighbor_that_takes_memory_costs_micro_batches():
    class Grabbing:
        held: list[Tensor]
        calls = 0

        def __call__(self, model: nn.Module, batch: dict[str, Tensor]) -> tuple[Tensor, int]:
            self.calls += 1
            if len(batch["x"]) == 4096 and self.calls > 6:
                torch.cuda.empty_cache()
                free = 1000 * MB - torch.cuda.memory_reserved()
                self.held = [torch.empty(max(1, free - 60 * MB), dtype=torch.uint8, device="cuda")]
            return summed(model, batch)

    heard = EventLog()
    options: dict[str, Any] = {"batch_size": 4096, "epochs": 3, "device": "cuda", "precision": "float32"}
    result = fit(wide(1024), Grabbing(), points(8192), budget=1000 * MB, progress=heard, **options)
    reference = fit(wide(1024), summed, points(8192), **options)
    assert result.micro_batches > reference.micro_batches
    assert any("out of memory" in each for each in heard.warnings)
    np.testing.assert_allclose(result.curve, reference.curve, rtol=2e-2)


@pytest.mark.filterwarnings("ignore:Synchronization debug mode")
def test_no_step_waits_for_the_device():
    """With waiting made an error, a whole epoch between two readings runs."""
    model = network().cuda()

    class Watched:
        steps = 0

        def __call__(self, model: nn.Module, batch: dict[str, Tensor]) -> tuple[Tensor, int]:
            self.steps += 1
            torch.cuda.set_sync_debug_mode("error" if 10 < self.steps < 40 else "default")
            return summed(model, batch)

    try:
        fit(model, Watched(), points(256), epochs=1, device="cuda", log_every=1000)
    finally:
        torch.cuda.set_sync_debug_mode("default")


def test_a_nan_is_skipped_on_the_device_and_told_of_later():
    def broken(model: nn.Module, batch: dict[str, Tensor]) -> Tensor:
        return squares(model, batch) * torch.where((batch["number"] == 7).any(), torch.nan, 1.0)

    heard = EventLog()
    result = fit(loss=broken, data={**points(), "number": torch.arange(24)}, device="cuda", progress=heard)
    assert [row["skipped"] for row in result.history] == [1, 1, 1]
    assert torch.isfinite(weights(result.model)).all()
    assert len(heard.warnings) == 3
    with pytest.raises(DivergedError):
        fit(loss=lambda model, batch: squares(model, batch) * torch.nan, device="cuda")


@pytest.mark.parametrize("graph", [False, True])
def test_it_resumes_on_cuda(tmp_path: Any, graph: bool):
    options: dict[str, Any] = {"device": "cuda", "ema": 0.9, "precision": "float32", "graph": graph}
    fit(network(0.2), out=tmp_path / "run", epochs=2, **options)
    resumed = fit(network(0.2), out=tmp_path / "run", epochs=4, **options)
    whole = fit(network(0.2), epochs=4, **options)
    np.testing.assert_allclose(resumed.curve, whole.curve, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    "extra", [{}, {"accumulation_steps": 2}, {"grad_clip": 0.1, "ema": 0.9}, {"precision": "fp16"}]
)
def test_a_graph_gives_the_same_numbers(extra: dict[str, Any]):
    options: dict[str, Any] = {"device": "cuda", "schedule": "cosine", "precision": "float32", "epochs": 5, **extra}
    heard = EventLog()
    plain = fit(network(0.2), summed, points(26), **options)
    graphed = fit(network(0.2), summed, points(26), graph=True, progress=heard, **options)
    assert heard.warnings == []
    np.testing.assert_allclose(graphed.curve, plain.curve, rtol=1e-3, atol=1e-5)


@pytest.mark.filterwarnings("ignore")  # torch has advice
def test_compiling_gives_the_same_numbers():
    plain = fit(network(), summed, device="cuda", precision="float32")
    compiled = fit(network(), summed, device="cuda", precision="float32", compile=True)
    np.testing.assert_allclose(compiled.curve, plain.curve, rtol=1e-3, atol=1e-5)


def test_it_adds_little_to_a_bare_step():
    x, y = torch.randn(16_384, 64, device="cuda"), torch.randn(16_384, 1, device="cuda")

    def make() -> nn.Module:
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 1)).cuda()

    def loss(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
        return ((model(batch[0]) - batch[1]) ** 2).mean()

    def bare() -> float:
        model = make()
        optimizer = torch.optim.AdamW(model.parameters(), fused=True)
        for epoch in range(4):
            if epoch == 1:
                torch.cuda.synchronize()
                started = time.perf_counter()
            order = torch.randperm(len(x), device="cuda")
            for start in range(0, len(x), 256):
                part = order[start : start + 256]
                optimizer.zero_grad()
                loss(model, (x[part], y[part])).backward()
                nn.utils.clip_grad_norm_(model.parameters(), 1.0, foreach=True)
                optimizer.step()
        torch.cuda.synchronize()
        return (time.perf_counter() - started) / 192  # pyright: ignore[reportPossiblyUnboundVariable]

    def ours() -> float:
        options: Any = {"batch_size": 256, "epochs": 4, "device": "cuda", "precision": "float32", "grad_clip": 1.0}
        rows = fit(make(), loss, (x, y), **options).history
        return sum(row["seconds"] for row in rows[1:]) / 192

    best = min(bare() for _ in range(5)), min(ours() for _ in range(5))
    assert best[1] - best[0] < max(0.05 * best[0], 100e-6)


def test_recomputation_saves_memory():
    class Deep(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.parts = nn.ModuleList(
                nn.Sequential(nn.Linear(512, 4096), nn.GELU(), nn.Linear(4096, 512)) for _ in range(6)
            )
            self.first, self.last = nn.Linear(3, 512), nn.Linear(512, 1)

        def recomputable(self) -> list[str]:
            return [f"parts.{place}" for place in range(6)]

        def forward(self, x: Tensor) -> Tensor:
            x = self.first(x)
            for part in self.parts:
                x = x + part(x)
            return self.last(x)

    options: dict[str, Any] = {"epochs": 1, "batch_size": 32768, "device": "cuda", "accumulation_steps": 1}
    plain = plan_train(Deep(), summed, points(32768), recompute=False, **options)
    again = plan_train(Deep(), summed, points(32768), recompute=True, **options)
    assert again.predicted < 0.7 * plain.predicted
