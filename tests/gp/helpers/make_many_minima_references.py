"""Makes many_minima_references.npz: tasks whose likelihood has many local minima, and SciPy's best for each.

    python -m tests.gp.helpers.make_many_minima_references

As make_references.py, for a lengthscale of each dimension and for waves; of the ten starts for a wave, one is at the
period that the task was drawn with.
"""

import sys
from pathlib import Path

import numpy as np
from scipy.optimize import minimize

from brimful.gp.model.priors import BOUNDS

from .make_references import correlation, scored

FILE = Path(__file__).with_name("many_minima_references.npz")
KINDS = (("rbf", 2), ("matern52", 3), ("periodic", 1))
TASKS, POINTS, STARTS = 50, 30, 10


def shape(kind: str, x: np.ndarray, own: np.ndarray) -> tuple[np.ndarray, list[np.ndarray]]:
    """The correlation, and its derivatives by the logarithms of its own parameters."""
    if kind == "periodic":
        period, length = own
        angle = np.pi * (x - x.T) / period
        wave = np.sin(angle) ** 2 / length**2
        c = np.exp(-2 * wave)
        return c, [2 * c * np.sin(2 * angle) * angle / length**2, 4 * c * wave]
    squares = ((x[:, None] - x) / own) ** 2
    r = np.sqrt(squares.sum(2))
    c, by_all = correlation(kind, r)
    share = np.divide(by_all, r**2, out=np.zeros_like(r), where=r > 0)
    return c, [share * squares[:, :, position] for position in range(x.shape[1])]


def objective(theta: np.ndarray, kind: str, x: np.ndarray, y: np.ndarray) -> tuple[float, np.ndarray]:
    variance, *own, noise = np.exp(theta)
    c, derivatives = shape(kind, x, np.array(own))
    signal, floor = variance * c, noise * np.eye(len(y))
    return scored(signal + floor, [signal, *(variance * derivative for derivative in derivatives), floor], y)


def draw(generator: np.random.Generator, kind: str, dimensions: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A task from the kernel itself, inputs of extent 1 and targets of variance 1, and its parameters."""
    x = generator.uniform(0, 1, (POINTS, dimensions))
    x = ((x - x.min(0)) / np.ptp(x, axis=0)).astype(np.float32).astype(float)
    own = np.exp(generator.uniform(-2, 1, dimensions))
    if kind == "periodic":
        own = np.array([generator.uniform(0.1, 0.8), generator.uniform(0.7, 2.0)])
    noise = np.exp(generator.uniform(-8, -1))
    values, vectors = np.linalg.eigh(shape(kind, x, own)[0])
    y = vectors @ (np.sqrt(values.clip(0)) * generator.normal(size=POINTS)) + np.sqrt(noise) * generator.normal(
        size=POINTS
    )
    return x, ((y - y.mean()) / y.std()).astype(np.float32), np.log([1.0, *own, noise])


def best(generator: np.random.Generator, kind: str, x: np.ndarray, y: np.ndarray, truth: np.ndarray) -> float:
    y = (y.astype(float) - y.mean(dtype=float)) / y.std(dtype=float)
    names = ["period", "lengthscale"] if kind == "periodic" else ["lengthscale"] * x.shape[1]
    bounds = np.log([BOUNDS[name] for name in ("variance", *names, "noise")])
    low, high = np.log([0.3, *[0.05] * len(names), 1e-4]), np.log([3.0, *[1.5] * len(names), 0.5])
    starts = [truth, *generator.uniform(low, high, (STARTS - 1, len(low)))]
    if kind != "periodic":
        starts[0] = generator.uniform(low, high)
    fitted = [minimize(objective, start, (kind, x, y), "L-BFGS-B", jac=True, bounds=bounds) for start in starts]
    return min(value.fun for value in fitted)


def main() -> None:
    generator, saved = np.random.default_rng(21), {}
    for kind, dimensions in KINDS:
        tasks = [draw(generator, kind, dimensions) for _ in range(TASKS)]
        saved[f"x_{kind}"] = np.stack([x for x, _, _ in tasks]).astype(np.float32)
        saved[f"y_{kind}"] = np.stack([y for _, y, _ in tasks])
        saved[f"nlml_{kind}"] = np.array([best(generator, kind, *task) for task in tasks])
        print(kind, file=sys.stderr)
    np.savez_compressed(FILE, **saved)


if __name__ == "__main__":
    main()
