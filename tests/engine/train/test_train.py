"""`train`: the gradient of the whole batch, however it is cut; and what a user sees of it."""

import math
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

import brimful
from brimful import BudgetError, ConfigError, DivergedError, InputError, Weighted, data
from brimful.core.base import rng
from brimful.core.base.errors import CancelledError
from brimful.core.runs.events import BatchDone, EpochDone, Finished, MemoryMeasured, Metric, Planned, Started
from brimful.engine.distributed.collectives import Group
from brimful.engine.train import plan_train
from brimful.engine.train.optim.ema import MovingAverage
from brimful.engine.train.step.divergence import DivergenceMonitor
from brimful.engine.train.step.loss import LossOutput
from brimful.engine.train.step.optimizer_step import OptimizerStep
from brimful.engine.train.step.precision import LossScale, resolve

from ...helpers.paths import ROOT
from .training import EventLog, error, failing, fit, network, points, squares, summed, weights

pytestmark = pytest.mark.usefixtures("one_thread")
CPU = torch.device("cpu")


# The gradient of the whole batch.


def stepper(model: nn.Module, loss: Any, micro_batches: int = 1, **options: Any) -> OptimizerStep:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    precision = resolve("auto", CPU, {each.dtype for each in model.parameters()})
    return OptimizerStep(
        model,
        loss,
        optimizer,
        CPU,
        precision,
        group=Group(),
        warn=lambda _: None,
        micro_batches=micro_batches,
        **options,
    )


def masked(model: nn.Module, batch: tuple[Tensor, Tensor, Tensor]) -> Weighted:
    x, y, weight = batch
    return Weighted(((model(x) - y)[:, 0] ** 2 * weight).sum(), weight.sum())


@settings(max_examples=40)
@given(st.integers(1, 12), st.integers(1, 15), st.integers(0, 2**31))
def test_micro_batches_give_the_gradient_of_the_whole_batch(count: int, pieces: int, seed: int):
    chosen = torch.Generator().manual_seed(seed)
    x, y = torch.randn(count, 3, generator=chosen).double(), torch.randn(count, 1, generator=chosen).double()
    weight = torch.rand(count, generator=chosen).double() * (torch.rand(count, generator=chosen) < 0.7)
    weight[0] += 0.1
    model = network(dtype=torch.float64)
    before = weights(model)
    stepper(model, masked, pieces)((x, y, weight), 0)
    other = network(dtype=torch.float64)
    found = masked(other, (x, y, weight))
    (found.sum / found.weight).backward()
    torch.optim.SGD(other.parameters(), lr=0.1).step()
    assert not torch.equal(before, weights(model))
    torch.testing.assert_close(weights(model), weights(other), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("pieces", [1, 2, 5])
def test_padded_and_packed_batches_are_cut_by_samples(pieces: int):
    samples = data.Ragged.of([torch.randn(n, dtype=torch.float64) for n in (3, 1, 4, 2, 5)])

    def loss(model: nn.Module, batch: Any) -> Weighted:
        if isinstance(batch, data.Padded):
            values, real = batch.values, batch.mask.double()
        else:
            values, real = batch.values, torch.ones_like(batch.values)
        return Weighted(((model(values[..., None])[..., 0] - 1) ** 2 * real).sum(), real.sum())

    found = []
    for ragged in ("pad", "packed"):
        model = nn.Linear(1, 1).double()
        nn.init.ones_(model.weight)
        nn.init.zeros_(model.bias)
        result = fit(model, loss, samples, batch_size=5, accumulation_steps=pieces, loader={"ragged": ragged})
        assert result.micro_batches == pieces
        found.append(weights(model))
    torch.testing.assert_close(found[0], found[1], rtol=1e-12, atol=1e-12)


def test_a_mean_a_tuple_and_a_weighted_are_the_same():
    ways = [squares, summed, lambda model, batch: (len(batch["x"]) * squares(model, batch), len(batch["x"]))]
    found = [weights(fit(loss=way, batch_size=7).model) for way in ways]
    torch.testing.assert_close(found[0], found[1])
    torch.testing.assert_close(found[0], found[2])


def test_it_is_the_loop_a_user_would_write():
    model, samples = network(), points()
    result = fit(network(), data=samples, best=False, grad_clip=0.5, warmup=4, schedule="cosine")
    loader = data.loader(samples, batch_size=4, device="cpu")
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.02, fused=True)
    losses, steps = [], 3 * len(loader)
    for epoch in range(3):
        for batch in loader.epoch(epoch):
            step = len(losses)
            factor = (1 + math.cos(math.pi * step / steps)) / 2 * min(1, (step + 1) / 4)
            for group in optimizer.param_groups:
                group["lr"] = 0.02 * factor
            optimizer.zero_grad()
            loss = squares(model, batch)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 0.5)
            optimizer.step()
            losses.append(loss.item())
    torch.testing.assert_close(weights(result.model), weights(model), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(result.curve[:, 0], losses, rtol=1e-5)


def test_a_batch_without_weight_changes_nothing():
    def nothing(model: nn.Module, batch: dict[str, Tensor]) -> Weighted:
        return Weighted((model(batch["x"]) * 0).sum(), torch.zeros(()))

    model, heard = network(), EventLog()
    fit(model, nothing, progress=heard)
    assert torch.equal(weights(model), weights(network()))
    assert heard.warnings == []


# What the loss may be.


@pytest.mark.parametrize(
    ("returned", "told"),
    [
        (None, "returned a NoneType"),
        (1.5, "returned a float"),
        ("x", "returned a str"),
        (torch.ones(3, requires_grad=True), r"shape \(3,\)"),
        (torch.tensor(3), "torch.int64"),
        ((1.0, 2.0), "a float where a sum belongs"),
        ((torch.ones((), requires_grad=True), "much"), "a str where a weight belongs"),
        ((torch.ones((), requires_grad=True), torch.ones(2)), r"shape \(2,\)"),
        (torch.tensor(3.0), "does not depend on any parameter"),
    ],
)
def test_a_loss_that_returns_something_else_is_told_of(returned: Any, told: str):
    with pytest.raises(InputError, match=told):
        fit(loss=lambda model, batch: returned, accumulation_steps=1)


def test_an_error_of_the_loss_is_the_users_own():
    def wrong(model: nn.Module, batch: Any) -> Tensor:
        raise ZeroDivisionError("mine")

    heard = EventLog()
    with pytest.raises(ZeroDivisionError, match="mine"):
        fit(loss=wrong, progress=heard)
    assert [event.state for event in heard.of(Finished)] == ["failed"]


@pytest.mark.parametrize(
    ("options", "kind", "told"),
    [
        ({"epochs": 0}, ConfigError, "epochs is 0"),
        ({"batch_size": None}, ConfigError, "batch_size is missing"),
        ({"batch_size": 0}, ConfigError, "batch_size is 0"),
        ({"lr": -1.0}, ConfigError, "lr is -1"),
        ({"lr": float("nan")}, ConfigError, "lr is nan"),
        ({"optimizer": "sgdd"}, ConfigError, "optimizer is 'sgdd'"),
        ({"optimizer": lambda parameters: 3}, ConfigError, "made a int"),
        ({"schedule": "wavy"}, ConfigError, "schedule is 'wavy'"),
        ({"precision": "int8"}, ConfigError, "precision is 'int8'"),
        ({"precision": "float64"}, ConfigError, "weights are float32"),
        ({"accumulation_steps": 0}, ConfigError, "accumulation_steps is 0"),
        ({"ema": 1.0}, ConfigError, "ema is 1.0"),
        ({"warmup": -1}, ConfigError, "warmup is -1"),
        ({"mode": "most"}, ConfigError, "mode is 'most'"),
        ({"monitor": "valid_loss"}, ConfigError, "no validation data"),
        ({"monitor": "accuracy"}, ConfigError, "is not measured; there are train_loss"),
        ({"metrics": error}, ConfigError, "give valid= too"),
        ({"recompute": True}, ConfigError, "does not say what"),
        ({"recompute": ["9"]}, ConfigError, "names '9'"),
        ({"ranks": 0}, ConfigError, "ranks is 0"),
        ({"learning_rate": 0.1}, ConfigError, "unknown option 'learning_rate'"),
        ({"batch_sise": 4}, ConfigError, "did you mean 'batch_size'"),
        ({"clip": 1.0, "grad_clip": 2.0}, ConfigError, "twice"),
        ({"loader": {"seed": 3}}, ConfigError, "loader has 'seed'"),
        ({"budget": "3 apples"}, BudgetError, "3 apples"),
        ({"data": torch.zeros(0, 3)}, InputError, "no samples"),
        ({"model": nn.Tanh()}, InputError, "0 parameter"),
        ({"model": network().requires_grad_(False)}, InputError, "none that requires a gradient"),
        ({"model": "resnet"}, InputError, "model is a str"),
        ({"loss": 3}, InputError, "loss is int"),
    ],
)
def test_a_wrong_option_is_refused_before_anything_runs(options: dict[str, Any], kind: type, told: str):
    with pytest.raises(kind, match=told):
        fit(**options)


def test_some_parameters_may_be_frozen_or_unused():
    class Odd(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.used, self.idle, self.frozen = nn.Linear(3, 1), nn.Linear(3, 1), nn.Linear(3, 1)
            self.frozen.requires_grad_(False)

        def forward(self, x: Tensor) -> Tensor:
            return self.used(x) + self.frozen(x)

    model, heard = Odd(), EventLog()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    fit(model, progress=heard)
    changed = {name for name, value in model.state_dict().items() if not torch.equal(value, before[name])}
    assert changed == {"used.weight", "used.bias"}
    assert [each for each in heard.warnings if "no gradient" in each] == [
        "2 parameter(s) got no gradient and will not change: idle.weight, idle.bias"
    ]


@pytest.mark.parametrize(("count", "size"), [(1, 1), (1, 8), (5, 8), (5, 4)])
def test_few_samples_and_large_batches(count: int, size: int):
    result = fit(data=points(count), batch_size=size)
    assert result.steps == 3 * math.ceil(count / size)
    assert all(math.isfinite(row["train_loss"]) for row in result.history)


def test_a_loader_brings_its_own_options():
    loader = data.loader(points(), batch_size=4, device="cpu", seed=0)
    assert torch.equal(weights(fit(data=loader, batch_size=None).model), weights(fit().model))
    with pytest.raises(ConfigError, match="data is a Loader"):
        fit(data=loader)


def test_a_run_is_cancelled_from_another_thread(tmp_path: Path):
    cancel, heard, errors = threading.Event(), EventLog(), list[BaseException]()

    def work() -> None:
        try:
            fit(epochs=100_000, out=tmp_path / "run", progress=heard, cancel=cancel)
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    until = time.monotonic() + 60
    while not heard.of(EpochDone) and time.monotonic() < until:
        time.sleep(0.01)
    cancel.set()
    thread.join(60)
    assert not thread.is_alive()
    assert isinstance(errors[0], CancelledError) and "interrupted after" in str(errors[0])
    assert [event.state for event in heard.of(Finished)] == ["interrupted"]
    assert (tmp_path / "run" / "checkpoints" / "last").exists()


def test_torchs_generators_are_left_as_they_were():
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    fit(network(dropout=0.5))
    assert torch.equal(torch.rand(2), expected)


def test_dropout_depends_on_the_seed():
    first, again, other = (weights(fit(network(dropout=0.5), seed=seed).model) for seed in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert len({rng.derive_seed(*parts) for parts in ((0, 0, 1, 0), (0, 0, 0, 1), (0, 1, 0, 0), (1, 0, 0, 0))}) == 4


# Memory that runs out.


class Full:
    """A loss that runs out of memory at one call, counted from 1, or on more than so many samples."""

    def __init__(self, call: int = 0, most: int = 10**9) -> None:
        self.call, self.most, self.calls = call, most, 0

    def __call__(self, model: nn.Module, batch: dict[str, Tensor]) -> Weighted:
        self.calls += 1
        found = summed(model, batch)
        if self.calls == self.call or len(batch["x"]) > self.most:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")
        return found


@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_memory_that_runs_out_at_any_call_costs_nothing_but_a_warning(dropout: float):
    whole = Full()
    reference = weights(fit(network(dropout, torch.float64), whole, points(dtype=torch.float64), epochs=1).model)
    for call in range(1, whole.calls + 1):
        failing, heard = Full(call), EventLog()
        model = network(dropout, torch.float64)
        result = fit(model, failing, points(dtype=torch.float64), epochs=1, progress=heard)
        retried = [each for each in heard.warnings if "out of memory" in each]
        assert len(retried) == (result.micro_batches > 1)
        if dropout == 0:
            torch.testing.assert_close(weights(model), reference, rtol=1e-11, atol=1e-11)


def test_a_step_done_again_with_the_same_pieces_has_the_same_bits():
    reference = fit(network(0.3), accumulation_steps=2).model
    failing = Full(most=2)  # the first batch of 4 fails, and from then on there are two pieces
    assert torch.equal(weights(fit(network(0.3), failing).model), weights(reference))


@pytest.mark.parametrize("most", [1, 2, 3])
def test_a_limit_is_found_and_kept(most: int):
    heard, failing = EventLog(), Full(most=most)
    result = fit(loss=failing, progress=heard, batch_size=8)
    assert 8 / result.micro_batches <= most
    assert sum("out of memory" in each for each in heard.warnings) <= 3
    torch.testing.assert_close(weights(result.model), weights(fit(batch_size=8).model), rtol=1e-4, atol=1e-5)


def test_one_sample_that_does_not_fit_is_a_budget_error():
    with pytest.raises(BudgetError, match=r"one sample does not fit.*recompute="):
        fit(loss=Full(most=0))


def test_running_means_are_not_counted_twice():
    def make() -> nn.Sequential:
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 1))

    halves, heard = make(), EventLog()
    fit(halves, accumulation_steps=2, batch_size=8)
    again = make()
    fit(again, Full(most=4), batch_size=8, progress=heard)
    assert torch.equal(halves[1].running_mean, again[1].running_mean)  # pyright: ignore
    assert int(again[1].num_batches_tracked) == 18  # pyright: ignore
    assert any("batch normalization" in each for each in heard.warnings)


# The plan.


def test_the_plan_says_what_and_why():
    plan = plan_train(network(), squares, points(), epochs=1, batch_size=8, device="cpu", budget="1GB")
    assert (plan.tier, plan.batch, plan.steps, plan.items) == ("device", 8, 1, 8)
    assert "float32 (a CPU gains nothing from less)" in plan.explain()
    assert "pinned tier" in plan.explain()
    assert plan.predicted <= plan.budget


def test_a_plan_by_a_given_cost_runs_nothing():
    options: Any = {"epochs": 1, "batch_size": 8, "device": "cpu", "budget": "1MB"}
    plan = plan_train(network(), failing, points(), cost=brimful.Cost(1000, 100_000), **options)
    assert plan.cost.source == "formula" and plan.steps == 1
    plan = plan_train(network(), failing, points(), cost=brimful.Cost(1000, 300_000), **options)
    assert (plan.batch, plan.steps) == (3, 3)


class Wide(nn.Module):
    """A model whose activations are far larger than its weights."""

    def __init__(self, parts: int = 4, name: bool = False) -> None:
        super().__init__()
        self.parts = nn.ModuleList(nn.Sequential(nn.Linear(3, 400), nn.Tanh(), nn.Linear(400, 3)) for _ in range(parts))
        if name:
            self.recomputable = lambda: [f"parts.{place}" for place in range(parts)]

    def forward(self, x: Tensor) -> Tensor:
        for part in self.parts:
            x = x + part(x[:, None].expand(-1, 300, 3)).mean(1)
        return x.sum(1, keepdim=True)


def test_batches_are_cut_to_fit_the_budget():
    samples = points(64)
    whole = plan_train(Wide(), squares, samples, epochs=1, batch_size=64, device="cpu", budget="2GB")
    cut = plan_train(Wide(), squares, samples, epochs=1, batch_size=64, device="cpu", budget="100MB")
    assert whole.steps == 1
    assert cut.steps is not None and cut.steps > 2
    assert cut.cost.guarded(cut.batch) <= cut.budget
    with pytest.raises(BudgetError, match=r"one sample needs.*recompute="):
        plan_train(Wide(), squares, samples, epochs=1, batch_size=64, device="cpu", budget="1MB")


def test_recomputation_is_taken_where_nothing_else_fits():
    samples = points(64)
    options: Any = {"epochs": 1, "batch_size": 64, "device": "cpu"}
    assert not plan_train(Wide(4, True), squares, samples, budget="50MB", **options).recompute
    plan = plan_train(Wide(6, True), squares, samples, budget="2MB", **options)
    assert plan.recompute and plan.tier == "device"
    assert {"optimizer", "gradients", "data"} <= dict(plan.parts).keys()
    assert any("over the budget" in each.reason for each in plan.rejected)


def test_recomputing_changes_nothing():
    reference = weights(fit(network(0.3)).model)
    model = network(0.3)
    assert torch.equal(weights(fit(model, recompute=["0", "2"]).model), reference)
    assert all("forward" not in each.__dict__ for each in model.modules())


def test_losses_are_read_as_seldom_as_wanted():
    often, seldom = fit(), fit(log_every=3)
    assert torch.equal(weights(seldom.model), weights(often.model))
    assert np.array_equal(seldom.curve, often.curve)

    def calls_until_seen(log_every: int) -> int:
        calls = 0

        def broken(model: nn.Module, batch: Any) -> Any:
            nonlocal calls
            calls += 1
            return squares(model, batch) * math.nan

        with pytest.raises(DivergedError):
            fit(loss=broken, max_nonfinite=0, log_every=log_every)
        return calls

    assert calls_until_seen(4) == calls_until_seen(1) + 3


def test_compiling_changes_nothing():
    compiled = fit(network(0.3), compile={"backend": "eager"}, valid=points(5))
    assert torch.equal(weights(compiled.model), weights(fit(network(0.3), valid=points(5)).model))
    assert list(compiled.model.state_dict()) == list(network().state_dict())
    assert compiled.compiling > 0
    assert compiled.summary()["compiling_seconds"] == compiled.compiling


def test_a_graph_on_a_cpu_is_told_of():
    heard = EventLog()
    fit(graph=True, progress=heard)
    assert heard.warnings == ["graph=True needs CUDA; steps run one by one"]


# Precision.


def test_the_precision_follows_the_device_and_the_weights():
    cuda = torch.device("cuda", 0)
    single = {torch.float32}
    assert resolve("auto", CPU, single).name == "float32"
    assert resolve("auto", cuda, single, lambda: True).name == "bfloat16"
    assert resolve("auto", cuda, single, lambda: False).scaled
    assert resolve("auto", cuda, {torch.float64}, lambda: True).autocast is None
    assert resolve("fp16", cuda, single).autocast == torch.float16
    assert not resolve("bf16", cuda, single).scaled


@pytest.mark.parametrize(("precision", "off"), [("bf16", 0.1), ("fp16", 0.02)])
def test_half_precision_learns_the_same(precision: str, off: float):
    reference = fit(epochs=10)
    found = fit(epochs=10, precision=precision)
    assert found.model[0].weight.dtype == torch.float32  # pyright: ignore
    assert found.history[-1]["train_loss"] == pytest.approx(reference.history[-1]["train_loss"], abs=off)
    assert precision[:2] == "bf" or "float16" in found.plan.precision


def test_a_loss_scale_falls_and_rises():
    scale = LossScale(CPU, 16)
    first = float(scale.value)
    scale.update(torch.ones(()))
    assert float(scale.value) == first / 2
    for _ in range(2000):
        scale.update(torch.zeros(()))
    assert float(scale.value) == first
    other = LossScale(CPU, 1)
    other.restore(scale.state())
    assert torch.equal(other.value, scale.value)


def test_an_overflow_is_skipped_and_not_told_of():
    heard, model = EventLog(), network()

    def steep(model: nn.Module, batch: dict[str, Tensor]) -> Tensor:
        return squares(model, batch) * 3e4

    result = fit(model, steep, precision="fp16", epochs=5, progress=heard)
    assert sum(row["skipped"] for row in result.history) > 0
    assert heard.warnings == []
    assert torch.isfinite(weights(model)).all()


# Losses that are not finite, gradients that explode.


class Broken:
    """A loss that is NaN for batches that hold certain samples."""

    def __init__(self, *samples: float) -> None:
        self.samples = torch.tensor(samples)

    def __call__(self, model: nn.Module, batch: dict[str, Tensor]) -> Tensor:
        bad = torch.isin(batch["number"], self.samples).any()
        return squares(model, batch) * torch.where(bad, torch.nan, 1.0)


def numbered() -> dict[str, Tensor]:
    return {**points(), "number": torch.arange(24.0)}


def test_a_step_that_is_not_finite_is_skipped_and_its_batch_named():
    heard = EventLog()
    result = fit(loss=Broken(7), data=numbered(), progress=heard)
    assert [row["skipped"] for row in result.history] == [1, 1, 1]
    assert np.isnan(result.curve[:, 0]).sum() == 3
    assert torch.isfinite(weights(result.model)).all()
    assert len(heard.warnings) == 3
    loader = data.loader(points(), batch_size=4, device="cpu")
    batch = next(place for place in range(6) if 7 in loader.index(0, place))
    assert f"batch {batch + 1} of epoch 1 (samples" in heard.warnings[0]
    assert "7" in heard.warnings[0].split("samples")[1]


def test_too_many_in_a_row_end_the_run_with_the_weights_before_them():
    with pytest.raises(DivergedError, match="not finite in 3 steps in a row, first in batch 1 of epoch 1"):
        fit(model := network(), Broken(*range(24)), numbered(), max_nonfinite=2)
    assert torch.equal(weights(model), weights(network()))


def test_a_nan_is_skipped_by_a_fused_optimizer_too():
    """As on CUDA, where nobody looks at the loss before the optimizer steps."""
    model = network()
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    precision = resolve("auto", CPU, {torch.float32})
    step = OptimizerStep(model, Broken(3), optimizer, CPU, precision, group=Group(), warn=print)
    step._waits = False
    batch = {name: part[:4] for name, part in numbered().items()}
    before = weights(model)
    assert not torch.isfinite(torch.as_tensor(step(batch, 0))).all()
    assert torch.equal(weights(model), before)
    good = {name: part[8:12] for name, part in numbered().items()}
    assert torch.isfinite(torch.as_tensor(step(good, 1))).all()
    assert not torch.equal(weights(model), before)


def test_an_exploding_gradient_is_told_of_once_an_epoch():
    told: list[str] = []
    monitor = DivergenceMonitor(3, False, told.append, lambda step: f"step {step}")
    for step in range(30):
        monitor.check(step, 1.0, 1.0, 1.0, 0)
    for step in (30, 31):
        monitor.check(step, 1.0, 1.0, 500.0, 0)
    monitor.check(32, 1.0, 1.0, 500.0, 1)
    assert [each.split(",")[0] for each in told] == [
        "the gradient's norm is 500 in step 30",
        "the gradient's norm is 500 in step 32",
    ]


# Evaluation, the best epoch, stopping early, averages.


def test_validation_metrics_and_the_best_epoch():
    heard = EventLog()
    result = fit(valid=points(10), metrics=error, monitor="error", epochs=6, progress=heard, lr=0.2)
    losses = [row["error"] for row in result.history]
    assert result.best is result.history[int(np.argmin(losses))]
    valid = points(10)
    with torch.no_grad():
        assert not result.model.training
        assert result.best is not None
        assert float(squares(result.model, valid)) == pytest.approx(result.best["valid_loss"], rel=1e-5)
        assert float((result.model(valid["x"]) - valid["y"]).abs().mean()) == pytest.approx(min(losses), rel=1e-5)
    assert [event.epoch for event in heard.of(EpochDone)] == [1, 2, 3, 4, 5, 6]
    assert [event.data_seconds for event in heard.of(EpochDone)] == [row["data_seconds"] for row in result.history]
    assert {event.metric for event in heard.of(Metric)} >= {"error", "valid_loss", "train_loss", "lr", "weight_norm"}
    assert len(heard.of(Planned)) == len(heard.of(Started)) == 1
    assert heard.of(BatchDone)[-1].done == 6 * 24
    table = result.table()
    assert table.column_names[:4] == ["epoch", "step", "train_loss", "valid_loss"]
    assert table.num_rows == 6


def by_itself(model: nn.Module, batch: Tensor) -> Tensor:
    return (model(batch) - batch.sum(1, keepdim=True)).square().mean()


def test_the_bytes_of_each_part_are_those_of_its_tensors(tmp_path: Path):
    heard, samples = EventLog(), points(24)
    np.save(tmp_path / "x.npy", samples["x"].numpy())
    weights = sum(value.numel() for value in network().parameters()) * 4
    fit(loss=by_itself, data=tmp_path / "x.npy", valid=points(10)["x"], ema=0.9, progress=heard)
    parts = heard.of(MemoryMeasured)[-1].parts
    steps = 4 * len(list(network().parameters()))  # that Adam counts, per parameter
    assert parts == {
        **dict.fromkeys(("parameters", "gradients", "moving average", "best weights"), weights),
        "optimizer": 2 * weights + steps,
        "data": 24 * 3 * 4,
    }
    assert len(heard.of(MemoryMeasured)) <= 3  # said when it grows


def test_the_last_weights_where_they_are_asked_for():
    result = fit(valid=points(10), best=False, epochs=4, lr=0.3)
    with torch.no_grad():
        assert float(squares(result.model, points(10))) == pytest.approx(result.history[-1]["valid_loss"], rel=1e-5)


def test_training_ends_early():
    rising = iter(range(100))
    result = fit(valid=points(4), metrics=lambda *_: {"worse": next(rising)}, monitor="worse", patience=3, epochs=50)
    assert (result.stopped, result.epochs) == ("early", 4)
    assert result.best is result.history[0]
    more = fit(valid=points(4), metrics=lambda *_: {"better": next(rising)}, monitor="better", mode="max", patience=1)
    assert (more.stopped, more.epochs) == ("finished", 3)


@pytest.mark.parametrize(("delta", "ends"), [(0.0, "finished"), (0.3, "early")])
def test_small_improvements_do_not_keep_it_going(delta: float, ends: str):
    """They add up: what counts is the distance to the last one that did. The best epoch is the best all the same."""
    falling = iter([5.0, 4.9, 4.6, 4.5, 4.4, 4.39, 4.38, 4.37])
    options = {"monitor": "slow", "patience": 3, "min_delta": delta, "epochs": 8}
    result = fit(valid=points(4), metrics=lambda *_: {"slow": next(falling)}, **options)
    assert result.stopped == ends
    assert result.epochs == (8 if ends == "finished" else 6)
    assert result.best is result.history[-1]


def test_the_time_without_data_is_part_of_an_epochs():
    result = fit(epochs=2)
    assert all(0 <= row["data_seconds"] <= row["seconds"] + 1 for row in result.history)
    assert "data_seconds" not in result.summary()


def test_the_average_is_what_the_formula_says():
    parameters = [nn.Parameter(torch.zeros(2)), nn.Parameter(torch.zeros(3))]
    average, expected = MovingAverage(parameters, 0.9), torch.zeros(2)
    for value in (1.0, 5.0, -2.0):
        with torch.no_grad():
            parameters[0].fill_(value)
        average.update()
        expected = 0.9 * expected + 0.1 * value
    torch.testing.assert_close(average.values[0], expected)
    with average.in_place():
        torch.testing.assert_close(parameters[0].detach(), expected)
    assert parameters[0].tolist() == [-2.0, -2.0]


@pytest.mark.parametrize("captured", [False, True])
def test_an_average_warms_up(captured: bool):
    parameters = [nn.Parameter(torch.zeros(2)), nn.Parameter(torch.zeros(3))]
    average, expected = MovingAverage(parameters, 0.99, warmup=True, captured=captured), torch.zeros(2)
    for step, value in enumerate((1.0, 5.0, -2.0, 3.0)):
        with torch.no_grad():
            parameters[0].fill_(value)
        average.begin_step(step)
        average.update()
        decay = min(0.99, (1 + step) / (10 + step))
        expected = decay * expected + (1 - decay) * value
    torch.testing.assert_close(average.values[0], expected)
    average.begin_step(10_000)
    average.update()
    torch.testing.assert_close(average.values[0], 0.99 * expected + 0.01 * 3.0)


def test_a_slow_average_of_a_short_run_is_of_trained_weights():
    with torch.no_grad():
        first = float(squares(network(), points()))
    result = fit(ema=0.999, steps=50, epochs=None, lr=0.05)
    plain = fit(steps=50, epochs=None, lr=0.05)
    with torch.no_grad():
        average, last = (float(squares(trained.model, points())) for trained in (result, plain))
    assert average - last < 0.35 * (first - last)
    assert result.weights.endswith("their moving average") and "moving average" not in plain.weights


def test_which_weights_came_back_is_said(tmp_path: Path):
    rising = {"epoch": 0}

    def worse(model: nn.Module, batches: Any) -> dict[str, float]:
        rising["epoch"] += 1
        return {"worse": float(rising["epoch"])}

    options: dict[str, Any] = {"valid": points(4), "metrics": worse, "monitor": "worse"}
    assert fit(**options).weights == "those of epoch 1, the best by worse"
    assert fit(**options, best=False).weights == "the last, after step 18"
    assert fit(out=tmp_path / "run").summary()["weights"].startswith("those of epoch 3, the best by train_loss")


def test_the_average_is_evaluated_and_kept():
    result = fit(valid=points(10), ema=0.8, epochs=4)
    plain = fit(valid=points(10), epochs=4)
    assert result.best is not None
    with torch.no_grad():
        assert float(squares(result.model, points(10))) == pytest.approx(result.best["valid_loss"], rel=1e-5)
    assert np.array_equal(result.curve, plain.curve)  # training itself is not touched
    assert result.best["valid_loss"] != plain.best["valid_loss"]  # pyright: ignore


def test_an_optimizer_of_ones_own():
    result = fit(optimizer=lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9), schedule="cosine")
    assert result.history[-1]["train_loss"] < result.history[0]["train_loss"]
    assert result.history[-1]["lr"] < 0.01


def test_what_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    result = fit(valid=points(10), epochs=3, metrics=error)
    assert capsys.readouterr() == ("", "")
    assert str(result).startswith(
        "TrainResult(epochs=3, steps=18, stopped=finished, weights=those of epoch 3, the best by"
    )
    assert result.draw(tmp_path / "curves.png").stat().st_size > 10_000
    fit(valid=points(10), progress=None)
    shown = capsys.readouterr().err
    assert "epoch 1 of 3: train_loss" in shown and "valid_loss" in shown


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_shared_weights_are_one(dtype: torch.dtype, tmp_path: Path):
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Linear(3, 3), nn.Linear(3, 3)
            self.second.weight = self.first.weight

        def forward(self, x: Tensor) -> Tensor:
            return self.second(self.first(x)).sum(1, keepdim=True)

    model = Tied().to(dtype)
    fit(model, data=points(dtype=dtype), out=tmp_path / "run")
    assert model.first.weight is model.second.weight


@settings(max_examples=20)
@given(st.integers(1, 30), st.integers(1, 9), st.integers(1, 4), st.booleans())
def test_any_shape_of_a_run(count: int, size: int, pieces: int, drop: bool):
    options: Any = {"batch_size": size, "accumulation_steps": pieces, "epochs": 2, "loader": {"drop_last": drop}}
    if drop and size > count:
        with pytest.raises(ConfigError, match="drop_last leaves no batch"):
            fit(data=points(count), **options)
        return
    result = fit(data=points(count), **options)
    assert result.steps == 2 * (count // size if drop else math.ceil(count / size))
    assert len(result.curve) == result.steps
    assert brimful.TrainResult is type(result)


def test_the_example_of_the_docs_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    text = (ROOT / "docs" / "train.md").read_text().split("```python\n")[1].split("```")[0]
    x, y = torch.randn(64, 3), torch.randint(2, (64,))
    given = {"model": nn.Linear(3, 2), "x": x, "y": y, "x_valid": x, "y_valid": y}
    exec(text.replace("epochs=50", 'epochs=2, device="cpu", progress=False'), given)
    assert given["result"].epochs == 2
    assert (tmp_path / "curves.png").exists()


def test_a_skipped_step_leaves_running_means_as_they_were():
    model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3), torch.nn.Linear(3, 1))
    x, y = torch.randn(32, 2, generator=torch.Generator().manual_seed(0)), torch.zeros(32, 1)
    x[5] = torch.nan

    def loss(model: torch.nn.Module, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        return (model(batch["x"]) - batch["y"]).square().mean()

    brimful.train(model, loss, {"x": x, "y": y}, epochs=2, batch_size=8, device="cpu", progress=False)
    assert all(torch.isfinite(each).all() for each in model.buffers())


def test_a_transform_holds_for_validation_too():
    model, x = torch.nn.Linear(1, 1), torch.full((16, 1), 100.0)

    def loss(model: torch.nn.Module, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        return (model(batch["x"]) - 1.0).square().mean()

    def small(batch: dict[str, torch.Tensor], generator: torch.Generator) -> dict[str, torch.Tensor]:
        return {"x": batch["x"] / 100.0}

    result = brimful.train(
        model, loss, {"x": x}, valid={"x": x}, epochs=1, batch_size=16, lr=1e-9, device="cpu", progress=False,
        loader={"transform": small},
    )  # fmt: skip
    assert result.history[0]["valid_loss"] == pytest.approx(result.history[0]["train_loss"], rel=1e-4)


def test_a_mean_in_half_precision_does_not_overflow():
    found = LossOutput.of(torch.tensor(64.0, dtype=torch.float16), 4096).weighted()
    assert found.sum.item() == 64.0 * 4096


def test_a_parameter_that_is_a_view_of_the_loss_keeps_its_gradient():
    """The gradient that autograd begins with may become a parameter's own, and be divided in place."""

    class Level(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a = nn.Parameter(torch.ones(1, 1))

        def forward(self) -> Tensor:
            return self.a.squeeze()

    result = fit(Level(), lambda model, batch: model(), epochs=1, optimizer=lambda each: torch.optim.SGD(each, lr=0.1))
    np.testing.assert_allclose(result.curve[:, 1], 1.0)
    assert next(result.model.parameters()).item() == pytest.approx(1 - 6 * 0.1)


@pytest.mark.parametrize("kind", ["adamw", "adam", "decoupled", "hooked"])
def test_steps_on_the_device_alone_are_those_of_torch(kind: str):
    def make(parameters: Any) -> torch.optim.Optimizer:
        if kind in ("adamw", "hooked"):
            return torch.optim.AdamW(parameters, lr=0.1, weight_decay=0.5, fused=True)
        return torch.optim.Adam(
            parameters, lr=0.1, weight_decay=0.5, decoupled_weight_decay=kind == "decoupled", fused=True
        )

    models, heard = [network(), network()], []
    for model, unseen in zip(models, (False, True), strict=True):
        optimizer = make(model.parameters())
        if kind == "hooked":
            optimizer.register_step_post_hook(lambda *_: heard.append(1))
        single = resolve("float32", CPU, {torch.float32})
        step = OptimizerStep(model, squares, optimizer, CPU, single, group=Group(), warn=print, grad_clip=0.5)
        step._waits = not unseen
        for number in range(6):
            row = step(points(8 + number), number)
            assert len(row) == 3
    torch.testing.assert_close(weights(models[0]), weights(models[1]))
    assert len(heard) == (12 if kind == "hooked" else 0)
