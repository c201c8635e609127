"""Memory that runs out, runs that are interrupted, disks that fill up, files that rot: nothing finished is lost."""

import errno
import itertools
import shutil
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from brimful import BrimfulWarning, ChangedError, CorruptError, RunDirError, Status, StorageError
from brimful.core.base.errors import CancelledError
from brimful.core.runs import parquet
from brimful.core.runs.events import BatchDone, Event, Finished, read_log
from brimful.core.runs.rundir import LOG, MANIFEST

from .mapping import EventLog, Recorded, double, rows, run, same, shards_of, stamped, stream


def full() -> torch.OutOfMemoryError:
    return torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")


# Memory runs out.


class Failing(Recorded):
    """A function that runs out of memory on one call, counted from 1."""

    def __init__(self, position: int) -> None:
        super().__init__(double)
        self.position = position

    def __call__(self, batch: torch.Tensor) -> torch.Tensor:
        doubled = super().__call__(batch)
        if len(self.sizes) == self.position:
            raise full()
        return doubled


@pytest.mark.parametrize("kind", ["tensor", "stream", "weights", "out"])
@pytest.mark.parametrize("batch", [6, "auto"])
def test_memory_that_runs_out_at_any_call_costs_nothing_but_a_warning(kind: str, batch: Any, tmp_path: Path):
    if kind == "weights" and batch != "auto":
        pytest.skip("weights and a batch size exclude each other")
    options: dict[str, Any] = {"batch_size": batch}
    if kind == "weights":
        options["weight"] = np.arange(1, 25)
    for position in itertools.count(1):
        if kind == "out":
            options["out"] = tmp_path / str(position)
        failing, log = Failing(position), EventLog()
        result = run(failing, stream(24) if kind == "stream" else rows(24), progress=log, **options)
        assert same(result.values, rows(24) * 2)
        assert result.status.tolist() == [Status.OK] * 24
        if len(failing.sizes) < position:
            assert log.warnings == []
            assert position > 1
            return
        failed = failing.sizes[position - 1]
        expected = [f"out of memory on {failed} items; they are done in two halves"] if failed > 1 else []
        assert log.warnings == expected


@pytest.mark.parametrize("limit", [1, 3, 9, 40])
@pytest.mark.parametrize("batch", [16, "auto"])
def test_a_limit_on_the_batch_is_found_and_kept(limit: int, batch: Any):
    def function(x: torch.Tensor) -> torch.Tensor:
        if len(x) > limit:
            raise full()
        return double(x)

    recorded, log = Recorded(function), EventLog()
    result = run(recorded, rows(300), batch_size=batch, progress=log)
    assert same(result.values, rows(300) * 2)
    assert result.ok.all()
    over = sum(size > limit for size in recorded.sizes)
    assert len(log.warnings) == over <= 8


@pytest.mark.parametrize("big", [{0}, {7, 8}, {3, 11, 19}, set(range(24))])
def test_items_that_alone_do_not_fit_are_flagged_and_the_others_done(big: set[int]):
    def function(x: torch.Tensor) -> torch.Tensor:
        if big & set((x[:, 0]).round().int().tolist()):
            raise full()
        return double(x)

    result = run(function, rows(24), batch_size=8)
    assert set(np.flatnonzero(result.status == Status.TOO_BIG).tolist()) == big
    good = [item for item in range(24) if item not in big]
    assert not result.status[good].any()
    assert set(result.messages) == big
    if good:
        assert same(result.values[good], rows(24)[good] * 2)
        assert result.values[sorted(big)].isnan().all()
    else:
        assert result.values is None


def test_memory_runs_out_while_bad_items_are_looked_for():
    calls = itertools.count(1)

    def function(x: torch.Tensor) -> torch.Tensor:
        if next(calls) in (3, 5, 8):
            raise full()
        if (x[:, 0] == 5).any():
            raise ValueError("five")
        return double(x)

    result = run(function, rows(32), batch_size=8)
    assert np.flatnonzero(result.status).tolist() == [5]
    good = [item for item in range(32) if item != 5]
    assert same(result.values[good], rows(32)[good] * 2)


# The process is stopped. Where it is killed: test_killed.py.


def test_a_run_that_is_cancelled_from_another_thread_keeps_what_was_finished(tmp_path: Path):
    cancel, log, recorded = threading.Event(), EventLog(), Recorded(stamped)

    def progress(event: Event) -> None:
        log(event)
        if isinstance(event, BatchDone) and event.done >= 40:
            other = threading.Thread(target=cancel.set)
            other.start()
            other.join()

    with pytest.raises(CancelledError, match=r"interrupted after \d+ items; run the same command again"):
        run(recorded, rows(80), batch_size=8, out=tmp_path / "run", cancel=cancel, progress=progress)
    ended = log.of(Finished)[-1]
    assert ended.state == "interrupted" and 40 <= ended.done == sum(recorded.sizes) < 80
    again = Recorded(stamped)
    result = run(again, rows(80), batch_size=8, out=tmp_path / "run", cancel=threading.Event())
    assert sum(again.sizes) == 80 - ended.done and same(result.values, run(stamped, rows(80), batch_size=8).values)


def test_an_interrupt_without_a_directory_says_that_nothing_was_kept():
    def function(x: torch.Tensor) -> torch.Tensor:
        if (x[:, 0] == 30).any():
            raise KeyboardInterrupt
        return x

    log = EventLog()
    with pytest.raises(KeyboardInterrupt, match="interrupted after 28 items; nothing was kept"):
        run(function, rows(40), batch_size=4, progress=log)
    assert log.of(Finished)[0].state == "interrupted"


# The disk is full.


@pytest.mark.parametrize("fails", [1, 2, 5])
def test_a_full_disk_is_told_of_and_the_run_goes_on_once_there_is_room(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, fails: int
):
    written, write = itertools.count(1), parquet.write

    def full_disk(table: Any, path: Path) -> None:
        path.write_bytes(b"half of it")
        if next(written) >= fails:
            raise OSError(errno.ENOSPC, "No space left on device")
        write(table, path)

    recorded = Recorded(stamped)
    with monkeypatch.context() as patch:
        patch.setattr(parquet, "write", full_disk)
        with pytest.raises(StorageError, match=r"the disk is full.*run the same command again: finished work is kept"):
            run(recorded, rows(80), batch_size=8, out=tmp_path / "run")
    kept = shards_of(tmp_path / "run")
    assert len(kept) == fails - 1
    assert not list((tmp_path / "run").glob("*.part"))
    last = list(read_log(tmp_path / "run" / LOG))[-1]
    assert isinstance(last, Finished)
    assert last.state == "failed"
    recorded.sizes.clear()
    result = run(recorded, rows(80), batch_size=8, out=tmp_path / "run")
    assert same(result.values, run(stamped, rows(80), batch_size=8).values)
    assert sum(recorded.sizes) == 80 - 8 * (fails - 1)


def test_a_place_that_cannot_be_written_is_named():
    with pytest.raises(StorageError, match="/proc/nowhere"):
        run(double, rows(4), out="/proc/nowhere/run")


# Files rot.


@pytest.fixture
def done(tmp_path: Path) -> Path:
    """A finished run of ten batches."""
    run(Recorded(stamped), rows(80), batch_size=8, out=tmp_path / "run")
    return tmp_path / "run"


def truncated(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-40])


def flipped(path: Path) -> None:
    content = bytearray(path.read_bytes())
    offset = content.index(np.float32(8 / 7).tobytes())
    content[offset] ^= 4
    path.write_bytes(content)


def emptied(path: Path) -> None:
    path.write_bytes(b"")


def foreign(path: Path) -> None:
    other = path.parent.parent / "other"
    run(double, rows(80), batch_size=8, out=other)
    shutil.copy(other / path.name, path)


@pytest.mark.parametrize("harm", [truncated, flipped, emptied, foreign])
def test_a_damaged_shard_is_done_again(done: Path, harm: Any):
    harm(shards_of(done)[0])
    recorded = Recorded(stamped)
    with pytest.warns(BrimfulWarning, match="is damaged.*its items are done again"):
        result = run(recorded, rows(80), batch_size=8, out=done)
    assert recorded.sizes == [8]
    assert same(result.values, run(stamped, rows(80), batch_size=8).values)
    assert len(list(done.glob("*.damaged"))) == 1


def test_a_shard_that_rots_after_the_run_is_told_of(done: Path):
    result = run(Recorded(stamped), rows(80), batch_size=8, out=done)
    flipped(shards_of(done)[0])
    with pytest.raises(CorruptError, match="Delete it and run the same command again"):
        _ = result.values


@pytest.mark.parametrize("file", ["batches.jsonl", "events.jsonl"])
@pytest.mark.parametrize("harm", [b"", b'{"start": 16, "st', b"\xff\xfe\x00garbage\n{\n", None])
def test_torn_and_damaged_logs_cost_nothing(done: Path, file: str, harm: bytes | None):
    path = done / file
    if harm is None:
        path.unlink()
    else:
        content = path.read_bytes()
        path.write_bytes(content[: len(content) // 2] + harm)
    for shard in shards_of(done)[3:6]:
        shard.unlink()
    recorded = Recorded(stamped)
    result = run(recorded, rows(80), batch_size=8, out=done)
    assert sum(recorded.sizes) == 24
    assert result.ok.all()
    if file == "events.jsonl":
        assert same(result.values, run(stamped, rows(80), batch_size=8).values)
        assert isinstance(list(read_log(path))[-1], Finished)


def test_a_damaged_manifest_is_named_and_can_be_deleted(done: Path):
    (done / MANIFEST).write_text("{")
    with pytest.raises(CorruptError, match="delete that file and run the same command again"):
        run(Recorded(stamped), rows(80), batch_size=8, out=done)
    (done / MANIFEST).unlink()
    recorded = Recorded(stamped)
    result = run(recorded, rows(80), batch_size=8, out=done)
    assert recorded.sizes == []
    assert same(result.values, run(stamped, rows(80), batch_size=8).values)


# The same run, or none.


def test_a_finished_run_is_not_done_again(done: Path):
    recorded = Recorded(stamped)
    result = run(recorded, rows(80), batch_size=8, out=done)
    assert recorded.sizes == []
    assert (len(result.status), result.done) == (80, 0)
    assert same(result.values, run(stamped, rows(80), batch_size=8).values)


def test_flags_and_messages_survive_a_resume(tmp_path: Path):
    def function(x: torch.Tensor) -> torch.Tensor:
        if (x[:, 0] == 5).any():
            raise ValueError("five")
        return torch.where(x == 30, float("nan"), x)

    first = run(function, rows(80), batch_size=8, out=tmp_path / "run")
    shards_of(tmp_path / "run")[-1].unlink()
    again = run(function, rows(80), batch_size=8, out=tmp_path / "run")
    assert first.messages == again.messages == {5: "ValueError: five", 30: "the result is not finite"}
    assert first.status.tolist() == again.status.tolist()
    assert same(first.values, again.values)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"fn": double}, "fn was 'Recorded .* and is now 'double "),
        ({"items": rows(80) + 1}, "the input data is not the same"),
        ({"items": rows(81)}, "the input data is not the same"),
        ({"batch_size": 9}, "batch_size was 8 and is now 9"),
        ({"nonfinite": "allow"}, "nonfinite was 'flag' and is now 'allow'"),
        ({"fallback": torch.float64}, "fallback was 'None' and is now 'torch.float64'"),
        ({"name": "other"}, "it holds a run of 'map', not of 'other'"),
        ({"weight": np.arange(1, 81), "batch_size": "auto"}, "batch_size was 8 and is now 'auto'.*input data"),
    ],
)
def test_a_run_that_is_not_the_same_is_refused_and_the_change_named(done: Path, change: dict[str, Any], words: str):
    options: dict[str, Any] = {"fn": Recorded(stamped), "items": rows(80), "batch_size": 8, **change}
    before = {path.name for path in done.iterdir()}
    with pytest.raises(ChangedError, match=words):
        run(options.pop("fn"), options.pop("items"), out=done, **options)
    assert {path.name for path in done.iterdir()} == before


def test_another_budget_and_device_do_not_change_the_run(done: Path):
    assert run(Recorded(stamped), rows(80), batch_size=8, out=done, budget="300MB", device="cpu").ok.all()


def test_a_directory_with_a_run_can_be_refused(done: Path):
    with pytest.raises(RunDirError, match="already holds a run"):
        run(Recorded(stamped), rows(80), batch_size=8, out=done, resume=False)
    assert run(stamped, rows(80), batch_size=8, out=done.parent / "new", resume=False).ok.all()


def test_an_iterator_is_resumed_by_its_fingerprint(tmp_path: Path):
    recorded = Recorded(stamped)
    first = run(recorded, stream(80), batch_size=8, out=tmp_path / "run", fingerprint="v1")
    for shard in shards_of(tmp_path / "run")[2::7]:
        shard.unlink()
    recorded.sizes.clear()
    again = run(recorded, stream(80), batch_size=8, out=tmp_path / "run", fingerprint="v1")
    assert recorded.sizes == [8, 8]
    assert same(first.values, again.values)
    assert again.status.tolist() == [0] * 80
    with pytest.raises(ChangedError, match="the input data is not the same"):
        run(recorded, stream(80), batch_size=8, out=tmp_path / "run", fingerprint="v2")


def test_an_iterator_without_a_fingerprint_runs_once_and_says_why_not_again(tmp_path: Path):
    assert run(double, stream(30), out=tmp_path / "run").ok.all()
    with pytest.raises(ChangedError, match=r"iterator.*fingerprint="):
        run(double, stream(30), out=tmp_path / "run")


def test_a_stream_that_has_become_shorter_is_noticed(tmp_path: Path):
    run(double, stream(80), batch_size=8, out=tmp_path / "run", fingerprint="v1")
    with pytest.raises(Exception, match="the stream ended after 40 items"):
        run(double, stream(40), batch_size=8, out=tmp_path / "run", fingerprint="v1")
