"""`gpcm.train`: from a dataset to a trained model, or to several by cross-validation."""

import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

from ...core.declare.config import build
from ..options import TrainConfig
from ..result import CrossValidationResult, GPCMResult
from .cross_validation import cross_validate
from .datasets import load_dataset
from .fit import fit


def train(
    source: Any,
    *,
    budget: Any = None,
    device: Any = "auto",
    progress: Any = None,
    cancel: threading.Event | None = None,
    **options: Any,
) -> GPCMResult | CrossValidationResult:
    """Trains a model to predict what students answer, and to estimate what they know.

    Args:
        source: a folder, a file, a table, `Students`, or the name of synthetic data; see `datasets.load_dataset`.
        budget, device: see `brimful.train`.
        progress: None or True shows it, False is silent, a function gets the events.
        cancel: an event that, set from any thread, stops the run after the step at hand; see `brimful.train`.
        options: the fields of `TrainConfig`, such as epochs=30, n_folds=5, loss="combined", predict_by="mean", seed=1,
            and out="model/": a folder for the model, checkpoints and the log; the same call again resumes.

    Returns:
        A `GPCMResult`, or with n_folds of 2 and more a `CrossValidationResult`.

    Example:
        >>> result = train("synthetic_OC_40_5_3", epochs=2, device="cpu", progress=False)
        >>> result.scores.count == result.held_out.students.steps
        True
    """
    name = str(source) if isinstance(source, str | Path) else type(source).__name__
    config = replace(build(TrainConfig, {"dataset": name, **options}), budget=budget, device=device)
    return run(source, config, progress, cancel)


def run(
    source: Any, config: TrainConfig, progress: Any = None, cancel: threading.Event | None = None
) -> GPCMResult | CrossValidationResult:
    """The same, from a config."""
    train_one = cross_validate if config.n_folds > 1 else fit
    return train_one(load_dataset(source, config), config, progress, cancel)
