"""The picture of a fit: some tasks with their bands, the parameters of all, and how the run went."""

import math
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from ..core.base.arguments import check_type
from ..core.declare.pictures import BLUE, RED, draw_run, figure_of
from ..core.declare.report import Report
from ..core.runs.events import read_log
from ..core.runs.rundir import LOG
from .data.long_table import moments
from .result import Fit

_SHOWN, _COLUMNS = 6, 3  # tasks, and how many beside one another
_PARAMETERS, _NAMED = 12, 4  # drawn, and named in the title of each task
_WIDE, _RUN = 6, 2  # the most histograms beside one another, and how many are as wide as the run


def report(fit: Fit, run: Path | None = None) -> Report:
    """How good the fits are, the medians of their parameters, and a picture; of the run in that folder, if there is
    one."""
    check_type(fit, Fit, "give what gp.fit or gp.load returned")
    finite = {name: values[np.isfinite(values)] for name, values in fit.params.items()}
    medians = {f"median_{name}": float(np.median(values)) for name, values in finite.items() if len(values)}
    return Report(
        metrics=fit.quality() | medians,
        pictures={"gp": lambda: draw(fit, run)},
        captions={"gp": "Some of the fits with their 95% bands, and the run"},
    )


def draw(fit: Fit, run: Path | None = None) -> Any:
    """The picture of a fit; with how it ran, where its directory has a log."""
    events = list(read_log(run / LOG)) if run is not None and (run / LOG).exists() else []
    params = {name: values for name, values in fit.params.items() if name in fit.model.names and (values > 0).any()}
    names = list(params)[:_PARAMETERS]
    tasks = _choose(fit).tolist()
    rows, above_rows = (
        math.ceil((len(names) + 1 + (_RUN if events else 0)) / _WIDE),
        max(1, math.ceil(len(tasks) / _COLUMNS)),
    )
    figure = figure_of(15, 1.4 + 3.2 * (above_rows + rows))
    grid = figure.add_gridspec(above_rows + rows, 1, height_ratios=(*[1] * above_rows, *[0.9] * rows))
    above = grid[:above_rows].subgridspec(above_rows, _COLUMNS)
    for position, task in enumerate(tasks):
        _task(figure.add_subplot(above[position]), fit, task, legend=position == 0)
    cells = _cells(figure, [grid[above_rows + row] for row in range(rows)], len(names), bool(events))
    for axes, name in zip(cells, names, strict=False):
        _histogram(axes, f"log10 {name}", np.log10(params[name][params[name] > 0]), BLUE)
    name = "lower bound of the LML, nats" if fit.model.inducing else "NLML, nats"
    _histogram(cells[len(names)], name, fit.lml_lower_bound if fit.model.inducing else fit.nlml, RED)
    if events:
        draw_run(cells[-1], events, "tasks")
    more = f"\nthe first {len(names)} of {len(params)} parameters" if len(params) > len(names) else ""
    figure.suptitle(f"{fit}{more}", fontsize=11)
    return figure


def _cells(figure: Any, rows: list[Any], names: int, has_run: bool) -> list[Any]:
    """Axes below the tasks, equally many a row: one per parameter, one of the likelihood, and the run in the rest."""
    wide = math.ceil((names + 1 + (_RUN if has_run else 0)) / len(rows))
    below = [row.subgridspec(1, wide) for row in rows]
    cells = [figure.add_subplot(below[position // wide][position % wide]) for position in range(names + 1)]
    return [*cells, figure.add_subplot(below[-1][(names + 1) % wide :])] if has_run else cells


def _choose(fit: Fit) -> np.ndarray:
    """Tasks that are shown: spread over the order of their likelihood, from the easiest to the hardest."""
    nlml = -fit.lml_lower_bound if fit.model.inducing else fit.nlml
    good = np.flatnonzero(np.isfinite(nlml))
    if fit.data is None or not len(good):
        return good[:0]
    ranked = good[np.argsort(nlml[good] / np.maximum(fit.columns["points"][good], 1))]
    return ranked[np.unique(np.linspace(0, len(ranked) - 1, min(_SHOWN, len(ranked))).astype(int))]


def _task(axes: Any, fit: Fit, task: int, legend: bool) -> None:
    (x, y), names, labels = points_of(fit, task), fit.model.names, fit.labels
    values = [f"{name}\N{NO-BREAK SPACE}{fit.params[name][task]:.2g}" for name in names[:_NAMED]]
    more = ", ..." if len(names) > _NAMED else ""
    title = textwrap.fill(f"task {fit.ids[task].as_py()}: {', '.join(values)}{more}", 88)
    axes.set_title(title, fontsize=8, parse_math=False)  # a name may hold dollars
    if x.shape[1] == 1:
        margin, where = 0.1 * (x.max() - x.min() or 1.0), x[:, 0]
        at = positions = np.linspace(x.min() - margin, x.max() + margin, 200)
        axes.set_xlabel(labels.input_names(1)[0], fontsize=8, parse_math=False)
        if labels.date(0):
            where, positions = (moments(days).cast(pa.timestamp("us")).to_numpy() for days in (where, positions))
            _dates(axes)
    else:  # no line to draw along: the points themselves, in order of what is expected there
        order = np.argsort(fit.predict_task(task, x)[0])
        at, y = x[order], y[order]
        positions = where = np.arange(len(y))
        axes.set_xlabel(f"points in order of their mean ({x.shape[1]} input dimensions)", fontsize=7)
    mean, variance, noise = fit.predict_task(task, at)
    for added, alpha, what in ((noise, 0.12, "observation ±2 sd"), (0.0, 0.3, "function ±2 sd")):
        band = 2 * np.sqrt(variance + added)
        axes.fill_between(positions, mean - band, mean + band, color=BLUE, alpha=alpha, lw=0, label=what)
    axes.plot(positions, mean, color=BLUE, lw=1.5, label="mean")
    axes.plot(where, y, "o", color="#333333", ms=3, label="data")
    axes.set_ylabel(labels.target, fontsize=8, parse_math=False)
    if legend:  # above the title, where it hides no fit
        above = 1.03 + 0.055 * (1 + title.count("\n"))
        narrow = {"columnspacing": 1.0, "handlelength": 1.6, "borderaxespad": 0.0}  # as wide as the panel
        axes.legend(loc="lower left", bbox_to_anchor=(0.0, above), frameon=False, fontsize=8, ncols=4, **narrow)


def _dates(axes: Any) -> None:
    """Short dates along the inputs."""
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

    locator = AutoDateLocator(maxticks=6)
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(ConciseDateFormatter(locator))


def points_of(fit: Fit, task: int) -> tuple[np.ndarray, np.ndarray]:
    """The points of one task that are there."""
    batch = fit.batch_of(task)
    y = batch["y"][0].double().numpy()
    shared = fit.model.shared
    x = shared.numpy() if shared is not None else batch["x"][0].double().numpy()
    there = np.isfinite(y) & np.isfinite(x).all(1)
    return x[there], y[there]


def _histogram(axes: Any, title: str, values: np.ndarray, color: str) -> None:
    axes.hist(values[np.isfinite(values)], bins=60, color=color, histtype="stepfilled")  # one shape: drawn at once
    axes.set_title(title, fontsize=min(12, 300 / len(title)), parse_math=False)
    axes.set(yticks=[], ylabel="tasks")
