"""The picture of a run: the map of where training works, and how the run went."""

from pathlib import Path

import numpy as np

from ..core.declare.pictures import draw_run, figure_of, save
from ..core.runs.events import read_log
from ..core.runs.rundir import LOG
from . import model


def draw(loss: np.ndarray, run: Path) -> Path:
    """Draws the losses as a square, a network a pixel, beside memory and throughput over time.

    Args:
        loss: one a network, row by row; infinite where it diverged.
        run: the run directory; the picture goes there too.
    """
    figure = figure_of(12, 5.2)
    left, right = figure.subplots(1, 2, width_ratios=(1.15, 1))
    _draw_map(left, figure, loss)
    draw_run(right, list(read_log(run / LOG)), "networks")
    return save(figure, run / "nets.png")


def _draw_map(axes, figure, loss: np.ndarray) -> None:
    side = int(np.ceil(np.sqrt(len(loss))))
    square = np.full(side * side, np.nan)
    square[: len(loss)] = np.where(np.isfinite(loss), np.log10(np.maximum(loss, 1e-12)), np.nan)
    extent = (*np.log10(model.FIRST), *np.log10(model.SECOND))
    axes.set_facecolor("#f4efe6")
    image = axes.imshow(
        square.reshape(side, side), origin="lower", extent=extent, aspect="auto", cmap="magma", interpolation="nearest"
    )
    axes.set(
        title=f"{len(loss):,} networks, one a pixel (pale: diverged)",
        xlabel="log10 learning rate, first layer",
        ylabel="log10 learning rate, second layer",
    )
    figure.colorbar(image, ax=axes, label="log10 loss")
