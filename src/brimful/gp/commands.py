"""What gp's commands do."""

import shutil
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from ..core.base.errors import ChangedError, ConfigError, InputError
from ..core.declare.result import Result
from ..core.memory.plan import Plan
from ..core.runs.context import RunContext
from ..core.runs.files import write_atomic
from ..core.runs.rundir import inspect
from .batch_functions import loo_batch, predict_batch
from .data.long_table import ColumnNames
from .data.sources import GPData, SyntheticTasks, read, synthetic
from .fit import fit_data, plan_fit
from .options import FitConfig, PredictConfig, ReportConfig
from .predictions import join, read_points
from .report import report
from .result import Fit, load

_EVALUATED, _AT_ONCE = 2000, 1 << 22  # tasks whose held-out points are looked at; and numbers of a matrix at a time


def _data(config: FitConfig) -> GPData:
    if (config.synthetic is None) == (config.data is None):
        raise ConfigError("give one of --synthetic N and --data FILE")
    if config.synthetic is not None:
        return synthetic(config.synthetic, config.points, config.seed, shared=not config.own_inputs)
    data = read(config.data, None, None, None, ColumnNames(id=config.id, x=config.x, y=config.y, noise=config.noise))
    if not data.tasks:
        raise InputError(f"{config.data} has no rows; give a table with one row per point")
    return data


def plan(config: FitConfig, probe: bool) -> Plan:
    return plan_fit(_data(config), config, probe)


def run_fit(config: FitConfig, context: RunContext) -> Mapping[str, Any]:
    data = _data(config)
    at = read_points(config.at, data.inputs).at if config.at is not None else None
    fitted = fit_data(data, config, at=at, progress=context.events.emit, cancel=context.cancel)
    picture = None if config.out is None else str(report(fitted, config.out).save(config.out)[0])
    return fitted.summary() | _held_out(fitted, data) | {"picture": picture}


def _held_out(fitted: Fit, data: GPData) -> dict[str, Any]:
    """Errors on points that the fit did not see: new samples of synthetic tasks, otherwise each point by the others."""
    items, source = fitted.with_parameters(), data.items
    at = torch.linspace(0.005, 0.995, 50, dtype=torch.float64)[:, None]
    off, true, density = [], [], []
    count, at_once = min(_EVALUATED, len(fitted)), max(1, _AT_ONCE // max(1, data.points) ** 2)
    for start in range(0, count, at_once):
        stop = min(count, start + at_once)
        batch: Any = items.load(start, stop).tree
        if isinstance(source, SyntheticTasks):
            mean = predict_batch(batch, model=fitted.model, at=at)["mean"]
            truth, seen = source.draw(start, stop, at)[2].unbind(2)
            off.append(mean - seen)
            true.append(mean - truth)
        else:
            left_out = loo_batch(batch, model=fitted.model)
            off.append((left_out["mean"] - batch["y"]).flatten())
            density.append(left_out["density"].flatten())
    kind = "held_out" if true else "leave_one_out"
    errors = _errors(kind, off) | _errors("truth", true)
    return errors | ({f"{kind}_log_density": float(torch.cat(density).nanmean())} if density and errors else {})


def _errors(name: str, parts: list[torch.Tensor]) -> dict[str, float]:
    """Mean absolute and root mean square of the differences that are numbers."""
    off = torch.cat(parts).numpy() if parts else np.zeros(0)
    off = off[np.isfinite(off)]
    if not len(off):
        return {}
    return {f"{name}_MAE": float(np.abs(off).mean()), f"{name}_RMSE": float(np.sqrt((off**2).mean()))}


def run_predict(config: PredictConfig, context: RunContext) -> Mapping[str, Any]:
    out = config.out
    ending = "" if out is None or out.is_dir() else out.suffix.lower()
    if out is None or ending not in ("", ".parquet", ".csv"):
        raise ConfigError("name where the predictions go: --out predictions.parquet, a .csv file, or a folder")
    fitted = load(config.directory, budget=config.budget, device=config.device)
    if fitted.data is None:
        raise InputError(
            f"the fit in {config.directory} kept its parameters and not its data, which predictions need: run it again "
            "with --keep params+data, into another folder if it kept predictions (or, in Python, give the data to "
            "gp.load(path, x=..., y=...))"
        )
    points = read_points(config.at, fitted.data.inputs)
    folder = out.with_name(f"{out.name}.run") if ending else out
    options: dict[str, Any] = {"noise": config.observations, "progress": context.events.emit, "cancel": context.cancel}
    try:
        result = fitted.predict_to(folder, points.at, **options)
    except ChangedError:
        if not ending or inspect(folder).work != "gp predict":
            raise
        shutil.rmtree(folder)  # of other predictions, which did not end
        result = fitted.predict_to(folder, points.at, **options)
    if ending:
        write_atomic(out, lambda path: join(folder, fitted, points, ending, path))
        shutil.rmtree(folder)
    return {
        "tasks": len(fitted),
        "points": len(points.at),
        "seconds": result.seconds,
        "time_per_task_seconds": result.seconds / result.done if result.done else None,
        "predicted_peak_bytes": result.predicted,
        "observed_peak_bytes": result.observed if result.done else None,
        "out": str(out),
    }


def run_report(config: ReportConfig, context: RunContext) -> Mapping[str, Any]:
    into = config.out or config.directory
    if into.is_file():
        raise ConfigError(f"{into} is a file; name a folder for the picture")
    fitted = load(config.directory)
    made = report(fitted, config.directory)
    return {**made.metrics, **Result.summary(fitted), "picture": str(made.save(into)[0])}
