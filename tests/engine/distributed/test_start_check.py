"""What ranks check before their first step, and how one's failure reaches the others. Threads stand in for ranks."""

import contextlib
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.distributed import HashStore

from brimful import ConfigError, InputError, StorageError, WorkerError
from brimful.engine.distributed import rank_store, start_check
from brimful.engine.distributed.rank_store import RankStore
from brimful.engine.distributed.start_check import check_alike, check_data, check_shared, describe_rank

CPU = describe_rank(torch.device("cpu"))


def on_ranks(function: Callable[[RankStore], Any], ranks: int = 3) -> list[Any]:
    """What the function returns or raises on each rank; an error is reported as `process_group` does."""
    store = HashStore()

    def one(rank: int) -> Any:
        own = RankStore(store, rank, ranks, run=0)
        try:
            return function(own)
        except Exception as error:
            own.report_failure(error)
            return error

    with ThreadPoolExecutor(ranks) as threads:
        return list(threads.map(one, range(ranks)))


def test_ranks_gather_and_broadcast():
    def exchange(store: RankStore) -> Any:
        return store.gather("squares", store.rank**2), store.broadcast("first", {"of": store.rank})

    assert on_ranks(exchange) == [([0, 1, 4], {"of": 0})] * 3


def test_a_rank_that_fails_is_read_on_the_others():
    def fails(store: RankStore) -> Any:
        if store.rank == 1:
            raise ValueError("a file is missing")
        return store.gather("any", 0)

    first, own, last = on_ranks(fails)
    assert isinstance(own, ValueError)
    for other in (first, last):
        assert isinstance(other, WorkerError) and "rank 1 on" in str(other) and "a file is missing" in str(other)


def test_the_first_reason_counts_and_effects_do_not():
    store = RankStore(HashStore(), 0, 2, run=0)
    store.report_failure(WorkerError("another rank is gone"))
    assert store.failure(wait=0) is None
    store.report_failure(ValueError("the cause"))
    store.report_failure(ValueError("later"))
    assert "the cause" in (store.failure(wait=0) or "")


def test_ranks_that_never_come_end_the_wait(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(rank_store, "START", 0.2)
    with pytest.raises(WorkerError, match=r"rank 0 of 2 has waited .* for the others to start"):
        RankStore(HashStore(), 0, 2, run=0).gather("any", 0)


def test_ranks_on_one_machine_and_restarts_are_counted():
    def alike(store: RankStore) -> Any:
        host = "a" if store.rank < 2 else "b"
        return check_alike(store, CPU | {"host": host, "restarts": store.rank})

    assert on_ranks(alike) == [(2, 2), (2, 2), (1, 2)]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"torch": "1.0"}, r"torch is 1\.0 on rank 2 \(b\) and .* on rank 0"),
        ({"device": "cuda"}, r"device is cuda on rank 2 \(b\) and cpu on rank 0"),
    ],
)
def test_ranks_that_differ_say_so_on_all(change: dict[str, Any], words: str):
    def differ(store: RankStore) -> Any:
        return check_alike(store, CPU | ({"host": "b", **change} if store.rank == 2 else {"host": "a"}))

    for error in on_ranks(differ):
        with pytest.raises(ConfigError, match=words):
            raise error


def test_two_ranks_with_one_gpu_are_refused():
    def on_gpus(store: RankStore) -> Any:
        return check_alike(store, CPU | {"device": "cuda", "gpu": ["x", "y", "x"][store.rank]})

    for error in on_ranks(on_gpus):
        with pytest.raises(ConfigError, match=r"ranks 0 and 2 .* have the same GPU.*--nproc-per-node 2"):
            raise error


def test_other_data_on_a_node_is_refused():
    for error in on_ranks(lambda store: check_data(store, "other" if store.rank == 1 else "same")):
        with pytest.raises(InputError, match=r"the data on rank 1 .* is not that of rank 0"):
            raise error
    assert on_ranks(lambda store: check_data(store, "same")) == [None] * 3


def test_a_directory_that_is_not_shared_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(start_check, "_VISIBLE", 0.1)
    folders = [tmp_path / name for name in ("shared", "shared", "own")]
    for folder in folders:
        folder.mkdir(exist_ok=True)
    for error in on_ranks(lambda store: check_shared(store, folders[store.rank])):
        with pytest.raises(StorageError, match=r"shared on rank 0 .*own on rank 2 .* not the same directory"):
            raise error
    assert on_ranks(lambda store: check_shared(store, folders[0])) == [None] * 3
    assert not list(tmp_path.rglob("*.part"))


def test_a_file_that_is_seen_late_is_seen(tmp_path: Path):
    late = threading.Timer(0.2, (tmp_path / "late").touch)
    with contextlib.closing(contextlib.ExitStack()) as stack:
        stack.callback(late.join)
        late.start()
        assert start_check._appears(tmp_path / "late")
