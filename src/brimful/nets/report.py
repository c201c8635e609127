"""The picture of a run: the map of where training works, and how the run went."""

from pathlib import Path

import numpy as np

from ..events import BatchDone, Event, Sampled, read_log
from ..rundir import LOG
from . import model


def draw(loss: np.ndarray, run: Path) -> Path:
    """Draws the losses as a square, a network a pixel, beside memory and throughput over time.

    Args:
        loss: one a network, row by row; infinite where it diverged.
        run: the run directory; the picture goes there too.
    """
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(12, 5.2), width_ratios=(1.15, 1), layout="constrained")
    _draw_map(left, figure, loss)
    _draw_run(right, list(read_log(run / LOG)))
    path = run / "nets.png"
    figure.savefig(path, dpi=110)
    plt.close(figure)
    return path


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


def _draw_run(axes, events: list[Event]) -> None:
    done = [event for event in events if isinstance(event, BatchDone)]
    seen = [event for event in events if isinstance(event, Sampled)]
    axes.set(title="the run", xlabel="seconds")
    if not done:
        return
    begin = done[0].time - done[0].seconds
    rate = [event.items / max(event.seconds, 1e-9) for event in done]
    axes.step([event.time - begin for event in done], rate, where="pre", color="#3b6fb6")
    axes.set_ylabel("networks a second", color="#3b6fb6")
    axes.set_ylim(bottom=0)
    axes.set_xlim(left=0)
    memory = axes.twinx()
    memory.plot(
        [event.time - begin for event in seen], [event.used / 1e6 for event in seen], color="#b6533b", alpha=0.7
    )
    memory.plot(
        [event.time - begin for event in done], [event.peak / 1e6 for event in done], "o", color="#b6533b", ms=4
    )
    memory.set_ylabel("memory, MB (dots: peak of a batch)", color="#b6533b")
    memory.set_ylim(bottom=0)
