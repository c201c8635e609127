"""Predictions of a trained network: positions with their covariance, in metres from the receivers' centroid."""

from typing import Any

import torch
from torch import Tensor, nn

from ...engine.map import map
from ..model.gaussian import PlaneGaussian


class NetworkPrediction:
    """A function of a batch of samples, for `brimful.map`."""

    def __init__(self, model: nn.Module, position_m: float, scale: float) -> None:
        self.model, self.position_m, self.scale = model, position_m, scale

    def __call__(self, batch: dict[str, Tensor]) -> dict[str, Tensor]:
        self.model.to(batch["features"].device)
        gaussian = PlaneGaussian.of(self.model(batch["features"], batch["mask"]))
        covariance = self.scale * self.position_m**2 * gaussian.covariance()
        return {"position": self.position_m * gaussian.mean, "covariance": covariance}


def over(function: Any, samples: dict[str, Tensor], *names: str, **options: Any) -> dict[str, Tensor]:
    """A judge's values over samples of which it gets only what is named, inside the budget; on the CPU."""
    result = map(function, {name: samples[name] for name in ("features", "mask", *names)}, progress=False, **options)
    values: Any = result.values
    return {name: torch.as_tensor(value) for name, value in values.items()}
