"""Pictures that every workload draws alike: how a run went, in memory and throughput over time."""

import importlib
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..runs.events import BatchDone, Event, Sampled

BLUE, RED = "#3b6fb6", "#b6533b"


def preload() -> None:
    """Imports what pictures are drawn with, on a thread of its own: for a run that ends with one."""
    names = ("matplotlib.backends.backend_agg", "matplotlib.figure")
    threading.Thread(target=lambda: [importlib.import_module(name) for name in names], daemon=True).start()


def figure_of(width: float, height: float) -> Any:
    """An empty figure, in inches, that no window system is asked for."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def add_legends(figure: Any, title: str = "") -> Any:
    """The figure, with a title and a legend in each panel that has labels."""
    for axes in figure.axes:
        if axes.get_legend_handles_labels()[0]:
            axes.legend(loc="best", frameon=False, fontsize=8)  # said, so that a slow machine is no warning
    figure.suptitle(title, fontsize=11)
    return figure


def save(figure: Any, path: Path, caption: str = "") -> Path:
    """Writes a figure as PNG, with a caption in it that `core.declare.captions` reads."""
    figure.savefig(path, dpi=110, format="png", metadata={"Description": caption} if caption else None)
    return path


def draw_run(axes: Any, events: Sequence[Event], what: str) -> None:
    """Throughput and memory over time, from the log of a run.

    Args:
        what: what is counted, such as "networks".
    """
    done = [event for event in events if isinstance(event, BatchDone)]
    seen = [event for event in events if isinstance(event, Sampled)]
    axes.set(title="the run", xlabel="seconds")
    if not done:
        return
    begin = done[0].time - done[0].seconds
    ends, rates = _rates(done, begin)
    axes.step([0.0, *ends], [rates[0], *rates], where="pre", color=BLUE)
    axes.set_ylabel(f"{what} per second", color=BLUE)
    axes.set_ylim(bottom=0)
    axes.set_xlim(left=0)
    memory = axes.twinx()
    memory.plot([event.time - begin for event in seen], [event.used / 1e6 for event in seen], color=RED, alpha=0.7)
    memory.plot([event.time - begin for event in done], [event.peak / 1e6 for event in done], "o", color=RED, ms=4)
    memory.set_ylabel("memory, MB (dots: peak of a batch)", color=RED)
    memory.set_ylim(bottom=0)


def _rates(done: Sequence[BatchDone], begin: float) -> tuple[list[float], list[float]]:
    """Throughput between the ends of batches, those that are short against the run taken together: two that end at
    nearly the same moment say nothing about speed."""
    least = 0.03 * (done[-1].time - begin)
    ends, rates = [], []
    last, items = 0.0, 0
    for event in done:
        items += event.items
        now = event.time - begin
        if now - last >= least and now > last:
            ends.append(now)
            rates.append(items / (now - last))
            last, items = now, 0
    if not ends:
        ends, rates = [max(done[-1].time - begin, 1e-9)], [items / max(done[-1].time - begin, 1e-9)]
    return ends, rates


_NOT_METRICS = ("epoch", "step", "train_loss", "valid_loss", "lr", "grad_norm", "grad_norm_max", "weight_norm")


def draw_training(figure: Any, history: Sequence[dict[str, Any]], curve: Any) -> None:
    """How a model was trained, in four pictures: losses, metrics, learning rate, norms.

    Args:
        history: one row per epoch, as `TrainResult.history` has them.
        curve: (steps, 2), the loss and the gradient norm of every step.
    """
    (loss, metrics), (rate, norms) = figure.subplots(2, 2)
    ends = [row["step"] for row in history]
    steps = range(1, len(curve) + 1)
    loss.plot(steps, curve[:, 0], color=BLUE, alpha=0.25, lw=0.8)
    for name, color in (("train_loss", BLUE), ("valid_loss", RED)):
        if any(name in row for row in history):
            loss.plot(ends, [row.get(name) for row in history], color=color, marker=".", label=name)
    loss.set(title="loss", xlabel="step")
    rate.step(ends, [row["lr"] for row in history], where="pre", color=BLUE)
    rate.set(title="learning rate at the end of an epoch", xlabel="step")
    norms.plot(steps, curve[:, 1], color=BLUE, alpha=0.4, lw=0.8, label="gradient")
    norms.plot(ends, [row["weight_norm"] for row in history], color=RED, marker=".", label="weights")
    norms.set(title="norms", xlabel="step", yscale="log")
    extra = [name for name in dict.fromkeys(name for row in history for name in row) if name not in _NOT_METRICS]
    for name in extra:
        if name not in ("seconds", "data_seconds", "skipped"):
            metrics.plot(ends, [row.get(name) for row in history], marker=".", label=name)
    metrics.set(title="metrics", xlabel="step")
    add_legends(figure)
