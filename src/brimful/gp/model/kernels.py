"""Covariance functions: sums of products of a few shapes, each with its derivatives.

Legend: T tasks, N, M points, D input dimensions, P parameters.

A kernel is a sum of terms, a term a variance times a product of shapes. Every parameter is positive and is held as its
logarithm, in the order of `names`; the observation noise is not part of a kernel.
"""

import itertools
import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from ...core.base.errors import ConfigError, raise_first
from .shapes import SHAPES

_ALIASES = {"rq": "rational_quadratic", "matern": "matern52", "se": "rbf"}
_TINY = 1e-30  # under a square root, so that a distance of 0 divides nothing by 0


@dataclass(frozen=True, slots=True)
class KernelFactor:
    """One shape of a term.

    Attributes:
        shape: its name.
        term: the number of its term.
        start, stop: its own parameters.
        variance: the index of its term's variance.
    """

    shape: str
    term: int
    start: int
    stop: int
    variance: int


@dataclass(frozen=True, slots=True)
class Kernel:
    """A sum of products of shapes.

    Attributes:
        text: how it is written.
        names: one per parameter, such as "variance" or "periodic.lengthscale".
        kinds: what each is: variance, lengthscale, alpha or period.
        factors: the shapes, those of one term side by side.
        dimensions: input dimensions.
        ard: whether each dimension has a lengthscale of its own.
    """

    text: str
    names: tuple[str, ...]
    kinds: tuple[str, ...]
    factors: tuple[KernelFactor, ...]
    dimensions: int
    ard: bool

    def __call__(
        self, x_TND: Float[Tensor, "T N D"], x_TMD: Float[Tensor, "T M D"], theta_TP: Float[Tensor, "T P"]
    ) -> Float[Tensor, "T N M"]:
        """The covariance of two sets of points."""
        terms = []
        for factors in self.terms:
            product = torch.exp(theta_TP[:, factors[0].variance, None, None])
            for factor in factors:
                product = product * _shape(factor, x_TND, x_TMD, theta_TP)
            terms.append(product)
        return _sum(terms)

    def diagonal(self, x_TND: Float[Tensor, "T N D"], theta_TP: Float[Tensor, "T P"]) -> Float[Tensor, "T N"]:
        """The covariance of each point with itself, without the matrix."""
        T, N, D = x_TND.shape
        points = x_TND.reshape(T * N, 1, D)
        return self(points, points, theta_TP.repeat_interleave(N, 0)).reshape(T, N)

    def derive(
        self, x_TND: Float[Tensor, "T N D"], theta_TP: Float[Tensor, "T P"], x_TMD: Tensor | None = None
    ) -> tuple[Float[Tensor, "T N M"], Float[Tensor, "T P N M"]]:
        """The covariance of the points with each other, or with a second set of points, and its derivatives by the
        logarithms of the parameters."""
        others_TMD = x_TND if x_TMD is None else x_TMD
        slots: list[Tensor | None] = [None] * len(self.names)
        total: Any = 0.0
        for factors in self.terms:
            variance = torch.exp(theta_TP[:, factors[0].variance, None, None])
            parts = [_derive(factor, x_TND, others_TMD, theta_TP) for factor in factors]
            product = variance * math.prod((shape for shape, _ in parts), start=torch.ones_like(variance))
            for position, (factor, (_, derivatives)) in enumerate(zip(factors, parts, strict=True)):
                others = variance * math.prod(
                    (shape for other, (shape, _) in enumerate(parts) if other != position),
                    start=torch.ones_like(variance),
                )
                for parameter, derivative in zip(range(factor.start, factor.stop), derivatives, strict=True):
                    slots[parameter] = others * derivative
            slots[factors[0].variance] = product
            total = total + product
        return total, torch.stack([slot for slot in slots if slot is not None], dim=1)

    @property
    def terms(self) -> list[list[KernelFactor]]:
        """The shapes of each term."""
        return [list(term) for _, term in itertools.groupby(self.factors, lambda factor: factor.term)]

    @property
    def shifts(self) -> bool:
        """Whether inputs may be shifted without changing the kernel."""
        return all(factor.shape != "linear" for factor in self.factors)

    @property
    def scales_each(self) -> bool:
        """Whether each dimension may be measured in a unit of its own."""
        return self.ard and all(factor.shape not in ("linear", "periodic") for factor in self.factors)

    @property
    def periods(self) -> list[int]:
        """The indices of the periods of its waves."""
        return [position for position, kind in enumerate(self.kinds) if kind == "period"]


@dataclass(frozen=True, slots=True)
class CustomKernel:
    """A kernel of your own.

    Attributes:
        function: k(x1, x2, params) of the points of one task, (N, D) and (M, D), and a dict of positive numbers; gives
            the (N, M) covariance, by torch operations that can be differentiated.
        start: an initial value for each parameter; its keys are the names.
    """

    function: Callable[[Tensor, Tensor, dict[str, Tensor]], Tensor]
    start: Mapping[str, float]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.start)

    @property
    def text(self) -> str:
        return getattr(self.function, "__name__", "custom")

    def __call__(
        self, x_TND: Float[Tensor, "T N D"], x_TMD: Float[Tensor, "T M D"], theta_TP: Float[Tensor, "T P"]
    ) -> Float[Tensor, "T N M"]:
        def one(x_ND: Tensor, x_MD: Tensor, theta_P: Tensor) -> Tensor:
            return self.function(x_ND, x_MD, dict(zip(self.names, torch.exp(theta_P).unbind(), strict=True)))

        batched: Any = torch.func.vmap(one)
        return batched(x_TND, x_TMD, theta_TP)

    def diagonal(self, x_TND: Float[Tensor, "T N D"], theta_TP: Float[Tensor, "T P"]) -> Float[Tensor, "T N"]:
        return torch.stack([self(point, point, theta_TP)[:, 0, 0] for point in x_TND.split(1, dim=1)], dim=1)


def custom(function: Callable[[Tensor, Tensor, dict[str, Tensor]], Tensor], **start: float) -> CustomKernel:
    """A kernel of your own, fitted by gradients that torch finds.

    Args:
        function: k(x1, x2, params), see `CustomKernel`.
        start: a positive initial value for each parameter, by name.

    Example:
        >>> import torch
        >>> def cosine(x1, x2, params):
        ...     return params["variance"] * torch.cos((x1 - x2.T) / params["lengthscale"])
        >>> custom(cosine, variance=1.0, lengthscale=0.3).names
        ('variance', 'lengthscale')
    """
    if not start:
        raise ConfigError("a kernel of your own needs an initial value for each parameter: custom(fn, lengthscale=0.3)")
    raise_first(
        (
            (
                not (isinstance(value, int | float) and math.isfinite(value) and value > 0),
                f"the initial value of {name} is {value!r}; parameters are positive numbers",
            )
            for name, value in start.items()
        ),
        ConfigError,
    )
    return CustomKernel(function, dict(start))


def parse(text: str, dimensions: int = 1, ard: bool = False) -> Kernel:
    """A kernel from the name of a shape, or a sum of products of names.

    Args:
        text: such as `"rbf"` or `"linear + rbf * periodic"`; products bind before sums, there are no brackets.
        dimensions: input dimensions.
        ard: one lengthscale a dimension, in every shape that has one.

    Example:
        >>> parse("linear + rbf * periodic").names
        ('linear.variance', 'rbf.variance', 'rbf.lengthscale', 'periodic.period', 'periodic.lengthscale')
    """
    terms = [[_known(name, text) for name in term.split("*")] for term in text.split("+")]
    alone = sum(len(term) for term in terms) == 1
    parameters: list[tuple[str, str]] = []
    factors: list[KernelFactor] = []
    seen = Counter[str]()
    for number, term in enumerate(terms):
        variance = len(parameters)
        for shape in term:
            seen[shape] += 1
            prefix = "" if alone else f"{shape}{seen[shape] if seen[shape] > 1 else ''}."
            if len(parameters) == variance:
                parameters.append((f"{prefix}variance", "variance"))
            start = len(parameters)
            parameters += [(prefix + name, kind) for name, kind in _parameters(shape, dimensions, ard)]
            factors.append(KernelFactor(shape, number, start, len(parameters), variance))
    names, kinds = zip(*parameters, strict=True)
    return Kernel(" + ".join(" * ".join(term) for term in terms), names, kinds, tuple(factors), dimensions, ard)


def _known(name: str, text: str) -> str:
    plain = name.strip().lower().replace("-", "_").replace(" ", "_")
    plain = _ALIASES.get(plain, plain)
    if plain not in SHAPES:
        raise ConfigError(f"kernel {text!r} names {name.strip()!r}; there are {', '.join(SHAPES)}, joined by + and *")
    return plain


def _parameters(shape: str, dimensions: int, ard: bool) -> list[tuple[str, str]]:
    if shape in ("linear", "constant"):
        return []
    first = {"rational_quadratic": [("alpha", "alpha")], "periodic": [("period", "period")]}.get(shape, [])
    if ard and dimensions > 1:
        return [*first, *((f"lengthscale_{position}", "lengthscale") for position in range(dimensions))]
    return [*first, ("lengthscale", "lengthscale")]


def _apart(x_TND: Tensor, x_TMD: Tensor) -> Tensor:
    return x_TND[:, :, None, :] - x_TMD[:, None, :, :]


def _inverse_squares(factor: KernelFactor, theta_TP: Tensor) -> Tensor:
    """One over the squared lengthscales, broadcast over pairs: the last parameters of a factor."""
    first = factor.start + (factor.shape in ("rational_quadratic", "periodic"))
    return torch.exp(-2 * theta_TP[:, None, None, first : factor.stop])


def _shape(factor: KernelFactor, x_TND: Tensor, x_TMD: Tensor, theta_TP: Tensor) -> Tensor:
    if factor.shape == "constant":
        return torch.ones_like(x_TND[:, :, :1] * x_TMD[:, None, :, 0])
    if factor.shape == "linear":
        return x_TND @ x_TMD.mT
    inverse = _inverse_squares(factor, theta_TP)
    if factor.shape == "periodic":
        rate = math.pi * torch.exp(-theta_TP[:, factor.start, None, None, None])
        return torch.exp(-2 * (torch.sin(_apart(x_TND, x_TMD) * rate).square() * inverse).sum(-1))
    return stationary(factor, _sum(_squares(x_TND, x_TMD, inverse)), theta_TP)[0]


def _squares(x_TND: Tensor, x_TMD: Tensor, inverse: Tensor) -> list[Tensor]:
    """The squared scaled distances along each dimension: one by one, since a matrix is read faster than its strides."""
    return [
        (x_TN[:, :, None] - x_TM[:, None, :]).square_() * inverse[..., min(dimension, inverse.shape[-1] - 1)]
        for dimension, (x_TN, x_TM) in enumerate(zip(x_TND.unbind(2), x_TMD.unbind(2), strict=True))
    ]


def _sum(parts: list[Tensor]) -> Tensor:
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total


def stationary(factor: KernelFactor, r2: Tensor, theta_TP: Tensor) -> tuple[Tensor, Tensor]:
    """A shape of the squared scaled distance, and -2 times its derivative by that."""
    match factor.shape:
        case "rbf":
            shape = torch.exp(-0.5 * r2)
            return shape, shape
        case "matern12":
            r = torch.sqrt(r2 + _TINY)
            shape = torch.exp(-r)
            return shape, shape / r
        case "matern32":
            r = torch.sqrt(3 * r2 + _TINY)
            e = torch.exp(-r)
            return (1 + r) * e, 3 * e
        case "matern52":
            r = torch.sqrt(5 * r2 + _TINY)
            e = torch.exp(-r)
            return (1 + r + r * r / 3) * e, 5 / 3 * (1 + r) * e
    alpha = torch.exp(theta_TP[:, factor.start, None, None])
    u = 1 + r2 / (2 * alpha)
    shape = torch.exp(-alpha * torch.log(u))
    return shape, shape / u


def _derive(factor: KernelFactor, x_TND: Tensor, x_TMD: Tensor, theta_TP: Tensor) -> tuple[Tensor, list[Tensor]]:
    """A shape over all pairs of points, and its derivatives by the logarithms of its parameters."""
    if factor.start == factor.stop:
        return _shape(factor, x_TND, x_TMD, theta_TP), []
    inverse = _inverse_squares(factor, theta_TP)
    if factor.shape == "periodic":
        angle = _apart(x_TND, x_TMD) * math.pi * torch.exp(-theta_TP[:, factor.start, None, None, None])
        wave = torch.sin(angle).square() * inverse
        shape = torch.exp(-2 * wave.sum(-1))
        by_period = shape * (2 * torch.sin(2 * angle) * angle * inverse).sum(-1)
        return shape, [by_period, *_by_length(4 * shape, wave, inverse)]
    squares = _squares(x_TND, x_TMD, inverse)
    r2 = _sum(squares)
    shape, derivative = stationary(factor, r2, theta_TP)
    derivatives = [derivative * part for part in (squares if inverse.shape[-1] > 1 else [r2])]
    if factor.shape == "rational_quadratic":
        alpha = torch.exp(theta_TP[:, factor.start, None, None])
        u = 1 + r2 / (2 * alpha)
        derivatives.insert(0, shape * (-alpha * torch.log(u) + r2 / (2 * u)))
    return shape, derivatives


def _by_length(derivative: Tensor, scaled: Tensor, inverse: Tensor) -> list[Tensor]:
    if inverse.shape[-1] == 1:
        return [derivative * scaled.sum(-1)]
    return [derivative * part for part in scaled.unbind(-1)]
