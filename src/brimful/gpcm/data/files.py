"""Students from files: the three-line format, long tables, and folders with a training and a test file.

The vocabulary of questions is that of the training data. A question it lacks is the unknown one, number Q, for which
the model has a row of its own; `Students.unknown` counts them. A category that training never saw is predicted like any
other, as long as it is below K; one that is not below K is an error, since no prediction could be right about it.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ...core.base.errors import InputError
from . import long_table, three_line
from . import true_parameters as truths
from .long_table import Columns
from .raw import Raw, understand
from .students import Students
from .true_parameters import Truth

_ENDINGS = (".txt", ".csv", ".tsv", ".parquet", ".pq")


@dataclass(frozen=True, slots=True, eq=False)
class Folder:
    """What a folder of data holds.

    Attributes:
        name: the dataset's name.
        train: the training students, whose vocabulary all share.
        test, valid: the others, where there are files for them.
        truth: the parameters it was drawn from, for synthetic data.
    """

    name: str
    train: Students
    test: Students | None = None
    valid: Students | None = None
    truth: Truth | None = None


def read(
    path: Any,
    *,
    like: Students | None = None,
    columns: Columns = Columns(),
    categories: int | None = None,
    scores: bool | None = None,
    ties: str = "error",
    missing: str = "error",
) -> Students:
    """Students of one file, in the three-line format or as a long table, whichever it is.

    Args:
        path: a file, or an Arrow or pandas table.
        like: the training students, when reading others: their vocabulary and categories are used.
        columns: the names of a table's columns.
        categories: K; seen from the responses if not given. See `raw.to_categories` for scores.
        scores: whether responses are scores from 0 to 1; seen if not given.
        ties, missing: see `table.parse`.

    Returns:
        The students. Question ids may start from 0 or 1, or be any names: they are the vocabulary's names, and the
        questions' numbers are their places in it.
    """
    return understand(_parse(path, columns, ties, missing), like, categories, scores)


def read_folder(
    path: str | Path, *, columns: Columns = Columns(), ties: str = "error", missing: str = "error"
) -> Folder:
    """A folder with a file whose name ends in "train", and others that end in "test" and "valid" where there are any.

    `metadata.json` may say n_questions, n_cats (or n_categories) and response_type. Where it says n_questions, the
    vocabulary is all of them, so that places agree with `true_irt_parameters.json`: ids run from 1 if the largest id in
    any file is n_questions, else from 0. Without it, the vocabulary is what training asks.
    Students of three-line files are numbered through: training, then validation, then test.
    """
    folder = Path(path)
    if not folder.is_dir():
        raise InputError(f"{folder} is not a folder; give the folder with the train and test files")
    files = {part: _file(folder, part) for part in ("train", "valid", "test")}
    if files["train"] is None:
        raise InputError(f"{folder} has no file whose name ends in train ({', '.join(_ENDINGS)}); check the path")
    raws: dict[str, Raw] = {}
    first = 0
    for part, file in files.items():
        if file is not None:
            raws[part] = _parse(file, columns, ties, missing, first)
            first += len(raws[part].ids)
    about = _metadata(folder)
    declared = _vocabulary(folder, about, list(raws.values()))
    scores = True if about.get("response_type") == "partial_credit" else None
    train = understand(raws["train"], None, about.get("n_cats", about.get("n_categories")), scores, declared)
    rest = {part: understand(raw, train) for part, raw in raws.items() if part != "train"}
    truth = truths.read(folder / truths.FILE) if (folder / truths.FILE).exists() else None
    return Folder(about.get("dataset_name") or folder.name, train, rest.get("test"), rest.get("valid"), truth)


def _parse(source: Any, columns: Columns, ties: str, missing: str, first: int = 0) -> Raw:
    if not isinstance(source, str | Path):
        return long_table.parse(source, columns, ties, missing)
    path = Path(source)
    if path.is_dir():
        raise InputError(f"{path} is a folder; read it with read_folder, or give one of its files")
    if not path.exists():
        raise InputError(f"{path} does not exist; check the path")
    if path.stat().st_size == 0:
        raise InputError(f"{path} is empty; check the path")
    if path.suffix.lower() not in (".parquet", ".pq") and three_line.looks_so(path):
        return three_line.parse(path, first)
    return long_table.parse(path, columns, ties, missing)


def _file(folder: Path, part: str) -> Path | None:
    found = [each for each in sorted(folder.iterdir()) if each.suffix.lower() in _ENDINGS]
    found = [each for each in found if each.stem.lower().endswith(part)]
    if len(found) > 1:
        raise InputError(
            f"{folder} has {len(found)} files for {part}: {', '.join(each.name for each in found)}; keep one"
        )
    return found[0] if found else None


def _metadata(folder: Path) -> dict[str, Any]:
    path = folder / "metadata.json"
    if not path.exists():
        return {}
    try:
        about = json.loads(path.read_text())
    except (ValueError, OSError) as error:
        raise InputError(f"{path} is not JSON: {error}; correct it, or take it away") from error
    if not isinstance(about, dict):
        raise InputError(f"{path} holds a {type(about).__name__}; it should be an object with n_questions and n_cats")
    for name in ("n_questions", "n_cats", "n_categories"):
        if name in about and (not isinstance(about[name], int) or about[name] < 1):
            raise InputError(f"{path} says {name} is {about[name]!r}; it is a positive whole number")
    return about


def _vocabulary(folder: Path, about: dict[str, Any], raws: list[Raw]) -> np.ndarray | None:
    """The names of all questions, where their number is declared and they are named by numbers."""
    count = about.get("n_questions")
    names = [name for raw in raws for name in raw.names.tolist()]
    if count is None or not all(name.isdigit() for name in names):
        return None
    numbers = {int(name) for name in names}
    if 0 in numbers and count in numbers:
        raise InputError(
            f"{folder / 'metadata.json'} says there are {count} questions, but ids run from 0 to {count}; correct it"
        )
    base = int(count in numbers)
    return np.arange(base, base + count).astype(str)
