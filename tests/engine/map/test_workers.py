"""Several workers on one map: the same values, and work that is taken over when one dies."""

import functools
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from brimful import InputError, Status, WorkerError
from brimful.core.runs.events import BatchDone, Event
from brimful.engine.distributed import workers
from brimful.engine.map.sources import DatasetSource

from ...helpers.forking import ForkedProcess
from ...helpers.worker_processes import worker_pids
from .mapping import EventLog, double, rows, run, same, stamped, stream

TWO = ["cpu", "cpu"]


def picky(x: torch.Tensor) -> torch.Tensor:
    if (x[:, 0] == 50).any():
        raise ValueError("fifty")
    return torch.where(x == 60, float("inf"), stamped(x))


def deadly(x: torch.Tensor, *, trap: str, once: bool) -> torch.Tensor:
    """Ends its process on one item while the trap is there."""
    if (x[:, 0] == 200).any() and Path(trap).exists():
        if once:
            Path(trap).unlink()
        os._exit(9)
    time.sleep(0.002)
    return stamped(x)


def hungry(x: torch.Tensor) -> torch.Tensor:
    if len(x) > 5:
        raise torch.OutOfMemoryError("CUDA out of memory")
    return double(x)


def overflowing(x: torch.Tensor) -> torch.Tensor:
    return x * 1e38


def wrong(x: torch.Tensor) -> torch.Tensor:
    raise KeyError("no such thing")


def sleepy(x: torch.Tensor) -> torch.Tensor:
    time.sleep(0.02)
    return stamped(x)


@pytest.fixture
def pids() -> Iterator[list[int]]:
    """The pids of the workers, in the order of starting; none of them is left when the test ends."""
    with worker_pids() as started:
        yield started
    assert not [pid for pid in started if psutil.pid_exists(pid)]


def test_two_workers_give_what_one_gives(pids: list[int]):
    log = EventLog()
    result = run(stamped, rows(400), batch_size=8, device=TWO, progress=log)
    assert same(result.values, run(stamped, rows(400), batch_size=8).values)
    assert result.ok.all()
    assert result.plan.devices == ("cpu", "cpu")
    assert sum(event.items for event in log.of(BatchDone)) == 400
    assert len(pids) == 2


def test_a_bad_item_among_two_workers():
    result = run(picky, rows(100), batch_size=10, device="cpu,cpu")
    assert np.flatnonzero(result.status).tolist() == [50, 60]
    assert result.messages == {50: "ValueError: fifty", 60: "the result is not finite"}
    good = [item for item in range(100) if item not in (50, 60)]
    assert same(result.values[good], run(stamped, rows(100), batch_size=10).values[good])


def test_weights_and_a_fallback_among_two_workers():
    result = run(overflowing, rows(50), weight=np.arange(1, 51), device=TWO, fallback=double)
    assert same(result.values[30:], rows(50)[30:] * 2)
    assert (result.status[30:] == Status.RESCUED).all()
    assert result.ok.all()


def test_memory_that_runs_out_in_a_worker():
    log = EventLog()
    result = run(hungry, rows(200), batch_size=16, device=TWO, progress=log)
    assert same(result.values, rows(200) * 2)
    assert result.ok.all()
    assert any("out of memory on" in warning for warning in log.warnings)


@pytest.mark.parametrize("batch", [7, "auto"])
def test_a_stream_among_two_workers(batch: Any):
    result = run(double, stream(500), batch_size=batch, device=TWO)
    assert same(result.values, rows(500) * 2)
    assert result.status.tolist() == [0] * 500


def test_a_worker_that_dies_is_replaced_by_the_others(tmp_path: Path):
    log, trap = EventLog(), tmp_path / "trap"
    trap.touch()
    function = functools.partial(deadly, trap=str(trap), once=True)
    result = run(function, rows(400), batch_size=8, device=TWO, progress=log, out=tmp_path / "run")
    assert same(result.values, run(stamped, rows(400), batch_size=8).values)
    assert result.status.tolist() == [0] * 400
    assert len(log.warnings) == 1
    assert "died (exit code 9); the others take over" in log.warnings[0]


def test_an_item_that_kills_every_worker_ends_the_run_and_keeps_what_was_finished(tmp_path: Path):
    trap = tmp_path / "trap"
    trap.touch()
    function = functools.partial(deadly, trap=str(trap), once=False)
    with pytest.raises(WorkerError, match=r"exit code 9.*what was finished is kept"):
        run(function, rows(400), batch_size=8, device=TWO, out=tmp_path / "run")
    kept = [tuple(map(int, path.stem.split("-")[1:])) for path in (tmp_path / "run").glob("shard-*")]
    assert len(kept) >= 10
    trap.unlink()
    log = EventLog()
    result = run(function, rows(400), batch_size=8, out=tmp_path / "run", progress=log)
    assert same(result.values, run(stamped, rows(400), batch_size=8).values)
    assert sum(event.items for event in log.of(BatchDone)) == 400 - sum(stop - start for start, stop in kept)


@pytest.mark.parametrize("device", ["cpu", "cpu,cpu"])
def test_an_item_that_kills_every_worker_is_flagged_where_that_was_asked_for(tmp_path: Path, device: str):
    """Its neighbors have the bits of a run without it."""
    trap = tmp_path / "trap"
    trap.touch()
    function, log = functools.partial(deadly, trap=str(trap), once=False), EventLog()
    result = run(function, rows(400, 1) * 3, batch_size=8, device=device, on_crash="flag", progress=log)
    assert np.flatnonzero(result.status).tolist() == [200]
    assert result.status[200] == Status.FAILED
    assert result.messages == {200: "it ended its worker (exit code 9)"}
    good = result.ok
    assert same(result.values[good], run(stamped, rows(400, 1) * 3, batch_size=8).values[good])
    assert sum(event.items for event in log.of(BatchDone)) == 400
    assert any("the item that ends it is looked for" in warning for warning in log.warnings)


def test_a_worker_killed_from_outside(pids: list[int]):
    killed: list[int] = []

    def killer(event: Event) -> None:
        if isinstance(event, BatchDone) and event.done >= 60 and not killed:
            killed.append(pids[0])
            os.kill(killed[0], signal.SIGKILL)

    result = run(sleepy, rows(300), batch_size=10, device=TWO, progress=killer)
    assert killed
    assert same(result.values, run(stamped, rows(300), batch_size=10).values)


def test_a_worker_killed_before_its_first_word(pids: list[int], monkeypatch: pytest.MonkeyPatch):
    """Killed by the system, say: that says nothing against the script, and the other one does the work."""

    start: Any = workers._spawn

    def start_and_kill(*arguments: Any) -> ForkedProcess:
        process = start(*arguments)
        if len(pids) == 1:
            os.kill(pids[0], signal.SIGKILL)
        return process

    monkeypatch.setattr(workers, "_spawn", start_and_kill)
    log = EventLog()
    result = run(sleepy, rows(100), batch_size=10, device=TWO, progress=log)
    assert len(pids) == 2
    assert same(result.values, run(stamped, rows(100), batch_size=10).values)
    assert sum("died (exit code -9); the others take over" in warning for warning in log.warnings) == 1


def test_a_wrong_function_raises_its_own_error():
    with pytest.raises(KeyError, match="no such thing") as caught:
        run(wrong, rows(100), batch_size=20, device=TWO)
    assert any("has not worked once" in note for note in caught.value.__notes__)


def test_a_function_that_cannot_be_sent_is_refused():
    with pytest.raises(InputError, match="top level of a module"):
        run(lambda x: x, rows(10), device=TWO)


def read_here(batch: dict[str, torch.Tensor], *, parent: int) -> torch.Tensor:
    assert os.getpid() != parent
    return batch["x"] * 2 + len(batch["x"]) / 7


@pytest.mark.parametrize("kind", ["parquet", "npy"])
def test_workers_read_items_on_disk_themselves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str):
    """The parent loads no item, and the values are to the bit those of one process that reads the same file."""
    x = rows(120, 1)[:, 0].numpy()
    if kind == "parquet":
        pq.write_table(pa.table({"x": x}), tmp_path / "x.parquet", row_group_size=13)
        items, function = str(tmp_path / "x.parquet"), functools.partial(read_here, parent=os.getpid())
        expected = run(functools.partial(read_here, parent=0), items, batch_size=9)
    else:
        np.save(tmp_path / "x.npy", x)
        items, function = str(tmp_path / "x.npy"), stamped
        expected = run(stamped, items, batch_size=9)

    def refuse(*arguments: Any) -> None:
        raise AssertionError("the parent loaded items")

    monkeypatch.setattr(DatasetSource, "load", refuse)
    result = run(function, items, batch_size=9, device=TWO)
    assert result.ok.all()
    assert same(result.values, expected.values)
