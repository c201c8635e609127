"""Cross-validation: every student is held out once, and a model is trained for each fold.

A fold is a training run of its own, in its own folder where there is one (`fold-1`, `fold-2`, ...), so that an
interrupted cross-validation can be resumed. Folds are trained in parallel where cores and the budget allow
(`parallel_folds.py`).
"""

import tempfile
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from ...core.base.errors import RunDirError
from ...core.runs import model_store
from .. import store
from ..data.files import Dataset
from ..data.splits import folds as split_folds
from ..options import TrainConfig
from ..result import CrossValidationResult
from .fit import fit
from .parallel_folds import count_parallel_folds, train_in_parallel


def cross_validate(
    dataset: Dataset, config: TrainConfig, progress: Any = False, cancel: threading.Event | None = None
) -> CrossValidationResult:
    """Trains a model for each fold of the training students; the test file's students are in none of them."""
    started = time.monotonic()
    if config.out is not None:
        _check_folder(config.out)
    parts = fold_datasets(dataset, config)
    jobs = count_parallel_folds(parts, config)
    if jobs == 1:
        results = tuple(
            fit(part, _fold_config(config, config.out, number), progress, cancel)
            for number, part in enumerate(parts, 1)
        )
    else:
        with tempfile.TemporaryDirectory(prefix="brimful-folds-") as scratch:
            folder = config.out or Path(scratch)
            configs = [_fold_config(config, folder, number) for number in range(1, len(parts) + 1)]
            train_in_parallel(parts, configs, jobs, config, progress, cancel)
            results = tuple(store.load_model(store.fold_folder(folder, number + 1)) for number in range(len(parts)))
    test = None if dataset.test is None else dataset.test.segments(config.segment_length)
    test_scores = () if test is None else tuple(result.score(test) for result in results)
    result = CrossValidationResult(results, test_scores, jobs, time.monotonic() - started)
    if config.out is not None:
        store.save_folds(result, config.out)
    return result


def fold_datasets(dataset: Dataset, config: TrainConfig) -> list[Dataset]:
    """The training students of a dataset, split once for each fold."""
    parts = split_folds(dataset.train, config.n_folds, config.seed)
    return [replace(dataset, train=part.train, test=part.test, valid=None) for part in parts]


def _fold_config(config: TrainConfig, folder: Path | None, number: int) -> TrainConfig:
    return replace(config, out=None if folder is None else store.fold_folder(folder, number))


def _check_folder(out: Path) -> None:
    if model_store.is_model(out):
        raise RunDirError(f"{out} holds a single model; choose another directory for the folds")
    if out.is_file():
        raise RunDirError(f"{out} is a file; folds need a directory. Choose another name")
    names = sorted(file.name for file in out.iterdir()) if out.exists() else []
    if names and not any(name.startswith("fold-") for name in names):
        raise RunDirError(f"{out} holds other files ({', '.join(names[:3])}). Choose an empty directory")
