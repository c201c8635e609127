"""What can be trained on: files, folders, tables, students in memory, and synthetic data by its name.

Every dataset comes as training students, students to test on, and where there are any students to choose the epoch by;
those without answers are left out.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ...core.base.errors import ConfigError, InputError
from ..data.files import Folder, read, read_folder
from ..data.splits import split
from ..data.students import Students
from ..data.synthetic import Synthetic, named
from ..options import Options


def dataset(source: Any, options: Options, seed: int = 0) -> Folder:
    """The students that are meant, with some of them held out where there is no test file.

    Args:
        source: a folder with files for training and test; a file in the three-line format or a long table; an Arrow or
            pandas table; `Students`; a `Folder`; or synthetic data, itself or by a name such as synthetic_OC or
            5000_200_4.
        seed: of the split.
    """
    found = _find(source, options)
    if found.test is None and options.n_folds < 2:
        _enough(found.train, 2, found.name)
        train, test = split(_answered(found.train), (1 - options.test_fraction, options.test_fraction), seed)
        found = replace(found, train=train, test=test)
    parts = {name: _answered(each) for name in ("train", "test", "valid") if (each := getattr(found, name)) is not None}
    found = replace(found, **parts)
    _enough(found.train, _least(options.n_folds), found.name)
    if found.test is not None and not len(found.test) and options.n_folds < 2:
        raise InputError(
            f"{found.name}: there are no answers to test on; give more students, or a larger test_fraction"
        )
    return found


def _find(source: Any, options: Options) -> Folder:
    if isinstance(source, Folder):
        return source
    if isinstance(source, Synthetic):
        return source.folder()
    if isinstance(source, Students):
        return Folder("students", source)
    table = {"columns": options.columns(), "ties": options.ties, "missing": options.missing}
    said = {"categories": options.categories, "scores": options.scores or None}
    if not isinstance(source, str | Path):
        return Folder("table", read(source, **said, **table))
    path = Path(source)
    if path.is_dir():
        return read_folder(path, **table)
    if path.exists():
        return Folder(path.stem, read(path, **said, **table))
    try:
        return named(str(source)).folder()
    except ConfigError as error:
        raise InputError(
            f"{source} is neither a file nor a folder, nor the name of synthetic data; give a path that exists, or a "
            f"name such as synthetic_OC or 5000_200_4 (students, questions, categories)"
        ) from error


def _answered(students: Students) -> Students:
    return students if bool((students.lengths > 0).all()) else students.select(students.lengths > 0)


def _least(folds: int) -> int:
    """So many that two are left to train on beside those that are held out: one of them chooses the epoch."""
    return 4 if folds == 2 else max(3, folds) if folds > 2 else 2


def _enough(students: Students, least: int, name: str) -> None:
    there = len(np.unique(students.ids[students.lengths > 0]))
    if there < least:
        raise InputError(
            f"{name}: {there} student{'s' if there != 1 else ''} with answers to train on, and {least} are needed, "
            f"since students are held out whole; give more students"
        )
