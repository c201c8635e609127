"""`brimful wpo`: train score models, draw from them, and look at them."""

import functools
import sys
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ..core.base.errors import ConfigError
from ..core.declare.config import Common, option
from ..core.declare.registry import Command, Workload
from ..core.memory import devices
from ..core.memory.plan import Plan
from ..core.runs.context import RunContext
from ..core.runs.files import write_atomic
from .data.datasets import Data, dataset
from .memory_table import Table
from .model.score_model import ScoreModel
from .options import Options
from .trained import Trained, load
from .training.train import prepare, train


@dataclass(frozen=True, kw_only=True)
class TrainConfig(Options, Common):
    """Options of `wpo train`."""


@dataclass(frozen=True, kw_only=True)
class SampleConfig(Common):
    """Options of `wpo sample`."""

    directory: Path = option(help="folder of a trained model", positional=True, metavar="DIR")
    n: int = option(1000, help="draws", ge=0)
    t: float = option(0.0, help="time, of which the noise has the variance beta^2 t", ge=0)


@dataclass(frozen=True, kw_only=True)
class ReportConfig(Common):
    """Options of `wpo report`."""

    directory: Path = option(help="folder of a trained model", positional=True, metavar="DIR")


def _data(config: TrainConfig) -> Data:
    data = dataset(
        config.data,
        config.train_kernel_size,
        samples=config.samples,
        held_out=config.held_out,
        folder=config.data_dir,
        seed=config.seed,
    )
    return data.to(torch.float64) if config.double else data.to(torch.float32)


def _model(config: TrainConfig, data: Data) -> ScoreModel:
    names = ("hidden", "depth", "stability", "factor", "rank", "beta")
    return ScoreModel(data.centers_Kd, seed=config.seed, **{name: getattr(config, name) for name in names})


def _device(config: TrainConfig) -> str:
    if config.devices is None:
        return config.device
    if config.device != "auto":
        raise ConfigError(f"--devices is {config.devices} and --device {config.device}; leave one out")
    parts = [part.strip() for part in config.devices.split(",")]
    return ",".join(f"cuda:{part}" if part.isdigit() else part for part in parts)


def plan(config: TrainConfig, probe: bool) -> Plan:
    """From the memory table; nothing is measured."""
    data = _data(config)
    return prepare(
        _model(config, data),
        data.train_Nd,
        batch_size=config.batch_size,
        strategy=config.strategy,
        chunk=config.chunk_size or "auto",
        accumulate=config.accumulation_steps,
        budget=config.budget,
        device=_device(config),
        ranks=config.ranks,
        held_out=data.held_out_Md,
        seed=config.seed,
        averaged=config.average > 0,
    ).table.plan


def run_train(config: TrainConfig, context: RunContext) -> Mapping[str, Any]:
    data = _data(config)
    names = (
        "strategy",
        "objective",
        "monitor",
        "settled",
        "grown",
        "patience",
        "optimizer",
        "lr",
        "weight_decay",
        "schedule",
        "warmup",
        "clip",
    )
    found = train(
        _model(config, data),
        data.train_Nd,
        held_out=data.held_out_Md,
        steps=config.niters,
        batch_size=config.batch_size,
        chunk=config.chunk_size or "auto",
        accumulate=config.accumulation_steps,
        average=config.average,
        budget=config.budget,
        device=_device(config),
        ranks=config.ranks,
        out=config.out,
        seed=config.seed,
        progress=context.events.emit,
        explained=_explain,
        image=data.image,
        settings={each.name: _plain(getattr(config, each.name)) for each in fields(Options)},
        **{name: getattr(config, name) for name in names},
    )
    return _summary(found) | _picture(found, config.out)


def _explain(table: Table) -> None:
    print(table, file=sys.stderr, flush=True)


def _plain(value: Any) -> Any:
    return str(value) if isinstance(value, Path) else value


def _picture(found: Trained, folder: Path | None) -> dict[str, Any]:
    return {} if folder is None else {"picture": str(found.report(folder)[0])}


def _summary(found: Trained) -> dict[str, Any]:
    row, scores = found.table.row, found.scores
    return {
        "data": found.settings.get("data"),
        "centers": len(found.model.inner_Kd),
        "dimensions": found.model.d,
        "factor": found.model.config.factor,
        "strategy": row.strategy,
        "chunk": row.chunk,
        "micro_batches": row.accumulate,
        "steps": len(found.curve),
        "chosen_epoch": found.best + 1,
        "held_out_loss": scores.loss,
        "log_likelihood": scores.log_likelihood,
        "sliced_wasserstein": scores.wasserstein,
        "neighbour_distance_ratio": scores.neighbours,
        "copies": scores.copies,
        "table_bytes": row.total,
        "predicted_bytes": found.predicted,
        "observed_bytes": found.observed,
        "seconds": found.seconds,
    }


def run_sample(config: SampleConfig, context: RunContext) -> Mapping[str, Any]:
    out = config.out or config.directory / "samples.npy"
    if out.suffix not in (".npy", ".csv"):
        raise ConfigError(f"--out is {out}; name where the draws go: a .npy or a .csv file")
    found = load(config.directory)
    model = found.model.to(devices.resolve(config.device))
    drawn = model.sample(config.n, config.t, seed=config.seed).cpu().numpy()
    out.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(out, functools.partial(_write, drawn, out.suffix))
    return {"draws": len(drawn), "dimensions": model.d, "t": config.t, "out": str(out)}


def _write(drawn: np.ndarray, ending: str, path: Path) -> None:
    with path.open("wb") as file:
        if ending == ".npy":
            np.save(file, drawn)
        else:
            np.savetxt(file, drawn, delimiter=",", fmt="%.9g")


def run_report(config: ReportConfig, context: RunContext) -> Mapping[str, Any]:
    found = load(config.directory)
    return _summary(found) | _picture(found, config.out or config.directory)


WORKLOAD = Workload(
    name="wpo",
    help="Score models: mixtures with learned precision matrices, of any number of centers.",
    commands=(
        Command(
            name="train",
            help="Train a score model by implicit score matching, inside a memory budget, and draw the result.",
            config=TrainConfig,
            plan=plan,
            run=run_train,
            job=True,
        ),
        Command(name="sample", help="Draw from a trained model.", config=SampleConfig, run=run_sample, job=True),
        Command(name="report", help="Summarise and draw a trained model.", config=ReportConfig, run=run_report),
    ),
)
