"""What goes wrong with a database, and what happens then: retried, rebuilt or refused; never other data in silence."""

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
import pytest
import torch

from brimful import BrimfulError, ConfigError, InputError, MissingExtraError, StorageError, data
from brimful.core.base import extras
from brimful.core.runs.context import RunContext
from brimful.core.runs.events import BatchDone, Event, Events, Finished
from brimful.data import database as db
from brimful.data.database import build, chunk_format, connection, server
from brimful.data.database.reader import ChunkReader

from .conftest import Server, same


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunk_format.rows_per_chunk, "__defaults__", (4_000,))
    monkeypatch.setattr(connection, "RETRIES", (0.05, 0.1, 0.2, 0.5, 1.0))


def test_a_connection_that_is_lost_after_the_last_chunk_costs_nothing(
    own: Server, rows: dict[str, Any], monkeypatch: pytest.MonkeyPatch
):
    dataset, attempt, left = own.open(own.put(rows)), ChunkReader._attempt, [1]

    def lost_at_the_end(self: ChunkReader, *args: Any) -> None:
        attempt(self, *args)
        if left and left.pop():
            raise psycopg.OperationalError("the connection was lost")

    monkeypatch.setattr(ChunkReader, "_attempt", lost_at_the_end)
    last = -(-len(dataset) // dataset.chunk_rows) - 1
    chunk = dataset.read(last)
    assert all(same(chunk[name], part[last * dataset.chunk_rows :]) for name, part in rows.items())
    dataset.close()


def test_a_dropped_connection_in_mid_load_is_opened_again(own: Server, rows: dict[str, Any]):
    dataset = own.open(own.put(rows))
    loaded = []
    for chunk in range(dataset._reader.chunks.chunks):
        loaded.append(dataset.read(chunk))
        if chunk % 3 == 0:
            assert own.terminate_others() > 0
    assert all(same(torch.cat([part[name] for part in loaded]), rows[name]) for name in rows)


def test_a_server_that_is_restarted_in_mid_load_is_waited_for(own: Server, rows: dict[str, Any]):
    dataset = own.open(own.put(rows))
    first = dataset.read(0)
    server._stop(Path(own.home))  # another process starts it again, or this one does when it reads
    rest = [dataset.read(chunk) for chunk in range(1, dataset._reader.chunks.chunks)]
    assert all(same(torch.cat([part[name] for part in [first, *rest]]), rows[name]) for name in rows)


def test_a_damaged_chunk_is_refused_and_built_again_from_the_rows(shared: Server, rows: dict[str, Any]):
    name = shared.put(rows)
    dataset = shared.open(name)
    (table,) = shared.execute("SELECT 'brimful.chunks_' || id || '_1' FROM brimful.dataset WHERE name = %s", name)
    shared.execute(f"UPDATE {table[0]} SET data = set_byte(data, 77, get_byte(data, 77) # 1) WHERE chunk = 2")
    dataset.read(1)
    with pytest.raises(StorageError, match=r"chunk 2 of dataset .* is damaged.*--anew"):
        dataset.read(2)
    with pytest.raises(StorageError, match="chunk 2"):
        dataset.whole(torch.device("cpu"))
    dataset.close()
    faults = db.verify_dataset(name, home=shared.home).faults
    assert len(faults) == 1
    assert "chunk 2" in faults[0]
    db.build_dataset_chunks(name, home=shared.home, anew=True)
    assert db.verify_dataset(name, home=shared.home).faults == ()
    assert same(shared.open(name).column("features"), rows["features"])


def test_a_missing_chunk_is_refused(shared: Server, rows: dict[str, Any]):
    name = shared.put(rows)
    (table,) = shared.execute("SELECT 'brimful.chunks_' || id || '_1' FROM brimful.dataset WHERE name = %s", name)
    shared.execute(f"DELETE FROM {table[0]} WHERE chunk = 1")
    with pytest.raises(StorageError, match=r"chunk 1 of dataset .* is missing"):
        shared.open(name).read(1)


def test_rows_that_change_under_a_run_are_not_seen_by_it(shared: Server):
    name = shared.put({"x": np.zeros(4_000)})
    dataset = shared.open(name)
    dataset.read(0)
    shared.execute(f"UPDATE brimful_data.{name} SET x = 1")
    assert not db.show_dataset(name, home=shared.home).fresh
    with pytest.raises(InputError, match="are newer than its chunks"):
        shared.open(name, rebuild=False)
    assert shared.open(name).column("x").sum() == 4_000
    assert dataset.column("x").sum() == 0  # pinned to what it was opened with


def test_a_run_whose_chunks_were_dropped_is_told(shared: Server):
    name = shared.put({"x": np.zeros(4_000)})
    dataset = shared.open(name)
    dataset.read(0)
    dataset.close()  # nothing keeps the chunks
    shared.execute(f"UPDATE brimful_data.{name} SET x = 1")
    shared.open(name)
    with pytest.raises(StorageError, match=r"version 1 of dataset .* are no longer there"):
        dataset.read(1)


def test_every_way_of_changing_rows_raises_the_version(shared: Server):
    name = shared.put({"x": np.zeros(10), "k": np.arange(10)})
    for statement in (
        "INSERT INTO brimful_data.{} VALUES (10, 1.5, 10)",
        "DELETE FROM brimful_data.{} WHERE k = 3",
        "COPY brimful_data.{} FROM PROGRAM 'printf ''20\t1\t20\n'''",
        "TRUNCATE brimful_data.{}",
    ):
        before = db.show_dataset(name, home=shared.home)
        shared.execute(statement.format(name))
        after = db.show_dataset(name, home=shared.home)
        assert after.version == before.version + 1
        assert not after.fresh
        if "TRUNCATE" not in statement:
            dataset = shared.open(name)
            assert dataset.column("k").tolist() == [
                row[0] for row in shared.execute(f"SELECT k FROM brimful_data.{name} ORDER BY row_id")
            ]
    with pytest.raises(InputError, match="has no rows"):
        shared.open(name)


def test_what_no_trigger_saw_is_seen_by_verify(shared: Server):
    name = shared.put({"x": np.zeros(10)})
    shared.execute(
        f"ALTER TABLE brimful_data.{name} DISABLE TRIGGER ALL; UPDATE brimful_data.{name} SET x = 1 WHERE row_id = 4"
    )
    assert "does not hold what the rows say" in db.verify_dataset(name, home=shared.home).faults[0]
    shared.execute(f"DELETE FROM brimful_data.{name} WHERE row_id = 4")
    assert "there are 9 rows" in db.verify_dataset(name, home=shared.home).faults[0]


def test_two_builders_build_once(shared: Server, monkeypatch: pytest.MonkeyPatch):
    name = shared.put({"x": np.zeros(3_000)})
    shared.execute(f"UPDATE brimful_data.{name} SET x = row_id")
    built, write = [], build.write_chunks
    monkeypatch.setattr(build, "write_chunks", lambda *args: built.append(1) or write(*args))
    together = threading.Barrier(4)

    def open_it(_: int) -> float:
        together.wait(30)
        return float(shared.open(name).column("x").sum())

    with ThreadPoolExecutor(4) as pool:
        assert set(pool.map(open_it, range(4))) == {3_000 * 2_999 / 2}
    assert built == [1]


def test_a_builder_that_is_cancelled_or_fails_leaves_nothing(shared: Server):
    context, name = RunContext(), shared.name()
    context.cancel.set()
    with pytest.raises(BrimfulError, match="cancelled"):
        db.import_dataset(np.zeros(10), name, home=shared.home, context=context)
    assert name not in [info.name for info in db.list_datasets(home=shared.home)]
    assert shared.execute("SELECT to_regclass(%s)", f"brimful_data.{name}") == [(None,)]


def test_progress_is_emitted(shared: Server):
    seen: list[Event] = []
    db.import_dataset(
        np.zeros((100, 100_000), np.uint8), shared.name(), home=shared.home, context=RunContext(Events(seen.append))
    )
    assert sum(event.items for event in seen if isinstance(event, BatchDone)) == 100
    assert isinstance(seen[-1], Finished)


def test_a_table_that_no_longer_matches_is_refused(shared: Server):
    name = shared.put({"x": np.zeros(10)})
    shared.execute(f"ALTER TABLE brimful_data.{name} ADD y integer")
    with pytest.raises(
        InputError, match=r"have the columns x \(double precision\), y \(integer, may be NULL\).*imported with x"
    ):
        shared.open(name)
    shared.execute(f"ALTER TABLE brimful_data.{name} DROP y, ALTER x TYPE real")
    with pytest.raises(InputError, match=r"x \(real\)"):
        db.build_dataset_chunks(name, home=shared.home, anew=True)
    shared.execute(f"DROP TABLE brimful_data.{name}")
    with pytest.raises(InputError, match="the table is gone"):
        shared.open(name)


def test_rows_that_do_not_fit_the_columns_are_refused_by_the_server_or_by_the_builder(shared: Server):
    name = shared.put({"x": np.zeros((5, 3), np.float32)})
    for bad in ("NULL", "'{1,2}'", "'{{1,2,3}}'"):
        with pytest.raises(psycopg.IntegrityError):
            shared.execute(f"INSERT INTO brimful_data.{name} VALUES (9, {bad})")
    shared.execute(f"INSERT INTO brimful_data.{name} VALUES (9, '{{1,NULL,3}}')")
    with pytest.raises(InputError, match="row 5 has a NULL"):
        shared.open(name)


def test_a_set_of_chunks_of_a_later_format_is_not_read(shared: Server):
    name = shared.put({"x": np.zeros(10)})
    shared.execute("UPDATE brimful.dataset SET format = 99 WHERE name = %s", name)
    with pytest.raises(StorageError, match="format 99"):
        shared.open(name)
    shared.execute("DELETE FROM brimful.dataset WHERE name = %s", name)


def test_empty_data_and_nulls_are_refused_before_anything_is_written(shared: Server):
    import pyarrow as pa

    with pytest.raises(InputError, match="no samples"):
        db.import_dataset(np.zeros((0, 3)), shared.name(), home=shared.home)
    with pytest.raises(InputError, match="column 'k' is null in row 1"):
        db.import_dataset(pa.table({"k": [1, None]}), shared.name(), home=shared.home)
    name = shared.put(pa.table({"x": [1.0, None]}))
    assert torch.isnan(shared.open(name).column("x")[1])


def test_no_server_at_the_url(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(connection, "RETRIES", (0.0, 0.0))
    with pytest.raises(StorageError, match=r"postgresql://me:\*\*\*@127.0.0.1:9/x cannot be reached, after 3 attempts"):
        data.postgres("d", "postgresql://me:secret@127.0.0.1:9/x")
    with pytest.raises(ConfigError, match="give postgresql://user"):
        data.postgres("d", "mysql://x")


def test_a_wrong_password_is_refused_at_once_and_not_shown(own: Server, monkeypatch: pytest.MonkeyPatch):
    url = own.url
    own.execute("DROP ROLE IF EXISTS guest")
    own.execute("CREATE ROLE guest LOGIN PASSWORD 'right'")
    rules = Path(own.home) / "data" / "pg_hba.conf"
    rules.write_text("local all guest scram-sha-256\n" + rules.read_text())
    own.execute("SELECT pg_reload_conf()")
    monkeypatch.setattr(connection.time, "sleep", lambda seconds: pytest.fail("it was tried again"))
    with pytest.raises(ConfigError, match="refuses the login") as error:
        db.list_datasets(url.replace("postgres@", "guest:wrong@"))
    assert "wrong" not in str(error.value)
    with connection.Database.at(url.replace("postgres@", "guest:right@")).session() as guest:
        assert guest.execute("SELECT current_user").fetchone() == ("guest",)
    with (
        pytest.raises(ConfigError, match="does not allow it"),
        connection.Database.at(url.replace("postgres@", "guest:right@")).session() as guest,
    ):
        guest.execute("SELECT * FROM pg_authid")
    with pytest.raises(ConfigError, match="has no database 'nope'"):
        db.list_datasets(url.replace("/postgres?", "/nope?"))


def test_the_extra_is_named_where_it_is_missing(monkeypatch: pytest.MonkeyPatch, shared: Server):
    def missing(module: str) -> Any:
        raise ModuleNotFoundError(module)

    monkeypatch.setattr(extras.importlib, "import_module", missing)
    with pytest.raises(MissingExtraError, match=r"pip install 'brimful\[postgres\]'"):
        data.postgres("d", home=shared.home)
