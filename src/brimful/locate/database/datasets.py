"""Datasets of recordings in PostgreSQL: written as rows, read as tensors.

Rows are what is true. Beside them lie chunks of tensors, a dataset of `brimful.data`, which are read at hundreds of
megabytes a second; they carry the version of the rows that they were made of in their name, and are made again where
the rows have changed since.
"""

import contextlib
import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from ...core.base.errors import BudgetError, InputError, StorageError
from ...core.base.formatting import format_bytes
from ...core.declare.config import build
from ...core.memory import devices
from ...data import database as chunks
from ...data.database.catalogue import check_name
from ...data.database.connection import Database
from ..data.files import TENSORS, Dataset
from ..data.receiver_set import distinct_sites
from ..data.recordings import Recordings, recording_bytes
from ..physics.scenario import Scenario
from .copy_rows import copy_in, copy_out
from .schema import migrate

if TYPE_CHECKING:
    from psycopg import Connection

_WORKING = 7  # times the bytes of all recordings: the recordings, and what selecting and scaling them takes at its peak
_MEASURED = ("snr_db", "psd_dbm_hz", "frequency_offset_hz")


@dataclass(frozen=True, slots=True)
class Stored:
    """A dataset of the database: its number, name, scenario, seed and the version of its rows."""

    id: int
    name: str
    scenario: Scenario | None
    seed: int | None
    version: int

    @property
    def chunk_name(self) -> str:
        return f"locate-{self.id}-{self.version}"


def write(dataset: Dataset, url: str | None = None, home: Any = None) -> Stored:
    """Writes recordings as a new dataset; all of it is there in the end, or nothing.

    Raises:
        InputError: there is one of that name.
    """
    database, recordings = Database.at(url, home), dataset.recordings
    check_name(dataset.name)
    with database.session() as connection:
        migrate(connection)
        with connection.transaction():
            scenario = None if dataset.scenario is None else json.dumps(asdict(dataset.scenario))
            row = connection.execute(
                "INSERT INTO locate.dataset (name, scenario, seed) VALUES (%s, %s, %s) "
                "ON CONFLICT (name) DO NOTHING RETURNING id",
                (dataset.name, scenario, dataset.seed),
            ).fetchone()
            if row is None:
                raise InputError(f"there is a dataset {dataset.name!r} already; choose another name")
            _write_rows(connection, int(row[0]), recordings)
        stored = _find(connection, dataset.name)
    assert stored is not None
    _write_chunks(stored, recordings, url, home)
    return stored


def _write_rows(connection: "Connection[Any]", dataset: int, recordings: Recordings) -> None:
    N, mask = len(recordings), recordings.mask.numpy()
    number = np.arange(N, dtype=np.int32)
    transmitter = recordings.transmitter.numpy()
    copy_in(
        connection,
        "locate.recording",
        {
            "dataset": np.full(N, dataset, np.int32),
            "number": number,
            "transmitter_latitude": transmitter[:, 0],
            "transmitter_longitude": transmitter[:, 1],
            "power_dbm": recordings.power_dbm.numpy(),
            "gdop": recordings.gdop.numpy(),
        },
    )
    if recordings.names is not None:
        pairs = (number.tolist(), recordings.names.tolist(), dataset)
        connection.execute(
            "UPDATE locate.recording r SET name = n.name FROM unnest(%s::int[], %s::text[]) AS n(number, name) "
            "WHERE r.dataset = %s AND r.number = n.number",
            pairs,
        )
    recording, slot = np.nonzero(mask)
    receiver = _receivers(connection, recordings)
    detected = recordings.detected.numpy()[mask]
    columns = {
        "dataset": np.full(len(recording), dataset, np.int32),
        "recording": recording.astype(np.int32),
        "slot": slot.astype(np.int16),
        "receiver": receiver,
        "detected": detected,
    }
    copy_in(connection, "locate.measurement", {name: values[~detected] for name, values in columns.items()})
    columns |= {name: getattr(recordings, name).numpy()[mask] for name in _MEASURED}
    copy_in(connection, "locate.measurement", {name: values[detected] for name, values in columns.items()})


def _receivers(connection: "Connection[Any]", recordings: Recordings) -> np.ndarray:
    """The numbers of the receivers that took part; those that are new are added."""
    places, which = distinct_sites(recordings)
    connection.execute("CREATE TEMPORARY TABLE place (n int, latitude float8, longitude float8) ON COMMIT DROP")
    count = np.arange(len(places), dtype=np.int32)
    copy_in(connection, "place", {"n": count, "latitude": places[:, 0], "longitude": places[:, 1]})
    connection.execute(
        "INSERT INTO locate.receiver (latitude, longitude) SELECT latitude, longitude FROM place ORDER BY n "
        "ON CONFLICT DO NOTHING"
    )
    query = "SELECT r.id FROM place p JOIN locate.receiver r USING (latitude, longitude) ORDER BY p.n"
    return copy_out(connection, query, {"id": "i4"})["id"][which]


def read(name: str, url: str | None = None, home: Any = None) -> Dataset:
    """The recordings of a dataset, by its name or number: from chunks where these are of the present rows, else from
    the rows, of which chunks are then made.

    Raises:
        InputError: there is no such dataset.
        BudgetError: the host has no memory for all of it and for what is computed from it; nothing is read then.
    """
    database = Database.at(url, home)
    with database.session() as connection:
        migrate(connection)
        stored = _require(connection, name)
        _check_memory(connection, stored)
        labels = _labels(connection, stored.id)
    known = {info.name for info in chunks.list_datasets(url, home=home)}
    if stored.chunk_name in known:
        rows = chunks.postgres(stored.chunk_name, url, home=home)
        assert isinstance(rows, chunks.PostgresDataset)
        recordings = Recordings(**rows.gather(np.arange(len(rows))), names=labels)
        rows.close()
    else:
        with database.session() as connection, connection.transaction():
            connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
            recordings = _read_rows(connection, stored.id, labels)
        _write_chunks(stored, recordings, url, home)
    return Dataset(stored.name, recordings, stored.scenario, stored.seed)


def _check_memory(connection: "Connection[Any]", stored: Stored) -> None:
    row = connection.execute(
        "SELECT (SELECT count(*) FROM locate.recording WHERE dataset = %s), "
        "(SELECT coalesce(max(slot), 0) + 1 FROM locate.measurement WHERE dataset = %s)",
        (stored.id, stored.id),
    ).fetchone()
    assert row is not None
    count, receivers = int(row[0]), max(3, int(row[1]))
    needed, free = _WORKING * count * recording_bytes(receivers), devices.memory(torch.device("cpu")).free
    if needed > free:
        raise BudgetError(
            f"dataset {stored.name!r}: {count:,} recordings of up to {receivers} receivers take "
            f"{format_bytes(count * recording_bytes(receivers))}, and {_WORKING} times that while they are checked and "
            f"scaled: {format_bytes(needed)}, of which the host has {format_bytes(free)}. Free some memory, or "
            "divide the dataset and name one part of it"
        )


def check(name: str, url: str | None = None, home: Any = None) -> None:
    """Raises `InputError` where there is no such dataset; nothing of it is read."""
    with Database.at(url, home).session() as connection:
        migrate(connection)
        _require(connection, name)


def delete(name: str, url: str | None = None, home: Any = None) -> None:
    """Removes a dataset, its rows and its chunks."""
    with Database.at(url, home).session() as connection:
        migrate(connection)
        stored = _find(connection, name)
        if stored is None:
            raise InputError(f"there is no dataset {name!r}")
        connection.execute("DELETE FROM locate.dataset WHERE id = %s", (stored.id,))
    _delete_chunks(stored.id, url, home)


def _require(connection: "Connection[Any]", name: str) -> Stored:
    stored = _find(connection, name)
    if stored is None:
        names = [row[0] for row in connection.execute("SELECT name FROM locate.dataset ORDER BY id").fetchall()]
        there = f"there are {', '.join(names)}" if names else "the database holds none"
        raise InputError(f"there is no dataset {name!r}; {there}. Name one of these, or a .parquet or .csv file")
    return stored


def _find(connection: "Connection[Any]", name: str) -> Stored | None:
    row = connection.execute(
        "SELECT id, name, scenario, seed, version FROM locate.dataset WHERE name = %s OR id::text = %s "
        "ORDER BY name = %s DESC LIMIT 1",
        (name, name, name),
    ).fetchone()
    if row is None:
        return None
    return Stored(row[0], row[1], None if row[2] is None else build(Scenario, row[2]), row[3], row[4])


def _labels(connection: "Connection[Any]", dataset: int) -> np.ndarray | None:
    rows = connection.execute(
        "SELECT coalesce(name, number::text) FROM locate.recording WHERE dataset = %s AND "
        "EXISTS (SELECT FROM locate.recording WHERE dataset = %s AND name IS NOT NULL) ORDER BY number",
        (dataset, dataset),
    ).fetchall()
    return np.array([row[0] for row in rows], dtype=str) if rows else None


def _read_rows(connection: "Connection[Any]", dataset: int, labels: np.ndarray | None) -> Recordings:
    nan = "'NaN'"
    numbers = ("transmitter_latitude", "transmitter_longitude")
    reals = ("power_dbm", "gdop")
    listed = ", ".join(
        [f"coalesce({name}, {nan}::float8)" for name in numbers] + [f"coalesce({name}, {nan}::real)" for name in reals]
    )
    recording = copy_out(
        connection,
        f"SELECT number, {listed} FROM locate.recording WHERE dataset = {dataset} ORDER BY number",
        {"number": "i4", **dict.fromkeys(numbers, "f8"), **dict.fromkeys(reals, "f4")},
    )
    if not len(recording["number"]):
        raise InputError(f"dataset {dataset} has no recordings; import it again")
    listed = ", ".join(f"coalesce({name}, {nan}::real)" for name in _MEASURED)
    measured = copy_out(
        connection,
        f"SELECT recording, slot, latitude, longitude, detected, {listed} FROM locate.measurement m "
        f"JOIN locate.receiver r ON r.id = m.receiver WHERE dataset = {dataset}",
        {
            "recording": "i4",
            "slot": "i2",
            "latitude": "f8",
            "longitude": "f8",
            "detected": "?",
            **dict.fromkeys(_MEASURED, "f4"),
        },
    )
    row = np.searchsorted(recording["number"], measured["recording"])
    shape = (len(recording["number"]), max(3, int(measured["slot"].max(initial=0)) + 1))

    def grid(values: Any, fill: Any, dtype: Any) -> np.ndarray:
        filled = np.full(shape, fill, dtype)
        filled[row, measured["slot"]] = values
        return filled

    return Recordings.of(
        positions=np.stack([grid(measured[name], 0.0, np.float64) for name in ("latitude", "longitude")], -1),
        mask=grid(True, False, bool),
        detected=grid(measured["detected"], False, bool),
        **{name: grid(measured[name], np.nan, np.float32) for name in _MEASURED},
        transmitter=torch.from_numpy(np.stack([recording[name] for name in numbers], -1)),
        power_dbm=recording["power_dbm"],
        gdop=recording["gdop"],
        names=labels,
    )


def _write_chunks(stored: Stored, recordings: Recordings, url: str | None, home: Any) -> None:
    _delete_chunks(stored.id, url, home)
    with contextlib.suppress(InputError):  # another process has just made them
        tensors = {name: getattr(recordings, name).contiguous() for name in TENSORS}
        chunks.import_dataset(tensors, stored.chunk_name, url, home=home)


def _delete_chunks(dataset: int, url: str | None, home: Any) -> None:
    for info in chunks.list_datasets(url, home=home):
        if info.name.startswith(f"locate-{dataset}-"):
            with contextlib.suppress(StorageError, InputError):  # someone still reads them
                chunks.delete_dataset(info.name, url, home=home)
