"""`brimful gp`: fit, predict and look at many Gaussian processes."""

import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ..core.base.errors import ChangedError, ConfigError, InputError
from ..core.declare.config import Common, option
from ..core.declare.registry import Command, Workload
from ..core.memory.plan import Plan
from ..core.runs.context import RunContext
from ..core.runs.files import write_atomic
from ..core.runs.rundir import inspect
from ..engine.map.result import MapResult
from .data.long_table import Columns
from .data.sources import Data, Synthetic, read, synthetic
from .fit import KEEPS, fit, model_for
from .fit import plan as plan_fit
from .model.tasks import MEANS
from .predictions import join, read_points
from .result import Fit, load

_JUDGED = 2000  # tasks whose held-out points are looked at


@dataclass(frozen=True, kw_only=True)
class FitConfig(Common):
    """Options of `gp fit`."""

    synthetic: int | None = option(None, help="draw this many random tasks instead of reading data", ge=1)
    data: Path | None = option(
        None, help="a long table, Parquet, CSV or TSV: a row a point, with task id, inputs and target"
    )
    points: int = option(40, help="points of a synthetic task", ge=1, le=10_000)
    own_inputs: bool = option(False, help="synthetic tasks have inputs of their own instead of sharing them")
    id: str | None = option(None, help="column of the task; found by its usual names unless said")
    x: str | None = option(
        None, help="column of the input, or several by commas; unless said, a usual name, or all columns that are left"
    )
    y: str | None = option(None, help="column of the target")
    noise: str | None = option(None, help="column of the known noise variance, if there is one")
    kernel: str = option("rbf", help='a name, or sums and products: "linear + rbf * periodic"')
    ard: bool = option(False, help="a lengthscale for each input dimension")
    mean: str = option("constant", help="mean function", choices=MEANS)
    priors: str = option("weak", help="weak keeps tiny tasks from collapsing, none is maximum likelihood",
                         choices=("weak", "none"))  # fmt: skip
    iterations: int = option(100, help="the most steps from one start", ge=1)
    starts: int | None = option(
        None, help="the most first guesses to follow; 2 for one shape with one lengthscale, else 6", ge=1, le=64
    )
    tolerance: float | None = option(None, help="nats still to be gained at which a task has converged", gt=0)
    keep: str = option("params+data", help="what to keep of each task in the run directory", choices=KEEPS)
    at: str | None = option(
        None, help="points of --keep predictions: start:stop:num, of numbers or dates, or a .npy, .csv or .parquet file"
    )
    precision: str = option("float32", help="of the stored parameters", choices=("float32", "float16"))


@dataclass(frozen=True, kw_only=True)
class PredictConfig(Common):
    """Options of `gp predict`."""

    directory: Path = option(help="folder of fitted models", positional=True, metavar="DIR")
    at: str = option(
        help="where to predict: start:stop:num, of numbers or dates, or a .npy, .csv or .parquet file of inputs"
    )
    observations: bool = option(False, help="variances of new observations instead of the function's")
    out: Path | None = option(
        None, help="for the predictions: a .parquet file (a row a task), a .csv file (a row a point), or a folder"
    )


@dataclass(frozen=True, kw_only=True)
class ReportConfig(Common):
    """Options of `gp report`."""

    directory: Path = option(help="folder of fitted models", positional=True, metavar="DIR")
    out: Path | None = option(None, help="folder for the picture; DIR unless said")


def _data(config: FitConfig) -> Data:
    if (config.synthetic is None) == (config.data is None):
        raise ConfigError("give one of --synthetic N and --data FILE")
    if config.synthetic is not None:
        return synthetic(config.synthetic, config.points, config.seed, shared=not config.own_inputs)
    data = read(config.data, None, None, None, Columns(id=config.id, x=config.x, y=config.y, noise=config.noise))
    if not data.tasks:
        raise InputError(f"{config.data} has no rows; give a table with a row a point")
    return data


def _priors(config: FitConfig) -> str | None:
    return None if config.priors == "none" else config.priors


def plan(config: FitConfig, probe: bool) -> Plan:
    data = _data(config)
    model = model_for(
        data, config.kernel, config.ard, config.mean, _priors(config), None, False, config.iterations,
        config.tolerance, config.starts,
    )  # fmt: skip
    return plan_fit(model, data, config.budget, config.device, probe)


def run_fit(config: FitConfig, context: RunContext) -> Mapping[str, Any]:
    data = _data(config)
    at = read_points(config.at, data.inputs).at if config.at is not None else None
    found = fit(
        data,
        kernel=config.kernel,
        ard=config.ard,
        mean=config.mean,
        priors=_priors(config),
        iterations=config.iterations,
        tolerance=config.tolerance,
        starts=config.starts,
        budget=config.budget,
        device=config.device,
        seed=config.seed,
        out=config.out,
        keep=config.keep,
        at=at,
        precision=config.precision,
        progress=context.events.emit,
    )
    summary = _summary(found)
    if config.out is not None:
        from .report import draw

        summary["picture"] = str(draw(found, config.out))
    return summary


def _summary(found: Fit) -> dict[str, Any]:
    result = found.result
    assert result is not None
    finite = found.nlml[np.isfinite(found.nlml)]
    done = result.done
    summary: dict[str, Any] = {
        "tasks": len(found),
        "kernel": found.model.kernel.text,
        "way": found.way if done or not len(found) else "already fitted",
        "batch": result.plan.batch,
        "observed_peak_bytes": result.observed if done else None,
        "predicted_peak_bytes": result.predicted,
        "budget_bytes": result.plan.budget,
        "seconds": result.seconds,
        "time_a_task_seconds": result.seconds / done if done else None,
        "tasks_per_GB": int(done / max(result.observed, 1) * 1e9) if done else None,
        "converged_share": float(found.converged.mean()) if len(found) else None,
        "flagged": int((~found.converged).sum()),
        "mean_NLML": float(finite.mean()) if len(finite) else None,
        "mean_iterations": float(found.iterations.mean()) if len(found) else None,
    }
    return summary | _held_out(found) | {"picture": None}


def _held_out(found: Fit) -> dict[str, Any]:
    """Errors on points that the fit did not see: new draws of synthetic tasks, otherwise each point by the others."""
    data = found.data
    count = min(_JUDGED, len(found))
    if data is None or not count:
        return {}
    if isinstance(data.items, Synthetic):
        at = torch.linspace(0.005, 0.995, 50, dtype=torch.float64)
        truth, seen = data.items.draw(0, count, at)[2].numpy().transpose(2, 0, 1)
        mean, _ = first(found, count).predict(at)
        return {
            "held_out_MAE": float(np.nanmean(np.abs(mean - seen))),
            "held_out_RMSE": float(np.sqrt(np.nanmean((mean - seen) ** 2))),
            "truth_MAE": float(np.nanmean(np.abs(mean - truth))),
            "truth_RMSE": float(np.sqrt(np.nanmean((mean - truth) ** 2))),
        }
    some = first(found, count)
    mean, _, density = some.loo()
    targets = np.full(mean.shape, np.nan)
    some_data = some.data
    assert some_data is not None
    tree = some_data.items.load(0, count).tree
    assert isinstance(tree, dict)
    targets[some_data.items.index(0, count), : tree["y"].shape[1]] = tree["y"].numpy()
    off = (mean - targets)[np.isfinite(mean)]
    if not len(off):
        return {}
    return {
        "leave_one_out_MAE": float(np.abs(off).mean()),
        "leave_one_out_RMSE": float(np.sqrt((off**2).mean())),
        "leave_one_out_log_density": float(np.nanmean(density)),
    }


def first(found: Fit, count: int) -> Fit:
    """The first tasks of a fit, in order of work."""
    data = found.data
    assert data is not None
    if count == len(found):
        return found
    items = data.items
    if isinstance(items, Synthetic):
        fewer: Any = Synthetic(count, items.points, items.seed, items.shared)
        order = np.arange(count)
    else:
        order = items.index(0, count)
        fewer = _First(items, count)
    columns = {name: each[order] for name, each in found.columns.items()}
    return replace(
        found, data=replace(data, items=fewer), columns=columns, status=found.status[order], _store=None, messages={}
    )


class _First:
    """The first items of a source, numbered anew."""

    forward = False

    def __init__(self, items: Any, count: int) -> None:
        self._items, self.length = items, count
        self.weights = None if items.weights is None else items.weights[:count]

    def load(self, start: int, stop: int, capacity: float | None = None) -> Any:
        return self._items.load(start, stop)

    def index(self, start: int, stop: int) -> np.ndarray:
        return np.arange(start, stop)

    def item_bytes(self) -> int:
        return self._items.item_bytes()

    def fingerprint(self) -> str:
        return f"{self.length} of {self._items.fingerprint()}"

    def spec(self) -> str:
        return self._items.spec()


def run_predict(config: PredictConfig, context: RunContext) -> Mapping[str, Any]:
    out = config.out
    ending = "" if out is None or out.is_dir() else out.suffix.lower()
    if out is None or ending not in ("", ".parquet", ".csv"):
        raise ConfigError("name where the predictions go: --out predictions.parquet, a .csv file, or a folder")
    found = load(config.directory, budget=config.budget, device=config.device)
    data = found.data
    if data is None:
        raise InputError(
            f"the fit in {config.directory} kept its parameters and not its data, which predictions need: run it again "
            "with --keep params+data, into another folder if it kept predictions (or, in Python, give the data to "
            "gp.load(path, x=..., y=...))"
        )
    points = read_points(config.at, data.inputs)
    folder = out.with_name(f"{out.name}.run") if ending else out
    result = _predict_to(found, folder, bool(ending), points.at, config.observations, context)
    if ending:
        write_atomic(out, lambda path: join(folder, found, points, ending, path))
        shutil.rmtree(folder)
    done = result.done
    return {
        "tasks": len(found),
        "points": len(points),
        "seconds": result.seconds,
        "time_a_task_seconds": result.seconds / done if done else None,
        "observed_peak_bytes": result.observed if done else None,
        "out": str(out),
    }


def _predict_to(
    found: Fit, folder: Path, scratch: bool, at: np.ndarray, observations: bool, context: RunContext
) -> MapResult:
    """Predictions into a folder. A scratch folder that other predictions have left is made anew."""
    try:
        return found.predict_to(folder, at, noise=observations, progress=context.events.emit)
    except ChangedError:
        if not scratch or inspect(folder).work != "gp predict":
            raise
    shutil.rmtree(folder)
    return found.predict_to(folder, at, noise=observations, progress=context.events.emit)


def run_report(config: ReportConfig, context: RunContext) -> Mapping[str, Any]:
    from .report import draw

    found = load(config.directory, budget=config.budget, device=config.device)
    into = config.out or config.directory
    if into.is_file():
        raise ConfigError(f"{into} is a file; name a folder for the picture")
    into.mkdir(parents=True, exist_ok=True)
    finite = found.nlml[np.isfinite(found.nlml)]
    return {
        "tasks": len(found),
        "kernel": found.model.kernel.text,
        "converged_share": float(found.converged.mean()) if len(found) else None,
        "flagged": int((~found.converged).sum()),
        "mean_NLML": float(finite.mean()) if len(finite) else None,
        **{
            f"median_{name}": float(np.nanmedian(each))
            for name, each in found.params.items()
            if np.isfinite(each).any()
        },
        "picture": str(draw(found, config.directory, into)),
    }


WORKLOAD = Workload(
    name="gp",
    help="Many independent Gaussian processes: fitted exactly, to the optimum, by the million.",
    commands=(
        Command(
            name="fit",
            help="Fit one process to each task of a table, or to random tasks, and draw the result.",
            config=FitConfig,
            plan=plan,
            run=run_fit,
            job=True,
        ),
        Command(
            name="predict",
            help="Predict with fitted models at new points, streamed from their folder.",
            config=PredictConfig,
            run=run_predict,
            job=True,
        ),
        Command(name="report", help="Summarise and draw fitted models.", config=ReportConfig, run=run_report),
    ),
)
