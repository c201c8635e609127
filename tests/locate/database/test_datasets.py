"""Datasets of recordings in PostgreSQL."""

import uuid
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
import pytest
import torch

from brimful import BudgetError, InputError, StorageError, locate
from brimful.core.memory import devices
from brimful.data import database as chunks
from brimful.data.database.connection import Database
from brimful.locate import Dataset, Recordings
from brimful.locate.data.files import TENSORS
from brimful.locate.database import datasets
from brimful.locate.database.schema import MIGRATIONS, migrate

from ..helpers import SCENARIO, TINY, recordings


def same(one: Recordings, two: Recordings) -> bool:
    pairs = ((getattr(one, name), getattr(two, name)) for name in TENSORS)
    return all(
        first.dtype == second.dtype and torch.equal(first.nan_to_num(), second.nan_to_num()) for first, second in pairs
    )


def execute(text: str, *values: Any) -> list[Any]:
    with psycopg.connect(Database.at().uri(), autocommit=True) as connection:
        cursor = connection.execute(text.encode(), values or None)
        return cursor.fetchall() if cursor.description else []


@pytest.fixture
def stored() -> datasets.Stored:
    some = recordings().select(slice(0, 60))
    return datasets.write(Dataset(f"t{uuid.uuid4().hex[:8]}", some, SCENARIO, 0))


def test_what_was_written_comes_back_from_chunks_and_from_rows(stored: datasets.Stored):
    some = recordings().select(slice(0, 60))
    from_chunks = datasets.read(stored.name)
    assert same(from_chunks.recordings, some)
    assert (from_chunks.scenario, from_chunks.seed) == (SCENARIO, 0)
    chunks.delete_dataset(stored.chunk_name)
    assert same(datasets.read(str(stored.id)).recordings, some)
    assert stored.chunk_name in {info.name for info in chunks.list_datasets()}  # made again


def test_a_change_of_rows_is_seen(stored: datasets.Stored):
    execute("DELETE FROM locate.recording WHERE dataset = %s AND number = 7", stored.id)
    changed = datasets.read(stored.name).recordings
    assert len(changed) == 59
    assert same(changed, recordings().select(torch.tensor([n for n in range(60) if n != 7])))
    execute("UPDATE locate.measurement SET snr_db = 40 WHERE dataset = %s AND detected", stored.id)
    louder = datasets.read(stored.name).recordings
    assert set(louder.snr_db[louder.detected].tolist()) == {40.0}
    assert stored.chunk_name not in {info.name for info in chunks.list_datasets()}


def test_receivers_are_there_once_and_silence_is_null(stored: datasets.Stored):
    sites = len(recordings().select(slice(0, 60)).positions[recordings().mask[:60]].unique(dim=0))
    used = execute("SELECT count(DISTINCT receiver) FROM locate.measurement WHERE dataset = %s", stored.id)
    assert used == [(sites,)]
    silent = execute(
        "SELECT count(*) FROM locate.measurement WHERE dataset = %s AND detected <> (snr_db IS NOT NULL)", stored.id
    )
    assert silent == [(0,)]


def test_measurements_of_nothing_are_refused(stored: datasets.Stored):
    insert = "INSERT INTO locate.measurement VALUES (%s, %s, 14, %s, false)"
    receiver = execute("SELECT min(id) FROM locate.receiver")[0][0]
    with pytest.raises(psycopg.errors.ForeignKeyViolation, match="a recording that does not exist"):
        execute(insert, stored.id, 60, receiver)
    with pytest.raises(psycopg.errors.ForeignKeyViolation, match="a receiver that does not exist"):
        execute(insert, stored.id, 0, -1)
    execute(insert, stored.id, 0, receiver)


def test_names_of_ones_own_recordings_are_kept():
    own = replace(recordings().select(slice(0, 3)), names=np.array(["alpha", "beta", "gamma"]))
    name = datasets.write(Dataset(f"t{uuid.uuid4().hex[:8]}", own)).name
    again = datasets.read(name)
    assert again.recordings.names is not None and again.recordings.names.tolist() == ["alpha", "beta", "gamma"]
    assert again.scenario is None


def test_trained_from_the_database_as_from_memory(stored: datasets.Stored, tmp_path: Path):
    dataset = Dataset("memory", recordings().select(slice(0, 60)), SCENARIO, 0)
    options: dict[str, Any] = TINY | {"epochs": 1}
    one, two = (locate.train(source, **options) for source in (stored.name, dataset))
    pairs = zip(one.model.state_dict().values(), two.model.state_dict().values(), strict=True)
    assert all(torch.equal(first, second) for first, second in pairs)


def test_what_the_host_has_no_memory_for_is_refused_unread(stored: datasets.Stored, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(devices, "memory", lambda device: devices.Memory(total=10**9, free=30_000, own=0))
    monkeypatch.setattr(chunks, "postgres", None)
    with pytest.raises(BudgetError, match=f"dataset '{stored.name}': 60 recordings .* of which the host has 30.00 kB"):
        locate.train(stored.name, device="cpu")


def test_unknown_and_known_names(stored: datasets.Stored):
    with pytest.raises(InputError, match=f"there is no dataset 'nowhere'; there are .*{stored.name}"):
        locate.train("nowhere", device="cpu")
    with pytest.raises(InputError, match="already; choose another name"):
        datasets.write(Dataset(stored.name, recordings().select(slice(0, 3))))
    datasets.delete(stored.name)
    with pytest.raises(InputError, match="there is no dataset"):
        datasets.read(stored.name)
    assert execute("SELECT count(*) FROM locate.measurement WHERE dataset = %s", stored.id) == [(0,)]


def test_migrations_build_on_each_other():
    url = Database.at().uri()
    name = f"t{uuid.uuid4().hex[:8]}"
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())
    other = url.rpartition("/")[0] + f"/{name}" if "?" not in url else url.replace("/postgres?", f"/{name}?")
    with psycopg.connect(other, autocommit=True) as connection:
        assert migrate(connection, 1) == 0
        connection.execute("INSERT INTO locate.dataset (name) VALUES ('old')")
        assert migrate(connection) == 1
        assert migrate(connection) == len(MIGRATIONS)
        assert connection.execute("SELECT version FROM locate.dataset").fetchall() == [(1,)]
        connection.execute("INSERT INTO locate.migration VALUES (99)")
        with pytest.raises(StorageError, match="of version 99"):
            migrate(connection)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"DROP DATABASE {name}".encode())
