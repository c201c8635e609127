"""`brimful gpcm`: train, predict and look at models of what students know."""

import functools
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from ..core.base.errors import ConfigError
from ..core.base.text_table import format_table
from ..core.declare.config import Common, option
from ..core.declare.registry import Command, Workload
from ..core.memory.plan import Plan
from ..core.runs.context import RunContext
from ..core.runs.files import write_atomic
from ..engine.train import plan_train
from .data.long_table import MISSING, TIES, Columns
from .data.splits import folds
from .evaluation.metrics import Scores
from .options import Options, Run
from .trained import Trained
from .training.cross_validation import Folds, cross_validate, load
from .training.datasets import dataset
from .training.fit import prepare, single, tensors

SHOWN = ("accuracy", "within_one", "qwk", "mae", "tau", "spearman", "kappa", "cross_entropy", "ece", "auc")


@dataclass(frozen=True, kw_only=True)
class TrainConfig(Options, Common):
    """Options of `gpcm train`."""

    dataset: str = option(
        help="a folder with train and test files, a file (three lines a student, or a long table), or synthetic data "
        "by name: synthetic_OC, synthetic_PC, 5000_200_4 (students, questions, categories)"
    )


@dataclass(frozen=True, kw_only=True)
class PredictConfig(Common):
    """Options of `gpcm predict`."""

    directory: Path = option(help="folder of a trained model", positional=True, metavar="DIR")
    data: Path = option(help="students: three lines each, or a long table")
    next: str | None = option(None, help="predict the answer to this question after each student's last one")
    student: str | None = option(None, help="column of a table; found by its usual names unless said")
    order: str | None = option(None, help="column of the time or place of an answer")
    question: str | None = option(None, help="column of the question")
    response: str | None = option(None, help="column of the response")
    ties: str = option("error", help="two answers of one student at one time", choices=TIES)
    missing: str = option("error", help="rows of a table in which something is missing", choices=MISSING)


@dataclass(frozen=True, kw_only=True)
class ReportConfig(Common):
    """Options of `gpcm report`."""

    directory: Path = option(help="folder of a trained model", positional=True, metavar="DIR")


def _options(config: TrainConfig) -> Options:
    return Options(**{each.name: getattr(config, each.name) for each in fields(Options)})


def plan(config: TrainConfig, probe: bool) -> Plan:
    """Of one fold, where there are several. It always measures: a few samples are enough."""
    options = _options(config)
    folder = dataset(config.dataset, options, config.seed)
    if options.n_folds > 1:
        fold = folds(folder.train, options.n_folds, config.seed)[0]
        folder = replace(folder, train=fold.train, test=fold.test, valid=None)
    given = prepare(folder, Run(options, None, config.budget, config.device, config.seed))
    return plan_train(
        given.model,
        given.loss,
        tensors(given.train),
        valid=tensors(given.valid),
        device=config.device,
        budget=config.budget,
        **given.settings,
    )


def run_train(config: TrainConfig, context: RunContext) -> Mapping[str, Any]:
    options = _options(config)
    run = Run(options, config.out, config.budget, config.device, config.seed, context.events.emit)
    folder = dataset(config.dataset, options, config.seed)
    found = cross_validate(folder, run, single) if options.n_folds > 1 else single(folder, run)
    return _summary(found) | _pictures(found.report(config.out) if config.out is not None else [])


def _pictures(paths: list[Path]) -> dict[str, Any]:
    return dict(zip(("picture", "students_picture"), map(str, paths) if paths else (None, None), strict=True))


def _summary(found: Trained | Folds) -> dict[str, Any]:
    first = found.folds[0] if isinstance(found, Folds) else found
    summary: dict[str, Any] = {
        "dataset": first.settings.get("dataset"),
        "questions": first.model.config.questions,
        "categories": first.model.config.categories,
        "loss": first.settings.get("loss"),
        "predicted_by": first.predict_by,
        "answers": found.scores.count,
        **_scores(found.scores),
    }
    if isinstance(found, Folds):
        summary["folds"] = _Folds(found)
        summary["best_fold"] = found.best_place + 1
        summary["folds_at_a_time"] = found.jobs
    else:
        summary["chosen_epoch"] = found.best + 1
        summary["epochs"] = len(found.history)
    best = found.best if isinstance(found, Folds) else found
    if best.recovery is not None:
        recovered = best.recovery
        for name in ("alpha", "beta", "theta"):
            summary[f"{name}_recovered"] = _plain(getattr(recovered, f"{name}_r"))
    if best.rounded is not None:
        summary["int8_bytes"] = best.rounded.bytes
        summary["int8_lost_qwk"] = _plain(best.rounded.lost_qwk)
    return summary | {"seconds": found.seconds}


class _Folds(dict):
    """The folds' scores: rows for programs, a table for people."""

    def __init__(self, found: Folds) -> None:
        rows = {f"fold {number}": _scores(each.scores) for number, each in enumerate(found.folds, 1)}
        rows["mean"] = _scores(found.scores)
        rows["deviation"] = {name: _plain(found.spread[name]) for name in SHOWN}
        if found.test is not None:
            rows["test file"] = _scores(found.test)
        super().__init__(rows)

    def __str__(self) -> str:
        names = [name for name in SHOWN if self["mean"][name] is not None]
        rows = [(row, *(_shown(values[name]) for name in names)) for row, values in self.items()]
        return "\n" + format_table(rows, header=("", *names), indent="    ")


def _shown(value: float | None) -> str:
    return "" if value is None else f"{value:.4f}"


def _scores(scores: Scores) -> dict[str, Any]:
    return {name: _plain(value) for name, value in asdict(scores).items() if name in SHOWN}


def _plain(value: float) -> float | None:
    return None if math.isnan(value) else value


def run_predict(config: PredictConfig, context: RunContext) -> Mapping[str, Any]:
    if config.out is None or config.out.suffix not in (".parquet", ".csv"):
        raise ConfigError("name where the predictions go: --out predictions.parquet, or a .csv file")
    found = load(config.directory)
    trained = found.best if isinstance(found, Folds) else found
    names = Columns(config.student, config.order, config.question, config.response)
    students = trained.read(config.data, columns=names, ties=config.ties, missing=config.missing)
    table = trained.predict(students) if config.next is None else trained.predict_question(students, config.next)
    config.out.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(config.out, functools.partial(_write_table, table, config.out.suffix))
    summary: dict[str, Any] = {
        "students": len(students),
        "rows": table.num_rows,
        "answers_to_unknown_questions": students.unknown,
        "out": str(config.out),
    }
    if config.next is None and students.steps:
        summary |= _scores(trained.score(students))
    return summary


def _write_table(table: pa.Table, ending: str, path: Path) -> None:
    if ending == ".csv":
        pyarrow.csv.write_csv(table, path)
    else:
        pq.write_table(table, path)


def run_report(config: ReportConfig, context: RunContext) -> Mapping[str, Any]:
    found = load(config.directory)
    folder = config.out or config.directory
    return _summary(found) | _pictures(found.report(folder))


WORKLOAD = Workload(
    name="gpcm",
    help="Ordinal knowledge tracing (Deep-GPCM): what students will answer, and what they know.",
    commands=(
        Command(
            name="train",
            help="Train on some students and test on others, or by cross-validation, and draw the result.",
            config=TrainConfig,
            plan=plan,
            run=run_train,
            job=True,
        ),
        Command(
            name="predict",
            help="Predict each answer of new students from those before it, or the next one.",
            config=PredictConfig,
            run=run_predict,
            job=True,
        ),
        Command(name="report", help="Summarise and draw a trained model.", config=ReportConfig, run=run_report),
    ),
)
