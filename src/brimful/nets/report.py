"""The report of a run: where training converges, and how the run went."""

import functools
from pathlib import Path
from typing import Any

import numpy as np

from ..core.declare.pictures import draw_run, figure_of
from ..core.declare.report import Report
from ..core.runs.events import read_log
from ..core.runs.rundir import LOG
from . import model
from .result import NetsResult


def report(result: NetsResult, run: Path) -> Report:
    """The summary, and the picture `nets`: the losses as a square beside memory and throughput over time.

    Args:
        run: the run directory, for its log.
    """
    return Report(
        result.summary(),
        pictures={"nets": functools.partial(_draw, result.loss, run)},
        captions={"nets": "How each network ended, by its two learning rates, and the run"},
    )


def _draw(loss: np.ndarray, run: Path) -> Any:
    figure = figure_of(12, 5.2)
    left, right = figure.subplots(1, 2, width_ratios=(1.15, 1))
    side = model.side(len(loss))
    square = np.full(side * side, np.nan)
    square[: len(loss)] = np.where(np.isfinite(loss), np.log10(np.maximum(loss, 1e-12)), np.nan)
    left.set_facecolor("#f4efe6")
    image = left.imshow(
        square.reshape(side, side),
        origin="lower",
        extent=(*np.log10(model.FIRST), *np.log10(model.SECOND)),
        aspect="auto",
        cmap="magma",
        interpolation="nearest",
    )
    left.set(
        title=f"{len(loss):,} networks, one per pixel (pale: diverged)",
        xlabel="log10 learning rate, first layer",
        ylabel="log10 learning rate, second layer",
    )
    figure.colorbar(image, ax=left, label="log10 loss")
    draw_run(right, list(read_log(run / LOG)), "networks")
    return figure
