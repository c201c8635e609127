"""The report of a run: grids side by side, what was solved, and where programs first fail."""

from __future__ import annotations

import functools
from collections import Counter
from typing import Any

import numpy as np

from ..core.base.arguments import check_type
from ..core.declare.pictures import BLUE, RED, figure_of
from ..core.declare.report import Report
from .execution.failures import ProgramStatus
from .outcomes import Outcomes
from .result import ProgramResult

_COLORS = ["#000000", "#0074d9", "#ff4136", "#2ecc40", "#ffdc00", "#aaaaaa", "#f012be", "#ff851b", "#7fdbff", "#870c25"]
"""The ten colors, as ARC's own page shows them."""

_CAPTIONS = {
    "grids": "Some samples: what went in, what was wanted, and what came out",
    "failures": "The operations at which programs first fail",
}
_SHOWN, _BARS = 6, 12


def report(result: ProgramResult) -> Report:
    """The summary, the operations of the batched executor, and two pictures: `grids` (input, target and output of some
    samples) and `failures` (where programs first fail)."""
    check_type(result, ProgramResult, "give what programs.run or programs.load_result returned")
    pictures = {"grids": functools.partial(_draw_grids, result.outcomes)}
    if result.outcomes.failed_by_category():
        pictures["failures"] = functools.partial(_draw_failures, result.outcomes)
    operations = result.operations
    tables = {"operations": operations} if operations.num_rows else {}
    return Report(result.summary(), tables=tables, pictures=pictures, captions=_CAPTIONS)


def chosen_samples(outcomes: Outcomes, count: int = _SHOWN) -> list[tuple[int, int]]:
    """Samples to show, with a candidate each: first those that went wrong although the program gets another pair of the
    task right, then solved ones, then others; of different tasks as far as there are."""
    near, solved, rest = list[tuple[int, int]](), list[tuple[int, int]](), list[tuple[int, int]]()
    for _, samples, flags in outcomes.each_task():
        ran = flags.status != ProgramStatus.NOT_RUN
        columns = np.flatnonzero(ran.any(axis=0))
        if not len(columns):
            continue
        best = int(columns[(flags.equal[:, columns] == 1).sum(axis=0).argmax()])
        wrong = [index for index, equal in zip(samples, flags.equal[:, best], strict=True) if equal == 0]
        good = [index for index, equal in zip(samples, flags.equal[:, best], strict=True) if equal == 1]
        if good and wrong:
            near.append((wrong[0], best))
        elif good:
            solved.append((good[0], best))
        else:
            rest.append(((wrong or [index for index, has in zip(samples, ran[:, best], strict=True) if has])[0], best))
    half = (count + 1) // 2
    first = near[:half]
    shown = [*first, *solved[: count - len(first)]]
    return [*shown, *[pair for pair in (*near[half:], *rest) if pair not in shown][: count - len(shown)]]


def _draw_grids(outcomes: Outcomes) -> Any:
    from matplotlib.colors import ListedColormap

    chosen, names = chosen_samples(outcomes), outcomes.candidates
    outputs = outcomes.some_outputs(chosen)
    rows = max(1, len(chosen))
    figure = figure_of(7.5, 2.3 * rows)
    axes = figure.subplots(rows, 3, squeeze=False)
    colors = ListedColormap(_COLORS)
    for row, (index, column) in zip(axes, chosen, strict=False):
        sample = outcomes.samples[index]
        _draw(row[0], sample.I, f"{sample.task} {sample.kind} {sample.index}: input", colors)
        _draw(row[1], sample.C, "target", colors)
        _draw(row[2], outputs[index, column], _caption(outcomes, index, column, names[column].name), colors)
    for axis in axes.flat:
        axis.set(xticks=[], yticks=[])
    return figure


def _caption(outcomes: Outcomes, index: int, column: int, name: str) -> str:
    """Whether an output is right, or where its program first fails."""
    correctness = {1: "right", 0: "wrong", -1: "target not known"}[int(outcomes.equal[index, column])]
    if outcomes.step[index, column] < 0:
        return f"{name}: {correctness}"
    failure = outcomes.failure(index, column, outcomes.candidates[column])
    return f"{name}: {correctness}\n{failure.operation} fails in line {failure.line}: {failure.category}"


def _draw(axis: Any, grid: Any, title: str, colors: Any) -> None:
    axis.set_title(title, fontsize=8)
    try:
        cells: np.ndarray = np.array(grid, dtype=np.int64)
    except (TypeError, ValueError):
        cells = np.zeros(0)
    if cells.ndim != 2 or not cells.size:
        axis.text(0.5, 0.5, "no grid", ha="center", va="center", fontsize=9, color="#777777")
        return
    axis.imshow(np.clip(cells, 0, 9), cmap=colors, vmin=0, vmax=9, interpolation="nearest")
    for edge in range(1, cells.shape[0]):
        axis.axhline(edge - 0.5, color="#555555", lw=0.3)
    for edge in range(1, cells.shape[1]):
        axis.axvline(edge - 0.5, color="#555555", lw=0.3)


def _draw_failures(outcomes: Outcomes) -> Any:
    figure = figure_of(10, 4)
    left, right = figure.subplots(1, 2)
    _bars(left, outcomes.failed_by_operation(), "operation that fails first", BLUE)
    _bars(right, Counter(outcomes.failed_by_category()), "category", RED)
    return figure


def _bars(axis: Any, counts: Counter[str], title: str, color: str) -> None:
    common = counts.most_common(_BARS)[::-1]
    axis.barh([name for name, _ in common], [count for _, count in common], color=color)
    axis.set(title=title, xlabel="outputs")
