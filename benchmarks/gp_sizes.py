"""What `gp.fit` takes for tasks of 20 to 2,000 points, beside GPyTorch where it is installed, on one device.

    python benchmarks/gp_sizes.py [--sizes 40x20000 300x1000] [--out benchmarks/results/gp-sizes-cpu.json]

A size is points x tasks. Tasks have inputs of their own and are sums of two random sines with noise. "whole" is
`gp.fit` from host arrays to parameters in host memory, to convergence; "fit" is the same of data that are on the device
already; GPyTorch makes 30 steps of Adam at 0.1 for all tasks at once, its data on the device, which does not converge.
Of each one run is not timed, and the fastest of some counts. The gap is that of the likelihood, with
its priors, to the best of descents from every initial value of the grid, on some of the tasks, in nats.
"""

# pyright: reportArgumentType=false
import argparse
import importlib.util
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

import torch

from brimful import gp
from brimful.core.base.formatting import format_table
from brimful.core.memory import devices
from brimful.gp.batch_functions import GPModel, fit_batch
from brimful.gp.fit import model_for
from brimful.gp.model.priors import limits
from brimful.gp.optimize import scoring
from brimful.gp.options import FitOptions
from gp import gpytorch_adam, rows, timed
from saving import save

SIZES = {
    "cuda": "20x20000 40x20000 64x20000 100x8000 128x8000 150x4000 200x4000 300x1000 500x400 1000x60",
    "cpu": "40x400 100x200 300x20 500x8 1000x2",
}
STEPS = 30  # of GPyTorch
FAR = 0.1  # nats


def gaps(data: dict[str, torch.Tensor], model: GPModel, tasks: int) -> tuple[float, float]:
    """The mean gap to the best of all initial values, and the share of tasks with more than 0.1 nats."""
    some = {name: value[:tasks] for name, value in data.items()}
    batch, units, _ = model.standardized(some)
    within = limits(model.kernel, units, model.priors, model.bounds, model.known)
    grid_GP, _ = scoring.grid(model.kernel, within)
    grid_TGP = scoring.clamp_to_bounds(grid_GP[:, None].expand(-1, tasks, -1), within).transpose(0, 1)
    everywhere = grid_TGP, torch.full((tasks,), len(grid_GP), device=batch.y_TN.device)
    best = scoring.fit(model.kernel, batch, within, model.options, everywhere)
    own = torch.stack([fit_batch(some, model=model).values[name] for name in model.names], 1)
    theta_TP = torch.log(own) - units.shift(model.kernel)
    ours = scoring.likelihood.score(model.kernel, batch, theta_TP)[0] + within.prior_penalty(theta_TP)
    gap = ours - best.nlml_T - within.prior_penalty(best.theta_TP)
    return float(gap.clamp(min=0).mean()), float((gap > FAR).double().mean())


def measure(points: int, tasks: int, device: torch.device, options: argparse.Namespace) -> dict[str, Any]:
    host = rows(gp.synthetic(tasks, points, seed=1, shared=False), 0, tasks)
    x, y = host["x"].numpy(), host["y"].numpy()
    keywords: dict[str, Any] = {"kernel": options.kernel, "device": str(device), "progress": False}
    gp.fit(x, y, **keywords)
    whole, solution = timed(lambda: gp.fit(x, y, **keywords), options.rounds)
    data = {name: host[name].to(device) for name in ("x", "y")}
    model = model_for(solution.data, FitOptions(kernel=options.kernel))
    alone, _ = timed(lambda: fit_batch(data, model=model), options.rounds)
    result = {
        "points": points,
        "tasks": tasks,
        "fit_us": alone / tasks * 1e6,
        "whole_us": whole / tasks * 1e6,
        "converged": float(solution.converged.mean()),
        "peak": solution.observed,
    }
    if importlib.util.find_spec("gpytorch"):
        few_x, few_y = data["x"].double(), data["y"].double()
        gpytorch_adam(few_x[:2], few_y[:2], 2, tasks)
        peer, _ = timed(lambda: gpytorch_adam(few_x, few_y, STEPS, tasks), options.rounds)
        result |= {"gpytorch_us": peer / tasks * 1e6, "ratio": peer / whole}
    if options.gap:
        gap, far = gaps(data, model, min(tasks, options.gap))
        result |= {"gap": gap, "over_0.1": far}
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--sizes", nargs="+", help="points x tasks")
    parser.add_argument("--kernel", default="rbf")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--gap", type=int, default=0, help="tasks of each size whose gap is measured")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    device = devices.resolve_all(options.device)[0]
    sizes = [tuple(map(int, size.split("x"))) for size in options.sizes or SIZES[device.type].split()]
    results: dict[str, Any] = {"device": devices.model_name(device), "torch": torch.__version__, "sizes": []}
    results |= {"threads": torch.get_num_threads(), "kernel": options.kernel}
    for points, tasks in sizes:
        results["sizes"].append(measure(points, tasks, device, options))
        print(results["sizes"][-1], flush=True)
        save(options.out, results, show(results))
    print(show(results))


def show(results: dict[str, Any]) -> str:
    columns = ("points", "tasks", "fit_us", "whole_us", "gpytorch_us", "ratio", "converged", "gap", "over_0.1")
    cells = [tuple(f"{row[name]:,.4g}" if name in row else "" for name in columns) for row in results["sizes"]]
    title = (
        f"{results['device']}, torch {results['torch']}, {results['threads']} threads; {results['kernel']}; µs per task"
    )
    return f"{title}\n\n{format_table(cells, header=columns)}\n"


if __name__ == "__main__":
    main()
