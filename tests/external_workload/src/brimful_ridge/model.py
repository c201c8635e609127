"""The function of a batch: one ridge regression per item.

Legend: T tasks, N points, D inputs.
"""

import torch
from torch import Tensor

INPUTS, POINTS = 3, 20


def tasks(count: int, seed: int) -> dict[str, Tensor]:
    """Made-up tasks, and a penalty for each."""
    generator = torch.Generator().manual_seed(seed)
    x_TND = torch.randn(count, POINTS, INPUTS, generator=generator)
    w_TD = torch.randn(count, INPUTS, generator=generator)
    noise_TN = 0.1 * torch.randn(count, POINTS, generator=generator)
    return {"x": x_TND, "y": (x_TND @ w_TD[..., None]).squeeze(-1) + noise_TN, "penalty": torch.logspace(-3, 3, count)}


def solve(batch: dict[str, Tensor]) -> dict[str, Tensor]:
    """The coefficients of every task, and its mean squared error."""
    x_TND, y_TN = batch["x"], batch["y"]
    gram_TDD = x_TND.mT @ x_TND + batch["penalty"][:, None, None] * torch.eye(INPUTS, device=x_TND.device)
    w_TD = torch.linalg.solve(gram_TDD, (x_TND.mT @ y_TN[..., None]).squeeze(-1))
    return {"w": w_TD, "error": (y_TN - (x_TND @ w_TD[..., None]).squeeze(-1)).square().mean(-1)}
