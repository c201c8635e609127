"""What the commands of `brimful wpo` do with their options."""

import functools
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ..core.base.errors import ConfigError
from ..core.declare.config import ReportConfig, options_of, to_dict
from ..core.declare.report import with_report
from ..core.declare.result import measured
from ..core.memory import devices
from ..core.memory.plan import Plan
from ..core.runs.context import RunContext
from ..core.runs.files import write_atomic
from .data.datasets import DataSplits, dataset
from .model.score_model import ScoreModel
from .options import DataOptions, ModelOptions, SampleConfig, ScoreTrainOptions, TrainConfig
from .report import report
from .store import load
from .training import train

_WRITERS: dict[str, Callable[..., None]] = {
    ".npy": np.save,
    ".csv": functools.partial(np.savetxt, delimiter=",", fmt="%.9g"),
}


def _inputs(config: TrainConfig) -> tuple[DataSplits, dict[str, Any]]:
    """The data, and the arguments of `train` and `plan_train` that follow from the options."""
    data = dataset(
        config.data,
        config.centers,
        samples=config.samples,
        held_out=config.held_out,
        folder=config.data_dir,
        seed=config.seed,
    ).to(torch.float64 if config.precision == "float64" else torch.float32)
    arguments = options_of(config, ScoreTrainOptions) | {
        "model": ScoreModel(data.centers_Kd, seed=config.seed, **options_of(config, ModelOptions)),
        "samples": data.train_Nd,
        "held_out": data.held_out_Md,
        "budget": config.budget,
        "device": config.device,
        "seed": config.seed,
    }
    return data, arguments


def plan_train(config: TrainConfig, probe: bool) -> Plan:
    _, arguments = _inputs(config)
    return train.plan_train(**arguments, probe=probe)


def train_model(config: TrainConfig, context: RunContext) -> dict[str, Any]:
    data, arguments = _inputs(config)
    names = {field.name for options in (DataOptions, ModelOptions, ScoreTrainOptions) for field in fields(options)}
    result = train.train(
        **arguments,
        out=config.out,
        progress=context.events.emit,
        cancel=context.cancel,
        image_shape=data.image_shape,
        settings={name: value for name, value in to_dict(config).items() if name in names},
    )
    return _reported(result, config.out)


def sample_model(config: SampleConfig, context: RunContext) -> dict[str, Any]:
    out = config.out or config.directory / "samples.npy"
    if out.suffix not in _WRITERS:
        raise ConfigError(f"--out is {out}; name a .npy or a .csv file for the samples")
    with measured(device := devices.resolve(config.device)) as measurements:
        model = load(config.directory).model.to(device)
        samples_nd = model.sample(config.n, config.t, seed=config.seed).cpu().numpy()

    def write(path: Path) -> None:
        with path.open("wb") as file:
            _WRITERS[out.suffix](file, samples_nd)

    out.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(out, write)
    return {"samples": len(samples_nd), "dimensions": model.d, "t": config.t, **measurements, "out": str(out)}


def report_model(config: ReportConfig, context: RunContext) -> dict[str, Any]:
    return _reported(load(config.directory), config.out or config.directory)


def _reported(result: Any, folder: Path | None) -> dict[str, Any]:
    return with_report(result.summary(), lambda _: report(result), folder)
