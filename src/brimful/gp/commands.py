"""What gp's commands do: fit, predict at points given as text or in a file, and report."""

import datetime
import math
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import torch

from ..core.base.errors import ChangedError, ConfigError, InputError
from ..core.declare.config import ReportConfig
from ..core.declare.pictures import preload
from ..core.declare.report import with_report
from ..core.declare.result import Result
from ..core.memory.plan import Plan
from ..core.runs.context import RunContext
from ..core.runs.files import write_atomic
from ..core.runs.rundir import inspect
from .batch_functions import loo_batch, predict_batch
from .compilation import begin_early
from .data.arrays import as_inputs, date_type
from .data.labels import Labels, dated
from .data.long_table import ColumnNames, date_kind, inputs_of, read_table
from .data.sources import GPData, read, synthetic
from .data.synthetic import SyntheticTasks
from .fit import fit_data, plan_fit
from .options import FitConfig, PredictConfig
from .report import report
from .result import Fit, load

_DATE = "date32[day]"
_EVALUATED, _AT_ONCE = 2000, 1 << 22  # tasks whose held-out points are looked at; and numbers of a matrix at a time


def _data(config: FitConfig) -> GPData:
    if (config.synthetic is None) == (config.data is None):
        raise ConfigError("give either --data FILE, a long table, or --synthetic N, a number of random tasks")
    if config.synthetic is not None:
        return synthetic(config.synthetic, config.points, config.seed, shared=not config.own_inputs)
    data = read(config.data, None, None, None, ColumnNames(id=config.id, x=config.x, y=config.y, noise=config.noise))
    if not data.tasks:
        raise InputError(f"{config.data} has no rows; give a table with one row per point")
    return data


def plan(config: FitConfig, probe: bool) -> Plan:
    return plan_fit(_data(config), config, probe)


def run_fit(config: FitConfig, context: RunContext) -> Mapping[str, Any]:
    if config.cluster is None:
        begin_early(config.device)
    if config.out is not None:
        preload()
    data = _data(config)
    at = _read_points(config.at, data.labels).at if config.at is not None else None
    fitted = fit_data(data, config, at=at, progress=context.events.emit, cancel=context.cancel)
    summary = fitted.summary() | _held_out(fitted, data)
    return with_report(summary, lambda out: report(fitted, out), config.out)


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
            truth, seen = source.observe(start, stop, at)
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
    points = _read_points(config.at, fitted.labels)
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
        write_atomic(out, lambda path: _join(folder, fitted, points, ending, path))
        shutil.rmtree(folder)
    return {
        "tasks": len(fitted),
        "points": len(points.at),
        "seconds": result.seconds,
        "compiling_seconds": result.compiling or None,
        "time_per_task_seconds": 1 / result.rate if result.done else None,
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
    return with_report({**made.metrics, **Result.summary(fitted)}, lambda _: made, into)


@dataclass(frozen=True, slots=True)
class _Points:
    """Where to predict.

    Attributes:
        at: the inputs, (m, d).
        dates: of each dimension, the type of the dates it was given as; None where it was given as numbers.
    """

    at: np.ndarray
    dates: tuple[str | None, ...]


def _read_points(text: str, labels: Labels) -> _Points:
    """Inputs from start:stop:num, of numbers or dates, or from a file: of a table's columns those that the fit had, or
    else all."""
    path = Path(text)
    if text.count(":") == 2 and not path.exists():
        return _between(text, labels)
    if not path.exists():
        raise InputError(f"{path} does not exist; give start:stop:num, or a .npy, .csv or .parquet file")
    try:
        return _array(np.load(path, allow_pickle=False)) if path.suffix == ".npy" else _columns(path, labels.inputs)
    except (pa.ArrowException, InputError, OSError, TypeError, ValueError) as error:
        raise InputError(f"{path} cannot be read as points: {error}") from error


def _between(text: str, labels: Labels) -> _Points:
    *ends, number = text.split(":")
    try:
        (start, stop), dates, count = *_ends(ends), int(number)
    except ValueError as error:
        raise ConfigError(
            f"--at is {text!r}; write start:stop:num, such as 0:1:100 or 2024-01-01:2024-12-31:50"
        ) from error
    if count < 1 or not (math.isfinite(start) and math.isfinite(stop)):
        raise ConfigError(f"--at is {text!r}; num must be at least 1, and start and stop finite")
    kind = (labels.date(0) or _DATE) if dates else None
    return _Points(np.linspace(start, stop, count).reshape(-1, 1), (kind,))


def _ends(texts: list[str]) -> tuple[list[float], bool]:
    """Numbers, or else dates as days since 1970-01-01, and whether they are."""
    try:
        return [float(value) for value in texts], False
    except ValueError:
        zero = datetime.date(1970, 1, 1)
        return [float((datetime.date.fromisoformat(value) - zero).days) for value in texts], True


def _array(given: np.ndarray) -> _Points:
    at = as_inputs(given, "it").double().numpy()
    if not at.size:
        raise InputError("it holds none")
    at = at.reshape(len(at), -1)
    return _Points(at, (date_type(given),) * at.shape[1])


def _columns(path: Path, inputs: tuple[str, ...] | None) -> _Points:
    table = read_table(path)
    names = table.column_names
    lacking = [name for name in inputs or () if name not in names]
    if inputs and not lacking:
        names = list(inputs)
    elif inputs and len(lacking) < len(inputs):
        raise InputError(f"it has no column {lacking[0]!r}; the models have the inputs {', '.join(inputs)}")
    if not table.num_rows or not names:
        raise InputError("it holds none")
    at = np.stack([inputs_of(table[name], name) for name in names], axis=1)
    return _Points(at, tuple(date_kind(table[name]) for name in names))


def _join(folder: Path, fitted: Fit, points: _Points, ending: str, path: Path) -> None:
    """The shards of a run as one file, one shard in memory at a time: one row per task, or in CSV one row per point.
    Inputs and tasks have the names and types of the data."""
    writer: Any = None
    labels, count = fitted.labels, len(points.at)
    names = labels.input_names(points.at.shape[1])
    given = {name: dated(days, kind) for name, days, kind in zip(names, points.at.T, points.dates, strict=True)}
    task = labels.id_name((*names, "mean", "variance"))
    for shard in sorted(folder.glob("shard-*.parquet")):
        table = pq.read_table(shard)
        ids, rows = fitted.ids.take(table["item"].combine_chunks()), table.num_rows
        if ending == ".csv":
            columns = {task: ids.take(np.repeat(np.arange(rows), count))}
            columns |= {name: value.take(np.tile(np.arange(count), rows)) for name, value in given.items()}
            columns |= {name: table[name].combine_chunks().flatten() for name in ("mean", "variance")}
        else:
            columns = {task: labels.id_column(ids)}
            columns |= {name: _repeated(value, rows) for name, value in given.items()}
            columns |= {name: table[name] for name in ("mean", "variance")}
        joined = pa.table(columns)
        kind = pyarrow.csv.CSVWriter if ending == ".csv" else pq.ParquetWriter
        writer = writer or kind(path, joined.schema)
        writer.write_table(joined)
    if writer is None:
        raise InputError("there are no predictions to write: the models are of no task")
    writer.close()


def _repeated(points: pa.Array, rows: int) -> pa.Array:
    """The same points in every row."""
    values = points.take(np.tile(np.arange(len(points)), rows))
    return pa.FixedSizeListArray.from_arrays(values, len(points))
