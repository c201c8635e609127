"""`gpcm.train`: splits, the best epoch, micro-batches and resuming."""

import functools
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from brimful import BudgetError, ChangedError, ConfigError, InputError, RunDirError, data, gpcm, wpo
from brimful.core.base.errors import CancelledError
from brimful.core.runs.events import EpochDone
from brimful.gpcm.data.synthetic import write
from brimful.gpcm.evaluation.inference import predict_next
from brimful.gpcm.model.losses import class_weights
from brimful.gpcm.options import TrainConfig
from brimful.gpcm.training import fit
from brimful.gpcm.training.datasets import load_dataset
from brimful.gpcm.training.fit import Validation, set_up, tensors

from ..helpers.students import small, students
from ..helpers.training import NAME, train, weights

pytestmark = pytest.mark.usefixtures("one_thread")


def test_the_same_seed_gives_the_same_model_and_another_another(trained: gpcm.GPCMResult):
    again, other = train(predict_by="mean"), train(seed=1)
    assert torch.equal(weights(again), weights(trained))
    assert not torch.equal(weights(other), weights(trained))


@pytest.mark.parametrize("changes", [{"model": "baseline"}, {"batch_size": 4, "gradient_accumulation_steps": 2}])
def test_the_strategy_does_not_matter(trained: gpcm.GPCMResult, changes: dict[str, Any]):
    """Step by step or all steps at once, whole batches or halves, dropout included: the same model."""
    other = train(**changes)
    assert torch.allclose(weights(other), weights(trained), atol=2e-4)
    assert np.allclose(other.held_out.probability_TK, trained.held_out.probability_TK, atol=1e-4)


def test_use_parallel_wins_over_the_model():
    assert TrainConfig(dataset="", model="baseline", use_parallel=True).parallel
    assert not TrainConfig(dataset="", model="baseline").parallel


def test_students_are_held_out_whole():
    found = students([30, 4, 17, 25, 9, 12, 30, 8], questions=5, categories=3)
    config = TrainConfig(dataset="", segment_length=10, valid_fraction=0.25, test_fraction=0.25)
    parts = set_up(load_dataset(found, config), config)
    names = [set(each.ids.tolist()) for each in (parts.train, parts.valid, parts.test)]
    assert [len(each) for each in names] == [4, 2, 2]
    assert len(set.union(*names)) == 8
    assert max(each.lengths.max() for each in (parts.train, parts.valid, parts.test)) == 10
    expected = class_weights(torch.from_numpy(parts.train.counts))
    assert torch.equal(parts.loss.keywords["loss"].weight_K, expected)


def test_a_question_that_training_never_asks_is_unknown_when_testing():
    one = students([12] * 10, questions=4, categories=3)
    dataset = gpcm.Dataset("odd", replace(one, question=np.minimum(one.question, 2)), one)
    parts = set_up(dataset, TrainConfig(dataset=""))
    assert parts.train.unknown == 0
    assert parts.test.unknown == int((one.question == 3).sum()) > 0


def test_the_best_epoch_is_that_of_the_monitored_metric():
    found = train(monitor="qwk", epochs=4, lr=0.05)
    values = [row["qwk"] for row in found.history]
    assert found.best_epoch == int(np.argmax(values))


def test_a_folder_with_a_run_is_refused_where_it_is_not_to_be_resumed(tmp_path: Path):
    train(out=tmp_path / "run", epochs=1, resume=False)
    with pytest.raises(RunDirError):
        train(out=tmp_path / "run", epochs=1, resume=False)
    train(out=tmp_path / "folds", epochs=1, n_folds=2, jobs=1, resume=False)
    with pytest.raises(RunDirError, match="holds folds already, and resume=False"):
        train(out=tmp_path / "folds", epochs=1, n_folds=2, jobs=1, resume=False)


def test_neither_recomputing_nor_seldom_readings_change_the_model(trained: gpcm.GPCMResult):
    names = [name for name, _ in trained.model.named_children()]
    assert torch.equal(weights(train(recompute=names, log_every=7)), weights(trained))
    with pytest.raises(ConfigError, match="recompute names 'nothing'"):
        train(recompute=["nothing"])


@pytest.mark.soak
def test_ranks_train_the_same_model_together(trained: gpcm.GPCMResult):
    together = train(ranks=2)
    assert torch.allclose(weights(together), weights(trained), atol=2e-4)
    assert together.scores.count == trained.scores.count


def test_folds_are_trained_by_several_processes_or_several_at_a_time():
    with pytest.raises(ConfigError, match="jobs is 2 and ranks 2"):
        train(n_folds=2, jobs=2, ranks=2)


def test_an_interrupted_run_resumes(tmp_path: Path, trained: gpcm.GPCMResult):
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


@pytest.mark.parametrize("n_folds", [0, 2])
def test_a_cancelled_run_resumes(tmp_path: Path, n_folds: int):
    cancel = threading.Event()

    def stop(event: Any) -> None:
        if isinstance(event, EpochDone) and event.epoch == 1:
            cancel.set()

    with pytest.raises(CancelledError):
        train(out=tmp_path / "run", progress=stop, cancel=cancel, n_folds=n_folds, epochs=2)
    resumed = train(out=tmp_path / "run", n_folds=n_folds, epochs=2)
    assert torch.equal(weights(resumed.best), weights(train(n_folds=n_folds, epochs=2).best))


@pytest.mark.parametrize(("count", "n_folds"), [(2, 0), (4, 2), (3, 3), (4, 4)])
def test_as_few_students_as_can_be(count: int, n_folds: int):
    few = students([6] * count, questions=2, categories=2)
    source = gpcm.Dataset("few", few, students([3], questions=2, categories=2))
    found = train(source, n_folds=n_folds, epochs=1, jobs=1)
    assert found.scores.count == (6 * count if n_folds else 3)


def test_a_file_without_test_students_is_split(tmp_path: Path):
    folder = write(tmp_path, gpcm.synthetic_by_name("synthetic_PC_30_5_3"))
    found = train(folder / "synthetic_PC_30_5_3_train.txt", epochs=1, test_fraction=0.5)
    assert len(found.held_out.students) == 12 and found.true_parameters is None
    assert found.vocabulary.partial_credit


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
        (NAME, {"color": 1}, ConfigError, "unknown option 'color'"),
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
    assert 0 not in result.held_out.students.lengths


def test_validation_uses_smaller_batches_where_memory_runs_out(monkeypatch: pytest.MonkeyPatch):
    found, model = students([30, 9, 20]), small().float()
    tried = []

    def full(*arguments: Any, steps: int) -> Any:
        tried.append(steps)
        if steps > most:
            raise torch.OutOfMemoryError("full")
        return predict_next(*arguments, steps=steps)

    monkeypatch.setattr(fit, "predict_next", full)
    most = 100
    assert Validation(found, "argmax")(model, None).keys() >= {"qwk", "accuracy", "cross_entropy"}
    assert tried == [16_384, 4096, 1024, 256, 64]
    most = 0
    with pytest.raises(BudgetError, match="one validation student at a time does not fit"):
        Validation(found, "argmax")(model, None)


def test_students_as_the_loader_takes_them():
    found = tensors(students([2, 0, 3]))
    assert found["question"].lengths.tolist() == [2, 0, 3]


def test_students_of_unequal_length_are_bucketed_by_default():
    def bucket(lengths: list[int], **options: Any) -> int:
        rows = students(lengths, questions=5, categories=3)
        dataset = gpcm.Dataset(train=rows, test=rows, name="made")
        return set_up(dataset, TrainConfig(dataset="", **options)).settings["loader"]["bucket"]

    assert bucket([30, 4, 17, 25, 9, 12, 30, 8]) == 4
    assert bucket([30, 4, 17, 25, 9, 12, 30, 8], bucket=0) == 0
    assert bucket([12] * 8) == 0  # the order of batches is what it would be without


def test_every_batch_has_about_as_many_answers():
    lengths = np.random.default_rng(0).geometric(1 / 40, 700).clip(max=200).tolist()
    rows = students(lengths, questions=5, categories=3)
    dataset = gpcm.Dataset(train=rows, test=rows, name="made")
    setup = set_up(dataset, TrainConfig(dataset="", batch_size=32))
    options: dict[str, Any] = {"batch_size": 32, "device": "cpu"} | setup.settings["loader"]
    batches = data.loader(tensors(setup.train), **options)
    answers = np.array([int(batch["question"].lengths.sum()) for batch in batches])[: 4 * (len(batches) // 4)]
    assert answers.max() < 1.5 * answers.mean()
    assert batches.padding().share < 0.4 < 0.6 < batches.padding().unsorted_share


@pytest.mark.parametrize("find", ["gpcm", "wpo"])
def test_a_learning_rate_is_suggested_for_the_workloads_too(find: str):
    if find == "gpcm":
        rates = gpcm.find_lr(NAME, steps=20, batch_size=16, optimizer="sgd", device="cpu")
    else:
        rows = torch.randn(200, 2, generator=torch.Generator().manual_seed(0))
        model = wpo.ScoreModel(rows[:40])
        before = {name: value.clone() for name, value in model.state_dict().items()}
        rates = wpo.find_lr(model, rows[40:], steps=20, batch_size=40, device="cpu")
        assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert len(rates.lr) <= 20 and 1e-5 <= rates.suggestion <= 1


def test_it_takes_what_train_takes(trained: gpcm.GPCMResult):
    calls: list[Any] = []
    made = train(
        optimizer=lambda parameters: torch.optim.SGD(parameters, lr=0.01),
        schedule="cosine",
        first_cycle=1,
        callbacks=lambda event: calls.append(type(event).__name__),
    )
    assert not torch.equal(weights(made), weights(trained))
    assert calls.count("EpochDone") == len(made.history)


OFFERED: list[dict[str, Any]] = [
    {"optimizer": "sgd"},
    {"optimizer": torch.optim.RMSprop},
    {"schedule": functools.partial(torch.optim.lr_scheduler.StepLR, step_size=1)},
    {"schedule": "cosine", "first_cycle": 1, "cycle_mult": 2},
]


@pytest.mark.parametrize("options", OFFERED, ids=["sgd", "own optimizer", "torch scheduler", "warm restarts"])
def test_optimizers_and_schedules_of_train(trained: gpcm.GPCMResult, options: dict[str, Any]):
    found = train(epochs=3, lr=0.01, **options)
    assert np.isfinite([row["train_loss"] for row in found.history]).all()
    assert not torch.equal(weights(found), weights(trained))
    rates = [row["lr"] for row in found.history]
    if "first_cycle" in options:
        assert rates[1] > rates[0]  # it began anew
    elif "schedule" in options:
        assert np.allclose(rates, [0.01, 0.001, 0.0001])


COMPILED = """
import torch
from tests.gpcm.helpers.training import train, weights

torch.set_num_threads(1)
compiled = train(compile={"backend": "eager"})
assert torch.allclose(weights(compiled), weights(train()), atol=2e-4)
assert compiled.compiling > 0
"""


@pytest.mark.soak
def test_a_compiled_model_is_the_same_model():
    """In a process of its own: torch.compile cannot read what checks annotations here."""
    subprocess.run([sys.executable, "-c", COMPILED], cwd=Path(__file__).parents[3], check=True)
