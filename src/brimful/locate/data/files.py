"""Recordings in files: generated ones in Parquet, one row per recording; one's own as a long table, CSV or Parquet,
with one row per recording and receiver.

A generated file carries its scenario and seed, so that what is judged by it knows how it came about.
"""

import functools
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import torch

from ...core.base import arrow
from ...core.base.arguments import as_path, check_type
from ...core.base.errors import InputError
from ...core.declare.config import build
from ...core.runs.files import storage_error, write_atomic
from ...core.runs.parquet import DAMAGE
from ..physics.scenario import MOST_RECEIVERS, Scenario
from .recordings import Recordings

_NOTE = b"brimful.locate"
TENSORS = (
    *("positions", "mask", "detected", "snr_db", "psd_dbm_hz", "frequency_offset_hz"),
    *("transmitter", "power_dbm", "gdop"),
)
"""The tensors of `Recordings`."""

SUFFIXES = (".parquet", ".pq", ".csv")
REQUIRED = ("recording", "latitude", "longitude", "snr_db", "psd_dbm_hz")
"""The columns of a long table; the others are `OPTIONAL`."""
OPTIONAL = ("detected", "frequency_offset_hz", "transmitter_latitude", "transmitter_longitude", "power_dbm")


@dataclass(frozen=True, slots=True, eq=False)
class Dataset:
    """Recordings, and how they were generated.

    Attributes:
        name: of the file, or what it was given.
        recordings: all of them.
        scenario: of generated ones; None of one's own.
        seed: likewise.
    """

    name: str
    recordings: Recordings
    scenario: Scenario | None = None
    seed: int | None = None


def write(dataset: Dataset, path: str | Path) -> Path:
    """Writes recordings to a Parquet file, one row each; `read` gives the same bits."""
    check_type(dataset, Dataset, "give a locate.Dataset(name, recordings)")
    path = as_path(path, "give a file to write to, such as recordings.parquet")
    recordings = dataset.recordings
    columns, note = arrow.to_columns({name: getattr(recordings, name) for name in TENSORS})
    if recordings.names is not None:
        columns["recording"] = pa.array(recordings.names.tolist(), pa.string())
    about = {"scenario": dataset.scenario and asdict(dataset.scenario), "seed": dataset.seed, "name": dataset.name}
    table = pa.table(columns).replace_schema_metadata(
        {**arrow.schema_note(note), _NOTE: json.dumps(about).encode()},
    )
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise storage_error(path, error) from error
    write_atomic(path, functools.partial(pq.write_table, table, compression="zstd"))
    return path


def read(path: str | Path) -> Dataset:
    """Recordings of a file: one that `write` wrote, or a long table in CSV or Parquet.

    Raises:
        InputError: there is no such file, it cannot be read, or columns are missing.
    """
    path = as_path(path, "give a .parquet or .csv file of recordings")
    if not path.is_file():
        raise InputError(
            f"{path} does not exist; check the path, or make it with `brimful locate generate --out {path}`"
        )
    try:
        if path.suffix == ".csv":
            table = pyarrow.csv.read_csv(path)
            table = table.rename_columns(table.column_names)  # names that are no text raise here
        elif path.suffix in SUFFIXES:
            table = pq.read_table(path)
        else:
            raise InputError(f"{path} is neither .csv nor .parquet; convert it")
    except DAMAGE as error:
        raise InputError(f"{path} cannot be read: {error}") from error
    note = (table.schema.metadata or {}).get(_NOTE)
    if note is None:
        return Dataset(path.stem, from_long_table(table, str(path)))
    try:
        about: dict[str, Any] = json.loads(note)
        values: Any = arrow.from_columns(table)
        names = np.array(table["recording"].to_pylist(), dtype=str) if "recording" in table.column_names else None
        scenario = about["scenario"] and build(Scenario, about["scenario"])
        return Dataset(about["name"], Recordings(**values, names=names), scenario, about["seed"])
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"{path} is damaged: {error!r}; generate it again") from error


def from_long_table(table: pa.Table, where: str = "the table") -> Recordings:
    """Recordings of a table with one row per recording and receiver.

    Columns: recording (any text or number; its rows need not be together), latitude, longitude (of the receiver),
    snr_db, psd_dbm_hz; and where there are any frequency_offset_hz, transmitter_latitude, transmitter_longitude,
    power_dbm, and detected (true or false). Without `detected`, a receiver detected nothing where snr_db is missing.
    """
    if missing := [name for name in REQUIRED if name not in table.column_names]:
        raise InputError(
            f"{where} has no column {', '.join(missing)}; a table of recordings has {', '.join(REQUIRED)}, and may "
            f"have {', '.join(OPTIONAL)}"
        )
    if table.num_rows == 0:
        raise InputError(f"{where} has no rows; give at least one recording")
    numbers = {name: _numbers(table, name, where) for name in (*REQUIRED[1:], *OPTIONAL[1:])}
    snr = numbers["snr_db"]
    assert snr is not None
    labels = np.array([str(label) for label in table["recording"].to_pylist()])
    names, first, row = np.unique(labels, return_index=True, return_inverse=True)
    by_first = np.argsort(first)  # recordings in the order of their first rows
    rank = np.empty_like(by_first)
    rank[by_first] = np.arange(len(names))
    row = rank[row]
    order = np.argsort(row, kind="stable")
    counts = np.bincount(row)
    if counts.max() > MOST_RECEIVERS:
        most = int(counts.argmax())
        raise InputError(
            f"{where}: recording {names[by_first][most]!r} has {counts[most]} receivers; at most {MOST_RECEIVERS} are "
            "possible. Leave out those that detected it least"
        )
    column = np.empty_like(row)
    column[order] = np.arange(len(row)) - np.repeat(np.cumsum(counts) - counts, counts)
    shape = (len(names), max(3, int(counts.max())))

    def grid(values: np.ndarray | None, fill: Any = np.nan) -> np.ndarray:
        filled = np.full(shape, fill)
        if values is not None:
            filled[row, column] = values
        return filled

    def per_recording(name: str) -> np.ndarray:
        values = numbers[name]
        return np.full(len(names), np.nan) if values is None else values[first[by_first]]

    detected = ~np.isnan(snr)
    if "detected" in table.column_names:
        detected = np.array([bool(value) for value in table["detected"].to_pylist()])
    offset = numbers["frequency_offset_hz"]
    transmitter = np.stack([per_recording("transmitter_latitude"), per_recording("transmitter_longitude")], -1)
    return Recordings.of(
        positions=np.stack([grid(numbers["latitude"]), grid(numbers["longitude"])], -1),
        mask=grid(np.ones(len(row), bool), False),
        detected=grid(detected, False),
        snr_db=grid(snr),
        psd_dbm_hz=grid(numbers["psd_dbm_hz"]),
        frequency_offset_hz=grid(np.zeros(len(row)) if offset is None else offset),
        transmitter=torch.from_numpy(transmitter),
        power_dbm=per_recording("power_dbm"),
        names=names[by_first],
    ).with_gdop()


def _numbers(table: pa.Table, name: str, where: str) -> np.ndarray | None:
    """A column as float64, NaN where it is missing; None where there is no such column."""
    if name not in table.column_names:
        return None
    try:
        return table[name].cast(pa.float64()).to_numpy().astype(np.float64)
    except pa.ArrowException as error:
        raise InputError(f"{where}: column {name} holds something that is no number: {error}") from error
