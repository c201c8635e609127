"""`gpcm.train`: from a dataset to a trained model, or to several by cross-validation.

In a cross-validation every student is held out once, and a model is trained for each fold: a training run of its own,
in its own folder where there is one (`fold-1`, `fold-2`, ...), so that an interrupted one can be resumed. Folds are
trained in parallel where cores and the budget allow (`parallel_folds.py`).
"""

import tempfile
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, Unpack, overload

from ...core.base.errors import RunDirError
from ...core.declare.config import build
from ...core.memory.budget import BudgetLike
from ...core.memory.devices import DeviceLike
from ...core.runs import model_store
from ...core.runs.callbacks import with_callbacks
from ...core.runs.log_state import read_state
from ...core.runs.rundir import LOG
from .. import store
from ..data.files import Dataset
from ..data.splits import folds as split_folds
from ..keywords import GPCMKeywords, OneModelKeywords
from ..options import TrainConfig
from ..result import CrossValidationResult, GPCMResult
from .datasets import load_dataset
from .fit import fit
from .parallel_folds import count_parallel_folds, train_in_parallel


@overload
def train(
    source: Any,
    *,
    budget: BudgetLike = None,
    device: DeviceLike = "auto",
    resume: bool = True,
    progress: Any = None,
    callbacks: Any = (),
    cancel: threading.Event | None = None,
    **options: Unpack[OneModelKeywords],
) -> GPCMResult: ...


@overload
def train(
    source: Any,
    *,
    n_folds: Literal[0, 1],
    budget: BudgetLike = None,
    device: DeviceLike = "auto",
    resume: bool = True,
    progress: Any = None,
    callbacks: Any = (),
    cancel: threading.Event | None = None,
    **options: Unpack[OneModelKeywords],
) -> GPCMResult: ...


@overload
def train(
    source: Any,
    *,
    n_folds: int,
    budget: BudgetLike = None,
    device: DeviceLike = "auto",
    resume: bool = True,
    progress: Any = None,
    callbacks: Any = (),
    cancel: threading.Event | None = None,
    **options: Unpack[OneModelKeywords],
) -> CrossValidationResult: ...


def train(
    source: Any,
    *,
    budget: BudgetLike = None,
    device: DeviceLike = "auto",
    resume: bool = True,
    progress: Any = None,
    callbacks: Any = (),
    cancel: threading.Event | None = None,
    **options: Unpack[GPCMKeywords],
) -> GPCMResult | CrossValidationResult:
    """Trains a model to predict what students answer, and to estimate what they know.

    Args:
        source: a folder, a file, a table, `Students`, or the name of synthetic data; see `datasets.load_dataset`.
        budget, device: see `brimful.train`.
        resume: go on with a run that `out` holds; False refuses such a folder.
        progress: None or True shows it, False is silent, a function gets the events.
        callbacks: see `brimful.train`.
        cancel: an event that, set from any thread, stops the run after the step at hand; see `brimful.train`.
        options: the fields of `TrainConfig`, such as epochs=30, n_folds=5, loss="combined", predict_by="mean", seed=1,
            and out="model/": a folder for the model, checkpoints and the log; the same call again resumes.

    Returns:
        A `GPCMResult`, or with n_folds of 2 and more a `CrossValidationResult`.

    Example:
        >>> result = train("synthetic_OC_40_5_3", epochs=2, device="cpu", progress=False)
        >>> result.scores.count == result.held_out.students.steps
        True
    """
    name = str(source) if isinstance(source, str | Path) else type(source).__name__
    config = replace(build(TrainConfig, {"dataset": name, **options}), budget=budget, device=device)
    return run(source, config, with_callbacks(progress, callbacks), cancel, resume)


def run(
    source: Any,
    config: TrainConfig,
    progress: Any = None,
    cancel: threading.Event | None = None,
    resume: bool = True,
) -> GPCMResult | CrossValidationResult:
    """The same, from a config."""
    train_one = cross_validate if config.n_folds > 1 else fit
    return train_one(load_dataset(source, config), config, progress, cancel, resume)


def cross_validate(
    dataset: Dataset,
    config: TrainConfig,
    progress: Any = False,
    cancel: threading.Event | None = None,
    resume: bool = True,
) -> CrossValidationResult:
    """Trains a model for each fold of the training students; the test file's students are in none of them."""
    started = time.monotonic()
    if config.out is not None:
        _check_folder(config.out, resume)
    parts = fold_datasets(dataset, config)
    jobs = count_parallel_folds(parts, config)
    with tempfile.TemporaryDirectory(prefix="brimful-folds-") as scratch:
        folder = config.out or (Path(scratch) if jobs > 1 else None)
        outs = [None if folder is None else store.fold_folder(folder, number + 1) for number in range(len(parts))]
        configs = [replace(config, out=out) for out in outs]
        earlier = sum(read_state(out / LOG).seconds for out in outs if out is not None)
        if jobs == 1:
            results = tuple(fit(part, own, progress, cancel) for part, own in zip(parts, configs, strict=True))
        else:
            train_in_parallel(parts, configs, jobs, config, progress, cancel)
            results = tuple(store.load_model(out) for out in outs if out is not None)
    test = None if dataset.test is None else dataset.test.segments(config.segment_length)
    test_scores = () if test is None else tuple(result.score(test) for result in results)
    compiling = sum(result.compiling for result in results) / jobs
    seconds = earlier / jobs + time.monotonic() - started - compiling
    if config.out is not None and sum(result.seconds for result in results) == earlier:  # all was done before
        seconds = store.stored_seconds(config.out) or earlier / jobs
    result = CrossValidationResult.of(results, test_scores, jobs, seconds, compiling)
    if config.out is not None:
        store.save_folds(result, config.out)
    return result


def fold_datasets(dataset: Dataset, config: TrainConfig) -> list[Dataset]:
    """The training students of a dataset, split once for each fold."""
    parts = split_folds(dataset.train, config.n_folds, config.seed)
    return [replace(dataset, train=train, test=test, valid=None) for train, test in parts]


def _check_folder(out: Path, resume: bool) -> None:
    if model_store.is_model(out):
        raise RunDirError(f"{out} holds a single model; choose another directory for the folds")
    if out.is_file():
        raise RunDirError(f"{out} is a file; folds need a directory. Choose another name")
    names = sorted(file.name for file in out.iterdir()) if out.exists() else []
    if names and not resume:
        raise RunDirError(f"{out} holds folds already, and resume=False. Choose another directory, or leave resume out")
    if names and not any(name.startswith("fold-") for name in names):
        raise RunDirError(f"{out} holds other files ({', '.join(names[:3])}). Choose an empty directory")
