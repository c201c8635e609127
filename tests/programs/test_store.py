"""A run on disk: what is written, that it can be opened, resumed after a kill, and that damage is noticed."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import brimful
from brimful import BrimfulError, ChangedError, CorruptError, InputError, programs
from brimful.core.runs import model_store
from brimful.programs import scoring, store
from brimful.programs.execution.encoding import encode
from brimful.programs.report import chosen_samples

from ..helpers.stopping import Orders, wait_for
from .helpers.run_runner import work
from .helpers.small import TEXT, small, tasks
from .test_run import same


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, programs.ProgramResult]:
    out = tmp_path_factory.mktemp("store") / "run"
    return out, small(out=out)


def test_what_is_written(stored: tuple[Path, programs.ProgramResult]):
    out, result = stored
    assert pq.read_table(out / "results.parquet").equals(result.table())
    assert pq.read_table(out / "scores.parquet").equals(result.scores)
    assert json.loads((out / "submission.json").read_text()) == result.submission()


@pytest.mark.parametrize("size", [1, 4, 15])
def test_scores_and_submission_do_not_depend_on_parts(size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Samples of the tasks come in turns, so that no task is within a part."""
    monkeypatch.setattr(scoring, "_AT_ONCE", 2)
    samples = small().samples
    mixed = [samples[index] for index in [0, 5, 10, 3, 1, 6, 11, 13, 9, 14, 2, 7, 12, 4, 8]]
    loaded = programs.loads(TEXT)
    whole = programs.run(loaded, mixed, device="cpu", progress=False)
    parts = programs.run(loaded, mixed, device="cpu", progress=False, batch_size=size, out=tmp_path / "run")
    assert same(parts, whole) and parts.outcomes.failed_by_operation() == whole.outcomes.failed_by_operation()
    assert whole.outcomes.failed_by_operation() == {"argmax": 5}
    assert pq.read_table(tmp_path / "run" / "scores.parquet").equals(whole.scores)
    assert (tmp_path / "run" / "submission.json").read_text() == json.dumps(whole.submission())
    assert list(whole.submission()) == ["mirror", "blank", "third"]
    assert chosen_samples(parts.outcomes) == chosen_samples(whole.outcomes)
    for path in (tmp_path / "run" / "results.parquet", tmp_path / "run" / "scores.parquet"):
        assert pq.read_table(path).equals(parts.table() if path.stem == "results" else parts.scores)


def test_samples_are_written_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(store, "_AT_ONCE", 4)
    result = small(out=tmp_path / "run")
    assert pq.read_metadata(tmp_path / "run" / "samples.parquet").num_row_groups == 4
    assert programs.load_result(tmp_path / "run").samples == result.samples


def test_it_is_opened_again(stored: tuple[Path, programs.ProgramResult]):
    out, result = stored
    for opened in (programs.load_result(out), brimful.open(out)):
        assert isinstance(opened, programs.ProgramResult)
        assert same(opened, result) and opened.samples == result.samples
        assert opened.summary() == result.summary()
        assert list(opened.outputs) == list(result.outputs)


def test_a_store_of_the_second_version_is_opened(stored: tuple[Path, programs.ProgramResult], tmp_path: Path):
    out, result = stored
    shutil.copytree(out, tmp_path / "run")
    rows = [encode((of.task, of.kind, of.index, of.S, of.I, of.C, of.problem)) for of in result.samples]
    meta = model_store.load(out, kind="programs", version=3).meta
    tables = {"samples": pa.table({"sample": pa.array(rows, pa.binary())})}
    model_store.save(tmp_path / "run", kind="programs", version=2, meta=meta, tensors={}, tables=tables)
    opened = programs.load_result(tmp_path / "run")
    assert opened.samples == result.samples and same(opened, result)


def test_a_finished_run_is_not_run_again(stored: tuple[Path, programs.ProgramResult]):
    out, result = stored
    before = {path.name: path.read_bytes() for path in out.glob("shard-*")}
    assert same(small(out=out), result)
    assert {path.name: path.read_bytes() for path in out.glob("shard-*")} == before


def test_another_program_task_or_option_is_not_taken_for_the_same_run(stored: tuple[Path, programs.ProgramResult]):
    out, _ = stored
    for options in ({"on_error": "propagate"}, {"pair_by_name": True}):
        with pytest.raises(ChangedError):
            small(out=out, **options)
    for loaded, given in ((TEXT.replace("TWO", "THREE"), tasks()), (TEXT, tasks()[:2])):
        with pytest.raises(ChangedError):
            programs.run(programs.loads(loaded), given, device="cpu", progress=False, out=out)


def test_a_folder_that_is_none():
    with pytest.raises(BrimfulError):
        programs.load_result("nothing")


@pytest.mark.parametrize("name", ["model.json", "samples.parquet", "shard-*.parquet", "manifest.json"])
def test_damage_is_noticed(stored: tuple[Path, programs.ProgramResult], tmp_path: Path, name: str):
    out, _ = stored
    shutil.copytree(out, tmp_path / "run")
    path = next((tmp_path / "run").glob(name))
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0xFF
    path.write_bytes(bytes(content))
    with pytest.raises((CorruptError, InputError)):
        list(programs.load_result(tmp_path / "run").outputs)
    path.unlink()
    with pytest.raises(BrimfulError):
        list(programs.load_result(tmp_path / "run").outputs)


@pytest.fixture(scope="module")
def runs() -> Iterator[Orders]:
    with Orders("tests.programs.helpers.run_runner") as made:
        yield made


def test_a_run_that_is_killed_goes_on_with_the_same_bits(runs: Orders, tmp_path: Path):
    out = tmp_path / "run"
    pid = runs.start(out=str(out), executor="batched", batch_size=12)
    wait_for(lambda: len(list(out.glob("shard-*.parquet"))) >= 3)
    assert runs.stop(pid) == "killed"
    assert not (out / "model.json").exists()
    kept = {path.name: path.read_bytes() for path in out.glob("shard-*.parquet")}
    resumed = work({"out": str(out), "executor": "sequential"})  # by the other executor
    assert all((out / name).read_bytes() == content for name, content in kept.items())
    assert same(resumed, work({"executor": "sequential"})) and same(programs.load_result(out), resumed)
