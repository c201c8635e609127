"""The run directory: one writer, the same run or none, and nothing that a kill can spoil."""

import errno
import os
import random
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from brimful.core.base.errors import ChangedError, CorruptError, LockedError, RunDirError, StorageError
from brimful.core.runs import rundir
from brimful.core.runs.events import BatchDone, Finished, Started, Warned, read_log
from brimful.core.runs.files import is_temporary
from brimful.core.runs.rundir import LOG, MANIFEST, RunDir, find, inspect

from ...helpers.stopping import Orders
from .rundir_writer import RUN


def opened(path: Path, **changes) -> RunDir:
    return RunDir.open(path, **{**RUN, **changes})


def contents(folder: Path) -> dict[str, bytes]:
    return {str(each.relative_to(folder)): each.read_bytes() for each in folder.rglob("*") if each.is_file()}


@pytest.fixture(scope="module")
def writers() -> Iterator[Orders]:
    with Orders("tests.core.runs.rundir_writer") as made:
        yield made


def test_a_new_directory_has_a_manifest_and_a_log(tmp_path: Path):
    with opened(tmp_path / "a" / "b") as run:
        assert not run.resumed
        assert run.path == tmp_path / "a" / "b"
        assert run.manifest["config"] == RUN["config"]
        assert set(run.manifest["versions"]) == {"brimful", "torch", "python"}
    assert sorted(each.name for each in (tmp_path / "a" / "b").iterdir()) == [LOG, "lock", MANIFEST]


def test_the_same_run_is_resumed_with_all_that_was_recorded(tmp_path: Path):
    with opened(tmp_path) as run:
        first = run.identity
        run.record(plan={"batch": 5}, items=100)
        run.log(Warned(message="before"))
    with opened(tmp_path) as run:
        assert run.resumed
        assert run.identity == first
        assert (run.manifest["plan"], run.manifest["items"]) == ({"batch": 5}, 100)
        run.log(Warned(message="after"))
    assert [event.message for event in read_log(tmp_path / LOG) if isinstance(event, Warned)] == ["before", "after"]


def test_the_identity_is_the_runs_and_no_others(tmp_path: Path):
    changes = [{}, {"work": "other"}, {"config": {"points": 41}}, {"input": "other"}, {"input": None}]
    identities = set()
    for place, change in enumerate(changes):
        with opened(tmp_path / str(place), **change) as run:
            identities.add(run.identity)
    assert len(identities) == len(changes)


def test_a_config_is_compared_as_json(tmp_path: Path):
    opened(tmp_path, config={"layers": (1, 2), "rate": 1}).close()
    with opened(tmp_path, config={"rate": 1.0, "layers": [1, 2]}) as run:
        assert run.resumed


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"config": {"points": 41, "kernel": {"name": "rbf"}}}, "points was 40 and is now 41"),
        ({"config": {"points": 40, "kernel": {"name": "matern"}}}, "kernel.name was 'rbf' and is now 'matern'"),
        ({"config": {"kernel": {"name": "rbf"}}}, "points was 40 and is now None"),
        ({"config": {**RUN["config"], "noise": 0.1}}, "noise was None and is now 0.1"),
        ({"input": "xyz"}, "the input data is not the same"),
        ({"input": None}, "the input data is not the same"),
        ({"work": "map"}, "it holds a run of 'churn', not of 'map'"),
    ],
)
def test_a_change_is_refused_and_named(tmp_path: Path, change: dict, told: str):
    opened(tmp_path).close()
    before = {name: data for name, data in contents(tmp_path).items() if name != "lock"}
    with pytest.raises(ChangedError, match="another directory") as caught:
        opened(tmp_path, **change)
    assert told in str(caught.value)
    assert str(tmp_path) in str(caught.value)
    assert {name: data for name, data in contents(tmp_path).items() if name != "lock"} == before
    opened(tmp_path).close()


def test_every_change_is_named_at_once(tmp_path: Path):
    opened(tmp_path).close()
    with pytest.raises(ChangedError, match=r"'map'.*kernel.*points.*input"):
        opened(tmp_path, work="map", config={"points": 1}, input="new")


def test_resume_false_refuses_even_the_same_run(tmp_path: Path):
    opened(tmp_path / "a", resume=False).close()
    with pytest.raises(RunDirError, match="already holds a run of 'churn'"):
        opened(tmp_path / "a", resume=False)
    opened(tmp_path / "a").close()


def test_a_folder_with_foreign_files_is_refused_and_left_as_it_was(tmp_path: Path):
    (tmp_path / "thesis.tex").write_text("years of work")
    (tmp_path / "movie.part").write_text("half a download")
    before = contents(tmp_path)
    with pytest.raises(RunDirError, match=r"no run's \(movie.part, thesis.tex\)"):
        opened(tmp_path)
    assert contents(tmp_path) == before


def test_rubbish_of_a_killed_writer_goes_and_other_files_stay(tmp_path: Path):
    opened(tmp_path).close()
    (tmp_path / "shards").mkdir()
    rubbish = [tmp_path / "manifest.json.0123abcd.part", tmp_path / "shards" / "7.parquet.89abcdef.part"]
    kept = [tmp_path / "shards" / "7.parquet", tmp_path / "notes.part"]
    for each in [*rubbish, *kept]:
        each.write_text("x")
    with opened(tmp_path) as run:
        assert run.resumed
    assert not any(each.exists() for each in rubbish)
    assert all(each.exists() for each in kept)


def test_a_directory_with_rubbish_alone_is_as_good_as_new(tmp_path: Path):
    (tmp_path / "manifest.json.0123abcd.part").write_text("ha")
    with opened(tmp_path) as run:
        assert not run.resumed


def test_two_in_one_process_are_refused_and_a_closed_one_is_free(tmp_path: Path):
    first = opened(tmp_path)
    with pytest.raises(LockedError, match=f"process {os.getpid()}"):
        opened(tmp_path)
    first.close()
    first.close()
    opened(tmp_path).close()


def test_a_second_process_is_refused_and_a_dead_ones_lock_is_taken_over(tmp_path: Path, writers: Orders):
    pid = writers.start(command="hold", path=str(tmp_path))
    assert writers.say() == "held"
    with pytest.raises(LockedError, match=rf"process {pid} on .* since .*another directory"):
        opened(tmp_path)
    assert inspect(tmp_path).state == "running"
    writers.stop(pid)
    assert inspect(tmp_path).state == "killed"
    with opened(tmp_path) as run:
        assert run.resumed
        writers.start(command="hold", path=str(tmp_path))
        assert writers.say().startswith(f"LockedError: {tmp_path} is being written by process {os.getpid()}")
        assert writers.say() == "ended"


def test_a_damaged_lock_file_is_no_obstacle(tmp_path: Path):
    opened(tmp_path).close()
    (tmp_path / "lock").write_bytes(b"\xff{")
    run = opened(tmp_path)
    (tmp_path / "lock").write_bytes(b"\xff{")
    with pytest.raises(LockedError, match="by another process"):
        opened(tmp_path)
    run.close()


def test_looking_at_a_directory_does_not_keep_a_writer_out(tmp_path: Path):
    opened(tmp_path).close()
    stop = threading.Event()

    def look() -> None:
        while not stop.is_set():
            inspect(tmp_path)

    thread = threading.Thread(target=look)
    thread.start()
    try:
        for _ in range(100):
            opened(tmp_path).close()
    finally:
        stop.set()
        thread.join()


def never_misread(path: Path, manifest: dict) -> bool:
    """True when the directory opened with the manifest it had; otherwise it was refused as corrupt."""
    try:
        with opened(path) as run:
            assert run.resumed
            assert run.manifest == manifest
            return True
    except CorruptError as error:
        assert MANIFEST in str(error)
        assert "delete that file" in str(error)
        assert inspect(path).state == "damaged"
        return False


@pytest.fixture
def manifest(tmp_path: Path) -> tuple[Path, bytes, dict]:
    with opened(tmp_path) as run:
        run.record(plan={"batch": 7})
        return tmp_path / MANIFEST, (tmp_path / MANIFEST).read_bytes(), run.manifest


@pytest.mark.parametrize("every", [8, pytest.param(1, marks=pytest.mark.soak)])
def test_a_manifest_with_any_byte_changed_is_never_misread(manifest: tuple[Path, bytes, dict], every: int):
    path, whole, body = manifest
    survived = 0
    for offset in range(0, len(whole), every):
        for mask in (0x01, 0x20, 0xFF):
            path.write_bytes(whole[:offset] + bytes([whole[offset] ^ mask]) + whole[offset + 1 :])
            survived += never_misread(path.parent, body)
    assert survived < len(whole) / 2
    path.write_bytes(whole)
    assert never_misread(path.parent, body)


@pytest.mark.parametrize("every", [8, pytest.param(1, marks=pytest.mark.soak)])
def test_a_manifest_cut_at_any_byte_is_never_misread(manifest: tuple[Path, bytes, dict], every: int):
    path, whole, body = manifest
    for offset in range(0, len(whole), every):
        path.write_bytes(whole[:offset])
        assert not never_misread(path.parent, body)


def test_a_deleted_manifest_is_made_again_with_the_same_identity(tmp_path: Path):
    with opened(tmp_path) as run:
        identity = run.identity
    (tmp_path / "shard-0").write_text("finished work")
    (tmp_path / MANIFEST).unlink()
    with opened(tmp_path) as run:
        assert run.identity == identity
    assert (tmp_path / "shard-0").read_text() == "finished work"


@pytest.mark.parametrize("stage", ["mkdir", "touch", "iterdir"])
def test_a_disk_that_refuses_is_a_storage_error_and_frees_the_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stage: str
):
    def refuse(self: Path, *_: object, **__: object):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(Path, stage, refuse)
        with pytest.raises(StorageError, match="disk is full"):
            opened(tmp_path / "run")
    opened(tmp_path / "run").close()


def test_a_file_in_its_place_is_refused(tmp_path: Path):
    (tmp_path / "run").write_text("a file")
    with pytest.raises(RunDirError, match=f"{tmp_path / 'run'} is a file"):
        opened(tmp_path / "run")


@pytest.mark.parametrize("name", [LOG, MANIFEST])
def test_a_folder_of_others_is_left_alone_even_if_its_files_have_our_names(tmp_path: Path, name: str):
    (tmp_path / name).write_text("theirs, without a newline at the end")
    with pytest.raises(RunDirError, match="no run's"):
        opened(tmp_path)
    assert [each.name for each in tmp_path.iterdir()] == [name]
    assert (tmp_path / name).read_text() == "theirs, without a newline at the end"


def kill_rounds(writers: Orders, folder: Path, rounds: int, seed: int) -> None:
    """Kills writers at random moments; whatever the moment, the directory opens and what was finished is there."""
    rng = random.Random(seed)
    for round in range(rounds):
        path = folder / f"run-{round // 4}"  # each directory is killed in its first moments, and three times more
        known = inspect(path).done if path.exists() else 0
        writers.kill({"command": "churn", "path": str(path)}, rng.choice([0.0, 0.002, 0.01, 0.1]) * rng.random())
        info = inspect(path)
        assert info.state in ("killed", "interrupted") or not (path / MANIFEST).exists()
        with opened(path) as run:
            assert run.manifest.get("step", 0) >= known
            assert run.manifest.get("step", 0) >= info.done
        assert not [each for each in path.iterdir() if is_temporary(each)]
        for shard in path.glob("shard-*"):
            lines = shard.read_text().split()
            assert len(lines) == 2000
            assert len(set(lines)) == 1
        done = [event.done for event in read_log(path / LOG) if isinstance(event, BatchDone)]
        assert done == sorted(done)


def test_a_killed_writer_never_leaves_a_directory_that_cannot_be_opened(tmp_path: Path, writers: Orders):
    kill_rounds(writers, tmp_path, rounds=5, seed=1)


@pytest.mark.soak
def test_a_writer_killed_many_times(tmp_path: Path, writers: Orders):
    kill_rounds(writers, tmp_path, rounds=200, seed=2)


def test_what_a_run_says_of_itself(tmp_path: Path):
    with opened(tmp_path / "run") as run:
        assert inspect(tmp_path / "run").state == "running"
        run.log(Started(work="churn", items=100, done=0, budget=1))
        run.log(BatchDone(items=40, bad=2, done=40, seconds=1.0, peak=1, budget=1))
    info = inspect(tmp_path / "run")
    assert (info.work, info.state, info.done, info.items, info.bad) == ("churn", "killed", 40, 100, 0)
    assert info.path == str(tmp_path / "run")
    assert isinstance(info.created, float)
    for state in ("failed", "interrupted", "finished"):
        with opened(tmp_path / "run") as run:
            run.log(Started(work="churn", items=100, done=40, budget=1))
            run.log(Finished(state=state, done=100, bad=3, seconds=2.0))
        info = inspect(tmp_path / "run")
        assert (info.state, info.done, info.bad) == (state, 100, 3)


def test_the_number_of_items_is_known_however_long_the_log(tmp_path: Path):
    with opened(tmp_path) as run:
        run.record(items=10**6)
        run.log(Started(work="churn", items=10**6, done=0, budget=1))
        for done in range(800):
            run.log(BatchDone(items=1, bad=0, done=done, seconds=1.0, peak=1, budget=1))
    info = inspect(tmp_path)
    assert (info.done, info.items) == (799, 10**6)


def test_runs_are_found_three_levels_deep_newest_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    places = ["a", "b/c", "d/e/f", "g/h/i/j"]
    for place, name in enumerate(places):
        monkeypatch.setattr(rundir.time, "time", lambda place=place: 1000.0 + place)
        opened(tmp_path / name).close()
    (tmp_path / "b" / "broken").mkdir()
    (tmp_path / "b" / "broken" / MANIFEST).write_text("{")
    found = find(tmp_path)
    assert [each.path for each in found] == [str(tmp_path / name) for name in ("d/e/f", "b/c", "a", "b/broken")]
    assert [each.state for each in found] == ["killed", "killed", "killed", "damaged"]
    assert find(tmp_path / "d") == found[:1]
