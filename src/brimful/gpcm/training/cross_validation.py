"""Cross-validation: every student is held out once, and a model is trained for each fold.

A fold is a training run of its own, in a folder of its own where there is one (`fold-1`, `fold-2`, ...), so that an
interrupted cross-validation goes on where it was. Folds run together where cores and the budget allow (`together.py`).
"""

import math
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from ...core.base.errors import InputError, RunDirError
from ...core.runs.files import read_sealed, write_sealed
from .. import store
from ..data.files import Folder
from ..data.splits import folds as split_folds
from ..evaluation.metrics import Scores
from ..model.deep_gpcm import DeepGPCM
from ..options import MONITORS, Run
from ..trained import Trained
from ..trained import load as load_one
from .parallel_folds import how_many, run_together

FILE, KIND = "folds.json", "brimful.gpcm.folds/1"
Single = Callable[[Folder, Run], Trained]


@dataclass(frozen=True, slots=True, eq=False)
class Folds:
    """The models of a cross-validation.

    Attributes:
        folds: one trained model each, with its scores on its held-out students.
        tests: their scores on the students of the test file, where there is one.
        jobs: how many were trained at the same time.
        seconds: what all took together.
    """

    folds: tuple[Trained, ...]
    tests: tuple[Scores, ...] = ()
    jobs: int = 1
    seconds: float = 0.0

    @property
    def scores(self) -> Scores:
        """The means over the folds; the count is of all answers."""
        return mean_of([each.scores for each in self.folds])

    @property
    def spread(self) -> dict[str, float]:
        """The standard deviation of each score over the folds."""
        return spread_of([each.scores for each in self.folds])

    @property
    def test(self) -> Scores | None:
        """The means of the scores on the test file's students."""
        return replace(mean_of(self.tests), count=self.tests[0].count) if self.tests else None

    @property
    def best(self) -> Trained:
        """The fold whose model was best on its own validation students; what predicts."""
        return self.folds[self.best_place]

    @property
    def best_place(self) -> int:
        name = self.folds[0].settings.get("monitor", "valid_loss")
        values = np.array([each.history[each.best].get(name, math.nan) for each in self.folds])
        values = -values if MONITORS.get(name, "min") == "min" else values
        return int(np.argmax(np.nan_to_num(values, nan=-np.inf)))

    @property
    def model(self) -> DeepGPCM:
        return self.best.model

    def predict(self, source: Any, **options: Any) -> Any:
        """See `Trained.predict`; by the best fold's model."""
        return self.best.predict(source, **options)

    def predict_question(self, source: Any, question: str, **options: Any) -> Any:
        return self.best.predict_question(source, question, **options)

    def score(self, source: Any, **options: Any) -> Scores:
        return self.best.score(source, **options)

    def report(self, folder: str | Path) -> list[Path]:
        """Draws the best fold's pictures."""
        return self.best.report(folder)

    def save(self, folder: str | Path) -> Path:
        """Writes every fold to a folder of its own, and what there is to say of all."""
        path = Path(folder)
        path.mkdir(parents=True, exist_ok=True)
        for number, each in enumerate(self.folds, 1):
            each.save(path / f"fold-{number}")
        return _write(path, self)

    def __str__(self) -> str:
        return f"{len(self.folds)} folds of gpcm: {self.scores}"


def mean_of(scores: Sequence[Scores]) -> Scores:
    """The mean of each score; the count is the sum."""
    found: dict[str, Any] = {
        each.name: float(np.mean([getattr(one, each.name) for one in scores])) for each in fields(Scores)
    }
    return Scores(**(found | {"count": sum(each.count for each in scores)}))


def spread_of(scores: Sequence[Scores]) -> dict[str, float]:
    names = [each.name for each in fields(Scores) if each.name != "count"]
    return {name: float(np.std([getattr(each, name) for each in scores])) for name in names}


def cross_validate(folder: Folder, run: Run, single: Single) -> Folds:
    """Trains a model for each fold of the training students; the test file's students stay out of all of them."""
    started = time.monotonic()
    if run.out is not None:
        _refuse_others(run.out)
    parts = [
        replace(folder, train=each.train, test=each.test, valid=None)
        for each in split_folds(folder.train, run.options.n_folds, run.seed)
    ]
    jobs = how_many(parts, run)
    if jobs == 1:
        found = tuple(single(part, _in_folder(run, number)) for number, part in enumerate(parts, 1))
    else:
        with tempfile.TemporaryDirectory(prefix="brimful-folds-") as scratch:
            inside = run if run.out is not None else replace(run, out=Path(scratch))
            runs = [_in_folder(inside, number) for number in range(1, len(parts) + 1)]
            run_together(parts, runs, jobs, run)
            found = tuple(load_one(each.out) for each in runs if each.out is not None)
    tests = tuple(each.score(_pieces(folder, run)) for each in found) if folder.test is not None else ()
    folds = Folds(found, tests, jobs, time.monotonic() - started)
    if run.out is not None:
        _write(run.out, folds)
    return folds


def _pieces(folder: Folder, run: Run) -> Any:
    test = folder.test
    assert test is not None
    return test.pieces(run.options.pieces) if run.options.pieces else test


def _in_folder(run: Run, number: int) -> Run:
    return run if run.out is None else replace(run, out=run.out / f"fold-{number}")


def _refuse_others(out: Path) -> None:
    if store.is_model(out):
        raise RunDirError(f"{out} holds a single model; choose another directory for the folds")
    if out.is_file():
        raise RunDirError(f"{out} is a file; folds need a directory. Choose another name")
    inside = sorted(each.name for each in out.iterdir()) if out.exists() else []
    if inside and not any(name.startswith("fold-") for name in inside):
        raise RunDirError(f"{out} holds files that are no run's ({', '.join(inside[:3])}). Choose an empty directory")


def _write(path: Path, folds: Folds) -> Path:
    body = {
        "folds": len(folds.folds),
        "tests": [asdict(each) for each in folds.tests],
        "jobs": folds.jobs,
        "seconds": folds.seconds,
    }
    write_sealed(path / FILE, KIND, body)
    return path


def load(folder: str | Path) -> Trained | Folds:
    """A trained model, or the folds of a cross-validation, from the folder that `train` or `save` wrote."""
    path = Path(folder)
    if not (path / FILE).exists():
        if not store.is_model(path) and any(path.glob("fold-*")):
            raise InputError(f"{path} holds a cross-validation that is not finished; run the same command again")
        return load_one(path)
    body = read_sealed(path / FILE, KIND)
    found = tuple(load_one(path / f"fold-{number}") for number in range(1, body["folds"] + 1))
    return Folds(found, tuple(Scores(**each) for each in body["tests"]), body["jobs"], body["seconds"])
