"""Priors and bounds of the parameters.

Legend: T tasks, P parameters (logarithms, the noise variance last).
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from ...core.base.errors import ConfigError, raise_first
from .kernels import CustomKernel, Kernel
from .tasks import Units


@dataclass(frozen=True, slots=True)
class LogNormal:
    """A prior under which the logarithm of a parameter is normal.

    Attributes:
        median: of the parameter, in the units of the data.
        spread: standard deviation of the logarithm; 1 is a factor of 2.7 either way.
    """

    median: float
    spread: float

    def __post_init__(self) -> None:
        both = (self.median, self.spread)
        if not all(isinstance(value, Real) and 0 < float(value) < math.inf for value in both):
            raise ConfigError(f"{self}: median and spread must be positive numbers")


WEAK: dict[str, LogNormal] = {
    "variance": LogNormal(1.0, 2.0),
    "lengthscale": LogNormal(0.3, 1.5),
    "alpha": LogNormal(1.0, 2.0),
    "period": LogNormal(0.3, 1.5),
    "noise": LogNormal(0.03, 3.0),
}
"""`priors="weak"`: variances against the variance of a task's targets, lengths against the extent of its inputs."""

BOUNDS: dict[str, tuple[float, float]] = {
    "variance": (1e-4, 1e4),
    "lengthscale": (1e-2, 1e2),
    "alpha": (1e-2, 1e3),
    "period": (2e-2, 1e1),
    "noise": (1e-8, 1e1),
}
"""The bounds by default, in the same units. They keep the covariance within what float64 can factor."""

_CUSTOM_BOUNDS = (1e-10, 1e10)


@dataclass(frozen=True, slots=True)
class Limits:
    """Priors and bounds of T tasks, in the tasks' own units.

    Attributes:
        low_TP, high_TP: the bounds.
        center_TP: the centers of the priors.
        precision_P: their precision; 0 for none.
        fixed_P: parameters that are not fitted.
    """

    low_TP: Float[Tensor, "T P"]
    high_TP: Float[Tensor, "T P"]
    center_TP: Float[Tensor, "T P"]
    precision_P: Float[Tensor, " P"]
    fixed_P: Bool[Tensor, " P"]

    def prior_penalty(self, theta_TP: Float[Tensor, "*G T P"]) -> Float[Tensor, "*G T"]:
        """What the priors add to the negative log likelihood, up to a constant."""
        apart_TP = torch.where(self.precision_P > 0, theta_TP - self.center_TP, 0.0)
        return 0.5 * (self.precision_P * apart_TP.square()).sum(-1)

    def steps(self, points: int) -> int:
        """Newton's steps to the best variance of all of a covariance by one parameter; none where so many points
        outweigh the priors, and one step is as good."""
        return 16 if float(self.precision_P[0] + self.precision_P[-1]) > 0.05 * points else 0

    def select(self, index: Tensor | slice) -> "Limits":
        return Limits(self.low_TP[index], self.high_TP[index], self.center_TP[index], self.precision_P, self.fixed_P)


Priors = Mapping[str, LogNormal | tuple[float, float]] | str | None
Bounds = Mapping[str, tuple[float, float]] | None


def limits(kernel: Kernel | CustomKernel, units: Units, priors: Priors, bounds: Bounds, noise_known: bool) -> Limits:
    """The priors and bounds of every task."""
    names = (*kernel.names, "noise")
    kinds = (*(kernel.kinds if isinstance(kernel, Kernel) else ("custom",) * len(kernel.names)), "noise")
    limited = bounds or {}
    own = {name: _prior(name, value) for name, value in priors.items()} if isinstance(priors, Mapping) else {}
    raise_first(
        (
            (name not in names, f"{what} names {name!r}; the parameters are {', '.join(names)}")
            for what, given in (("priors", own), ("bounds", limited))
            for name in given
        ),
        ConfigError,
    )
    weak = WEAK if priors == "weak" and isinstance(kernel, Kernel) else {}
    defaults = BOUNDS if isinstance(kernel, Kernel) else {}
    columns, precision = [], []
    for name, kind, shift_T in zip(names, kinds, units.shift(kernel).unbind(1), strict=True):
        unmoved_T = torch.zeros_like(shift_T)  # what is given by default is in the units of the task
        prior, bounded = own.get(name) or weak.get(kind), name in limited
        least, most = _bound(name, limited[name]) if bounded else defaults.get(kind, _CUSTOM_BOUNDS)
        by_T = shift_T if bounded else unmoved_T
        center_T = (math.log(prior.median) if prior else 0.0) - (shift_T if name in own else unmoved_T)
        columns.append((math.log(least) - by_T, math.log(most) - by_T, center_T))
        precision.append(prior.spread**-2 if prior else 0.0)
    low_TP, high_TP, center_TP = (torch.stack(column, 1) for column in zip(*columns, strict=True))
    fixed_P = torch.zeros(len(names), dtype=torch.bool, device=low_TP.device)
    fixed_P[-1] = noise_known
    precision_P = torch.tensor(precision, dtype=torch.float64, device=low_TP.device)
    return Limits(low_TP, high_TP, center_TP, torch.where(fixed_P, 0.0, precision_P), fixed_P)


def _prior(name: str, given: Any) -> LogNormal:
    if isinstance(given, LogNormal):
        return given
    if isinstance(given, tuple | list) and len(given) == 2:
        return LogNormal(float(given[0]), float(given[1]))
    raise ConfigError(f"the prior of {name} is {given!r}; give gp.LogNormal(median, spread)")


def _bound(name: str, given: Any) -> tuple[float, float]:
    try:
        least, most = (float(value) for value in given)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"the bounds of {name} are {given!r}; give two numbers (low, high)") from error
    if not 0 < least <= most < math.inf:
        raise ConfigError(f"the bounds of {name} are {given!r}; they must be positive, the lower one first")
    return least, most


def check(kernel: Kernel | CustomKernel, priors: Priors, bounds: Bounds) -> None:
    """Raises on priors or bounds that do not fit the kernel."""
    if isinstance(priors, str) and priors != "weak":
        raise ConfigError(f"priors is {priors!r}; choose 'weak', None, or a dict of gp.LogNormal by parameter")
    raise_first(
        (
            (
                not isinstance(given, Mapping | None),
                f"{name} is a {type(given).__name__}; give a dict by parameter, or None",
            )
            for name, given in (("priors", None if priors == "weak" else priors), ("bounds", bounds))
        ),
        ConfigError,
    )
    one = torch.ones(1, dtype=torch.float64)
    dimensions = kernel.dimensions if isinstance(kernel, Kernel) else 1
    units = Units(one.expand(1, dimensions), one.expand(1, dimensions), one, one)
    try:
        limits(kernel, units, priors, bounds, False)
    except (TypeError, ValueError) as error:
        raise ConfigError(
            f"priors={priors!r} cannot be understood ({error}); give gp.LogNormal(median, spread)"
        ) from error
