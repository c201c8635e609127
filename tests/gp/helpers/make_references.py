"""Makes references.npz: random tasks, and the best that SciPy finds for each.

    python tests/gp/make_references.py

Nothing of the package is used but its bounds: the likelihood and its gradient are written out again here, one task at
a time. A task's own units are those of `brimful.gp.tasks`: inputs of extent 1, targets of mean 0 and variance 1.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from scipy.linalg import cho_solve, cholesky
from scipy.optimize import minimize

from brimful.gp.model.priors import BOUNDS

FILE = Path(__file__).with_name("references.npz")
KINDS = ("rbf", "matern52")
TASKS, STARTS = 320, 10
LIMITS = np.log([BOUNDS["variance"], BOUNDS["lengthscale"], BOUNDS["noise"]])


def correlation(kind: str, r: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The correlation at scaled distances, and its derivative by the logarithm of the lengthscale."""
    if kind == "rbf":
        c = np.exp(-0.5 * r**2)
        return c, c * r**2
    s = np.sqrt(5) * r
    e = np.exp(-s)
    return (1 + s + s**2 / 3) * e, s**2 / 3 * (1 + s) * e


def scored(K: np.ndarray, derivatives: Sequence[np.ndarray], y: np.ndarray) -> tuple[float, np.ndarray]:
    """The negative log marginal likelihood, a constant mean profiled, and its gradient, from the derivatives of K."""
    n = len(y)
    try:
        L = cholesky(K, lower=True)
    except np.linalg.LinAlgError:
        return 1e10, np.zeros(len(derivatives))
    inverse = cho_solve((L, True), np.eye(n))
    weights = inverse.sum(0)
    residual = y - weights @ y / weights.sum()
    a = inverse @ residual
    value = 0.5 * (residual @ a + n * np.log(2 * np.pi)) + np.log(np.diag(L)).sum()
    gap = inverse - np.outer(a, a)
    return value, 0.5 * np.array([(gap * derivative).sum() for derivative in derivatives])


def objective(theta: np.ndarray, kind: str, apart: np.ndarray, y: np.ndarray) -> tuple[float, np.ndarray]:
    variance, length, noise = np.exp(theta)
    c, dc = correlation(kind, apart / length)
    signal, floor = variance * c, noise * np.eye(len(y))
    return scored(signal + floor, [signal, variance * dc, floor], y)


def inputs(generator: np.random.Generator, n: int) -> np.ndarray:
    """Points that are spread evenly, in clumps, or ever more densely."""
    unit = generator.uniform(0, 1, n)
    match generator.integers(3):
        case 0:
            x = unit
        case 1:
            x = generator.uniform(0, 1, 5)[generator.integers(5, size=n)] + 0.05 * generator.normal(size=n)
        case _:
            x = unit**3
    return x


def draw(generator: np.random.Generator, kind: str) -> tuple[np.ndarray, np.ndarray]:
    """A task from the kernel itself, in units and at a place of its own."""
    n = round(np.exp(generator.uniform(np.log(3), np.log(200))))
    x = inputs(generator, n)
    length, noise = np.exp(generator.uniform(np.log([0.03, 1e-3]), np.log([3.0, 1.0])))
    K = correlation(kind, np.abs(x[:, None] - x) / (length * np.ptp(x)))[0]
    values, vectors = np.linalg.eigh(K)
    y = vectors @ (np.sqrt(values.clip(0)) * generator.normal(size=n)) + noise * generator.normal(size=n)
    scale, position = np.exp(generator.uniform(-3, 3, 2)), generator.uniform(-3, 3, 2)
    return (scale[0] * (x + position[0])).astype(np.float32), (scale[1] * (y + position[1])).astype(np.float32)


def best(generator: np.random.Generator, kind: str, x: np.ndarray, y: np.ndarray) -> float:
    """The least of the minima that L-BFGS-B finds from starts spread over lengthscales and noises."""
    x, y = x.astype(float), y.astype(float)
    apart = np.abs(x[:, None] - x) / np.ptp(x)
    y = (y - y.mean()) / y.std()
    spread = (generator.permuted(np.tile(np.arange(STARTS), (3, 1)), axis=1) + generator.uniform(0, 1, (3, STARTS))).T
    low, high = np.log([0.1, 0.012, 1e-7]), np.log([10.0, 5.0, 1.0])
    fitted = [
        minimize(
            objective, start, (kind, apart, y), "L-BFGS-B", jac=True, bounds=LIMITS,
            options={"ftol": 1e-13, "gtol": 1e-7, "maxiter": 1000},
        ).fun
        for start in low + (high - low) * spread / STARTS
    ]  # fmt: skip
    return min(fitted)


def main() -> None:
    generator = np.random.default_rng(20)
    kinds = np.arange(TASKS) % len(KINDS)
    tasks = [draw(generator, KINDS[kind]) for kind in kinds]
    nlml = []
    for kind, (x, y) in zip(kinds, tasks, strict=True):
        nlml.append(best(generator, KINDS[kind], x, y))
        print(f"\r{len(nlml)} of {TASKS}", end="", file=sys.stderr)
    np.savez_compressed(
        FILE,
        kind=kinds.astype(np.int8),
        count=np.array([len(x) for x, _ in tasks]),
        x=np.concatenate([x for x, _ in tasks]),
        y=np.concatenate([y for _, y in tasks]),
        nlml=np.array(nlml),
    )


if __name__ == "__main__":
    main()
