"""Many small networks trained at once by gradient descent.

Legend: T networks, N points, D inputs, H hidden units.

Each network is f(x) = tanh(x W / sqrt(D)) v / sqrt(H). All are trained on the same random points from the same initial
weights; only the learning rates of the two layers differ. So the result is a map of where training converges.
"""

import math
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from ..engine.map.batch import Batch

DIVERGED = 16
"""Status of a network whose loss diverged; its loss is then infinite."""

INPUTS = 4
FIRST, SECOND = (1.0, 3000.0), (0.1, 20.0)  # the ranges of the two learning rates


def side(count: int) -> int:
    """The side of the smallest square grid with at least `count` points."""
    return math.ceil(math.sqrt(count))


def grid(count: int) -> dict[str, Float[Tensor, " T"]]:
    """The learning rates of `count` networks, row by row over a square of the two ranges."""
    n = side(count)
    first, second = (torch.logspace(math.log10(low), math.log10(high), n) for low, high in (FIRST, SECOND))
    return {"first": first.repeat(n)[:count], "second": second.repeat_interleave(n)[:count]}


def train(
    batch: dict[str, Float[Tensor, " T"]], *, points: int = 16, hidden: int = 16, steps: int = 200, seed: int = 0
) -> Batch:
    """Trains one network per item; an item is the two learning rates."""
    first_T, second_T = batch["first"], batch["second"]
    generator = torch.Generator().manual_seed(seed)  # on the CPU: the same numbers for every device

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator).to(first_T.device)

    x_ND, y_N = normal(points, INPUTS), normal(points)
    W_TDH = normal(INPUTS, hidden).expand(len(first_T), -1, -1)
    v_TH = normal(hidden).expand(len(first_T), -1)

    def loss(weights: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        W_DH, v_H = weights
        f_N = torch.tanh(x_ND @ W_DH / INPUTS**0.5) @ v_H / hidden**0.5
        value = (f_N - y_N).square().mean()
        return value, value

    gradients: Any = torch.func.vmap(torch.func.grad(loss, has_aux=True))
    loss_T = torch.zeros_like(first_T)
    for _ in range(steps):
        (dW_TDH, dv_TH), loss_T = gradients((W_TDH, v_TH))
        W_TDH = W_TDH - first_T[:, None, None] * dW_TDH
        v_TH = v_TH - second_T[:, None] * dv_TH
    diverged_T = ~(loss_T < 1e3)
    loss_T = torch.where(diverged_T, float("inf"), loss_T)
    return Batch({"loss": loss_T}, status=diverged_T.to(torch.int8) * DIVERGED)


def bytes_per_network(points: int, hidden: int) -> int:
    """An estimate: weights, gradients, the update and both layers' activations, a few times over, in float32."""
    return 4 * 5 * (INPUTS * hidden + hidden + points * hidden)
