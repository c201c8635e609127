"""The picture of a fit: some tasks with their bands, the parameters of all, and how the run went."""

from pathlib import Path
from typing import Any

import numpy as np

from ..events import read_log
from ..pictures import BLUE, RED, draw_run, figure_of, save
from ..rundir import LOG
from .fitted import Fit

_SHOWN = 6


def draw(fit: Fit, run: Path, into: Path | None = None) -> Path:
    """Draws a fit into its folder, or another."""
    figure = figure_of(15, 11)
    grid = figure.add_gridspec(3, 12, height_ratios=(1, 1, 0.9))
    shown = _choose(fit)
    for place in range(_SHOWN):
        column = 4 * (place % 3)
        axes = figure.add_subplot(grid[place // 3, column : column + 4])
        if place < len(shown):
            _task(axes, fit, int(shown[place]))
        else:
            axes.set_axis_off()
    names = [name for name in fit.model.names if np.isfinite(fit.params[name]).any()][:3]
    for place, name in enumerate(names):
        _histogram(figure.add_subplot(grid[2, 2 * place : 2 * place + 2]), name, fit.params[name])
    _likelihood(figure.add_subplot(grid[2, 6:8]), fit.nlml)
    draw_run(figure.add_subplot(grid[2, 8:12]), list(read_log(run / LOG)) if (run / LOG).exists() else [], "tasks")
    figure.suptitle(str(fit), fontsize=11)
    return save(figure, (into or run) / "gp.png")


def _choose(fit: Fit) -> np.ndarray:
    """Tasks that are shown: spread over the order of their likelihood, from the easiest to the hardest."""
    good = np.flatnonzero(np.isfinite(fit.nlml))
    if fit.data is None or not len(good):
        return good[:0]
    ranked = good[np.argsort(fit.nlml[good] / np.maximum(fit.columns["points"][good], 1))]
    return ranked[np.unique(np.linspace(0, len(ranked) - 1, min(_SHOWN, len(ranked))).astype(int))]


def _task(axes: Any, fit: Fit, task: int) -> None:
    x, y = points_of(fit, task)
    label = fit.ids[task].as_py()
    axes.set_title(f"task {label}: {_values(fit, task)}", fontsize=8, parse_math=False)  # a name may hold dollars
    if x.shape[1] == 1:
        low, high = x.min(), x.max()
        wide = 0.1 * (high - low or 1.0)
        at = places = np.linspace(low - wide, high + wide, 200)
        where = x[:, 0]
    else:  # no line to draw along: the points themselves, in order of what is expected there
        order = np.argsort(fit.one(task, x)[0])
        at, y = x[order], y[order]
        places = where = np.arange(len(y))
        axes.set_xlabel(f"points in order of their mean ({x.shape[1]} input dimensions)", fontsize=7)
    mean, variance, noise = fit.one(task, at)
    band = 2 * np.sqrt(variance)
    outer = 2 * np.sqrt(variance + noise)
    axes.fill_between(places, mean - outer, mean + outer, color=BLUE, alpha=0.12, lw=0)
    axes.fill_between(places, mean - band, mean + band, color=BLUE, alpha=0.3, lw=0)
    axes.plot(places, mean, color=BLUE, lw=1.5)
    axes.plot(where, y, "o", color="#333333", ms=3)


def points_of(fit: Fit, task: int) -> tuple[np.ndarray, np.ndarray]:
    """The points of one task that are there."""
    batch = fit.batch_of(task)
    y = batch["y"][0].double().numpy()
    shared = fit.model.shared
    x = shared.numpy() if shared is not None else batch["x"][0].double().numpy()
    there = np.isfinite(y)
    return x[there], y[there]


def _values(fit: Fit, task: int) -> str:
    return ", ".join(f"{name.split('.')[-1]} {fit.params[name][task]:.2g}" for name in fit.model.names[:4])


def _histogram(axes: Any, name: str, values: np.ndarray) -> None:
    logs = np.log10(values[np.isfinite(values) & (values > 0)])
    axes.hist(logs, bins=60, color=BLUE)
    axes.set_title(f"log10 {name}", parse_math=False)
    axes.set(yticks=[])


def _likelihood(axes: Any, nlml: np.ndarray) -> None:
    axes.hist(nlml[np.isfinite(nlml)], bins=60, color=RED)
    axes.set(title="NLML, nats", yticks=[])
