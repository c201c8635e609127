"""What the commands of `brimful gpcm` do with their options."""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.csv
import pyarrow.parquet as pq

from ..core.base.errors import ConfigError
from ..core.declare.config import ReportConfig, options_of
from ..core.declare.report import with_report
from ..core.declare.result import measured
from ..core.memory import devices
from ..core.memory.plan import Plan
from ..core.runs.context import RunContext
from ..core.runs.files import write_atomic
from ..engine.train import plan_train as plan_model
from .data.long_table import TableOptions
from .options import PredictConfig, TrainConfig
from .report import report
from .result import CrossValidationResult, GPCMResult, metric_values
from .store import load
from .training.cost import step_cost
from .training.datasets import load_dataset
from .training.fit import set_up, tensors
from .training.train import fold_datasets, run

_WRITERS: dict[str, Callable[..., None]] = {".parquet": pq.write_table, ".csv": pyarrow.csv.write_csv}


def plan_train(config: TrainConfig, probe: bool) -> Plan:
    """The plan of one fold, where there are several; by the model's formula, or measured."""
    dataset = load_dataset(config.dataset, config)
    setup = set_up(fold_datasets(dataset, config)[0] if config.n_folds > 1 else dataset, config)
    return plan_model(
        setup.model,
        setup.loss,
        tensors(setup.train),
        valid=tensors(setup.valid),
        device=config.device,
        budget=config.budget,
        cost=None if probe else step_cost(setup.model.config, int(setup.train.lengths.max(initial=1))),
        **setup.settings,
    )


def train_model(config: TrainConfig, context: RunContext) -> dict[str, Any]:
    return _reported(run(config.dataset, config, context.events.emit, context.cancel), config.out)


def predict_answers(config: PredictConfig, context: RunContext) -> dict[str, Any]:
    if config.out.suffix not in _WRITERS:
        raise ConfigError(f"--out is {config.out}; name a .parquet or a .csv file for the predictions")
    metrics: dict[str, Any] = {}
    with measured(device := devices.resolve(config.device)) as measurements:
        result = load(config.directory).best
        result.model.to(device)
        students = result.read(config.data, **options_of(config, TableOptions))
        if config.next is not None:
            table = result.predict_question(students, config.next)
        else:
            predictions = result.predictions(students)
            table = predictions.table(result.predict_by)
            metrics = metric_values(predictions.scores(result.predict_by)) if students.steps else {}
    config.out.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(config.out, functools.partial(_WRITERS[config.out.suffix], table))
    return {
        "students": students.distinct,
        "rows": table.num_rows,
        "unknown_questions": students.unknown,
        "out": str(config.out),
        **metrics,
        **measurements,
    }


def report_model(config: ReportConfig, context: RunContext) -> dict[str, Any]:
    return _reported(load(config.directory), config.out or config.directory)


def _reported(result: GPCMResult | CrossValidationResult, folder: Path | None) -> dict[str, Any]:
    return with_report(result.summary(), lambda _: report(result), folder)
