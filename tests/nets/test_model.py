"""Many small networks: each is trained as it would be alone."""

import pytest
import torch

from brimful.nets import model


def alone(first: float, second: float, points: int, hidden: int, steps: int, seed: int) -> float:
    """One network trained in plain torch."""
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=generator)

    x_ND, y_N = normal(points, model.INPUTS), normal(points)
    W_DH, v_H = normal(model.INPUTS, hidden), normal(hidden)
    loss = torch.tensor(0.0)
    for _ in range(steps):
        W_DH, v_H = W_DH.detach().requires_grad_(), v_H.detach().requires_grad_()
        f_N = torch.tanh(x_ND @ W_DH / model.INPUTS**0.5) @ v_H / hidden**0.5
        loss = (f_N - y_N).square().mean()
        loss.backward()
        assert W_DH.grad is not None
        assert v_H.grad is not None
        W_DH, v_H = W_DH - first * W_DH.grad, v_H - second * v_H.grad
    return float(loss.detach())


def test_each_network_is_trained_as_it_would_be_alone():
    rates = {"first": torch.tensor([1.0, 5.0, 20.0]), "second": torch.tensor([0.1, 0.5, 1.0])}
    batch = model.train(rates, points=6, hidden=5, steps=12, seed=3)
    for index in range(3):
        expected = alone(float(rates["first"][index]), float(rates["second"][index]), 6, 5, 12, 3)
        assert float(batch.values["loss"][index]) == pytest.approx(expected, rel=1e-4)


def test_a_network_that_diverges_is_flagged_and_its_loss_infinite():
    batch = model.train({"first": torch.tensor([1.0, 3e3]), "second": torch.tensor([0.1, 1e6])}, steps=30)
    assert batch.status is not None
    assert batch.status.tolist() == [0, model.DIVERGED]
    assert batch.values["loss"].isinf().tolist() == [False, True]


@pytest.mark.parametrize("count", [1, 9, 10, 100])
def test_the_grid_covers_both_ranges(count: int):
    grid = model.grid(count)
    assert len(grid["first"]) == len(grid["second"]) == count
    pairs = set(zip(grid["first"].tolist(), grid["second"].tolist(), strict=True))
    assert len(pairs) == count
    if count == 100:
        assert grid["first"].max().item() == pytest.approx(model.FIRST[1], rel=1e-4)
        assert grid["second"].min().item() == pytest.approx(model.SECOND[0], rel=1e-4)
