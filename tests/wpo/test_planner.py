"""The plan of training: the memory by part, what is chosen, and that it is never over the budget."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from brimful import BudgetError, ConfigError, Plan, wpo
from brimful.wpo.planner import TrainingSizes, plan_training

GB = 10**9


def sizes(K: int, d: int, batch: int, ranks: int = 1, ema: bool = True, hidden: int = 64) -> TrainingSizes:
    """Of a model that is too large to build here: full triangles in single precision on a GPU."""
    entries = d * (d + 1) // 2
    parameters = d * hidden + hidden + 4 * (hidden * hidden + hidden) + entries * (hidden + 1)
    return TrainingSizes(
        K=K, d=d, entries=entries, features=5 * hidden, parameters=parameters, itemsize=4, fused=True, strips=False,
        batch=-(-batch // ranks), ranks=ranks, optimizer=(12 if ema else 8) * parameters,
    )  # fmt: skip


def test_the_parts():
    plan = plan_training(sizes(1000, 3072, 64), 80 * GB)[0]
    parts = dict(plan.parts)
    assert parts["parameters"] == parts["gradients"] == pytest.approx(1.24e9, rel=0.02)
    assert parts["optimizer"] == pytest.approx(3 * parts["parameters"], rel=1e-6)
    assert parts["centers"] == 1000 * 3072 * 4
    assert parts["factors"] == pytest.approx(1000 * 3072 * 3073 / 2 * 4, rel=1e-3)
    assert sum(parts.values()) == pytest.approx(plan.predicted, rel=1e-9)
    assert plan.strategy == "single" and plan.batch == 1000


def test_images_fit_a_small_card_in_chunks():
    plan = plan_training(sizes(1000, 3072, 64, ema=False), 8 * GB)[0]
    assert plan.strategy == "chunked" and 16 <= plan.batch <= 200
    assert plan.predicted <= 8 * GB
    assert all(word in plan.explain() for word in ("all of it at once is over the budget", "factors", "18.88 GB"))
    with pytest.raises(BudgetError, match="factor='lowrank' has far fewer"):
        plan_training(sizes(1000, 3072, 64), 4 * GB)
    assert plan_training(sizes(20_000, 784, 128), 8 * GB)[0].predicted <= 8 * GB


def test_the_requested_strategy_is_taken():
    two_ranks = sizes(1000, 100, 64, ranks=2)

    def planned(**options: Any) -> Plan:
        return plan_training(two_ranks, 8 * GB, **options)[0]

    for name in ("single_gpu", "single", "chunked", "gradient_accumulation", "model_parallel"):
        assert planned(strategy=name).strategy == name.removesuffix("_gpu")
    assert planned(strategy="chunked", chunk_size=7).batch == 7
    assert planned(strategy="chunked", chunk_size=7000).batch == 1000
    assert planned(strategy="model_parallel", chunk_size=7000).batch == 500
    assert plan_training(two_ranks, 8 * GB, strategy="gradient_accumulation", accumulation_steps=5)[1] == 5
    assert planned().strategy == "model_parallel"
    with pytest.raises(ConfigError, match="splits the centers over ranks"):
        plan_training(replace(two_ranks, ranks=1), 8 * GB, strategy="model_parallel")
    with pytest.raises(BudgetError):
        plan_training(sizes(1000, 3072, 64), 8 * GB, strategy="single")


@given(
    st.integers(1, 20_000), st.integers(1, 3072), st.integers(1, 512), st.integers(1, 4), st.integers(1, 200),
    st.booleans(),
)  # fmt: skip
def test_the_plan_is_within_the_budget(K: int, d: int, batch: int, ranks: int, tenths: int, ema: bool):
    budget = tenths * GB // 10
    try:
        plan, micro_batches = plan_training(sizes(K, d, batch, ranks, ema), budget)
    except BudgetError:
        assert sum(sizes(K, d, 1, 1, ema).cost(1).fixed.values()) * 1.1 > budget / 4
        return
    assert plan.predicted <= budget and 1 <= plan.batch <= K and 1 <= micro_batches <= batch
    assert sum(size for _, size in plan.parts) == pytest.approx(plan.predicted, rel=1e-6)
    assert Plan.from_dict(plan.to_dict()) == plan


def test_the_sizes_of_a_model():
    model = wpo.ScoreModel(torch.randn(50, 4), hidden=8, depth=2)
    measured = TrainingSizes.measure(model, 32, 2, True, torch.device("cpu"))
    assert measured.parameters == sum(parameter.numel() for parameter in model.parameters())
    assert (measured.K, measured.d, measured.entries, measured.batch, measured.fused) == (50, 4, 10, 16, True)
