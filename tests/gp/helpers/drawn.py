"""Tasks drawn at random, and the short way from them to a fit."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from brimful.gp.model.kernels import CustomKernel, Kernel, parse
from brimful.gp.model.likelihood import score
from brimful.gp.model.priors import Bounds, Limits, Priors, limits
from brimful.gp.model.tasks import TaskBatch, Units, standardize

TEXTS = (
    "rbf",
    "matern12",
    "matern32",
    "matern52",
    "rational_quadratic",
    "periodic",
    "linear",
    "constant + rbf",
    "linear + rbf * periodic",
    "rbf + matern32",
    "rbf + rbf",
)


def waves(seed: int, tasks: int, points: int, dimensions: int = 1, holes: float = 0.0) -> tuple[Tensor, Tensor]:
    """Waves of all speeds in noise of all sizes; a share of the points is missing."""
    generator = np.random.default_rng(seed)
    x = generator.uniform(0, 5, (tasks, points, dimensions))
    speed, phase = generator.uniform(0.3, 4, (tasks, 1, dimensions)), generator.uniform(0, 6, (tasks, 1))
    noise = 10 ** generator.uniform(-2, 0, (tasks, 1))
    y = np.sin((speed * x).sum(2) + phase) + noise * generator.normal(size=(tasks, points))
    y[generator.uniform(size=y.shape) < holes] = np.nan
    return torch.from_numpy(x), torch.from_numpy(y)


def thetas(seed: int, tasks: int, kernel: Kernel | CustomKernel) -> Tensor:
    """Parameters around 0.6, with the noise as the last."""
    return torch.from_numpy(np.random.default_rng(seed).normal(-0.5, 0.5, (tasks, len(kernel.names) + 1)))


def nlml(kernel: Kernel | CustomKernel, tasks: TaskBatch, theta_TP: Tensor) -> Tensor:
    """The negative log marginal likelihood, in plain torch."""
    return score(kernel, tasks, theta_TP)[0]


def plain(x_TND: Tensor, y_TN: Tensor, mean: str, known_TN: Tensor | None = None) -> TaskBatch:
    """Tasks in the units of the data, without anything missing."""
    known_TN = torch.zeros_like(y_TN) if known_TN is None else known_TN
    return TaskBatch(x_TND, y_TN, torch.ones_like(y_TN, dtype=torch.bool), known_TN, mean)


@dataclass(frozen=True, slots=True)
class Problem:
    """What a fit starts from."""

    kernel: Kernel
    tasks: TaskBatch
    units: Units
    limits: Limits

    def select(self, *positions: int) -> "Problem":
        index = torch.tensor(positions)
        return Problem(self.kernel, self.tasks.select(index), self.units.select(index), self.limits.select(index))


def problem(
    text: str,
    x_TND: Tensor,
    y_TN: Tensor,
    mean: str = "constant",
    *,
    priors: Priors = None,
    bounds: Bounds = None,
    known_TN: Tensor | None = None,
    ard: bool = False,
) -> Problem:
    """The tasks in their own units; noise that is known is not fitted."""
    kernel = parse(text, x_TND.shape[2], ard)
    tasks, units, _ = standardize(x_TND, y_TN, kernel, mean, known_TN)
    return Problem(kernel, tasks, units, limits(kernel, units, priors, bounds, known_TN is not None))
