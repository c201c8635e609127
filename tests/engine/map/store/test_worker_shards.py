"""Shards that workers write: they count when the driver has taken them, and are then like its own."""

import pickle
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from brimful import InputError, StorageError
from brimful.engine.map.batch import BatchResult
from brimful.engine.map.store import worker_shards
from brimful.engine.map.store.shards import Shards
from brimful.engine.map.store.worker_shards import WorkerShards

from ..mapping import same


def result(start: int, count: int, width: int = 3) -> BatchResult:
    values = {"x": torch.arange(start * width, (start + count) * width).reshape(count, width) / 7}
    status = np.zeros(count, np.int8)
    status[0] = 3
    return BatchResult(start, count, values, status, {0: "why"})


def columns(shards: Shards, count: int) -> torch.Tensor:
    values = shards.values(count)
    assert values is not None
    return values["x"]


def written(folder: Path, done: BatchResult) -> BatchResult:
    """As a worker writes it, and it comes to the driver."""
    index = np.arange(done.start, done.start + done.count)
    sent = WorkerShards(str(folder), "me").write(done, index)
    assert sent.values is None and len(pickle.dumps(sent)) < 2000
    return pickle.loads(pickle.dumps(sent))


def test_shards_of_workers_and_of_the_driver_are_the_same(tmp_path: Path):
    (here := tmp_path / "here").mkdir()
    (there := tmp_path / "there").mkdir()
    own, adopted = Shards(here, "me"), Shards(there, "me")
    for start in (100, 0, 50):
        done, index = result(start, 50), np.arange(start, start + 50)
        own.write(done, index)
        sent = written(there, result(start, 50))
        assert sent.value_bytes == done.value_bytes and sent.varies == done.varies
        adopted.write(sent, index)
    names = sorted(path.name for path in here.iterdir())
    assert names == sorted(path.name for path in there.iterdir())
    assert [(here / name).read_bytes() for name in names] == [(there / name).read_bytes() for name in names]
    assert same(columns(adopted, 150), columns(own, 150))


def test_many_of_them_are_collected(tmp_path: Path):
    shards = Shards(tmp_path, "me")
    for number in range(40):
        shards.write(written(tmp_path, result(10 * number, 10)), np.arange(10 * number, 10 * number + 10))
    assert len(list(tmp_path.glob("shard-*"))) == 9
    assert torch.equal(columns(shards, 400), torch.arange(1200).reshape(400, 3) / 7)


def test_what_a_dead_worker_wrote_counts_for_nothing_and_is_removed(tmp_path: Path):
    """The range was split meanwhile, and others have done its parts."""
    shards, late = Shards(tmp_path, "me"), written(tmp_path, result(0, 20))
    for start in (0, 10):
        shards.write(written(tmp_path, result(start, 10)), np.arange(start, start + 10))
    assert [span for span, _ in Shards(tmp_path, "me").finished()] == [(0, 10), (10, 20)]
    assert len(pd.read_parquet(tmp_path)) == 20
    shards.remove_abandoned()
    assert sorted(path.suffix for path in tmp_path.iterdir()) == [".parquet"] * 2
    with pytest.raises(StorageError, match="cannot write"):
        shards.write(late, np.arange(20))


def test_another_form_is_refused_and_a_full_disk_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    shards = Shards(tmp_path, "me")
    shards.write(written(tmp_path, result(0, 5)), np.arange(5))
    with pytest.raises(InputError, match="for one batch and"):
        shards.write(written(tmp_path, result(5, 5, width=2)), np.arange(5, 10))

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(worker_shards, "sync", full)
    shards.remove_abandoned()
    with pytest.raises(StorageError, match="the disk is full"):
        written(tmp_path, result(10, 5))
    assert not list(tmp_path.glob(".shard-*"))
