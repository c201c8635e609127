"""`locate.train`: from datasets to a trained model."""

import threading
from dataclasses import replace
from pathlib import Path
from typing import Any, Unpack

from ...core.declare.config import build
from ...core.memory.budget import BudgetLike
from ...core.runs.callbacks import with_callbacks
from ..datasets import load, select
from ..keywords import LocateKeywords
from ..options import TrainConfig
from ..result import LocateResult
from .fit import fit


def train(
    source: Any,
    *,
    budget: BudgetLike = None,
    progress: Any = None,
    callbacks: Any = (),
    cancel: threading.Event | None = None,
    **options: Unpack[LocateKeywords],
) -> LocateResult:
    """Trains a network that locates transmitters, with an honest uncertainty.

    Args:
        source: recordings to learn from: `Recordings`, a `Dataset`, a long table, the path of a file, the name of a
            dataset in the database, or a list of any of these.
        budget: see `brimful.train`.
        progress: None or True shows it, False is silent, a function gets the events.
        callbacks: see `brimful.train`.
        cancel: an event that, set from any thread, stops the run after the step at hand; see `brimful.train`.
        options: the fields of `TrainConfig`, such as epochs=100, network="small", seed=1, device="cpu", and
            out="model/": a folder for the model, checkpoints and the log; the same call again resumes.

    Example:
        >>> from brimful import locate
        >>> result = locate.train(locate.generate(400), epochs=2, network="small", device="cpu", progress=False)
        >>> result.scores.count
        40
    """
    many = source if isinstance(source, list | tuple) else [source]
    names = [str(one) if isinstance(one, str | Path) else type(one).__name__ for one in many]
    config = replace(build(TrainConfig, {"dataset_ids": ",".join(names), **options}), budget=budget)
    return run(source, config, with_callbacks(progress, callbacks), cancel)


def run(source: Any, config: TrainConfig, progress: Any = None, cancel: threading.Event | None = None) -> LocateResult:
    """The same, from a config."""
    return fit(select(load(source, config.url), config.min_snr_db, config.max_gdop), config, progress, cancel)
