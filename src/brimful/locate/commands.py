"""What the commands of `brimful locate` do with their options."""

import functools
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.csv
import pyarrow.parquet as pq
import torch

from ..core.base.errors import CancelledError, ConfigError
from ..core.declare.config import ReportConfig, at_fault
from ..core.declare.report import with_report
from ..core.declare.result import measured
from ..core.memory import devices
from ..core.memory.plan import Plan
from ..core.runs.context import RunContext
from ..core.runs.events import BatchDone, Started
from ..core.runs.files import write_atomic
from ..engine.train import plan_train as plan_model
from .data.features import sample_bytes
from .data.files import Dataset, read, write
from .data.synthetic import generate
from .datasets import check, select
from .datasets import load as load_datasets
from .evaluate import evaluate
from .model.networks import loss, step_cost
from .options import DatasetOptions, EvaluateConfig, GenerateConfig, ImportConfig, PredictConfig, TrainConfig
from .report import report
from .store import load
from .training.fit import set_up, training_data
from .training.train import run

_WRITERS: dict[str, Callable[..., None]] = {".parquet": pq.write_table, ".csv": pyarrow.csv.write_csv}


def generate_recordings(config: GenerateConfig, context: RunContext) -> dict[str, Any]:
    if config.out is None and config.name is None:
        raise ConfigError("neither --out nor --name is given; name a .parquet file, or a dataset in the database")
    if config.out is not None and config.out.suffix != ".parquet":
        raise ConfigError(f"--out is {config.out}; name a .parquet file for the recordings")
    context.events.emit(Started(work="locate generate", items=config.samples, done=0, budget=0))
    before = 0

    def done(count: int) -> None:
        nonlocal before
        if context.cancel.is_set():
            raise CancelledError(f"cancelled after {count} of {config.samples} recordings; nothing was written")
        context.events.emit(BatchDone(items=count - before, bad=0, done=count, seconds=0.0, peak=0, budget=0))
        before = count

    with measured(torch.device("cpu")) as measurements:
        recordings = generate(config.samples, config.scenario(), config.seed, done)
        name = config.name or (config.out.stem if config.out else "")
        where = _keep(Dataset(name, recordings, config.scenario(), config.seed), config.out, config.url)
    return {
        "recordings": len(recordings),
        "receivers": recordings.receivers,
        "mean_receivers_detected": float(recordings.detected.sum(1).double().mean()),
        "median_gdop": float(recordings.gdop.median()),
        "tensor_bytes": len(recordings) * sample_bytes(recordings.receivers),
        "out": where,
        **measurements,
    }


def _keep(dataset: Dataset, out: Path | None, url: str | None) -> str:
    """Writes a dataset to a file, or to the database, and says where it is."""
    if out is not None:
        return str(write(dataset, out))
    from .database.datasets import write as write_rows  # it needs the extra `postgres`

    stored = write_rows(dataset, url)
    return f"dataset {stored.name} (number {stored.id})"


def import_recordings(config: ImportConfig, context: RunContext) -> dict[str, Any]:
    with measured(torch.device("cpu")) as measurements:
        dataset = replace(read(config.file), name=config.name or config.file.stem)
        where = _keep(dataset, None, config.url)
    unusable = int((dataset.recordings.faults() != 0).sum())
    return {"recordings": len(dataset.recordings), "not_locatable": unusable, "out": where, **measurements}


def check_datasets(config: DatasetOptions) -> None:
    """Whether the datasets are there."""
    with at_fault("dataset_ids"):
        check(config.datasets, config.url)


def plan_train(config: TrainConfig, probe: bool) -> Plan:
    """By a formula, or measured."""
    setup = set_up(select(load_datasets(config.datasets, config.url), config.min_snr_db, config.max_gdop), config)
    cost = None if probe else step_cost(setup.model, setup.train["mask"].shape[1])
    return plan_model(setup.model, loss, training_data(setup), cost=cost, **setup.inputs())


def train_model(config: TrainConfig, context: RunContext) -> dict[str, Any]:
    result = run(config.datasets, config, context.events.emit, context.cancel)
    return with_report(result.summary(), lambda _: report(result), config.out)


def evaluate_model(config: EvaluateConfig, context: RunContext) -> dict[str, Any]:
    with measured(device := devices.resolve(config.device)) as measurements:
        result, names, url = load(config.directory), config.datasets, config.url
        held_out, comparison = evaluate(
            result,
            load_datasets(names, url) if names else None,
            samples=config.samples,
            min_snr_db=config.min_snr_db,
            max_gdop=config.max_gdop,
            other_receivers=config.other_receivers,
            seed=config.seed,
            device=device,
            budget=config.budget,
        )
    summary = {"recordings": len(held_out), **comparison.flat_values(), **measurements}
    return with_report(summary, lambda _: report(result.with_held_out(held_out), comparison), config.out)


def predict_positions(config: PredictConfig, context: RunContext) -> dict[str, Any]:
    if config.out.suffix not in _WRITERS:
        raise ConfigError(f"--out is {config.out}; name a .parquet or a .csv file for the predictions")
    with measured(device := devices.resolve(config.device)) as measurements:
        table = load(config.directory).predict(config.data, other_receivers=config.other_receivers, device=device)
    config.out.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(config.out, functools.partial(_WRITERS[config.out.suffix], table))
    located = sum(status == 0 for status in table["status"].to_pylist())
    return {
        "recordings": table.num_rows,
        "located": located,
        "not_located": table.num_rows - located,
        "out": str(config.out),
        **measurements,
    }


def report_model(config: ReportConfig, context: RunContext) -> dict[str, Any]:
    result, folder = load(config.directory), config.out or Path(config.directory)
    return with_report(result.summary(), lambda _: report(result), folder)
