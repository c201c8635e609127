"""Tasks of very many points by inducing points (SGPR), beside GPyTorch's SGPR: seconds, bounds and errors.

    python benchmarks/gp_sgpr.py [--points 2500 5000 10000] [--inducing 100] [--device cpu]
        [--out benchmarks/results/gp-sgpr-cpu.json]

A task has random inputs and is the sum of a slow and a fast sine with noise of 0.1. "ours" is `gp.fit` from host
arrays, to convergence. GPyTorch makes steps of Adam at 0.1 in float64, as ours is, its data on the device; its inducing
points begin as a random subset of the points and are optimized with the rest, which it does by default; ours are a
spread subset and stay. Both maximize the same bound, per point in the table, without priors; "rmse" is the error of
predictions at 500 new points against the truth. The first run is not timed. Seconds are those of the processor on a
CPU, all threads together, which another process beside it does not change much; on a GPU those of the clock.
"""

# pyright: reportArgumentType=false, reportCallIssue=false, reportAttributeAccessIssue=false
import argparse
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

import numpy as np
import torch

from brimful import gp
from brimful.core.base.formatting import format_table
from brimful.core.memory import devices
from gp import wait
from saving import save

NEW = 500  # points
STEPS = (30, 100)  # of GPyTorch


def timed(function: Callable[[], Any], device: torch.device) -> tuple[float, Any]:
    clock = time.process_time if device.type == "cpu" else time.perf_counter
    wait()
    begin = clock()
    result = function()
    wait()
    return clock() - begin, result


def draw(points: int, inputs: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Inputs and targets, new inputs and the truth there."""
    generator = np.random.default_rng(seed)
    x, new = generator.uniform(0, 1, (points, inputs)), generator.uniform(0, 1, (NEW, inputs))

    def truth(at: np.ndarray) -> np.ndarray:
        return np.sin(5 * at.sum(1)) + 0.5 * np.sin(20 * at[:, 0])

    return x, truth(x) + 0.1 * generator.normal(size=points), new, truth(new)


def ours(x: np.ndarray, y: np.ndarray, inducing: int, device: torch.device) -> gp.Fit:
    return gp.fit(
        x[None], y[None], approximation="sgpr", inducing=inducing, priors=None, device=str(device), progress=False
    )


def theirs(
    x: np.ndarray, y: np.ndarray, new: np.ndarray, inducing: int, steps: int, device: torch.device
) -> tuple[float, np.ndarray]:
    """The bound after so many steps, and predictions."""
    import gpytorch

    x_ND, y_N = torch.from_numpy(x).to(device), torch.from_numpy(y).to(device)
    likelihood = gpytorch.likelihoods.GaussianLikelihood().to(x_ND)
    chosen = torch.randperm(len(x_ND), generator=torch.Generator().manual_seed(0))[:inducing]

    class Sparse(gpytorch.models.ExactGP):
        def __init__(self) -> None:
            super().__init__(x_ND, y_N, likelihood)
            self.mean_module = gpytorch.means.ConstantMean()
            base = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())
            self.covar_module = gpytorch.kernels.InducingPointKernel(base, x_ND[chosen].clone(), likelihood)

        def forward(self, x: torch.Tensor) -> Any:
            return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))

    model = Sparse().to(x_ND)
    objective: Any = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    model.train()
    for _ in range(steps):
        optimizer.zero_grad()
        (-objective(model(x_ND), y_N)).backward()
        optimizer.step()
    with torch.no_grad():
        bound = float(objective(model(x_ND), y_N))
        model.eval()
        likelihood.eval()
        return bound, model(torch.from_numpy(new).to(device)).mean.cpu().numpy()


def rmse(values: np.ndarray, truth: np.ndarray) -> float:
    return float(np.sqrt(np.mean((values - truth) ** 2)))


def measure(points: int, options: argparse.Namespace, device: torch.device) -> dict[str, Any]:
    x, y, new, truth = draw(points, options.inputs)
    ours(x, y, options.inducing, device)
    seconds, fit = timed(lambda: ours(x, y, options.inducing, device), device)
    result = {"points": points, "inducing": options.inducing, "inputs": options.inputs, "seconds": seconds}
    result |= {"bound": float(fit.lml_lower_bound[0]) / points, "rmse": rmse(fit.predict(new)[0][0], truth)}
    result |= {"converged": bool(fit.converged.all()), "peak": fit.observed}
    for steps in STEPS:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            theirs(x, y, new, options.inducing, 2, device)
            peer, (bound, mean) = timed(lambda steps=steps: theirs(x, y, new, options.inducing, steps, device), device)
        result |= {f"gpytorch_{steps}_seconds": peer, f"gpytorch_{steps}_bound": bound}
        result |= {f"gpytorch_{steps}_rmse": rmse(mean, truth), f"ratio_{steps}": peer / seconds}
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--points", type=int, nargs="+", default=[2500, 5000, 10_000, 20_000])
    parser.add_argument("--inducing", type=int, default=100)
    parser.add_argument("--inputs", type=int, default=1, help="dimensions")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    device = devices.resolve_all(options.device)[0]
    results: dict[str, Any] = {"device": devices.model_name(device), "torch": torch.__version__, "sizes": []}
    results |= {"threads": torch.get_num_threads()}
    for points in options.points:
        results["sizes"].append(measure(points, options, device))
        print(results["sizes"][-1], flush=True)
        save(options.out, results, show(results))
    print(show(results))


def show(results: dict[str, Any]) -> str:
    columns = tuple(results["sizes"][0])
    cells = [tuple(f"{row[name]:,.4g}" for name in columns) for row in results["sizes"]]
    about = f"{results['threads']} threads; the bound per point"
    return f"{results['device']}, torch {results['torch']}, {about}\n\n{format_table(cells, header=columns)}\n"


if __name__ == "__main__":
    main()
