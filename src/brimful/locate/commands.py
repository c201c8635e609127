"""What the commands of `brimful locate` do with their options."""

from typing import Any

import torch

from ..core.base.errors import CancelledError, ConfigError
from ..core.declare.result import measured
from ..core.runs.context import RunContext
from ..core.runs.events import BatchDone, Started
from .data.features import sample_bytes
from .data.files import Dataset, write
from .data.synthetic import generate
from .options import GenerateConfig


def generate_recordings(config: GenerateConfig, context: RunContext) -> dict[str, Any]:
    if config.out.suffix != ".parquet":
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
        write(Dataset(config.name or config.out.stem, recordings, config.scenario(), config.seed), config.out)
    return {
        "recordings": len(recordings),
        "receivers": recordings.receivers,
        "mean_receivers_heard": float(recordings.heard.sum(1).double().mean()),
        "median_gdop": float(recordings.gdop.median()),
        "tensor_bytes": len(recordings) * sample_bytes(recordings.receivers),
        "out": str(config.out),
        **measurements,
    }
