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

from ...core.base.errors import ConfigError
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
        center_TP: where the priors pull to.
        precision_P: how hard; 0 for none.
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

    def to(self, dtype: torch.dtype) -> "Limits":
        return Limits(
            self.low_TP.to(dtype),
            self.high_TP.to(dtype),
            self.center_TP.to(dtype),
            self.precision_P.to(dtype),
            self.fixed_P,
        )


Priors = Mapping[str, LogNormal | tuple[float, float]] | str | None
Bounds = Mapping[str, tuple[float, float]] | None


def limits(kernel: Kernel | CustomKernel, units: Units, priors: Priors, bounds: Bounds, noise_known: bool) -> Limits:
    """The priors and bounds of every task."""
    names = (*kernel.names, "noise")
    kinds = (*(kernel.kinds if isinstance(kernel, Kernel) else ("custom",) * len(kernel.names)), "noise")
    own = (
        {}
        if isinstance(priors, str) or priors is None
        else {name: _prior(name, value) for name, value in priors.items()}
    )
    _check_names("priors", own, names)
    _check_names("bounds", bounds or {}, names)
    shift_TP = units.shift(kernel)
    low, high, center, precision = [], [], [], []
    for position, (name, kind) in enumerate(zip(names, kinds, strict=True)):
        shift_T = shift_TP[:, position]
        if bounds and name in bounds:
            least, most = _bound(name, bounds[name])
            low.append(math.log(least) - shift_T)
            high.append(math.log(most) - shift_T)
        else:
            least, most = BOUNDS.get(kind, _CUSTOM_BOUNDS) if isinstance(kernel, Kernel) else _CUSTOM_BOUNDS
            low.append(torch.full_like(shift_T, math.log(least)))
            high.append(torch.full_like(shift_T, math.log(most)))
        if name in own:
            center.append(math.log(own[name].median) - shift_T)
            precision.append(own[name].spread ** -2)
        elif priors == "weak" and kind in WEAK and isinstance(kernel, Kernel):
            center.append(torch.full_like(shift_T, math.log(WEAK[kind].median)))
            precision.append(WEAK[kind].spread ** -2)
        else:
            center.append(torch.zeros_like(shift_T))
            precision.append(0.0)
    fixed_P = torch.zeros(len(names), dtype=torch.bool, device=shift_TP.device)
    fixed_P[-1] = noise_known
    precision_P = torch.tensor(precision, dtype=torch.float64, device=shift_TP.device)
    return Limits(
        torch.stack(low, 1),
        torch.stack(high, 1),
        torch.stack(center, 1),
        torch.where(fixed_P, 0.0, precision_P),
        fixed_P,
    )


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


def _check_names(what: str, given: Mapping[str, Any], names: tuple[str, ...]) -> None:
    for name in given:
        if name not in names:
            raise ConfigError(f"{what} names {name!r}; the parameters are {', '.join(names)}")


def check(kernel: Kernel | CustomKernel, priors: Priors, bounds: Bounds) -> None:
    """Raises on priors or bounds that do not fit the kernel."""
    if isinstance(priors, str) and priors != "weak":
        raise ConfigError(f"priors is {priors!r}; choose 'weak', None, or a dict of gp.LogNormal by parameter")
    for name, given in (("priors", None if priors == "weak" else priors), ("bounds", bounds)):
        if not (given is None or isinstance(given, Mapping)):
            raise ConfigError(f"{name} is a {type(given).__name__}; give a dict by parameter, or None")
    one = torch.ones(1, dtype=torch.float64)
    dimensions = kernel.dimensions if isinstance(kernel, Kernel) else 1
    units = Units(one.expand(1, dimensions), one.expand(1, dimensions), one, one)
    try:
        limits(kernel, units, priors, bounds, False)
    except (TypeError, ValueError) as error:
        raise ConfigError(
            f"priors={priors!r} cannot be understood ({error}); give gp.LogNormal(median, spread)"
        ) from error
