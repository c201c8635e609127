"""The best of many descents by SciPy of the likelihood of one Gaussian process, for benchmarks/gp_quality.py.

Nothing of the package is used: covariances, likelihood and gradient are written out again here, one task at a time, in
float64. A task is in its own units, its parameters are logarithms in the package's order, the noise variance last, and
a constant mean is profiled.
"""

from typing import NamedTuple

import numpy as np
from scipy.linalg import cho_solve, cholesky
from scipy.optimize import minimize

_FAILED = 1e10  # nats, where the covariance cannot be factored


class Problem(NamedTuple):
    """One task: its kernel and data, a lengthscale for each dimension of the inputs; the bounds, the centers and
    precisions of the priors; and from how many starts to descend."""

    kernel: str
    x: np.ndarray
    y: np.ndarray
    low: np.ndarray
    high: np.ndarray
    center: np.ndarray
    precision: np.ndarray
    starts: int
    seed: int


def shape(name: str, x: np.ndarray, own: np.ndarray) -> tuple[np.ndarray, list[np.ndarray]]:
    """A correlation, and its derivatives by the logarithms of its parameters."""
    apart = x[:, None] - x
    if name == "linear":
        return x @ x.T, []
    if name == "periodic":
        period, lengths = own[0], own[1:]
        angle = np.pi * apart / period
        wave = np.sin(angle) ** 2 / lengths**2
        c = np.exp(-2 * wave.sum(2))
        by_period = c * (2 * np.sin(2 * angle) * angle / lengths**2).sum(2)
        return c, [by_period, *_by_lengths(4 * c[:, :, None] * wave, lengths)]
    squares = (apart / own) ** 2
    r2 = squares.sum(2)
    if name == "rbf":
        c = np.exp(-0.5 * r2)
        return c, _by_lengths(c[:, :, None] * squares, own)
    r = np.sqrt({"matern32": 3, "matern52": 5}[name] * r2)
    e = np.exp(-r)
    if name == "matern32":
        return (1 + r) * e, _by_lengths(3 * e[:, :, None] * squares, own)
    return (1 + r + r * r / 3) * e, _by_lengths((5 / 3 * (1 + r) * e)[:, :, None] * squares, own)


def _by_lengths(parts: np.ndarray, lengths: np.ndarray) -> list[np.ndarray]:
    return list(np.moveaxis(parts, 2, 0)) if len(lengths) > 1 else [parts.sum(2)]


def terms_of(kernel: str) -> list[list[str]]:
    return [[name.strip() for name in term.split("*")] for term in kernel.split("+")]


def parameters(name: str, dimensions: int) -> list[str]:
    """What each parameter of a shape is."""
    lengths = ["lengthscale"] * dimensions
    return {"linear": [], "periodic": ["period", *lengths]}.get(name, lengths)


def covariance(problem: Problem, theta: np.ndarray) -> tuple[np.ndarray, list[np.ndarray]]:
    """The covariance of the observations, and its derivatives."""
    values, at, total, derivatives = np.exp(theta), 0, 0.0, []
    for term in terms_of(problem.kernel):
        variance, at, parts = values[at], at + 1, []
        for name in term:
            count = len(parameters(name, problem.x.shape[1]))
            parts.append(shape(name, problem.x, values[at : at + count]))
            at += count
        product = variance * np.prod([c for c, _ in parts], axis=0)
        derivatives.append(product)
        for position, (_, own) in enumerate(parts):
            others = [c for other, (c, _) in enumerate(parts) if other != position]
            rest = variance * (np.prod(others, axis=0) if others else 1.0)
            derivatives += [rest * derivative for derivative in own]
        total = total + product
    noise = values[-1] * np.eye(len(problem.y))
    return total + noise, [*derivatives, noise]


def objective(theta: np.ndarray, problem: Problem) -> tuple[float, np.ndarray]:
    """The negative log marginal likelihood with what the priors add to it, and its gradient."""
    K, derivatives = covariance(problem, theta)
    try:
        L = cholesky(K, lower=True, check_finite=False)
    except np.linalg.LinAlgError:
        return _FAILED, np.zeros(len(theta))
    y, n = problem.y, len(problem.y)
    inverse = cho_solve((L, True), np.eye(n), check_finite=False)
    weights = inverse.sum(0)
    residual = y - weights @ y / weights.sum()
    a = inverse @ residual
    value = 0.5 * (residual @ a + n * np.log(2 * np.pi)) + np.log(np.diag(L)).sum()
    gap = inverse - np.outer(a, a)
    gradient = 0.5 * np.array([np.vdot(gap, derivative) for derivative in derivatives])
    off = np.where(problem.precision > 0, theta - problem.center, 0.0)
    return value + 0.5 * float(problem.precision @ off**2), gradient + problem.precision * off


def best(problem: Problem) -> tuple[float, np.ndarray]:
    """The lowest end of L-BFGS-B from so many random starts, and the parameters there."""
    generator, bounds = np.random.default_rng(problem.seed), list(zip(problem.low, problem.high, strict=True))
    ends = [
        minimize(
            objective, start, (problem,), "L-BFGS-B", jac=True, bounds=bounds,
            options={"maxiter": 200, "ftol": 1e-10, "gtol": 1e-5},
        )
        for start in _starts(generator, problem)
    ]  # fmt: skip
    end = min(ends, key=lambda value: value.fun)
    return float(end.fun), end.x


def _starts(generator: np.random.Generator, problem: Problem) -> np.ndarray:
    """Random starts: one in each of as many strata of every parameter; the frequency of a wave is uniform between
    half a wave and as many as the points can tell."""
    own = [
        ["variance", *(kind for name in term for kind in parameters(name, problem.x.shape[1]))]
        for term in terms_of(problem.kernel)
    ]
    names = [*(kind for term in own for kind in term), "noise"]
    ranges = {"variance": (0.1, 5.0), "lengthscale": (0.03, 3.0), "noise": (1e-5, 0.6)}
    starts = np.empty((problem.starts, len(problem.low)))
    for position, kind in enumerate(names):
        share = (generator.permutation(problem.starts) + generator.uniform(size=problem.starts)) / problem.starts
        if kind == "period":
            most = np.exp(-problem.low[position])
            starts[:, position] = -np.log(0.5 + share * (0.9 * most - 0.5))
        else:
            low, high = np.log(ranges[kind])
            starts[:, position] = low + share * (high - low)
    return np.clip(starts, problem.low, problem.high)
