"""Pictures that every workload draws alike: how a run went, in memory and throughput over time."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .events import BatchDone, Event, Sampled

BLUE, RED = "#3b6fb6", "#b6533b"


def figure_of(width: float, height: float) -> Any:
    """An empty figure, in inches, that no window system is asked for."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def save(figure: Any, path: Path) -> Path:
    """Writes a figure."""
    figure.savefig(path, dpi=110)
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
    rate = [event.items / max(event.seconds, 1e-9) for event in done]
    axes.step([event.time - begin for event in done], rate, where="pre", color=BLUE)
    axes.set_ylabel(f"{what} a second", color=BLUE)
    axes.set_ylim(bottom=0)
    axes.set_xlim(left=0)
    memory = axes.twinx()
    memory.plot([event.time - begin for event in seen], [event.used / 1e6 for event in seen], color=RED, alpha=0.7)
    memory.plot([event.time - begin for event in done], [event.peak / 1e6 for event in done], "o", color=RED, ms=4)
    memory.set_ylabel("memory, MB (dots: peak of a batch)", color=RED)
    memory.set_ylim(bottom=0)
