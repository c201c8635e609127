"""What can be trained on: files, folders, tables, students in memory, and synthetic data by its name.

Every dataset has training students, test students, and where there are any, validation students; those without answers
are left out.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ...core.base.errors import ConfigError, InputError
from ...core.declare.config import options_of
from ..data.files import Dataset, read, read_folder
from ..data.long_table import TableOptions
from ..data.splits import split
from ..data.students import Students
from ..data.synthetic import SyntheticStudents, synthetic_by_name
from ..options import TrainConfig


def load_dataset(source: Any, config: TrainConfig) -> Dataset:
    """The dataset, with some students held out where there is no test file.

    Args:
        source: a folder with files for training and test; a file in the three-line format or a long table; an Arrow or
            pandas table; `Students`; a `Dataset`; or synthetic data, itself or by a name such as synthetic_OC or
            5000_200_4.
    """
    dataset = _read(source, config)
    if dataset.test is None and config.n_folds < 2:
        _check_students(dataset.train, 2, dataset.name)
        fractions = (1 - config.test_fraction, config.test_fraction)
        train, test = split(_answered(dataset.train), fractions, config.seed)
        dataset = replace(dataset, train=train, test=test)
    parts = {name: getattr(dataset, name) for name in ("train", "test", "valid")}
    answered = {name: _answered(part) for name, part in parts.items() if part is not None}
    dataset = replace(dataset, **answered)
    # Two must be left to train on beside those that are held out: one of them for validation.
    _check_students(
        dataset.train, 4 if config.n_folds == 2 else max(3, config.n_folds) if config.n_folds > 2 else 2, dataset.name
    )
    if dataset.test is not None and not len(dataset.test) and config.n_folds < 2:
        raise InputError(
            f"{dataset.name}: there are no answers to test on; give more students, or a larger test_fraction"
        )
    return dataset


def _read(source: Any, config: TrainConfig) -> Dataset:
    if isinstance(source, Dataset):
        return source
    if isinstance(source, SyntheticStudents):
        return source.dataset()
    if isinstance(source, Students):
        return Dataset("students", source)
    table = options_of(config, TableOptions)
    response = {"categories": config.categories, "partial_credit": config.partial_credit or None}
    if not isinstance(source, str | Path):
        return Dataset("table", read(source, **response, **table))
    path = Path(source)
    if path.is_dir():
        return read_folder(path, **table)
    if path.exists():
        return Dataset(path.stem, read(path, **response, **table))
    try:
        return synthetic_by_name(str(source)).dataset()
    except ConfigError as error:
        raise InputError(
            f"{source} is neither a file nor a folder, nor the name of synthetic data; give a path that exists, or a "
            f"name such as synthetic_OC or 5000_200_4 (students, questions, categories)"
        ) from error


def _answered(students: Students) -> Students:
    return students if bool((students.lengths > 0).all()) else students.select(students.lengths > 0)


def _check_students(students: Students, least: int, name: str) -> None:
    count = len(np.unique(students.ids[students.lengths > 0]))
    if count < least:
        raise InputError(
            f"{name}: {count} student{'s' if count != 1 else ''} with answers to train on, and {least} are needed, "
            f"since students are held out whole; give more students"
        )
