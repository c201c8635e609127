"""Fits that are killed or interrupted: the same command goes on, and ends as if nothing had been."""

import functools
import json
import random
import shutil
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from brimful import CancelledError, ChangedError, InputError, gp
from brimful.cli.app import app
from brimful.core.runs.events import BatchDone, Event
from brimful.core.runs.rundir import MANIFEST

from ..helpers.forking import Captured, run_module
from ..helpers.stopping import Orders, wait_for
from .helpers.fit_runner import COUNT, work
from .helpers.small import equal_tables, fit, rows


@pytest.fixture(scope="module")
def fits() -> Iterator[Orders]:
    with Orders("tests.gp.helpers.fit_runner") as made:
        yield made


def shards_of(folder: Path) -> list[Path]:
    return sorted(folder.glob("shard-*.parquet"))


def rounds(fits: Orders, tmp_path: Path, data: str, count: int) -> None:
    """Kills a fit at random moments, goes on with it, and compares the table with an uninterrupted one."""
    order = {"data": data, "batch_size": COUNT // 20}
    expected = work({**order, "out": str(tmp_path / "whole")}).table()
    assert expected.num_rows == COUNT
    interrupted = 0
    for seed in range(count):
        rng, out = random.Random(seed), tmp_path / str(seed)
        for _ in range(rng.randint(1, 2)):
            before, wanted = len(shards_of(out)), rng.randint(0, 6)
            when = functools.partial(reached, out, before + wanted)
            assert fits.kill({**order, "out": str(out)}, rng.uniform(0, 0.05), when) == "killed"
        if not ended(out):
            interrupted += 1
            with pytest.raises(InputError, match="its fit has not ended: run the same command again"):
                gp.load(out)
        kept = {path.name: path.read_bytes() for path in shards_of(out)}
        fitted = work({**order, "out": str(out)})
        assert all((out / name).read_bytes() == content for name, content in kept.items())
        assert equal_tables(fitted.table(), expected)
        assert equal_tables(gp.load(out).table(), expected)
        shutil.rmtree(out)
    assert interrupted > 0


def reached(out: Path, shards: int) -> bool:
    return ended(out) or ((out / MANIFEST).exists() and len(shards_of(out)) >= shards)


def ended(out: Path) -> bool:
    return (out / "model.json").exists()


@pytest.mark.soak
@pytest.mark.parametrize("data", ["own", "shared", "ragged"])
def test_a_fit_that_was_killed_goes_on_to_the_same_table(fits: Orders, tmp_path: Path, data: str):
    rounds(fits, tmp_path, data, 1)


@pytest.mark.soak
@pytest.mark.parametrize("data", ["shared", "own", "ragged"])
def test_a_fit_that_was_killed_fifty_times(fits: Orders, tmp_path: Path, data: str):
    rounds(fits, tmp_path, data, 50)


def test_an_interrupt_exits_with_130_and_the_same_command_goes_on(tmp_path: Path):
    out = tmp_path / "run"
    options = ["--synthetic", "3000", "--own-inputs", "--device", "cpu", "--budget", "100MB", "--out", str(out)]
    with Captured(run_module, "brimful", "gp", "fit", *options) as process:
        wait_for(lambda: len(shards_of(out)) > 1 or process.poll() is not None)
        process.send_signal(signal.SIGINT)
        stdout, stderr = process.communicate(60)
    assert process.returncode == 130, stderr[-3000:]
    assert stdout == ""
    assert f"run the same command again to go on from {out}" in stderr
    assert "Traceback" not in stderr
    assert not ended(out)
    kept = {path: path.read_bytes() for path in shards_of(out)}
    result = CliRunner().invoke(app, ["gp", "fit", *options, "--json"])
    assert result.exit_code == 0, result.stderr
    assert json.loads(result.stdout)["tasks"] == 3000
    assert kept
    assert all(path.read_bytes() == content for path, content in kept.items())


class CancelAfter:
    """Cancels from another thread once so many batches are done."""

    def __init__(self, batches: int) -> None:
        self.cancel, self._left = threading.Event(), batches

    def __call__(self, event: Event) -> None:
        self._left -= isinstance(event, BatchDone)
        if self._left == 0:
            setter = threading.Thread(target=self.cancel.set)
            setter.start()
            setter.join()


@pytest.mark.parametrize("data", ["own", "ragged"])
def test_a_cancelled_fit_keeps_what_is_finished_and_resumes_to_the_same_bits(tmp_path: Path, data: str):
    x, y = rows(0, 60, 8)
    given = (x, y) if data == "own" else ([(x[task, : 3 + task % 6], y[task, : 3 + task % 6]) for task in range(60)],)
    expected = fit(*given, out=tmp_path / "whole", batch_size=5).table()
    stop, out = CancelAfter(3), tmp_path / "run"
    with pytest.raises(CancelledError):
        fit(*given, out=out, batch_size=5, progress=stop, cancel=stop.cancel)
    kept = {path: path.read_bytes() for path in shards_of(out)}
    assert 0 < len(kept) < 12
    assert not ended(out)
    resumed = fit(*given, out=out, batch_size=5)
    assert resumed.done < 60
    assert all(path.read_bytes() == content for path, content in kept.items())
    assert equal_tables(resumed.table(), expected)


def test_cancelled_predictions_resume_to_the_same_bits(tmp_path: Path):
    fitted = fit(*rows(0, 3000, 6), steps=2, starts=1)
    stop, out = CancelAfter(1), tmp_path / "run"
    with pytest.raises(CancelledError):
        fitted.predict_to(out, [0.5, 1.5], progress=stop, cancel=stop.cancel)
    kept = {path: path.read_bytes() for path in shards_of(out)}
    assert kept
    resumed = fitted.predict_to(out, [0.5, 1.5], progress=False)
    whole = fitted.predict_to(tmp_path / "whole", [0.5, 1.5], progress=False)
    assert 0 < resumed.done < 3000
    assert all(path.read_bytes() == content for path, content in kept.items())
    assert resumed.table().equals(whole.table())


X, Y = rows(0, 6, 8)


@pytest.mark.parametrize(
    "change",
    [
        {"kernel": "matern52"},
        {"mean": "zero"},
        {"priors": None},
        {"priors": {"noise": gp.LogNormal(0.1, 1.0)}},
        {"bounds": {"noise": (1e-3, 1.0)}},
        {"steps": 50},
        {"tolerance": 1e-7},
        {"starts": 4},
        {"storage": "float16"},
        {"keep": "predictions", "at": [0.5]},
        {"noise": 0.1},
        {"y": Y + 1},
        {"x": X[0]},
    ],
    ids=lambda change: ",".join(change),
)
def test_another_fit_is_refused_and_the_first_left_as_it_was(tmp_path: Path, change: dict[str, Any]):
    out = tmp_path / "run"
    fit(X, Y, out=out)
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file() and path.name != "lock"}
    options = {"x": X, "y": Y, **change}
    with pytest.raises(ChangedError, match="cannot be resumed"):
        fit(options.pop("x"), options.pop("y"), **options, out=out)
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file() and path.name != "lock"} == before


def test_budget_and_seed_do_not_change_the_fit(tmp_path: Path):
    first = fit(X, Y, out=tmp_path / "run")
    again = fit(X, Y, out=tmp_path / "run", budget="300MB", seed=5)
    assert equal_tables(first.table(), again.table())
    assert not np.array_equal(first.sample([0.5]), again.sample([0.5]))


def test_what_to_keep_may_be_decided_later(tmp_path: Path):
    fit(X, Y, out=tmp_path / "run", keep="params")
    fit(X, Y, out=tmp_path / "run", keep="params+data")
    np.testing.assert_allclose(gp.load(tmp_path / "run").predict([0.5])[0], fit(X, Y).predict([0.5])[0], rtol=1e-4)


def test_predictions_of_other_models_are_not_taken_for_these(tmp_path: Path):
    one, other = (fit(X, y).save(tmp_path / name) for y, name in ((Y, "one"), (Y + 1, "other")))
    gp.load(one).predict_to(tmp_path / "there", [0.5], progress=False)
    gp.load(one).predict_to(tmp_path / "there", [0.5], progress=False)
    with pytest.raises(ChangedError, match="the input data is not the same"):
        gp.load(other).predict_to(tmp_path / "there", [0.5], progress=False)
    fitted = fit(X, Y)
    fitted.predict_to(tmp_path / "each", np.zeros((6, 2, 1)), progress=False)
    with pytest.raises(ChangedError, match="the input data is not the same"):
        fitted.predict_to(tmp_path / "each", np.ones((6, 2, 1)), progress=False)
