"""The memory table: what is in it, what is chosen, and that it is never over."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from brimful import BudgetError, ConfigError, wpo
from brimful.wpo.memory_table import Sizes, Table, table

GB = 10**9


def sizes(K: int, d: int, batch: int, ranks: int = 1, ema: bool = True, hidden: int = 64) -> Sizes:
    """Of a model that is too large to make here, full triangles in single precision on a GPU."""
    outputs = d * (d + 1) // 2
    parameters = d * hidden + hidden + 4 * (hidden * hidden + hidden) + outputs * (hidden + 1)
    return Sizes(
        K=K, d=d, outputs=outputs, hidden=hidden, depth=5, parameters=parameters, itemsize=4, fused=True, strips=False,
        batch=-(-batch // ranks), ranks=ranks, ema=ema, state=8 * parameters,
    )  # fmt: skip


def test_the_parts_are_what_they_are():
    made = table(sizes(1000, 3072, 64), 80 * GB).row
    assert made.weights == made.gradients == pytest.approx(1.24e9, rel=0.02)
    assert made.optimizer == pytest.approx(3 * made.weights, rel=1e-6)
    assert made.centers == 1000 * 3072 * 4
    assert made.factors == pytest.approx(1000 * 3072 * 3073 / 2 * 4, rel=1e-3)
    assert made.total == sum(
        getattr(made, name) for name in ("weights", "centers", "factors", "gradients", "optimizer", "activations")
    )
    assert made.strategy == "single_gpu" and made.chunk == 1000


def test_images_fit_a_small_card_in_chunks():
    found = table(sizes(1000, 3072, 64, ema=False), 8 * GB)
    assert found.row.strategy == "chunked" and 16 <= found.row.chunk <= 200
    assert found.row.total <= 8 * GB
    text = str(found)
    assert "single_gpu" in text and "all of it at once is over the budget" in text and "> chunked" in text
    with pytest.raises(BudgetError, match="factor='lowrank' has far fewer"):
        table(sizes(1000, 3072, 64), 4 * GB)
    assert table(sizes(20_000, 784, 128), 8 * GB).row.total <= 8 * GB


def test_a_strategy_that_is_asked_for_is_taken():
    given_sizes = sizes(1000, 100, 64, ranks=2)
    for name in ("single_gpu", "single", "chunked", "gradient_accumulation", "model_parallel"):
        found = table(given_sizes, 8 * GB, strategy=name)
        assert found.row.strategy == {"single": "single_gpu"}.get(name, name) and found.row.why == "asked for"
    assert table(given_sizes, 8 * GB, strategy="chunked", chunk=7).row.chunk == 7
    assert table(given_sizes, 8 * GB, strategy="chunked", chunk=7000).row.chunk == 1000
    assert table(given_sizes, 8 * GB, strategy="model_parallel", chunk=7000).row.chunk == 500
    assert table(given_sizes, 8 * GB, strategy="gradient_accumulation", accumulate=5).row.accumulate == 5
    assert table(given_sizes, 8 * GB).row.strategy == "model_parallel"
    wrong: list[tuple[dict[str, Any], str]] = [({"strategy": "quick"}, "choose auto"), ({"chunk": 1.5}, "is 1.5")]
    for options, words in wrong:
        with pytest.raises(ConfigError, match=words):
            table(given_sizes, 8 * GB, **options)
    with pytest.raises(ConfigError, match="shares the centers among ranks"):
        table(replace(given_sizes, ranks=1), 8 * GB, strategy="model_parallel")
    with pytest.raises(BudgetError):
        table(sizes(1000, 3072, 64), 8 * GB, strategy="single")


@given(
    st.integers(1, 20_000), st.integers(1, 3072), st.integers(1, 512), st.integers(1, 4), st.integers(1, 200),
    st.booleans(),
)  # fmt: skip
def test_what_is_chosen_is_within_the_budget(K: int, d: int, batch: int, ranks: int, tenths: int, ema: bool):
    budget = tenths * GB // 10
    try:
        found = table(sizes(K, d, batch, ranks, ema), budget)
    except BudgetError:
        assert sum(sizes(K, d, 1, 1, ema).fixed().values()) * 1.1 > budget / 4
        return
    row = found.row
    assert row.total <= budget and 1 <= row.chunk <= K and 1 <= row.accumulate <= batch
    assert row.total == pytest.approx(found.plan.predicted, rel=1e-6)
    assert Table.from_dict(found.to_dict()) == found


def test_a_real_models_sizes():
    model = wpo.ScoreModel(torch.randn(50, 4), hidden=8, depth=2)
    found = Sizes.of(model, 32, 2, True, torch.device("cpu"))
    assert found.parameters == sum(each.numel() for each in model.parameters())
    assert (found.K, found.d, found.outputs, found.batch, found.fused) == (50, 4, 10, 16, True)
