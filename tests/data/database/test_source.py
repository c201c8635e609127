"""A dataset in the database gives the rows that were imported, in every tier, in other processes, and by chunks."""

import pickle
import warnings
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

import brimful
from brimful import InputError, data
from brimful.data import database as db
from brimful.data.chunked import ChunkedSource, chunked, chunks_of
from brimful.data.database import chunk_format

from ...helpers.paths import ROOT
from .conftest import Server, same


def test_what_is_imported_is_what_is_read(shared: Server, rows: dict[str, Any]):
    dataset = shared.open(shared.put(rows))
    columns = dataset.whole(torch.device("cpu"))
    assert columns is not None
    assert list(columns) == list(rows)
    assert all(same(columns[name], rows[name]) for name in rows)
    assert dataset.nbytes == sum(torch.as_tensor(part).nbytes for part in rows.values())
    assert "300 samples" in repr(dataset)


def test_the_example_of_the_guide_runs(shared: Server, rows: dict[str, Any], capsys: pytest.CaptureFixture[str]):
    text = (ROOT / "docs" / "postgres.md").read_text().split("```python\n")[1].split("```")[0]
    names: dict[str, Any] = {}
    exec(
        text.replace('data.postgres("recordings")', f"data.postgres({shared.put(rows)!r}, home={shared.home!r})"), names
    )
    assert names["recordings"].nbytes > 0
    assert "300 samples" in capsys.readouterr().out


def test_loaders_give_the_same_batches_as_from_memory(shared: Server, rows: dict[str, Any]):
    dataset = shared.open(shared.put(rows), columns=["label", "features"])
    for tier in ("device", "pinned"):
        options: dict[str, Any] = {"batch_size": 32, "seed": 3, "device": "cpu", "tier": tier}
        ours = data.loader(dataset, **options)
        plain = data.loader({name: rows[name] for name in ("label", "features")}, **options)
        for batch, expected in zip(ours.epoch(1), plain.epoch(1), strict=True):
            assert list(batch) == ["label", "features"]
            assert all(same(batch[name], expected[name]) for name in expected)
        assert (
            ours.state()["fingerprint"]
            == data.loader(pickle.loads(pickle.dumps(dataset)), **options).state()["fingerprint"]
        )


def test_it_is_read_by_chunks_and_by_ranges(shared: Server, rows: dict[str, Any], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(chunk_format.rows_per_chunk, "__defaults__", (8_000,))
    dataset = shared.open(shared.put(rows))
    source: Any = dataset
    assert chunked(dataset) is source
    assert isinstance(source, ChunkedSource)
    assert 1 < dataset.chunk_rows < 50
    parts = [dataset.read(chunk) for chunk in range(chunks_of(dataset))]
    for name in rows:
        assert same(torch.cat([part[name] for part in parts]), rows[name])
    for start, stop in ((0, 300), (0, 1), (13, 114), (114, 115), (299, 300), (5, 5)):
        part, bad = dataset.load(slice(start, stop))
        assert not bad
        assert all(same(part[name], rows[name][start:stop]) for name in rows)


@pytest.mark.parametrize("columns", [None, ["target", "label"]])
def test_all_of_it_is_read_to_a_device_chunk_by_chunk(
    shared: Server, rows: dict[str, Any], columns: list[str] | None, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(chunk_format.rows_per_chunk, "__defaults__", (8_000,))
    dataset = shared.open(shared.put(rows), columns=columns)
    assert chunks_of(dataset) > 5
    for read in (dataset.read_whole(torch.device("cpu")), dataset.read_whole()):
        assert list(read) == (columns or list(rows))
        assert all(same(read[name], rows[name]) for name in read)
    dataset.close()


def _squared_error(model: Any, batch: Any) -> Any:
    return (model(batch["x"]) - batch["y"]).square().mean()


def test_train_gives_the_weights_that_it_gives_from_memory(shared: Server):
    chance = np.random.default_rng(0)
    rows = {"x": chance.normal(size=(40, 3)).astype(np.float32), "y": chance.normal(size=(40, 1)).astype(np.float32)}
    stored = shared.open(shared.put(rows))
    weights = []
    for source, ranks in ((rows, None), (stored, None), (stored, 2)):
        torch.manual_seed(0)
        model = torch.nn.Linear(3, 1)
        options: Any = {"epochs": 2, "batch_size": 8, "device": "cpu", "progress": False, "ranks": ranks}
        brimful.train(model, _squared_error, source, **options)
        weights.append(model.weight.detach())
    assert same(*weights[:2])
    torch.testing.assert_close(weights[2], weights[0], rtol=1e-5, atol=1e-6)  # ranks add up in another order


def test_map_reads_it(shared: Server):
    x = np.arange(50, dtype=np.float32).reshape(50, 1)
    dataset = shared.open(shared.put({"x": x}))
    result = brimful.map(lambda batch: batch["x"][:, 0] * 2, dataset, device="cpu", progress=False)
    assert same(result.values, torch.from_numpy(x[:, 0] * 2))


def _sum(dataset: db.PostgresDataset) -> float:
    return float(dataset.column("x").sum())


def test_it_survives_being_sent_to_another_process(shared: Server):
    dataset = shared.open(shared.put({"x": np.arange(100.0)}))
    assert _sum(dataset) == 4950  # connections are open
    assert _sum(pickle.loads(pickle.dumps(dataset))) == 4950
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # later Pythons warn of forking beside threads
        with ProcessPoolExecutor(1, mp_context=get_context("fork")) as pool:
            assert pool.submit(_sum, dataset).result(60) == 4950
    dataset.read(0)  # the parent's connections still work


def test_a_copy_reads_the_version_that_was_opened(shared: Server):
    name = shared.put({"x": np.zeros(10)})
    dataset = shared.open(name)
    dataset.read(0)
    copy = pickle.dumps(dataset)
    shared.execute(f"UPDATE brimful_data.{name} SET x = 1 WHERE row_id = 3")
    later = shared.open(name)
    assert later.version == 2
    assert later.read(0)["x"].sum() == 1
    assert pickle.loads(copy).read(0)["x"].sum() == 0  # the first one's connection keeps its chunks
    assert dataset.fingerprint() != later.fingerprint()


@pytest.mark.parametrize("kind", ["npy", "npz", "parquet", "csv"])
def test_files_are_imported(shared: Server, tmp_path: Path, kind: str):
    x, path = np.arange(12, dtype=np.float32).reshape(6, 2), tmp_path / f"data.{kind}"
    match kind:
        case "npy":
            np.save(path, x)
        case "npz":
            np.savez(path, value=x)
        case "parquet":
            pq.write_table(pa.table({"value": list(x)}), path)
        case "csv":
            path.write_text("value,other\n" + "\n".join(f"{row[0]},{row[1]:.0f}" for row in x))
    name = shared.name()
    info = db.import_dataset(path, name, home=shared.home, columns=["value"] if kind == "csv" else None)
    assert (info.rows, info.origin, info.fresh) == (6, str(path), True)
    read = shared.open(name).column("value")
    assert torch.equal(read.float(), torch.from_numpy(x[:, 0] if kind == "csv" else x))


def test_a_query_is_imported(shared: Server, rows: dict[str, Any]):
    first = shared.put(rows)
    name = shared.name()
    query = f"SELECT label, features FROM brimful_data.{first} WHERE label < 10 ORDER BY label DESC"
    info = db.import_dataset(query, name, home=shared.home)
    assert (info.rows, info.origin) == (10, query)
    dataset = shared.open(name)
    assert dataset.column("label").tolist() == list(range(9, -1, -1))
    assert dataset.fields["features"].shape == (42,)  # arrays have one axis in the table


def test_names_that_cannot_be(shared: Server):
    with pytest.raises(InputError, match="cannot be called 'a b'"):
        db.import_dataset(np.zeros(3), "a b", home=shared.home)
    name = shared.put(np.zeros(3))
    with pytest.raises(InputError, match=f"there is a dataset '{name}' already"):
        db.import_dataset(np.zeros(3), name, home=shared.home)
    with pytest.raises(InputError, match="there is no dataset 'nothere'"):
        db.postgres("nothere", home=shared.home)
    with pytest.raises(InputError, match="has no column 'k'"):
        shared.open(name, columns=["k"])


def test_datasets_are_listed_and_deleted(shared: Server):
    name = shared.put({"x": np.zeros((4, 3), np.float32)})
    assert name in [info.name for info in db.list_datasets(home=shared.home)]
    info = db.show_dataset(name, home=shared.home)
    assert (info.rows, info.bytes, info.sample_bytes, info.fields) == (4, 48, 12, {"x": "float32 [3]"})
    assert info.disk_bytes > 48
    dataset = shared.open(name)
    dataset.read(0)
    with pytest.raises(brimful.StorageError, match="is being read by a run"):
        db.delete_dataset(name, home=shared.home)
    dataset.close()
    db.delete_dataset(name, home=shared.home)
    assert name not in [info.name for info in db.list_datasets(home=shared.home)]


def test_connections_end_with_the_dataset(shared: Server):
    name = shared.put({"x": np.zeros(4)})
    dataset = shared.open(name)
    dataset.column("x")
    del dataset
    db.delete_dataset(name, home=shared.home)  # nobody reads it


def test_reading_is_measured(shared: Server):
    rate = db.bench_dataset(shared.put({"x": np.zeros((100, 1000), np.float32)}), home=shared.home, connections=2)
    assert rate.bytes == 400_000
    assert rate.megabytes_per_second > 0
