"""`gpcm.train`: splits, the chosen epoch, cutting, resuming, folds, and what is kept."""

import importlib
import math
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
import torch

from brimful import ChangedError, ConfigError, CorruptError, InputError, RunDirError, WorkerError, gpcm
from brimful.core.runs.events import EpochDone
from brimful.gpcm.data.students import Students
from brimful.gpcm.data.synthetic import write
from brimful.gpcm.evaluation.inference import predict_next
from brimful.gpcm.model.losses import class_weights
from brimful.gpcm.options import Options, Run
from brimful.gpcm.training import parallel_folds
from brimful.gpcm.training.datasets import dataset
from brimful.gpcm.training.fit import Validation, decay, prepare, tensors
from brimful.gpcm.training.parallel_folds import fitting, how_many

from ..helpers.pupils import small, students

training = importlib.import_module("brimful.gpcm.training.fit")  # the package has a function of that name
pytestmark = pytest.mark.usefixtures("one_thread")

SMALL: dict[str, Any] = {"slots": 4, "key_size": 4, "value_size": 6, "hidden": 5, "epochs": 3, "batch_size": 8}
NAME = "synthetic_OC_40_6_3"


def train(source: Any = NAME, **options: Any) -> Any:
    return gpcm.train(source, **{**SMALL, "device": "cpu", "progress": False, **options})


def weights(found: gpcm.Trained) -> torch.Tensor:
    return torch.cat([each.flatten() for each in found.model.state_dict().values()])


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> gpcm.Trained:
    return train(out=tmp_path_factory.mktemp("runs") / "one", int8=True, predict_by="mean")


def test_what_training_gives(trained: gpcm.Trained):
    drawn = gpcm.named(NAME)
    assert len(trained.held.students) == 8
    assert trained.scores == gpcm.score(trained.held.probability_TK, trained.held.students.response, "mean")
    assert [row["epoch"] for row in trained.history] == [1, 2, 3]
    losses = [row["valid_loss"] for row in trained.history]
    assert trained.best == int(np.argmin(losses))
    assert trained.recovery is not None and trained.recovery.students == 8
    assert trained.rounded is not None and abs(trained.rounded.lost_qwk) < 0.1
    assert trained.settings["dataset"] == drawn.name and trained.settings["epochs"] == 3
    assert not trained.model.training
    assert "6 questions and 3 categories" in str(trained)
    assert trained.item_table().column_names == ["question", "asked", "alpha", "beta_1", "beta_2"]


def test_the_same_seed_gives_the_same_model_and_another_another(trained: gpcm.Trained):
    again, other = train(predict_by="mean"), train(seed=1)
    assert torch.equal(weights(again), weights(trained))
    assert not torch.equal(weights(other), weights(trained))


@pytest.mark.parametrize("changes", [{"model": "baseline"}, {"batch_size": 4, "gradient_accumulation_steps": 2}])
def test_the_way_of_computing_does_not_matter(trained: gpcm.Trained, changes: dict[str, Any]):
    """Step by step or all steps at once, whole batches or halves, dropout included: the same model."""
    other = train(**changes)
    assert torch.allclose(weights(other), weights(trained), atol=2e-4)
    assert np.allclose(other.held.probability_TK, trained.held.probability_TK, atol=1e-4)


def test_use_parallel_wins_over_the_model():
    assert Options(model="baseline", use_parallel=True).parallel
    assert not Options(model="baseline").parallel


def test_students_are_held_out_whole():
    found = students([30, 4, 17, 25, 9, 12, 30, 8], questions=5, categories=3)
    options = Options(pieces=10, valid_fraction=0.25, test_fraction=0.25)
    parts = prepare(dataset(found, options), Run(options))
    names = [set(each.ids.tolist()) for each in (parts.train, parts.valid, parts.test)]
    assert [len(each) for each in names] == [4, 2, 2]
    assert len(set.union(*names)) == 8
    assert max(each.lengths.max() for each in (parts.train, parts.valid, parts.test)) == 10
    expected = class_weights(torch.from_numpy(parts.train.counts))
    assert torch.equal(parts.loss.keywords["loss"].weight_K, expected)


def test_a_question_that_training_never_asks_is_unknown_when_testing():
    one = students([12] * 10, questions=4, categories=3)
    folder = gpcm.Folder("odd", replace(one, question=np.minimum(one.question, 2)), one)
    parts = prepare(folder, Run(Options()))
    assert parts.train.unknown == 0
    assert parts.test.unknown == int((one.question == 3).sum()) > 0


def test_the_epoch_is_chosen_by_what_is_asked():
    found = train(monitor="qwk", epochs=4, lr=0.05)
    values = [row["qwk"] for row in found.history]
    assert found.best == int(np.argmax(values))


def test_an_interrupted_run_goes_on(tmp_path: Path, trained: gpcm.Trained):
    def stop(event: Any) -> None:
        if isinstance(event, EpochDone) and event.epoch == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(out=tmp_path / "run", progress=stop)
    with pytest.raises(InputError, match="holds no trained model"):
        gpcm.load(tmp_path / "run")
    resumed = train(out=tmp_path / "run")
    assert torch.equal(weights(resumed), weights(trained))
    with pytest.raises(ChangedError, match=r"lr was 0\.005 and is now 0\.01"):
        train(out=tmp_path / "run", lr=0.01)


def test_a_stored_model_is_the_same(trained: gpcm.Trained, tmp_path: Path):
    folder = trained.save(tmp_path / "kept")
    again = gpcm.load(folder)
    assert isinstance(again, gpcm.Trained)
    assert torch.equal(weights(again), weights(trained))
    assert again.scores == trained.scores or math.isnan(again.scores.auc)
    assert again.history == list(trained.history) and again.best == trained.best
    assert again.truth is not None and again.recovery is not None
    assert np.array_equal(again.held.students.question, trained.held.students.question)
    assert np.array_equal(again.held.students.offsets, trained.held.students.offsets)
    assert np.array_equal(again.items.beta_QH, trained.items.beta_QH)
    assert again.rounded is not None and trained.rounded is not None
    one = again.predict(trained.held.students)
    assert one.equals(trained.predict(trained.held.students))
    (folder / "weights.safetensors").write_bytes(b"broken")
    with pytest.raises(CorruptError, match="is damaged or incomplete"):
        gpcm.load(folder)


def test_predictions(trained: gpcm.Trained, tmp_path: Path):
    path = tmp_path / "new.txt"
    path.write_text("3\n0,99,5\n1,2,0\n1\n2\n2\n")
    found = trained.predict(path)
    names = ["student", "step", "question", "known", "response", "theta", "alpha", "predicted", "expected"]
    assert found.column_names == [*names, "p_0", "p_1", "p_2"]
    assert found["student"].to_pylist() == ["0", "0", "0", "1"]
    assert found["step"].to_pylist() == [1, 2, 3, 1]
    assert found["question"].to_pylist() == ["0", "", "5", "2"]
    assert found["known"].to_pylist() == [True, False, True, True]
    p = np.stack([found[f"p_{category}"].to_numpy() for category in range(3)], axis=1)
    assert np.allclose(p.sum(1), 1, atol=1e-6)
    assert np.allclose(found["expected"].to_numpy(), p @ np.arange(3), atol=1e-6)
    assert np.array_equal(found["predicted"].to_numpy(), np.floor(p @ np.arange(3) + 0.5))
    after = trained.predict_question(path, "4")
    assert after["student"].to_pylist() == ["0", "1"] and after["steps"].to_pylist() == [3, 1]
    (tmp_path / "longer.txt").write_text("4\n0,99,5,4\n1,2,0,1\n")
    last = trained.predict(tmp_path / "longer.txt")["p_0"].to_pylist()[-1]
    assert math.isclose(after["p_0"].to_pylist()[0], last, rel_tol=1e-5)
    assert trained.knowledge(path, "1").theta_TQ.shape == (2, 6)
    with pytest.raises(InputError, match="training knew no question 'x'; the vocabulary begins with 0, 1, 2"):
        trained.predict_question(path, "x")
    with pytest.raises(InputError, match="there is no student 'nobody' among these 2"):
        trained.knowledge(path, "nobody")
    with pytest.raises(InputError, match="of their own; read them with"):
        trained.predict(students([3], questions=6, categories=3))


def test_folds_hold_out_every_student_once(tmp_path: Path):
    found = train(n_folds=3, out=tmp_path / "folds", epochs=2)
    assert isinstance(found, gpcm.Folds) and found.jobs == 1
    held = [name for each in found.folds for name in each.held.students.ids.tolist()]
    assert sorted(held, key=int) == [str(place) for place in range(32)]  # the test file's 8 are in none
    assert found.scores.qwk == pytest.approx(np.mean([each.scores.qwk for each in found.folds]))
    assert found.scores.count == sum(each.scores.count for each in found.folds)
    assert found.spread["qwk"] == pytest.approx(np.std([each.scores.qwk for each in found.folds]))
    assert len(found.tests) == 3 and found.test is not None
    assert found.test.count == found.tests[0].count
    best = [each.history[each.best]["valid_loss"] for each in found.folds]
    assert found.best is found.folds[int(np.argmin(best))]
    again = gpcm.load(tmp_path / "folds")
    assert isinstance(again, gpcm.Folds)
    assert torch.equal(weights(again.best), weights(found.best))
    assert again.predict(found.best.held.students).equals(found.predict(found.best.held.students))
    with pytest.raises(RunDirError, match="holds files that are no run's"):
        train(out=tmp_path / "folds")


def test_folds_in_processes_are_the_same():
    """Started once: a process takes seconds to import torch."""
    source = gpcm.named("synthetic_OC_20_4_2").students
    one = train(source, n_folds=2, jobs=1, epochs=1)
    events = []
    two = train(source, n_folds=2, jobs=2, epochs=1, progress=events.append)
    assert two.jobs == 2 and not two.tests
    for first, second in zip(one.folds, two.folds, strict=True):
        assert torch.equal(weights(first), weights(second))
    assert [event.name for event in events] == ["started", "batch_done", "batch_done", "finished"]


def test_what_a_process_said_when_it_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    folder, run = gpcm.named(NAME).folder(), Run(Options(**SMALL), device="cpu")
    for code, error, words in (
        ("print('lost', file=__import__('sys').stderr); raise SystemExit(1)", WorkerError, "code 1: lost"),
        ("raise SystemExit(130)", KeyboardInterrupt, "run the same command again to go on"),
    ):
        (tmp_path / "fold.py").write_text(code)
        monkeypatch.setattr(parallel_folds, "_COMMAND", [sys.executable, str(tmp_path / "fold.py")])
        with pytest.raises(error, match=words):
            parallel_folds.run_together([folder], [run], 1, run)


def test_processes_do_not_outlive_the_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    folder, run = gpcm.named(NAME).folder(), Run(Options(**SMALL), device="cpu")
    (tmp_path / "fold.py").write_text("import sys, time\ntime.sleep(600) if '0.task' in sys.argv[1] else sys.exit(1)")
    monkeypatch.setattr(parallel_folds, "_COMMAND", [sys.executable, str(tmp_path / "fold.py")])
    started = time.monotonic()
    with pytest.raises(WorkerError, match="fold 2 ended with code 1: it said nothing"):
        parallel_folds.run_together([folder] * 2, [run] * 2, 2, run)
    assert time.monotonic() - started < 20
    assert not [each for each in psutil.Process().children() if "fold.py" in " ".join(each.cmdline())]


def test_how_many_folds_run_together():
    assert fitting(5, "cpu", 64 * 10**9, 10**8, cores=2) == 2
    assert fitting(5, "cpu", 10**8, 10**8, cores=8) == 1
    assert fitting(5, "cuda", 8 * 10**9, 10**9, cores=64) == 5
    folder = gpcm.named(NAME).folder()
    assert how_many([folder] * 3, Run(Options(n_folds=3), device="cpu")) == 1  # too little to be worth a process
    assert how_many([folder] * 3, Run(Options(n_folds=3, jobs=9), device="cpu")) == 3


@pytest.mark.parametrize(("count", "n_folds"), [(2, 0), (4, 2), (3, 3), (4, 4)])
def test_as_few_students_as_can_be(count: int, n_folds: int):
    few = students([6] * count, questions=2, categories=2)
    source = gpcm.Folder("few", few, students([3], questions=2, categories=2))
    found = train(source, n_folds=n_folds, epochs=1, jobs=1)
    assert found.scores.count == (6 * count if n_folds else 3)


def test_a_file_without_test_students_is_split(tmp_path: Path):
    folder = write(tmp_path, gpcm.named("synthetic_PC_30_5_3"))
    found = train(folder / "synthetic_PC_30_5_3_train.txt", epochs=1, test_fraction=0.5)
    assert len(found.held.students) == 12 and found.truth is None
    assert found.train.scores


@pytest.mark.parametrize(
    ("source", "options", "error", "words"),
    [
        ("nowhere", {}, InputError, "nowhere is neither a file nor a folder, nor the name of synthetic data"),
        (students([9]), {}, InputError, "1 student with answers to train on, and 2 are needed"),
        (students([9, 0, 0]), {}, InputError, "1 student with answers to train on, and 2 are needed"),
        (students([0, 0]), {}, InputError, "0 students with answers to train on"),
        (students([5, 5, 5]), {"n_folds": 4}, InputError, "3 students with answers to train on, and 4 are needed"),
        (students([5, 5, 5]), {"n_folds": 2}, InputError, "3 students with answers to train on, and 4 are needed"),
        (NAME, {"loss": "hinge"}, ConfigError, "loss is 'hinge'; choose one of combined, cross_entropy"),
        (NAME, {"epochs": 0}, ConfigError, "epochs is 0; it must be at least 1"),
        (NAME, {"colour": 1}, ConfigError, "unknown option 'colour'"),
    ],
)
def test_mistakes(source: Any, options: dict[str, Any], error: type[Exception], words: str):
    with pytest.raises(error, match=words.replace("'", "['\"]").replace("(", r"\(")):
        train(source, **options)


def test_students_without_answers_are_left_out_and_rare_categories_do_no_harm():
    found = students([0, 12, 9, 0, 14, 11, 13, 10, 12], categories=4)
    found = replace(found, response=np.minimum(found.response, 2))  # nobody ever reaches the highest
    result = train(found, epochs=1)
    assert result.model.config.categories == 4
    assert np.isfinite(result.scores.cross_entropy)
    assert 0 not in result.held.students.lengths


def test_the_average_looks_back_over_a_share_of_the_steps():
    assert decay(0.1, 1000) == pytest.approx(0.99)
    assert decay(0.0, 1000) is None and decay(0.2, 4) is None


def test_validation_is_cut_finer_where_memory_runs_out(monkeypatch: pytest.MonkeyPatch):
    found, model = students([30, 9, 20]), small().float()
    tried = []

    def full(*arguments: Any, steps: int) -> Any:
        tried.append(steps)
        if steps > most:
            raise torch.OutOfMemoryError("full")
        return predict_next(*arguments, steps=steps)

    monkeypatch.setattr(training, "predict_next", full)
    most = 100
    assert Validation(found, "argmax")(model, None).keys() >= {"qwk", "accuracy", "cross_entropy"}
    assert tried == [16_384, 4096, 1024, 256, 64]
    most = 0
    with pytest.raises(torch.OutOfMemoryError):
        Validation(found, "argmax")(model, None)


def test_students_as_the_loader_takes_them():
    found = tensors(students([2, 0, 3]))
    assert found["question"].lengths.tolist() == [2, 0, 3]
    assert isinstance(students([1]), Students)
