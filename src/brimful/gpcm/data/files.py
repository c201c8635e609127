"""Students from files: the three-line format, long tables, and folders with a training and a test file.

The vocabulary of questions is that of the training data. A question outside it is the unknown one, number Q, for which
the model has a row of its own; `Students.unknown` counts them. A category that training never saw is predicted like any
other, as long as it is below K; one that is not is an error, since no prediction could be right about it.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ...core.base.arguments import as_path
from ...core.base.errors import InputError
from ...core.declare.config import build
from . import long_table, three_line, true_parameters
from .encode import ParsedSteps, encode
from .long_table import TableOptions
from .students import Students
from .true_parameters import TrueParameters

_SUFFIXES = (".txt", ".csv", ".tsv", ".parquet", ".pq")


@dataclass(frozen=True, slots=True, eq=False)
class Dataset:
    """Training students, and where there are any, test students and validation students.

    Attributes:
        name: the dataset's name.
        train: the training students, whose vocabulary all share.
        test, valid: the others, where there are files for them.
        true_parameters: what it was drawn from, for synthetic data.
    """

    name: str
    train: Students
    test: Students | None = None
    valid: Students | None = None
    true_parameters: TrueParameters | None = None


def read(
    path: Any,
    *,
    like: Students | None = None,
    categories: int | None = None,
    partial_credit: bool | None = None,
    **options: Any,
) -> Students:
    """Students of one file, in the three-line format or as a long table, whichever it is.

    Args:
        path: a file, an Arrow table, or a frame of pandas or polars, also a lazy one.
        like: the training students, when reading others: their vocabulary and categories are used.
        categories: K; by default inferred from the responses. See `encode.to_categories` for scores.
        partial_credit: whether responses are scores from 0 to 1; by default inferred.
        options: the fields of `TableOptions`: columns by name, as student="user", and ties="rows" or missing="drop".

    Returns:
        The students. Question ids may start from 0 or 1, or be any names: they are the vocabulary's names, and the
        questions' numbers are their positions in it.
    """
    return encode(_parse(path, build(TableOptions, options)), like, categories, partial_credit)


def read_folder(path: str | Path, **options: Any) -> Dataset:
    """A folder with a file whose name ends in "train", and others that end in "test" and "valid" where there are any.

    `metadata.json` may give n_questions, n_cats (or n_categories) and response_type. With n_questions, the vocabulary
    is all of them, so that numbers agree with `true_irt_parameters.json`: ids run from 1 if the largest id in any file
    is n_questions, else from 0. Without it, the vocabulary is what training asks.
    Students of three-line files are numbered consecutively: training, then validation, then test.
    """
    folder = as_path(path, "give the folder with the train and test files")
    if not folder.is_dir():
        raise InputError(f"{folder} is not a folder; give the folder with the train and test files")
    files = {part: _file(folder, part) for part in ("train", "valid", "test")}
    if files["train"] is None:
        raise InputError(f"{folder} has no file whose name ends in train ({', '.join(_SUFFIXES)}); check the path")
    parsed: dict[str, ParsedSteps] = {}
    table, first = build(TableOptions, options), 0
    for part, file in files.items():
        if file is not None:
            parsed[part] = _parse(file, table, first)
            first += len(parsed[part].ids)
    metadata = _metadata(folder)
    vocabulary = _vocabulary(folder, metadata, [name for steps in parsed.values() for name in steps.names.tolist()])
    partial_credit = True if metadata.get("response_type") == "partial_credit" else None
    categories = metadata.get("n_cats", metadata.get("n_categories"))
    train = encode(parsed.pop("train"), None, categories, partial_credit, vocabulary)
    others = {part: encode(steps, train) for part, steps in parsed.items()}
    true = true_parameters.read(folder / true_parameters.FILE)
    return Dataset(metadata.get("dataset_name") or folder.name, train, **others, true_parameters=true)


def _parse(source: Any, options: TableOptions, first: int = 0) -> ParsedSteps:
    if isinstance(source, str | Path):
        path = as_path(source, "give a file of students")
        if path.is_dir():
            raise InputError(f"{path} is a folder; read it with read_folder, or give one of its files")
        if not path.exists():
            raise InputError(f"{path} does not exist; check the path")
        if path.stat().st_size == 0:
            raise InputError(f"{path} is empty; check the path")
        if path.suffix.lower() not in (".parquet", ".pq") and three_line.is_three_line(path):
            return three_line.parse(path, first)
    return long_table.parse(source, options)


def _file(folder: Path, part: str) -> Path | None:
    there = sorted(folder.iterdir())
    files = [file for file in there if file.suffix.lower() in _SUFFIXES and file.stem.lower().endswith(part)]
    if len(files) > 1:
        names = ", ".join(file.name for file in files)
        raise InputError(f"{folder} has {len(files)} files for {part}: {names}; remove all but one")
    return files[0] if files else None


def _metadata(folder: Path) -> dict[str, Any]:
    path = folder / "metadata.json"
    if not path.exists():
        return {}
    try:
        metadata = json.loads(path.read_text())
    except (ValueError, OSError) as error:
        raise InputError(f"{path} is not JSON: {error}; correct it, or remove it") from error
    if not isinstance(metadata, dict):
        kind = type(metadata).__name__
        raise InputError(f"{path} holds a {kind}; it should be an object with n_questions and n_cats")
    for name in ("n_questions", "n_cats", "n_categories"):
        if name in metadata and (not isinstance(metadata[name], int) or metadata[name] < 1):
            raise InputError(f"in {path} {name} is {metadata[name]!r}; it must be a positive whole number")
    return metadata


def _vocabulary(folder: Path, metadata: dict[str, Any], names: list[str]) -> np.ndarray | None:
    """The names of all questions, where their number is declared and they are named by numbers."""
    count = metadata.get("n_questions")
    if count is None or not all(name.isdigit() for name in names):
        return None
    numbers = {int(name) for name in names}
    if 0 in numbers and count in numbers:
        raise InputError(
            f"{folder / 'metadata.json'} declares {count} questions, but ids run from 0 to {count}; correct it"
        )
    base = int(count in numbers)
    return np.arange(base, base + count).astype(str)
