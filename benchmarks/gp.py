"""What `brimful.gp` costs and reaches, beside GPyTorch, BoTorch and JAX where they are installed, on one device.

    python benchmarks/gp.py [--tasks 50000] [--quick] [--out benchmarks/results/gp-cpu.json]

Tasks are sums of two random sines with noise, 40 points by default. "fit" is the fit alone, its data on the device
already; "whole" is `gp.fit` from host arrays to a store on disk. The gap is that of the likelihood to a fit of the same
tasks from more starts to a tighter tolerance, in nats. Peers run on the same tasks in the same process. Of the fits,
ours and the peers', one run is not timed, and the fastest of three counts; of those under budgets, of four in turns.
"""

# pyright: reportMissingImports=false, reportArgumentType=false, reportAttributeAccessIssue=false
# pyright: reportOptionalMemberAccess=false, reportCallIssue=false, reportOperatorIssue=false
import argparse
import contextlib
import functools
import math
import os
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")

import numpy as np
import torch

from brimful import gp
from brimful.core.base.formatting import format_table
from brimful.core.memory import devices
from brimful.gp.batch_functions import GPModel, fit_batch, predict_batch
from brimful.gp.data.sources import GPData, RaggedTasks, read
from brimful.gp.fit import model_for
from brimful.gp.model.tasks import standardize
from brimful.gp.options import FitOptions
from saving import save

N = 40
BUDGETS = ("8GB", "0.5GB")
ROUNDS = 4  # of the fits under budgets
PARTS = ("fits", "predictions", "points", "linearity", "peers")
BOTORCH = 1000  # tasks: it is slow


def wait() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def timed(function: Callable[[], Any], times: int = 1) -> tuple[float, Any]:
    """Seconds of the fastest of a few runs: the others had company on the machine."""
    best, result = math.inf, None
    for _ in range(times):
        wait()
        begin = time.perf_counter()
        result = function()
        wait()
        best = min(best, time.perf_counter() - begin)
    return best, result


def rows(data: GPData, start: int, stop: int) -> dict[str, torch.Tensor]:
    tree = data.items.load(start, stop).tree
    assert isinstance(tree, dict)
    return dict(tree)


def shared(tasks: int) -> GPData:
    return gp.synthetic(tasks, N, seed=1, shared=True)


def own(tasks: int) -> GPData:
    return gp.synthetic(tasks, N, seed=1, shared=False)


def ragged(tasks: int) -> GPData:
    source = rows(gp.synthetic(tasks, 60, seed=1, shared=False), 0, tasks)
    counts = np.random.default_rng(0).integers(10, 61, tasks)
    pairs = [
        (x[:count, 0], y[:count])
        for x, y, count in zip(source["x"].numpy(), source["y"].numpy(), counts.tolist(), strict=True)
    ]
    return read(pairs, None, None, None, gp.ColumnNames())


def three(tasks: int) -> GPData:
    generator = torch.Generator().manual_seed(2)
    x = torch.rand(tasks, N, 3, generator=generator)
    y = torch.sin(5 * x[:, :, 0]) + torch.cos(2 * x[:, :, 1]) + 0.1 * torch.randn(tasks, N, generator=generator)
    return read(x, y, None, None, gp.ColumnNames())


CASES: dict[str, tuple[Callable[[int], GPData], dict[str, Any]]] = {
    "shared inputs, rbf": (shared, {}),
    "own inputs, rbf": (own, {}),
    "own inputs, ragged 10 to 60 points": (ragged, {}),
    "own inputs, matern52": (own, {"kernel": "matern52"}),
    "own inputs, matern52, ARD in 3 dimensions": (three, {"kernel": "matern52", "ard": True}),
}


HEADLINE = ("shared inputs, rbf", "own inputs, rbf")


def twins(device: torch.device) -> dict[str, float]:
    """The largest differences between the fused kernels and plain torch in float64, on tasks of the benchmark."""
    from brimful.gp.gpu import likelihood as _kernels
    from brimful.gp.gpu import predict
    from brimful.gp.gpu.layout import lay_out
    from brimful.gp.model import likelihood, posterior

    data = own(1000)
    kernel = model_of(data, {}).kernel
    tree = rows(data, 0, 1000)
    tasks, units, _ = standardize(tree["x"].to(device), tree["y"].to(device), kernel, "constant")
    generator = torch.Generator(device).manual_seed(0)
    theta = torch.rand(1000, 3, generator=generator, device=device, dtype=torch.float64) * 3
    theta -= torch.tensor([2.0, 3.0, 6.0], device=device)
    plain, laid = likelihood.evaluate(kernel, tasks, theta), lay_out(tasks)
    fused = _kernels.evaluate(kernel, laid, torch.arange(1000, device=device).int(), theta)
    nlml = 0.5 * (fused.value_L2.sum(1) + math.log(2 * math.pi) * laid.count_T)
    new = torch.rand(1000, 30, 1, generator=generator, device=device, dtype=torch.float64)
    mean, variance = posterior.predict(kernel, tasks, theta, plain[1], units.inputs(new), "constant")
    pulled, spread, beta, _ = predict.predict(kernel, tasks, units, theta, new)
    pairs = {
        "likelihood": (plain[0], nlml),
        "gradient": (plain[2], fused.gradient_LP),
        "information": (plain[3], fused.info_LPP),
        "predicted mean": (mean, pulled + beta),
        "predicted variance": (variance, spread),
    }
    return {name: float((a - b).abs().max() / a.abs().max()) for name, (a, b) in pairs.items()}


def model_of(
    data: GPData, options: dict[str, Any], tolerance: float | None = None, starts: int | None = None
) -> GPModel:
    chosen = FitOptions(priors=None, tolerance=tolerance, starts=starts, **options)
    return model_for(data, chosen)


def fit_only(data: GPData, model: GPModel, device: torch.device, batch: int) -> tuple[float, np.ndarray, np.ndarray]:
    """Seconds of the fit, its data on the device, and the likelihood and status of each task."""
    parts = []
    for start in range(0, data.tasks, batch):
        tree = rows(data, start, min(data.tasks, start + batch))
        parts.append({name: value.to(device) for name, value in tree.items()})
    fit_batch({name: value[:64] for name, value in parts[0].items()}, model=model)
    seconds, solution = timed(lambda: [fit_batch(part, model=model) for part in parts], 3)
    nlml = np.concatenate([value.values["nlml"].cpu().numpy() for value in solution])
    return seconds, nlml, np.concatenate([value.status.cpu().numpy() for value in solution])


def gap_to_best(
    data: GPData, options: dict[str, Any], nlml: np.ndarray, count: int, device: torch.device
) -> tuple[float, float]:
    """Mean gap in nats, and the share of tasks more than 0.1 from the best known."""
    hard = model_of(data, options, tolerance=1e-9, starts=30)
    hard = GPModel(kernel=hard.kernel, mean="constant", priors=None, options=hard.options, shared=None)
    tree = rows(data, 0, count)
    if data.shared is not None:
        tree["x"] = data.shared.expand(count, -1, -1)
    best = fit_batch({name: value.to(device) for name, value in tree.items()}, model=hard).values["nlml"].cpu().numpy()
    gap = nlml[:count] - np.minimum(best, nlml[:count])
    return float(gap.mean()), float((gap > 0.1).mean())


def within_budgets(
    whole: Callable[[str | None], int], budgets: tuple[str | None, ...]
) -> dict[str | None, tuple[float, int]]:
    """Seconds and peak memory of some work under each budget (None: all there is), taken in turns, so that what else
    goes on in the machine meets them all: the fastest of some rounds, after one that does not count."""
    best: dict[str | None, tuple[float, int]] = dict.fromkeys(budgets, (math.inf, 0))
    for turn in range(1 + ROUNDS):
        for budget in budgets:
            took, peak = timed(lambda budget=budget: whole(budget))
            if turn:
                best[budget] = (min(best[budget][0], took), max(best[budget][1], peak))
    return best


def losses(
    whole: Callable[[str | None], int], tasks: int, device: torch.device
) -> tuple[float, dict[str, dict[str, float]]]:
    """Microseconds per task without a budget, and what is lost under each."""
    under = within_budgets(whole, (None, *BUDGETS) if device.type == "cuda" else (None,))
    free = under.pop(None)[0]
    return free / tasks * 1e6, {
        str(budget): {"us": took / tasks * 1e6, "loss": took / free - 1, "peak": peak}
        for budget, (took, peak) in under.items()
    }


def peak_of(solution: gp.Fit) -> int:
    return solution.observed


def case(name: str, tasks: int, device: torch.device, batch: int) -> dict[str, Any]:
    make, options = CASES[name]
    data = make(tasks)
    if not isinstance(data.items, RaggedTasks):  # draw what is drawn before the clock runs
        tree = rows(data, 0, tasks)
        x = tree["x"] if data.shared is None else data.shared
        data = read(x, tree["y"], None, None, gp.ColumnNames())
    model = model_of(data, options)
    seconds, nlml, status = fit_only(data, model, device, batch)
    gap, far = gap_to_best(data, options, nlml, min(500, tasks), device)
    chosen = {"kernel": options.get("kernel", "rbf"), "ard": options.get("ard", False), "priors": None}

    def whole(**more: Any) -> gp.Fit:
        return gp.fit(data, device=device, progress=False, **chosen, **more)

    with tempfile.TemporaryDirectory() as folder:
        stored, solution = timed(lambda: whole(out=Path(folder) / "store"))
    free, budgets = losses(lambda budget: peak_of(whole(budget=budget)), tasks, device)
    return {
        "case": name,
        "tasks": tasks,
        "fit_us": seconds / tasks * 1e6,
        "whole_us": stored / tasks * 1e6,
        "memory_us": free,
        "nlml": float(np.nanmean(nlml)),
        "converged": float((status == 0).mean()),
        "gap": gap,
        "over_0.1": far,
        "peak": peak_of(solution),
        "budgets": budgets,
    }


def gpytorch_adam(x: torch.Tensor, y: torch.Tensor, steps: int, batch: int) -> np.ndarray:
    """GPyTorch's batched exact processes, Adam at 0.1."""
    import gpytorch

    class Batched(gpytorch.models.ExactGP):
        def __init__(self, x: torch.Tensor, y: torch.Tensor, likelihood: Any) -> None:
            super().__init__(x, y, likelihood)
            shape = torch.Size([len(y)])
            self.mean_module = gpytorch.means.ConstantMean(batch_shape=shape)
            base = gpytorch.kernels.RBFKernel(batch_shape=shape)
            self.covar_module = gpytorch.kernels.ScaleKernel(base, batch_shape=shape)

        def forward(self, x: torch.Tensor) -> Any:
            return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))

    values = []
    for start in range(0, len(y), batch):
        some_x, some_y = x[start : start + batch], y[start : start + batch]
        likelihood = gpytorch.likelihoods.GaussianLikelihood(batch_shape=torch.Size([len(some_y)])).to(y)
        model = Batched(some_x, some_y, likelihood).to(y)
        model.train()
        optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
        objective = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
        for _ in range(steps):
            optimizer.zero_grad()
            (-objective(model(some_x), some_y).sum()).backward()
            optimizer.step()
        values.append((-objective(model(some_x), some_y) * y.shape[1]).detach().cpu())
    return torch.cat(values).numpy()


@functools.cache
def jax_adam(steps: int) -> Callable[[Any, Any], Any]:
    """JAX: the likelihood under vmap and jit, Adam at 0.1 in log space."""
    import jax
    import jax.numpy as jnp

    def nlml(theta: Any, x: Any, y: Any) -> Any:
        K = jnp.exp(theta[0] - 0.5 * ((x[:, None] - x[None]) / jnp.exp(theta[1])) ** 2)
        L = jnp.linalg.cholesky(K + (jnp.exp(theta[2]) + 1e-6) * jnp.eye(len(x)))
        z = jax.scipy.linalg.solve_triangular(L, y - theta[3], lower=True)
        return 0.5 * z @ z + jnp.log(jnp.diag(L)).sum() + 0.5 * len(x) * math.log(2 * math.pi)

    def one(x: Any, y: Any) -> Any:
        def step(state: Any, number: Any) -> Any:
            theta, m, v = state
            g = jax.grad(nlml)(theta, x, y)
            m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
            size = (m / (1 - 0.9 ** (number + 1))) / (jnp.sqrt(v / (1 - 0.999 ** (number + 1))) + 1e-8)
            return (theta - 0.1 * size, m, v), None

        first = jnp.zeros(4)
        (theta, _, _), _ = jax.lax.scan(step, (first, first, first), jnp.arange(steps))
        return nlml(theta, x, y)

    return jax.jit(jax.vmap(one))


def with_jax(x: torch.Tensor, y: torch.Tensor) -> np.ndarray:
    run = jax_adam(30)
    return np.asarray(run(x.cpu().numpy(), y.cpu().numpy()))


def botorch_lbfgs(x: torch.Tensor, y: torch.Tensor) -> np.ndarray:
    """BoTorch's batched L-BFGS-B, in float64, with its own priors."""
    import botorch
    import gpytorch

    model = botorch.models.SingleTaskGP(x.double(), y.double()[:, :, None])
    objective = gpytorch.mlls.ExactMarginalLogLikelihood(model.likelihood, model)
    botorch.fit.fit_gpytorch_mll(objective)
    model.train()
    return (-objective(model(*model.train_inputs), model.train_targets) * y.shape[1]).detach().cpu().numpy()


def peers(device: torch.device, tasks: int) -> Iterator[dict[str, Any]]:
    for kind, make in (("shared inputs", shared), ("own inputs", own)):
        data = make(tasks)
        tree = rows(data, 0, tasks)
        x = tree["x"] if data.shared is None else data.shared.float().expand(tasks, -1, -1)
        x, y = x.to(device).float().contiguous(), tree["y"].to(device)
        runs: dict[str, Callable[[], np.ndarray]] = {
            "GPyTorch, 30 Adam steps, batches of 2,000": lambda x=x, y=y: gpytorch_adam(x, y, 30, 2000),
            "GPyTorch, 30 Adam steps, all at once": lambda x=x, y=y: gpytorch_adam(x, y, 30, len(y)),
            "JAX vmap, 30 Adam steps": lambda x=x, y=y: with_jax(x[:, :, 0], y),
            "BoTorch, batched L-BFGS-B": lambda x=x, y=y: botorch_lbfgs(x[:BOTORCH], y[:BOTORCH]),
        }
        for name, run in runs.items():
            with contextlib.suppress(ImportError), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                run()
                seconds, nlml = timed(run, 3 if device.type == "cpu" else 1)
                count = len(nlml)
                yield {"peer": f"{name}, {kind}", "us": seconds / count * 1e6, "nlml": float(nlml.mean())}


def predictions(device: torch.device, tasks: int) -> dict[str, Any]:
    data = own(tasks)
    tree = rows(data, 0, tasks)
    data = read(tree["x"], tree["y"], None, None, gp.ColumnNames())
    solution = gp.fit(data, priors=None, device=device, progress=False)
    at = np.linspace(0, 1, 100)
    there = torch.from_numpy(at)[:, None]
    parameters = torch.stack([torch.from_numpy(solution.params[name]) for name in solution.model.names], dim=1)
    batch = {name: value.to(device) for name, value in (tree | {"parameters": parameters}).items()}
    parts = [{name: value[i : i + 250_000] for name, value in batch.items()} for i in range(0, tasks, 250_000)]

    def resident() -> None:
        for part in parts:
            predict_batch(part, model=solution.model, at=there)

    def whole(budget: str | None) -> int:
        wait()
        if device.type == "cuda":
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()
        replace(solution, budget=budget).predict(at)
        return torch.cuda.max_memory_reserved() if device.type == "cuda" else 0

    resident()
    alone, _ = timed(resident, 3)
    del batch, parts
    free, budgets = losses(whole, tasks, device)
    us = {"fit_us": alone / tasks * 1e6, "whole_us": free, "memory_us": free, "budgets": budgets}
    return {"case": "predict 100 points, own inputs", "tasks": tasks} | us


def many_points(device: torch.device, tasks: int, points: int) -> dict[str, Any]:
    """`gp.fit` of tasks that are too large for anything but batched linear algebra."""
    tree = rows(gp.synthetic(tasks, points, seed=1, shared=False), 0, tasks)
    data = read(tree["x"], tree["y"], None, None, gp.ColumnNames())
    gp.fit(tree["x"][:1], tree["y"][:1], priors=None, device=device, progress=False)
    seconds, solution = timed(lambda: gp.fit(data, priors=None, device=device, progress=False))
    gap, far = gap_to_best(data, {}, solution.nlml, min(2, tasks), device)
    return {
        "case": f"own inputs, rbf, {points:,} points",
        "tasks": tasks,
        "fit_us": math.nan,
        "whole_us": seconds / tasks * 1e6,
        "nlml": float(solution.nlml.mean()),
        "converged": float(solution.converged.mean()),
        "gap": gap,
        "over_0.1": far,
        "peak": peak_of(solution),
    }


def linearity(device: torch.device, most: int) -> list[dict[str, Any]]:
    """Seconds of the fit for more and more tasks, drawn on the device, in batches of at most a million."""
    rows = []
    x = torch.linspace(0, 1, N, dtype=torch.float64)
    model = model_of(read(x, torch.zeros(1, N), None, None, gp.ColumnNames()), {})
    generator = torch.Generator(device).manual_seed(0)
    count = 1000
    while count <= most:
        seconds = 0.0
        for start in range(0, count, 1_000_000):
            some = min(1_000_000, count - start)
            wave = 2 + 8 * torch.rand(some, 1, generator=generator, device=device)
            phase = 6.3 * torch.rand(some, 1, generator=generator, device=device)
            noise = 0.1 * torch.randn(some, N, generator=generator, device=device)
            y = torch.sin(wave * x.to(device).float() + phase) + noise
            if start == 0:
                fit_batch({"y": y}, model=model)
            took, _ = timed(lambda y=y: fit_batch({"y": y}, model=model))
            seconds += took
        rows.append({"tasks": count, "seconds": seconds, "us": seconds / count * 1e6})
        count *= 10
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--tasks", type=int, default=20_000, help="tasks of each case")
    parser.add_argument("--other-tasks", type=int, help="tasks of the cases beyond the first two")
    parser.add_argument("--peer-tasks", type=int, default=2_000)
    parser.add_argument("--batch", type=int, default=1_000_000, help="tasks in a batch of the fit alone")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--most", type=int, default=100_000, help="the most tasks of the row that shows linearity")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS, help="some parts alone")
    parser.add_argument("--quick", action="store_true", help="few tasks, to see that it runs")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    if options.quick:
        options.tasks, options.peer_tasks, options.most = 300, 50, 1000
    device = devices.resolve_all(options.device)[0]
    results: dict[str, Any] = {
        "device": devices.model_name(device), "torch": torch.__version__, "threads": torch.get_num_threads(),
        "cases": [], "peers": [], "linearity": [],
    }  # fmt: skip

    def keep() -> None:
        """What was measured stays, if something later should fail."""
        save(options.out, results, show(results))

    def add(value: dict[str, Any]) -> None:
        print(value, flush=True)
        results["cases"].append(value)
        keep()

    sizes = [options.tasks if name in HEADLINE else options.other_tasks or options.tasks for name in CASES]
    if "fits" in options.only:
        for name, tasks in zip(CASES, sizes, strict=True):
            add(case(name, tasks, device, options.batch))
        if device.type == "cuda":
            add(case("own inputs, rbf", 50_000, device, options.batch))
    if "predictions" in options.only:
        add(predictions(device, options.tasks))
    if "points" in options.only and device.type == "cuda":  # minutes per task on a CPU
        add(many_points(device, 16, 2000))
    if "linearity" in options.only:
        if device.type == "cuda":
            results["twins"] = twins(device)  # after what has a budget: plain torch leaves memory to its libraries
        results["linearity"] = linearity(device, options.most)
        print(results.get("twins"), results["linearity"], flush=True)
        keep()
    for value in peers(device, options.peer_tasks) if "peers" in options.only else ():
        print(value, flush=True)
        results["peers"].append(value)
        keep()
    print(show(results))


def show(results: dict[str, Any]) -> str:
    rows = [
        (
            value["case"], f"{value['tasks']:,}", f"{value['fit_us']:.3g}", f"{value['whole_us']:.3g}",
            f"{value.get('nlml', math.nan):.3f}", f"{value.get('converged', math.nan):.2%}",
            f"{value.get('gap', math.nan):.5f}", f"{value.get('over_0.1', math.nan):.2%}",
        )
        for value in results["cases"]
    ]  # fmt: skip
    head = ("case", "tasks", "fit us", "whole us", "mean NLML", "converged", "gap", "over 0.1")
    lines = [f"{results['device']}, torch {results['torch']}, {results['threads']} threads; µs per task", ""]
    lines += [format_table(rows, header=head), ""]
    lines += [format_table([(e["peer"], f"{e['us']:.1f}", f"{e['nlml']:.3f}") for e in results["peers"]],
                      header=("peer", "us", "mean NLML")), ""]  # fmt: skip
    limited = [
        (e["case"], f"{e['tasks']:,}", f"{e['memory_us']:.3g}", budget, f"{b['us']:.3g}", f"{b['loss']:+.0%}",
         f"{b['peak'] / 1e9:.2f} GB")
        for e in results["cases"] for budget, b in e.get("budgets", {}).items()
    ]  # fmt: skip
    if limited:
        head = ("in host memory", "tasks", "us", "budget", "us within it", "loss", "peak")
        lines += [format_table(limited, header=head), ""]
    rows = [(f"{e['tasks']:,}", f"{e['seconds']:.2f} s", f"{e['us']:.2f}") for e in results["linearity"]]
    lines.append(format_table(rows, header=("tasks, shared inputs", "fit alone", "us")))
    return "\n".join(lines)


if __name__ == "__main__":
    main()
