"""Cross-validation: folds one after another and in parallel."""

import threading
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import psutil
import pytest
import torch

from brimful import RunDirError, WorkerError, gpcm
from brimful.core.base.errors import CancelledError
from brimful.core.runs.events import BatchDone, Finished, Started
from brimful.core.runs.rundir import inspect
from brimful.gpcm.options import TrainConfig
from brimful.gpcm.training import parallel_folds
from brimful.gpcm.training.parallel_folds import count_parallel_folds, jobs_that_fit

from ...engine.distributed import worker_functions as functions
from ..helpers.training import NAME, train, weights

pytestmark = pytest.mark.usefixtures("one_thread")


def test_folds_hold_out_every_student_once(tmp_path: Path):
    result = train(n_folds=3, out=tmp_path / "folds", epochs=2)
    assert isinstance(result, gpcm.CrossValidationResult) and result.jobs == 1
    held_out = [name for fold in result.folds for name in fold.held_out.students.ids.tolist()]
    assert sorted(held_out, key=int) == [str(number) for number in range(32)]  # the test file's 8 are in none
    assert result.scores.qwk == pytest.approx(np.mean([fold.scores.qwk for fold in result.folds]))
    assert result.scores.count == sum(fold.scores.count for fold in result.folds)
    assert result.deviation.qwk == pytest.approx(np.std([fold.scores.qwk for fold in result.folds]))
    assert len(result.test_scores) == 3 and result.test is not None
    assert result.test.count == result.test_scores[0].count
    best = [fold.history[fold.best_epoch]["valid_loss"] for fold in result.folds]
    assert result.best is result.folds[int(np.argmin(best))]
    again = gpcm.load(tmp_path / "folds")
    assert isinstance(again, gpcm.CrossValidationResult)
    assert torch.equal(weights(again.best), weights(result.best))
    assert again.summary() == result.summary()
    with pytest.raises(RunDirError, match="holds"):
        train(out=tmp_path / "folds")
    assert gpcm.load(gpcm.save(result, tmp_path / "copy")).summary() == result.summary()


def test_folds_in_processes_are_the_same():
    """Started once: a process takes seconds to import torch."""
    source = gpcm.synthetic_by_name("synthetic_OC_20_4_2").students
    one = train(source, n_folds=2, jobs=1, epochs=1)
    events = []
    two = train(source, n_folds=2, jobs=2, epochs=1, progress=events.append)
    assert two.jobs == 2 and not two.test_scores
    for first, second in zip(one.folds, two.folds, strict=True):
        assert torch.equal(weights(first), weights(second))
    assert [type(event) for event in events] == [Started, BatchDone, BatchDone, Finished]


def test_a_fold_that_fails_ends_the_others(tmp_path: Path):
    """The second one finds the folder of another run; the first is stopped, and keeps its checkpoint."""
    part = gpcm.synthetic_by_name(NAME).dataset()
    config = TrainConfig(dataset=NAME, device="cpu", epochs=100_000)
    (tmp_path / "2").mkdir()
    (tmp_path / "2" / "notes.txt").write_text("mine")
    configs = [replace(config, out=tmp_path / name) for name in ("1", "2")]
    with pytest.raises(RunDirError, match=r"notes\.txt"):
        parallel_folds.train_in_parallel([part] * 2, configs, 2, config)
    assert not psutil.Process().children()[2:]  # but for the server of worker processes and its resource tracker


def test_a_fold_whose_process_dies_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    part, config = gpcm.synthetic_by_name(NAME).dataset(), TrainConfig(dataset=NAME, device="cpu")
    monkeypatch.setattr(parallel_folds, "_train_fold", functions.die_with)
    with pytest.raises(WorkerError, match=r"fold 1 died \(exit code 9\)"):
        parallel_folds.train_in_parallel([part], [config], 1, config)


def test_folds_in_processes_are_cancelled_from_another_thread(tmp_path: Path):
    cancel, folds = threading.Event(), [tmp_path / "run" / f"fold-{number}" for number in (1, 2)]

    def cancel_after_a_checkpoint() -> None:
        while not all((fold / "checkpoints" / "last").exists() for fold in folds):
            time.sleep(0.05)
        cancel.set()

    thread = threading.Thread(target=cancel_after_a_checkpoint, daemon=True)
    thread.start()
    with pytest.raises(CancelledError, match="the same command resumes"):
        train(n_folds=2, jobs=2, epochs=100_000, out=tmp_path / "run", cancel=cancel)
    thread.join()
    assert [inspect(fold).state for fold in folds] == ["interrupted"] * 2


def test_how_many_folds_run_in_parallel():
    assert jobs_that_fit(5, "cpu", 64 * 10**9, 10**8, cores=2) == 2
    assert jobs_that_fit(5, "cpu", 10**8, 10**8, cores=8) == 1
    assert jobs_that_fit(5, "cuda", 8 * 10**9, 10**9, cores=64) == 5
    part = gpcm.synthetic_by_name(NAME).dataset()
    assert count_parallel_folds([part] * 3, TrainConfig(dataset=NAME, n_folds=3, device="cpu")) == 1  # too short
    assert count_parallel_folds([part] * 3, TrainConfig(dataset=NAME, n_folds=3, jobs=9, device="cpu")) == 3
