"""Predictions at the command line: where to make them, and what was predicted as one file."""

import datetime
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from ..core.base.errors import ConfigError, InputError
from .data.arrays import as_inputs
from .data.long_table import is_moment, moments, numbers, read_table
from .result import Fit


@dataclass(frozen=True, slots=True)
class Points:
    """Where to predict.

    Attributes:
        at: the inputs, (m, d).
        dates: of each dimension, whether it was given as dates.
    """

    at: np.ndarray
    dates: tuple[bool, ...]


def read_points(text: str, inputs: tuple[str, ...] | None = None) -> Points:
    """Inputs from start:stop:num, of numbers or dates, or from a file: of a table's columns those that the fit had, or
    else all."""
    path = Path(text)
    if text.count(":") == 2 and not path.exists():
        return _between(text)
    if not path.exists():
        raise InputError(f"{path} does not exist; give start:stop:num, or a .npy, .csv or .parquet file")
    try:
        return _array(np.load(path, allow_pickle=False)) if path.suffix == ".npy" else _columns(path, inputs)
    except (pa.ArrowException, InputError, OSError, TypeError, ValueError) as error:
        raise InputError(f"{path} cannot be read as points: {error}") from error


def _between(text: str) -> Points:
    *ends, number = text.split(":")
    try:
        (start, stop), dates, count = *_ends(ends), int(number)
    except ValueError as error:
        raise ConfigError(
            f"--at is {text!r}; write start:stop:num, such as 0:1:100 or 2024-01-01:2024-12-31:50"
        ) from error
    if count < 1 or not (math.isfinite(start) and math.isfinite(stop)):
        raise ConfigError(f"--at is {text!r}; num must be at least 1, and start and stop finite")
    return Points(np.linspace(start, stop, count).reshape(-1, 1), (dates,))


def _ends(texts: list[str]) -> tuple[list[float], bool]:
    """Numbers, or else dates as days since 1970-01-01, and whether they are."""
    try:
        return [float(value) for value in texts], False
    except ValueError:
        zero = datetime.date(1970, 1, 1)
        return [float((datetime.date.fromisoformat(value) - zero).days) for value in texts], True


def _array(given: np.ndarray) -> Points:
    at = as_inputs(given, "it").double().numpy()
    if not at.size:
        raise InputError("it holds none")
    at = at.reshape(len(at), -1)
    return Points(at, (given.dtype.kind == "M",) * at.shape[1])


def _columns(path: Path, inputs: tuple[str, ...] | None) -> Points:
    table = read_table(path)
    names = table.column_names
    lacking = [name for name in inputs or () if name not in names]
    if inputs and not lacking:
        names = list(inputs)
    elif inputs and len(lacking) < len(inputs):
        raise InputError(f"it has no column {lacking[0]!r}; the models have the inputs {', '.join(inputs)}")
    if not table.num_rows or not names:
        raise InputError("it holds none")
    at = np.stack([numbers(table[name], name) for name in names], axis=1)
    return Points(at, tuple(is_moment(table[name].type) for name in names))


def join(folder: Path, fitted: Fit, points: Points, ending: str, path: Path) -> None:
    """The shards of a run as one file, one shard in memory at a time: one row per task, or in CSV one row per point."""
    writer: Any = None
    for shard in sorted(folder.glob("shard-*.parquet")):
        table = pq.read_table(shard)
        task = fitted.ids.take(table["item"].combine_chunks())
        table = pa.table({"task": task, "mean": table["mean"], "variance": table["variance"]})
        if ending == ".csv":
            table = _long(table, points, None if fitted.data is None else fitted.data.inputs)
        kind = pyarrow.csv.CSVWriter if ending == ".csv" else pq.ParquetWriter
        writer = writer or kind(path, table.schema)
        writer.write_table(table)
    if writer is None:
        raise InputError("there are no predictions to write: the models are of no task")
    writer.close()


def _long(table: pa.Table, points: Points, inputs: tuple[str, ...] | None) -> pa.Table:
    """Predictions with one row per point: task, inputs (dates as dates, in UTC), mean, variance."""
    tasks, (count, dimensions) = table.num_rows, points.at.shape
    plain = ("x",) if dimensions == 1 else tuple(f"x_{position}" for position in range(dimensions))
    names = plain if inputs is None or not {"task", "mean", "variance"}.isdisjoint(inputs) else inputs
    given = [
        moments(column) if dates else pa.array(column) for column, dates in zip(points.at.T, points.dates, strict=True)
    ]
    return pa.table(
        {
            "task": table["task"].take(np.repeat(np.arange(tasks), count)),
            **{name: value.take(np.tile(np.arange(count), tasks)) for name, value in zip(names, given, strict=True)},
            **{name: table[name].combine_chunks().flatten() for name in ("mean", "variance")},
        }
    )
