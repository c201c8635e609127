"""What docs/wpo.md names for the reference's `setup_*` functions is there, and gives one loss."""

import pytest
import torch

from brimful import wpo

X = torch.randn(120, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def test_a_loop_of_your_own_has_the_same_loss_for_every_chunk():
    model = wpo.ScoreModel(X[:20], stability=1e-6)
    losses = [model.loss(X[20:60], chunk_size=chunk).item() for chunk in (1, 7, 20)]
    assert losses == pytest.approx([losses[0]] * 3, rel=1e-5)


@pytest.mark.parametrize(
    "options",
    [
        {"strategy": "chunked", "chunk_size": 5},
        {"strategy": "gradient_accumulation", "accumulation_steps": 4},
    ],
)
def test_the_strategies_of_the_reference(options: dict[str, object]):
    model = wpo.ScoreModel(X[:20], hidden=8, depth=1)
    result = wpo.train(model, X[20:], steps=3, batch_size=40, device="cpu", progress=False, calibrate=False, **options)  # pyright: ignore[reportArgumentType]
    assert result.plan.strategy == options["strategy"] and len(result.curve) == 3
