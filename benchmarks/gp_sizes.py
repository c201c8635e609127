"""What fits, predictions and leave-one-out take for tasks of 20 to 2,000 points, beside GPyTorch where it is installed.

    python benchmarks/gp_sizes.py [--sizes 40x20000 300x1000] [--only predict loo] [--case ragged]
        [--out benchmarks/results/gp-sizes-cpu.json]

A size is points x tasks. Tasks have inputs of their own and are sums of two random sines with noise; `--case` has them
ragged (half of the points to all), or in 2 dimensions with a lengthscale each (ard). "whole" is `gp.fit` from host
arrays to parameters in host memory, to convergence; "fit" is the same of data that are on the device already; GPyTorch
makes 30 steps of Adam at 0.1 for all tasks at once, padded to one length, its data on the device, which does not
converge. "predict" is `Fit.predict` at 100 new points, mean and variance, and "loo" `Fit.loo`, from host to host;
GPyTorch predicts at the same parameters, its data on the device, its results in host memory at the end, and its
leave-one-out pseudo-likelihood is one number. "alone" are the same of data that are on the device, with results that
stay there, on both sides. Of each one run is not timed, and the fastest of some counts. The gap is that of the
likelihood, with its priors, to the best of descents from every initial value of the grid, on some of the tasks.
"""

# pyright: reportArgumentType=false, reportCallIssue=false, reportAttributeAccessIssue=false
import argparse
import importlib.util
import sys
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
from brimful.gp.batch_functions import GPModel, fit_batch, loo_batch, predict_batch
from brimful.gp.fit import model_for
from brimful.gp.model.priors import limits
from brimful.gp.optimize import initialization, scoring
from brimful.gp.options import FitOptions
from gp import gpytorch_adam, rows, timed
from saving import save

SIZES = {
    "cuda": "20x20000 40x20000 64x20000 100x8000 128x8000 150x4000 200x4000 300x1000 500x400 1000x60",
    "cpu": "40x400 100x200 300x20 500x8 1000x2",
}
STEPS = 30  # of GPyTorch
NEW = 100  # points of a prediction
PARTS = ("fit", "predict", "loo")
FAR = 0.1  # nats


def gaps(data: dict[str, torch.Tensor], model: GPModel, tasks: int) -> tuple[float, float]:
    """The mean gap to the best of all initial values, and the share of tasks with more than 0.1 nats."""
    some = {name: value[:tasks] for name, value in data.items()}
    batch, units, _ = model.standardized(some)
    within = limits(model.kernel, units, model.priors, model.bounds, model.known)
    grid_GP, _ = initialization.grid(model.kernel, within)
    grid_TGP = initialization.clamp_to_bounds(grid_GP[:, None].expand(-1, tasks, -1), within).transpose(0, 1)
    everywhere = grid_TGP, torch.full((tasks,), len(grid_GP), device=batch.y_TN.device)
    best = scoring.fit(model.kernel, batch, within, model.options, everywhere)
    own = torch.stack([fit_batch(some, model=model).values[name] for name in model.names], 1)
    theta_TP = torch.log(own) - units.shift(model.kernel)
    ours = scoring.likelihood.score(model.kernel, batch, theta_TP)[0] + within.prior_penalty(theta_TP)
    gap = ours - best.nlml_T - within.prior_penalty(best.theta_TP)
    return float(gap.clamp(min=0).mean()), float((gap > FAR).double().mean())


def tasks_of(case: str, points: int, tasks: int) -> dict[str, torch.Tensor]:
    """Inputs and targets, NaN where a task has no further points."""
    data = rows(gp.synthetic(tasks, points, seed=1, shared=False), 0, tasks)
    generator = torch.Generator().manual_seed(3)
    if case == "ragged":
        counts = points // 2 + (torch.rand(tasks, generator=generator) * (points - points // 2 + 1)).long()
        data["y"][torch.arange(points) >= counts[:, None]] = torch.nan
    if case == "ard":
        second = torch.rand(tasks, points, 1, generator=generator)
        data = {"x": torch.cat([data["x"], second], 2), "y": data["y"] + torch.cos(3 * second[:, :, 0])}
    return data


def measure(points: int, tasks: int, device: torch.device, options: argparse.Namespace) -> dict[str, Any]:
    host = tasks_of(options.case, points, tasks)
    x, y = host["x"].numpy(), host["y"].numpy()
    pairs = [(x[t, : (~np.isnan(y[t])).sum()], y[t][~np.isnan(y[t])]) for t in range(tasks)]
    given = (pairs,) if options.case == "ragged" else (x, y)
    model_options: dict[str, Any] = {"kernel": options.kernel, "ard": options.case == "ard"}
    keywords: dict[str, Any] = {"device": str(device), "progress": False} | model_options
    solution = gp.fit(*given, **keywords)
    result: dict[str, Any] = {"points": points, "tasks": tasks}
    if "fit" in options.only:
        result |= measure_fit(host, lambda: gp.fit(*given, **keywords), solution, device, model_options, options)
    peer = posterior_peer(host, solution, device) if importlib.util.find_spec("gpytorch") else None
    at = np.linspace(0, 1, NEW)
    new = at if options.case != "ard" else np.stack([at, at], 1)
    batch = {name: host[name].to(device) for name in ("x", "y")}
    batch["parameters"] = torch.from_numpy(np.stack([solution.params[name] for name in solution.model.names], 1)).to(
        device
    )
    at_new = torch.from_numpy(new.reshape(NEW, -1))
    runs = {
        "predict": (
            lambda: solution.predict(new),
            lambda: predict_batch(batch, model=solution.model, at=at_new),
        ),
        "loo": (solution.loo, lambda: loo_batch(batch, model=solution.model, width=points)),
    }
    for part in (part for part in runs if part in options.only):
        for name, run, to_host in zip((part, f"{part}_alone"), runs[part], (True, False), strict=True):
            with torch.no_grad():
                run()
                result[f"{name}_us"] = timed(run, options.rounds)[0] / tasks * 1e6
            if peer is not None:
                theirs = peer(part, at_new, to_host)
                theirs()
                result[f"gpytorch_{name}_us"] = timed(theirs, options.rounds)[0] / tasks * 1e6
                result[f"{name}_ratio"] = result[f"gpytorch_{name}_us"] / result[f"{name}_us"]
    return result


def measure_fit(
    host: dict[str, torch.Tensor], run: Callable[[], gp.Fit], solution: gp.Fit, device: torch.device,
    model_options: dict[str, Any], options: argparse.Namespace,
) -> dict[str, Any]:  # fmt: skip
    tasks = len(host["y"])
    whole, solution = timed(run, options.rounds)
    data = {name: host[name].to(device) for name in ("x", "y")}
    model = model_for(solution.data, FitOptions(**model_options))
    alone, _ = timed(lambda: fit_batch(data, model=model), options.rounds)
    result = {
        "fit_us": alone / tasks * 1e6,
        "whole_us": whole / tasks * 1e6,
        "converged": float(solution.converged.mean()),
        "peak": solution.observed,
    }
    if importlib.util.find_spec("gpytorch"):
        few_x, few_y = data["x"].double(), data["y"].double().nan_to_num()
        gpytorch_adam(few_x[:2], few_y[:2], 2, tasks)
        peer, _ = timed(lambda: gpytorch_adam(few_x, few_y, STEPS, tasks), options.rounds)
        result |= {"gpytorch_us": peer / tasks * 1e6, "ratio": peer / whole}
    if options.gap:
        gap, far = gaps(data, model, min(tasks, options.gap))
        result |= {"gap": gap, "over_0.1": far}
    return result


def posterior_peer(
    host: dict[str, torch.Tensor], solution: gp.Fit, device: torch.device
) -> Callable[[str, torch.Tensor, bool], Callable[[], Any]]:
    """GPyTorch's posterior and leave-one-out of all tasks, at the parameters of our solution."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import gpytorch

    x, y = host["x"].to(device).double(), host["y"].to(device).double().nan_to_num()
    shape = torch.Size([len(y)])
    params = {name: torch.from_numpy(value).to(device) for name, value in solution.params.items()}
    lengths = [value for name, value in params.items() if name.startswith("lengthscale")]

    class Batched(gpytorch.models.ExactGP):
        def __init__(self, likelihood: Any) -> None:
            super().__init__(x, y, likelihood)
            self.mean_module = gpytorch.means.ConstantMean(batch_shape=shape)
            smoothness = {"matern12": 0.5, "matern32": 1.5, "matern52": 2.5}.get(solution.model.kernel.text)
            kind: dict[str, Any] = {"batch_shape": shape, "ard_num_dims": len(lengths) if len(lengths) > 1 else None}
            kernels = gpytorch.kernels
            base = kernels.MaternKernel(smoothness, **kind) if smoothness else kernels.RBFKernel(**kind)
            self.covar_module = kernels.ScaleKernel(base, batch_shape=shape)

        def forward(self, x: torch.Tensor) -> Any:
            return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))

    floor = gpytorch.constraints.GreaterThan(1e-12)
    likelihood = gpytorch.likelihoods.GaussianLikelihood(noise_constraint=floor, batch_shape=shape).to(y)
    model = Batched(likelihood).to(y)
    with torch.no_grad():
        model.covar_module.outputscale = params["variance"]
        model.covar_module.base_kernel.lengthscale = torch.stack(lengths, 1)[:, None]
        likelihood.noise = params["noise"][:, None]
        model.mean_module.constant.copy_(params["mean_0"])

    def predict(at: torch.Tensor) -> tuple[Any, ...]:
        model.train()  # forgets what it cached
        model.eval()
        there = model(at.to(device).expand(len(y), -1, -1))
        return there.mean, there.variance

    def leave_one_out(_: torch.Tensor) -> tuple[Any, ...]:
        model.train()
        return (gpytorch.mlls.LeaveOneOutPseudoLikelihood(likelihood, model)(model(x), y),)

    def run(part: str, at: torch.Tensor, to_host: bool) -> Any:
        with torch.no_grad():
            values = (predict if part == "predict" else leave_one_out)(at)
            return [value.cpu() if to_host else value for value in values]

    return lambda part, at, to_host: lambda: run(part, at, to_host)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--sizes", nargs="+", help="points x tasks")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=["fit"], help="what is measured")
    parser.add_argument("--case", choices=("own", "ragged", "ard"), default="own", help="the tasks")
    parser.add_argument("--kernel", default="rbf")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--gap", type=int, default=0, help="tasks of each size whose gap is measured")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    device = devices.resolve_all(options.device)[0]
    sizes = [tuple(map(int, size.split("x"))) for size in options.sizes or SIZES[device.type].split()]
    results: dict[str, Any] = {"device": devices.model_name(device), "torch": torch.__version__, "sizes": []}
    results |= {"threads": torch.get_num_threads(), "kernel": options.kernel, "case": options.case}
    for points, tasks in sizes:
        results["sizes"].append(measure(points, tasks, device, options))
        print(results["sizes"][-1], flush=True)
        save(options.out, results, show(results))
    print(show(results))


def show(results: dict[str, Any]) -> str:
    columns = ("points", "tasks", "fit_us", "whole_us", "gpytorch_us", "ratio", "converged", "gap", "over_0.1")
    names = [name for part in PARTS[1:] for name in (part, f"{part}_alone")]
    columns += tuple(column for name in names for column in (f"{name}_us", f"gpytorch_{name}_us", f"{name}_ratio"))
    columns = tuple(name for name in columns if any(name in row for row in results["sizes"]))
    cells = [tuple(f"{row[name]:,.4g}" if name in row else "" for name in columns) for row in results["sizes"]]
    about = f"{results['threads']} threads; {results['kernel']}, {results['case']} inputs; µs per task"
    return f"{results['device']}, torch {results['torch']}, {about}\n\n{format_table(cells, header=columns)}\n"


if __name__ == "__main__":
    main()
