"""`gpcm.train`: from a dataset to a trained model, or to several by cross-validation."""

from pathlib import Path
from typing import Any

from ...core.declare.config import build
from ..options import Options, Run
from ..trained import Trained
from .cross_validation import Folds, cross_validate
from .datasets import dataset
from .fit import single


def train(
    source: Any,
    *,
    out: str | Path | None = None,
    budget: Any = None,
    device: Any = "auto",
    seed: int = 0,
    progress: Any = None,
    **options: Any,
) -> "Trained | Folds":
    """Trains a model to predict what students answer, and to say what they know.

    Args:
        source: a folder, a file, a table, `Students`, or the name of synthetic data; see `datasets.dataset`.
        out: a folder for the model, checkpoints and the log; the same call again goes on where it was stopped.
        budget, device: see `brimful.train`.
        seed: of the splits, the first weights, the order of the students and dropout.
        progress: None or True shows it, False is silent, a function gets the events.
        options: the fields of `Options`, such as epochs=30, n_folds=5, loss="combined", predict_by="mean".

    Returns:
        A `Trained`, or with n_folds of 2 and more a `Folds`. Both have scores, model, predict, report and save.

    Example:
        >>> found = train("synthetic_OC_40_5_3", epochs=2, device="cpu", progress=False)
        >>> found.scores.count == found.held.students.steps
        True
    """
    chosen = build(Options, options)
    folder = dataset(source, chosen, seed)
    run = Run(chosen, None if out is None else Path(out), budget, device, seed, progress)
    return cross_validate(folder, run, single) if chosen.n_folds > 1 else single(folder, run)
