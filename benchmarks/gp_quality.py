"""How near `gp.fit` comes to the best known optimum: SciPy's L-BFGS-B in float64 from many starts, task by task.

    python benchmarks/gp_quality.py [--quick] [--only periodic ...] [--device cpu] [--workers 2] [--out RESULTS]

RESULTS is such as benchmarks/results/gp-quality-cpu.json. What is compared is the objective: the negative log marginal
likelihood with what the priors add to it, both evaluated by benchmarks/gp_references.py, in the task's own units. A gap
is how much ours is above the reference, 0 where it is below it. For "own inputs" the reference is `gp.fit` of the same
data by the shared eigenbasis. For the sines the gap is the relative error of the period.
"""

import argparse
import os
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

import numpy as np
import torch

from brimful import gp
from brimful.core.base.formatting import format_table
from brimful.core.memory import devices
from brimful.gp.model import periods
from brimful.gp.model.kernels import parse
from brimful.gp.model.priors import limits
from brimful.gp.model.tasks import standardize
from gp_references import Problem, best, objective, shape
from saving import save

Data = tuple[np.ndarray, np.ndarray]
NEAR = 0.1  # nats


def mixed(generator: np.random.Generator, tasks: int, points: int) -> Data:
    """Tasks of twelve kinds at one set of inputs, in noise of all sizes."""
    x = np.sort(generator.uniform(0, 1, points))
    y = np.empty((tasks, points))
    for task in range(tasks):
        y[task] = function(generator, task % 12, x)
        y[task] += 10 ** generator.uniform(-2.5, 0) * max(y[task].std(), 0.1) * generator.normal(size=points)
    return x, y


def function(generator: np.random.Generator, kind: int, x: np.ndarray) -> np.ndarray:
    at, phase = generator.uniform(0.15, 0.85), generator.uniform(0, 6)
    match kind:
        case 0:
            return np.sin(generator.uniform(2, 25) * x + phase)
        case 1:
            return np.sin(generator.uniform(2, 8) * x + phase) + 0.4 * np.sin(generator.uniform(15, 60) * x)
        case 2:
            return (x > at).astype(float)
        case 3:
            return generator.normal(size=4)[np.searchsorted(np.sort(generator.uniform(0, 1, 3)), x)]
        case 4 | 5 | 6:
            name, length = ("rbf", "matern32", "rbf")[kind - 4], np.exp(generator.uniform(-3.5, 1))
            return draw(generator, shape(name, x[:, None], np.array([length]))[0])
        case 7:
            return np.cumsum(generator.normal(size=len(x)))
        case 8:
            return np.zeros_like(x)
        case 9:
            return np.abs(x - at)
        case 10:
            return np.exp(-0.5 * ((x - at) / generator.uniform(0.02, 0.2)) ** 2)
    return np.sin(20 * (x + 0.2) ** generator.uniform(1.5, 3))


def draw(generator: np.random.Generator, K: np.ndarray) -> np.ndarray:
    values, vectors = np.linalg.eigh(K)
    return vectors @ (np.sqrt(values.clip(0)) * generator.normal(size=len(K)))


def steps(generator: np.random.Generator, tasks: int, points: int) -> Data:
    """A step in noise at one set of inputs."""
    x = np.sort(generator.uniform(0, 1, points))
    level = (x > generator.uniform(0.1, 0.9, (tasks, 1))).astype(float)
    return x, level + 10 ** generator.uniform(-2, -0.3, (tasks, 1)) * generator.normal(size=(tasks, points))


def sines(generator: np.random.Generator, tasks: int, points: int) -> Data:
    """Four waves in little noise, at points of their own."""
    both = [(np.sort(generator.uniform(0, 1, points)), generator.normal(size=points)) for _ in range(tasks)]
    x = np.array([pair[0] for pair in both])
    return x, np.sin(8 * np.pi * x) + 0.02 * np.array([pair[1] for pair in both])


def waves(generator: np.random.Generator, tasks: int, points: int) -> Data:
    """Waves of eight kinds, some of which do not repeat, at points of their own, in noise of all sizes."""
    x, y = np.sort(generator.uniform(0, 1, (tasks, points)), 1), np.empty((tasks, points))
    for task, own in enumerate(x):
        period, phase = np.exp(generator.uniform(np.log(0.08), np.log(0.7))), generator.uniform(0, 1)
        turn, length = (own / period + phase) % 1, generator.uniform(0.3, 1.5)
        wave = shape("periodic", own[:, None], np.array([period, length]))[0]
        match task % 8:
            case 0:
                y[task] = draw(generator, wave)
            case 1:
                y[task] = np.sin(2 * np.pi * turn) + generator.uniform(-3, 3) * own
            case 2:
                y[task] = np.sin(2 * np.pi * turn) + 0.7 * np.sin(generator.uniform(5, 70) * own)
            case 3:
                y[task] = turn < generator.uniform(0.2, 0.8)
            case 4:
                y[task] = turn
            case 5:
                y[task] = draw(generator, wave * shape("rbf", own[:, None], np.array([generator.uniform(0.2, 2)]))[0])
            case 6:
                y[task] = np.exp(-0.5 * ((turn - 0.5) / generator.uniform(0.05, 0.2)) ** 2)
            case _:
                y[task] = function(generator, int(generator.integers(12)), own)
        y[task] += 10 ** generator.uniform(-2.5, -0.3) * max(y[task].std(), 0.1) * generator.normal(size=points)
    return x, y


def surfaces(dimensions: int) -> Callable[[np.random.Generator, int, int], Data]:
    """Functions of several inputs: of the kernel itself, some of a few inputs only, sums, and ridges."""

    def make(generator: np.random.Generator, tasks: int, points: int) -> Data:
        x, y = generator.uniform(0, 1, (tasks, points, dimensions)), np.empty((tasks, points))
        for task, own in enumerate(x):
            lengths = np.exp(generator.uniform(-2, 1, dimensions))
            match task % 4:
                case 0:
                    y[task] = draw(generator, shape("rbf", own, lengths)[0])
                case 1:
                    lengths[generator.permutation(dimensions)[: dimensions // 2]] = 30.0
                    y[task] = draw(generator, shape("rbf", own, lengths)[0])
                case 2:
                    y[task] = sum(function(generator, int(generator.integers(12)), column) for column in own.T)
                case _:
                    y[task] = np.sin(own @ generator.normal(0, 6, dimensions)) + generator.normal() * own[:, 0]
            y[task] += 10 ** generator.uniform(-2.5, -0.3) * y[task].std() * generator.normal(size=points)
        return x, y

    return make


def own_mixed(generator: np.random.Generator, tasks: int, points: int) -> Data:
    """The twelve kinds, and what is rough and smooth at once, at points of their own."""
    parts = [mixed(generator, 12, points) for _ in range(-(-tasks // 12))]
    x = np.concatenate([np.tile(x, (12, 1)) for x, _ in parts])[:tasks]
    y = np.concatenate([y for _, y in parts])[:tasks]
    for task in range(0, tasks, 2):
        rough, smooth = np.exp(generator.uniform(-4, -1)), np.exp(generator.uniform(-1.5, 0.5))
        K = shape("rbf", x[task, :, None], np.array([smooth]))[0]
        y[task] = draw(
            generator, K + generator.uniform(0.05, 1) * shape("matern32", x[task, :, None], np.array([rough]))[0]
        )
    return x, y


@dataclass(frozen=True, slots=True, kw_only=True)
class Category:
    """A kind of task, and what is asked: the share of tasks whose gap is at most so many nats."""

    kernel: str
    make: Callable[[np.random.Generator, int, int], Data]
    points: tuple[int, ...]
    tasks: int
    share: float
    gap: float = NEAR
    starts: int = 16
    priors: str | None = "weak"
    seed: int = 27


CATEGORIES = {
    "own inputs, mixed": Category(
        kernel="rbf", make=mixed, points=(12, 25, 40, 60), tasks=1248, share=0.998, gap=0.01, starts=0
    ),
    "own inputs, steps": Category(kernel="rbf", make=steps, points=(25,), tasks=1000, share=0.998, gap=0.01, starts=0),
    "periodic, sines": Category(
        kernel="periodic", make=sines, points=(50,), tasks=200, share=0.995, gap=0.01, starts=0, seed=0
    ),
    "periodic, hard": Category(kernel="periodic", make=waves, points=(30, 50), tasks=200, share=0.98, starts=40),
    "periodic, hard, no priors": Category(
        kernel="periodic", make=waves, points=(40,), tasks=96, share=0.98, starts=40, priors=None, seed=28
    ),
    "rbf ARD in 4": Category(kernel="rbf", make=surfaces(4), points=(40, 60), tasks=200, share=0.97),
    "rbf ARD in 2": Category(kernel="rbf", make=surfaces(2), points=(40,), tasks=200, share=0.97),
    "rbf + matern32": Category(kernel="rbf + matern32", make=own_mixed, points=(40,), tasks=144, share=0.97),
    "rbf * periodic": Category(kernel="rbf * periodic", make=waves, points=(40,), tasks=96, share=0.97, starts=40),
}


def fitted(category: Category, x: np.ndarray, y: np.ndarray, device: str) -> tuple[gp.Fit, float]:
    begin = time.perf_counter()
    result = gp.fit(
        x, y, kernel=category.kernel, ard=x.ndim == 3, priors=category.priors, device=device, progress=False
    )
    return result, time.perf_counter() - begin


def problems(category: Category, x: np.ndarray, y: np.ndarray) -> tuple[list[Problem], np.ndarray]:
    """The tasks in their own units, and what is taken from the logarithms of their parameters for that."""
    x_TND = torch.from_numpy(x if x.ndim == 3 else x[:, :, None])
    kernel = parse(category.kernel, x_TND.shape[2], x.ndim == 3)
    tasks, units, _ = standardize(x_TND, torch.from_numpy(y), kernel, "constant", None)
    within = periods.bound_periods(limits(kernel, units, category.priors, None, False), kernel, tasks, ())
    columns = (tasks.x_TND, tasks.y_TN, within.low_TP, within.high_TP, within.center_TP)
    rows = zip(*(column.numpy() for column in columns), strict=True)
    precision = within.precision_P.numpy()
    drawn = [
        Problem(category.kernel, x, y, low, high, center, precision, category.starts, seed)
        for seed, (x, y, low, high, center) in enumerate(rows)
    ]
    return drawn, units.shift(kernel).numpy()


def objectives(fit: gp.Fit, tasks: list[Problem], shift: np.ndarray) -> np.ndarray:
    theta = np.log(np.stack([fit.params[name] for name in fit.model.names], 1)) - shift
    return np.array([objective(row, task)[0] for row, task in zip(theta, tasks, strict=True)])


def measure(
    name: str, category: Category, options: argparse.Namespace, references: Callable[[list[Problem]], np.ndarray]
) -> dict[str, Any]:
    generator, gaps, seconds, kept = np.random.default_rng(category.seed + options.shift), [], 0.0, []
    count = max(24, category.tasks // 8) if options.quick and category.starts else category.tasks
    for points in category.points:
        x, y = category.make(generator, count // len(category.points), points)
        own = np.tile(x, (len(y), 1)) if x.ndim == 1 else x
        fitted(category, own[:8], y[:8], options.device)
        fit, spent = fitted(category, own, y, options.device)
        seconds += spent
        tasks, shift = problems(category, own, y)
        ours = objectives(fit, tasks, shift)
        if category.make is sines:
            gap = np.abs(fit.params["period"] / 0.25 - 1)
        elif x.ndim == 1:
            gap = ours - objectives(fitted(category, x, y, options.device)[0], tasks, shift)
        else:
            gap = ours - references(tasks)
        gaps.append(gap)
        kept.append((fit.status == 0).mean())
    gap = np.concatenate(gaps)
    far = np.flatnonzero(gap > category.gap)
    return {
        "category": name,
        "priors": category.priors or "none",
        "tasks": len(gap),
        "points": ", ".join(map(str, category.points)),
        "starts": category.starts,
        "within": category.gap,
        "share": float((gap <= category.gap).mean()),
        "asked": category.share,
        "mean_gap": float(gap.clip(0).mean()),
        "worst": float(gap.max()),
        "better": float((gap < -category.gap).mean()),
        "converged": float(np.mean(kept)),
        "us_per_task": seconds / len(gap) * 1e6,
        "far": [(int(task), round(float(gap[task]), 3)) for task in far[:60]],
    }


def show(results: dict[str, Any]) -> str:
    columns = ("category", "priors", "tasks", "points", "starts", "within", "share", "asked", "mean_gap", "worst",
               "better", "converged", "us_per_task")  # fmt: skip
    cells = [
        tuple(f"{row[name]:,.4g}" if isinstance(row[name], float) else str(row[name]) for name in columns)
        for row in results["categories"]
    ]
    title = f"{results['device']}, torch {results['torch']}, {results['threads']} threads"
    return f"{title}\n\n{format_table(cells, header=columns)}\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--quick", action="store_true", help="an eighth of the tasks that have references")
    parser.add_argument("--only", nargs="+", default=[], help="categories whose names contain one of these")
    parser.add_argument(
        "--shift", type=int, default=0, help="added to the seeds, for draws on which nothing was chosen"
    )
    parser.add_argument("--workers", type=int, default=1, help="processes for the references")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    device = devices.resolve_all(options.device)[0]
    results: dict[str, Any] = {"device": devices.model_name(device), "torch": torch.__version__, "categories": []}
    results |= {"threads": torch.get_num_threads(), "shift": options.shift}
    os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    with ProcessPoolExecutor(options.workers, get_context("spawn")) as pool:

        def references(tasks: list[Problem]) -> np.ndarray:
            return np.array([nats for nats, _ in pool.map(best, tasks, chunksize=4)])

        for name, category in CATEGORIES.items():
            if not options.only or any(word in name for word in options.only):
                results["categories"].append(measure(name, category, options, references))
                print(results["categories"][-1], flush=True)
                save(options.out, results, show(results))
    print(show(results))


if __name__ == "__main__":
    main()
