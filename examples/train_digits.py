"""Train a small network on 1,797 handwritten digits, stop it in the middle, and go on as if nothing had happened.

The images come with scikit-learn. One in five is kept for validation; the best epoch is the one with the most of them
read correctly.
"""

from pathlib import Path
from typing import Any

import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn

import brimful
from brimful import data


def loss(model: nn.Module, batch: dict[str, Tensor]) -> brimful.Weighted:
    lost = nn.functional.cross_entropy(model(batch["pixels"]), batch["digit"], reduction="sum")
    return brimful.Weighted(lost, torch.full_like(lost, len(batch["digit"])))


def accuracy(model: nn.Module, batches: Any) -> dict[str, float]:
    right = torch.stack([(model(batch["pixels"]).argmax(1) == batch["digit"]).float().sum() for batch in batches])
    return {"accuracy": float(right.sum()) / batches.plan.items}


def main(folder: str | Path = "digits-run", epochs: int = 20) -> brimful.TrainResult:
    pixels, digits = load_digits(return_X_y=True)
    samples = {"pixels": torch.tensor(pixels, dtype=torch.float32) / 16, "digit": torch.tensor(digits)}
    train, valid = (data.Subset(samples, index) for index in data.split(len(digits), (0.8, 0.2), seed=0))
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.Dropout(0.2), nn.Linear(128, 10))
    options: dict[str, Any] = {
        "valid": valid,
        "metrics": accuracy,
        "monitor": "accuracy",
        "mode": "max",
        "batch_size": 64,
        "lr": 3e-3,
        "warmup": 50,
        "ema": 0.98,
        "out": Path(folder),
    }
    brimful.train(model, loss, train, epochs=epochs // 2, **options)
    result = brimful.train(model, loss, train, epochs=epochs, **options)  # goes on with the second half
    print(result.plan.explain())
    print(result)
    print(result.draw(Path(folder) / "curves.png"))
    return result


if __name__ == "__main__":
    main()
