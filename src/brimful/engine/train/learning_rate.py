"""A learning-rate finder: a short training with a rate that grows exponentially, and where the loss falls fastest."""

import copy
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ...core.base.errors import ConfigError, DivergedError
from ...core.declare.pictures import figure_of, save

_SMOOTHING = 0.9  # of the moving average of losses
_NOISY = 8  # first steps, which suggest nothing
_DIVERGED = 4.0  # times the least loss, at which the search ends


@dataclass(frozen=True, slots=True, eq=False)
class LearningRates:
    """Losses by learning rate.

    Attributes:
        lr, loss: of every step; the loss is smoothed.
        suggestion: the rate at which the loss falls fastest, a good start for `lr=`.
    """

    lr: np.ndarray
    loss: np.ndarray
    suggestion: float

    def __repr__(self) -> str:
        return f"LearningRates(suggestion={self.suggestion:.2e}, from {self.lr[0]:.1e} to {self.lr[-1]:.1e})"

    def draw(self, path: str | Path) -> Path:
        """Draws loss by rate."""
        figure = figure_of(7, 4)
        axes = figure.subplots()
        axes.plot(self.lr, self.loss)
        axes.axvline(self.suggestion, linestyle="--", label=f"suggestion {self.suggestion:.2e}")
        axes.set(xscale="log", xlabel="learning rate", ylabel="loss, smoothed")
        axes.legend(loc="best")
        return save(figure, Path(path))


@dataclass(frozen=True, slots=True)
class Growth:
    """The schedule: from `low` to `high` of the run's rate, exponentially."""

    ratio: float

    def __call__(self, step: int, steps: int) -> float:
        return self.ratio ** (1 - step / max(1, steps - 1))


def search(train: Any, model: Any, loss: Any, data: Any, low: float, high: float, steps: int, options: Any) -> Any:
    """Trains a copy of the model; the model itself is not changed."""
    if not 0 < low < high:
        raise ConfigError(f"low is {low} and high is {high}; give 0 < low < high")
    if steps < 10:
        raise ConfigError(f"steps is {steps}; a search needs at least 10")
    own = {"lr": high, "schedule": Growth(low / high), "steps": steps, "best": False, "progress": False}
    if taken := sorted(set(own) & set(options)):
        raise ConfigError(f"{taken[0]} is the search's own; leave it out")
    try:
        result = train(copy.deepcopy(model), loss, data, **own, **{**options, "max_nonfinite": steps})
        curve = result.curve[:, 0].astype(np.float64)
    except DivergedError as error:
        raise ConfigError(f"the loss diverged before the search ended ({error}); give a lower high=") from error
    rates = high * (low / high) ** (1 - np.arange(len(curve)) / max(1, steps - 1))
    return from_curve(rates, curve)


def from_curve(rates: np.ndarray, curve: np.ndarray) -> LearningRates:
    """What the losses of a search say; pure."""
    smoothed, average = [], 0.0
    for step, value in enumerate(curve):
        if not math.isfinite(value):
            break
        average = _SMOOTHING * average + (1 - _SMOOTHING) * value
        smoothed.append(average / (1 - _SMOOTHING ** (step + 1)))
        if step > 5 and smoothed[-1] > _DIVERGED * max(min(smoothed), 1e-12):
            break
    loss, lr = np.array(smoothed), rates[: len(smoothed)]
    if len(loss) < _NOISY:
        raise ConfigError("the loss was not finite from the start; look at the data, or give a lower low=")
    first = min(max(_NOISY, len(loss) // 10), len(loss) - 3)  # before these the average is of too few
    until = max(first + 3, int(loss.argmin()) + 1)
    slopes = np.gradient(loss[first:until], np.log(lr[first:until]))
    return LearningRates(lr, loss, float(lr[first + int(slopes.argmin())]))
